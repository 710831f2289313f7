// Printing: tables and JSON on standard output, everything else on standard error.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generator/status.h"
#include "runtime/device.h"
#include "runtime/record.h"
#include "tuner/tune.h"

namespace attune {

/// Columns as wide as their widest cell; cells that are numbers are set right.
class Table {
public:
    explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.size() == 1; }
    void print() const;

private:
    std::vector<std::vector<std::string>> rows_;
};

void print_json(const nlohmann::json& json);
void print_line(const std::string& text);
/// To standard error.
void print_note(const std::string& text);
/// The message and its next step on standard error; with `json` also as {"error": ...} on standard
/// output. Returns the exit code.
int print_error(const Error& error, bool json);

nlohmann::json to_json(const Error& error);
nlohmann::json to_json(const DeviceKey& device);
nlohmann::json to_json(const DeviceInfo& device);
nlohmann::json to_json(const Record& record);
nlohmann::json to_json(const Measurement& measurement);

/// "12.3", "1234": four significant digits.
std::string short_number(double value);
/// "71.4%"; "-" for 0: not known.
std::string percent(double share);

/// Progress on standard error: one line that is rewritten where that is a terminal, else a plain
/// line when a problem begins or ends and every ten seconds.
class Progress {
public:
    void show(const TuneProgress& at);
    /// Leaves the last line standing.
    void finish();

private:
    std::string line(const TuneProgress& at) const;

    std::chrono::steady_clock::time_point last_{};
    std::string last_problem_;
    double problem_start_s_ = 0;
    bool open_line_ = false;
};

}  // namespace attune
