#include "tools/attune/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "generator/formatted.h"
#include "runtime/record_fields.h"
#include "tools/attune/exit_codes.h"

namespace attune {
namespace {

bool looks_like_number(const std::string& cell) {
    return cell.empty() || cell == "-" || cell.find_first_of("0123456789") == 0 ||
           (cell.size() > 1 && (cell[0] == '-' || cell[0] == '+'));
}

struct FieldWriter {
    nlohmann::json& json;
    void operator()(const char* name, const std::string& value) { json[name] = value; }
    void operator()(const char* name, int value) { json[name] = value; }
    void operator()(const char* name, bool value) { json[name] = value; }
    void operator()(const char* name, double value) { json[name] = value; }
    void operator()(const char* name, const std::vector<double>& value) { json[name] = value; }
    template <class Enum>
    void operator()(const char* name, Enum value) {
        json[name] = name_of(value);
    }
};

std::string duration(double seconds) {
    const int s = int(std::clamp(seconds, 0.0, 359999.0));
    return s >= 3600 ? formatted("{}h{:02}m", s / 3600, s / 60 % 60)
                     : formatted("{}m{:02}s", s / 60, s % 60);
}

}  // namespace

void Table::print() const {
    std::vector<std::size_t> widths;
    std::vector<bool> right;
    for (const auto& row : rows_) {
        widths.resize(std::max(widths.size(), row.size()));
        right.resize(widths.size(), true);
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
            if (&row != &rows_.front() && !looks_like_number(row[i])) right[i] = false;
        }
    }
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += right[i] ? formatted("{:>{}}  ", row[i], widths[i])
                             : formatted("{:<{}}  ", row[i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        print_line(line);
    }
}

void print_json(const nlohmann::json& json) {
    print_line(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_line(const std::string& text) {
    std::fputs((text + "\n").c_str(), stdout);
}

void print_note(const std::string& text) {
    std::fputs((text + "\n").c_str(), stderr);
}

int print_error(const Error& error, bool json) {
    print_note("attune: " + error.message);
    if (!error.next_step.empty()) print_note("  next: " + error.next_step);
    if (json) print_json({{"error", to_json(error)}});
    return exit_code(error.code);
}

nlohmann::json to_json(const Error& error) {
    return {{"code", code_name(error.code)},
            {"message", error.message},
            {"next_step", error.next_step}};
}

nlohmann::json to_json(const DeviceKey& device) {
    nlohmann::json json = nlohmann::json::object();
    for_each_device_field(device, FieldWriter{json});
    return json;
}

nlohmann::json to_json(const DeviceInfo& device) {
    nlohmann::json json = nlohmann::json::parse(device.target.to_json());
    json["id"] = device.id;
    json["driver"] = device.driver;
    json["uuid"] = device.uuid;
    json["emulated"] = device.emulated;
    return json;
}

nlohmann::json to_json(const Record& record) {
    nlohmann::json json = nlohmann::json::object();
    for_each_record_field(record, FieldWriter{json});
    json["device"] = to_json(record.device);
    json["problem"] = record.problem.text();
    json["mma_utilisation"] = record.mma_utilisation();
    json["datasheet_utilisation"] = record.datasheet_utilisation();
    return json;
}

nlohmann::json to_json(const Measurement& measurement) {
    nlohmann::json json = nlohmann::json::object();
    for_each_measurement_field(measurement, FieldWriter{json});
    return json;
}

std::string short_number(double value) {
    return value >= 1000  ? formatted("{:.0f}", value)
           : value >= 100 ? formatted("{:.1f}", value)
           : value >= 10  ? formatted("{:.2f}", value)
                          : formatted("{:.3f}", value);
}

std::string percent(double share) {
    return share > 0 ? formatted("{:.1f}%", 100 * share) : "-";
}

std::string exit_codes_text() {
    std::string text = formatted("Exit codes:\n  {:>2}  wrong usage\n", exit_usage);
    for (const ExitCode& row : exit_codes)
        text += formatted("  {:>2}  {}: {}\n", row.exit, code_name(row.code), row.meaning);
    return text;
}

std::string Progress::line(const TuneProgress& at) const {
    std::string text =
        formatted("[{}/{}] {} {}", at.problem_index + 1, at.problem_count, at.problem, at.stage);
    if (at.total > 0) text += formatted(" {}/{}", at.done, at.total);
    if (at.best_us > 0)
        text += formatted(" best {} us {}", short_number(at.best_us), at.best_config);
    const double part = at.total > 0 ? double(at.done) / at.total : 0;
    const double share = (double(at.problem_index) + part) / double(at.problem_count);
    if (at.done > 0 && at.elapsed_s > 0) text += formatted(" {:.1f}/s", at.done / at.elapsed_s);
    if (share > 0) text += formatted(" {} left", duration(at.elapsed_s * (1 - share) / share));
    return text;
}

void Progress::show(const TuneProgress& at) {
    const auto now = std::chrono::steady_clock::now();
    const bool terminal = isatty(2) != 0;
    const bool news = at.problem != last_problem_ || at.stage == "done";
    const auto pause = terminal ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
    if (!news && now - last_ < pause) return;
    last_ = now;
    if (at.problem != last_problem_) problem_start_s_ = at.elapsed_s;
    last_problem_ = at.problem;
    if (terminal) {
        winsize window{};
        ioctl(2, TIOCGWINSZ, &window);
        const std::size_t columns = window.ws_col > 1 ? window.ws_col - 1u : 200;
        std::fputs(("\r\033[K" + line(at).substr(0, columns)).c_str(), stderr);
        std::fflush(stderr);
        open_line_ = true;
    } else {
        print_note(line(at));
    }
}

void Progress::finish() {
    if (open_line_) std::fputs("\n", stderr);
    open_line_ = false;
}

}  // namespace attune
