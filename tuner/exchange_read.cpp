#include "tuner/exchange_read.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "generator/config.h"
#include "generator/formatted.h"
#include "runtime/record_fields.h"

namespace attune {
namespace {

using nlohmann::json;

constexpr std::size_t max_depth = 8;  // an export has 3: document, list of records, record
constexpr std::size_t max_string_bytes = 4096;
constexpr double max_number = 1e15;
// Fields that exports of the first version lack.
constexpr std::array<std::string_view, 2> optional_fields{"mma_peak_tflops", "datasheet_tflops"};
// Stands in an object for a key that it had twice; no field is called so.
constexpr const char* duplicate_mark = "";

Error malformed(std::string message) {
    return {Code::corrupt, std::move(message), "name a file that attune export wrote"};
}

/// Watches the parser: refuses depth, marks objects that have a key twice.
class Guard {
public:
    bool operator()(json::parse_event_t event, json& value) {
        using Event = json::parse_event_t;
        if (event == Event::object_start || event == Event::array_start) {
            open_.emplace_back();
            if (open_.size() > max_depth) throw malformed("the JSON is nested too deeply");
        } else if (event == Event::key) {
            Level& level = open_.back();
            const auto& key = value.get_ref<const std::string&>();
            if (!level.keys.insert(key).second) level.duplicate = key;
        } else if (event == Event::object_end || event == Event::array_end) {
            if (!open_.back().duplicate.empty()) value[duplicate_mark] = open_.back().duplicate;
            open_.pop_back();
        }
        return true;
    }

private:
    struct Level {
        std::set<std::string> keys;
        std::string duplicate;
    };
    std::vector<Level> open_;
};

/// Fills the fields it visits from an object; keeps the first thing that is wrong.
class JsonReader {
public:
    explicit JsonReader(const json& object) : object_(object) {}

    void operator()(const char* name, std::string& value) {
        if (std::string_view(name) == "binary_sha256") return;
        const json* item = take(name, &json::is_string, "a text");
        if (item == nullptr) return;
        value = item->get<std::string>();
        if (value.size() > max_string_bytes || value.find('\0') != std::string::npos)
            fail(formatted("{} is no text that an export holds", name));
    }
    void operator()(const char* name, int& value) {
        const json* item = take(name, &json::is_number_integer, "a whole number");
        if (item == nullptr) return;
        // Of 64-bit numbers beyond int64's range nlohmann makes unsigned ones.
        const bool big = item->is_number_unsigned() &&
                         item->get<std::uint64_t>() > std::numeric_limits<int>::max();
        const std::int64_t number = big ? -2 : item->get<std::int64_t>();
        if (number < -1 || number > std::numeric_limits<int>::max())
            return fail(formatted("{} is {}", name, item->dump()));
        value = static_cast<int>(number);
    }
    void operator()(const char* name, double& value) {
        const json* item = take(name, &json::is_number, "a number");
        if (item == nullptr) return;
        value = item->get<double>();
        if (!(value >= 0 && value <= max_number)) fail(formatted("{} is {}", name, value));
    }
    void operator()(const char* name, Evidence& value) { parse(name, value, parse_evidence); }
    void operator()(const char* name, Effort& value) { parse(name, value, parse_effort); }

    void fail(std::string what) {
        if (error_.empty()) error_ = std::move(what);
    }
    /// The first failure; also a key that nothing asked for.
    std::string error() const {
        if (!error_.empty()) return error_;
        for (const auto& [key, item] : object_.items()) {
            if (key == duplicate_mark)
                return formatted("the key {} stands there twice", item.dump());
            if (!asked_.count(key)) return formatted("the key '{}' is unknown", key);
        }
        return "";
    }

private:
    const json* take(const char* name, bool (json::*is)() const noexcept, const char* kind) {
        asked_.insert(name);
        const auto item = object_.find(name);
        if (item != object_.end() && ((*item).*is)()) return &*item;
        const bool optional = std::find(optional_fields.begin(), optional_fields.end(), name) !=
                              optional_fields.end();
        if (item == object_.end() && optional) return nullptr;
        fail(item == object_.end() ? formatted("{} is missing", name)
                                   : formatted("{} is not {}", name, kind));
        return nullptr;
    }
    template <class Enum>
    void parse(const char* name, Enum& value, Result<Enum> (*parse)(std::string_view)) {
        const json* item = take(name, &json::is_string, "a text");
        if (item == nullptr) return;
        const auto parsed = parse(item->get_ref<const std::string&>());
        if (!parsed) return fail(parsed.error().message);
        value = *parsed;
    }

