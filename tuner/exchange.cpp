#include "tuner/exchange.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "generator/formatted.h"
#include "runtime/record_fields.h"
#include "tuner/exchange_read.h"

namespace attune {
namespace {

constexpr std::uintmax_t max_file_bytes = 64 << 20;

struct JsonWriter {
    nlohmann::json& object;

    // A binary stays in its store, and so does its name.
    void operator()(const char* name, const std::string& value) {
        if (std::string_view(name) != "binary_sha256") object[name] = value;
    }
    void operator()(const char* name, int value) { object[name] = value; }
    void operator()(const char* name, double value) { object[name] = value; }
    template <class Enum>
    void operator()(const char* name, Enum value) {
        object[name] = name_of(value);
    }
};

std::string row_name(const Record& record) {
    return record.problem.text() +
           (record.restriction.empty() ? "" : " (" + record.restriction + ")");
}

/// Puts one record where it is better than the store's own.
Result<ImportRow> merge(Store& store, Record record) {
    using Outcome = ImportRow::Outcome;
    const auto own = store.find(record.device, record.problem, record.restriction);
    if (!own) return own.error();
    if (*own) {
        const bool same_effort = (*own)->effort == record.effort;
        const bool better =
            record.effort > (*own)->effort || (same_effort && record.evidence > (*own)->evidence);
        if (!better)
            return ImportRow{Outcome::kept, row_name(record),
                             formatted("the store has one of effort {}, {}",
                                       name_of((*own)->effort), name_of((*own)->evidence))};
        if ((*own)->source_hash == record.source_hash) record.binary_sha256 = (*own)->binary_sha256;
    }
    const auto stored = store.put(record, {}, {});
    if (!stored) return stored.error();
    if (!*stored)
        return ImportRow{Outcome::kept, row_name(record), "the store's was measured, this was not"};
    return ImportRow{*own ? Outcome::replaced : Outcome::added, row_name(record), ""};
}

Error cannot(const char* verb, const std::string& path) {
    return {Code::io_error, formatted("cannot {} {}: {}", verb, path, std::strerror(errno)),
            "check the path and its permissions"};
}

/// Writes all of `text` to the disk; false with errno set where that fails.
bool write_all(int file, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(file, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return fsync(file) == 0;
}

}  // namespace

const char* name_of(ImportRow::Outcome outcome) {
    static constexpr const char* names[] = {"added", "replaced", "kept", "refused"};
    return names[static_cast<std::size_t>(outcome)];
}

int ImportReport::count(ImportRow::Outcome outcome) const {
    return static_cast<int>(std::count_if(
        rows.begin(), rows.end(), [&](const ImportRow& row) { return row.outcome == outcome; }));
}

Result<std::string> export_json(const Store& store, const DeviceKey& device) {
    const auto records = store.records(device);
    if (!records) return records.error();
    if (records->empty())
        return Error{Code::not_found, formatted("the store has no records of {}", device.name),
                     "see attune show for the GPUs it has"};
    nlohmann::json document{{"schema", exchange_schema}, {"records", nlohmann::json::array()}};
    for_each_device_field(device, JsonWriter{document["device"]});
    for (const Record& record : *records) {
        nlohmann::json& row = document["records"].emplace_back();
        row["problem"] = record.problem.text();
        for_each_record_field(record, JsonWriter{row});
    }
    return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<void> export_file(const Store& store, const DeviceKey& device, const std::string& path) {
    const auto text = export_json(store, device);
    if (!text) return text.error();
    std::string temporary = path + ".XXXXXX";
    const int file = mkstemp(temporary.data());
    if (file < 0) return cannot("write", path);
    const bool written = write_all(file, *text) && fchmod(file, 0644) == 0;
    const bool closed = close(file) == 0;
    if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
    const Error error = cannot("write", path);
    unlink(temporary.c_str());
    return error;
}

Result<ImportReport> import_json(Store& store, std::string_view text) {
    auto document = read_exchange(text);
    if (!document) return document.error();
    ImportReport report{document->device, {}};
    const auto done = store.atomically([&]() -> Result<void> {
        for (ExchangeRow& row : document->rows) {
            if (!row.record) {
                const std::string name = row.name;
                report.rows.push_back(
                    {ImportRow::Outcome::refused, name, row.record.error().text()});
                continue;
            }
            auto merged = merge(store, std::move(*row.record));
            if (!merged) return merged.error();
            report.rows.push_back(std::move(*merged));
        }
        return {};
    });
    if (!done) return done.error();
    return report;
}

Result<ImportReport> import_file(Store& store, const std::string& path) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(path, failed);
    if (failed)
        return Error{
            failed == std::errc::no_such_file_or_directory ? Code::not_found : Code::io_error,
            formatted("cannot read {}: {}", path, failed.message()),
            "name a file that attune export wrote"};
    if (size > max_file_bytes)
        return Error{Code::corrupt, formatted("{} has {} bytes, an export has fewer", path, size),
                     "name a file that attune export wrote"};
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return cannot("read", path);
    auto report = import_json(store, text);
    if (report || report.error().code == Code::io_error) return report;
    Error error = report.error();
    error.message = path + ": " + error.message;
    return error;
}

}  // namespace attune