    const json& object_;
    std::set<std::string, std::less<>> asked_;
    std::string error_;
};

bool is_sha256(std::string_view text) {
    return text.size() == 64 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<Record> read_record(const json& row, const DeviceKey& device) {
    if (!row.is_object()) return malformed("it is not an object");
    JsonReader reader(row);
    Record record;
    record.device = device;
    std::string problem;
    reader("problem", problem);
    for_each_record_field(record, reader);
    if (const std::string error = reader.error(); !error.empty()) return malformed(error);
    const auto parsed = Problem::parse(problem);
    if (!parsed) return parsed.error();
    if (auto valid = validate(*parsed); !valid) return valid.error();
    record.problem = *parsed;
    if (const auto config = Config::parse(record.config); !config) return config.error();
    if (!is_sha256(record.source_hash)) return malformed("source_hash is not a SHA-256");
    if (record.time_us == 0) return malformed("time_us is 0");
    return record;
}

std::string row_name(const json& row, std::size_t index) {
    if (row.is_object() && row.contains("problem") && row["problem"].is_string()) {
        const auto& problem = row["problem"].get_ref<const std::string&>();
        if (Problem::parse(problem)) return problem;
    }
    return formatted("record {}", index + 1);
}

Result<json> parse_guarded(std::string_view text) {
    Guard guard;
    try {
        return json::parse(
            text.begin(), text.end(),
            [&](int, json::parse_event_t event, json& value) { return guard(event, value); });
    } catch (const json::exception& exception) {
        // The parser quotes what it read last, which may be long.
        return malformed(formatted("it is not JSON: {:.200}", exception.what()));
    } catch (const Error& error) {
        return error;
    }
}

Result<void> check_schema(const json& document) {
    const auto schema = document.find("schema");
    if (schema == document.end() || !schema->is_string())
        return malformed("it names no schema, so it is not an export of Attune");
    const auto& name = schema->get_ref<const std::string&>();
    if (name == exchange_schema) return {};
    if (name.starts_with("attune-tuned/"))
        return Error{Code::version_mismatch,
                     formatted("it has schema {}, this Attune reads {}", name, exchange_schema),
                     "update Attune"};
    return malformed(formatted("its schema is {}, not {}", schema->dump(), exchange_schema));
}

}  // namespace

Result<ExchangeDocument> read_exchange(std::string_view text) {
    const auto parsed = parse_guarded(text);
    if (!parsed) return parsed.error();
    const json& document = *parsed;
    if (!document.is_object()) return malformed("it is not a JSON object");
    if (auto known = check_schema(document); !known) return known.error();
    if (document.contains(duplicate_mark))
        return malformed(
            formatted("the key {} stands there twice", document[duplicate_mark].dump()));
    const auto device = document.find("device"), records = document.find("records");
    if (device == document.end() || !device->is_object()) return malformed("it names no device");
    if (records == document.end() || !records->is_array()) return malformed("it has no records");
    ExchangeDocument out;
    JsonReader reader(*device);
    for_each_device_field(out.device, reader);
    if (const std::string error = reader.error(); !error.empty())
        return malformed("device: " + error);
    for (std::size_t i = 0; i < records->size(); ++i)
        out.rows.push_back({row_name((*records)[i], i), read_record((*records)[i], out.device)});
    return out;
}

}  // namespace attune
