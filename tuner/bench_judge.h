// Judge = what O and LSE of one case must be, and how far a launch's results are from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/bench_case.h"
#include "tuner/compiler.h"
#include "tuner/probe.h"

namespace attune {

/// What one launch left behind.
struct Findings {
    double max_error = 0;           // of O on the rows looked at; infinite where one is NaN
    double max_row_error = 0;       // the same over the row's own largest value
    double max_lse_error = 0;       // likewise; 0 without LSE
    std::size_t nans = 0;           // in all of O and LSE: poison that stayed, or worse
    std::uint64_t fingerprint = 0;  // of every bit of O and LSE
};

/// Rows that lie next to each other in O.
struct RowRun {
    std::size_t first, count;
};

/// All rows of small problems. Of big ones at least 4096 rows, in runs of 32 that start on
/// multiples of 16 (a tile's first and last rows are such), a run per head up to 2048 heads, the
/// first and last rows of sequences among them.
std::vector<RowRun> sample_rows(const Shape& shape, unsigned seed);

class Judge {
public:
    /// Small problems, and all on the emulator: every row against fp64 on the CPU. Big ones: the
    /// sampled rows against the fp32 kernel of templates/probe/reference.h.
    static Result<Judge> make(Device& device, Compiler& compiler, const BenchCase& bench_case,
                              unsigned seed);

    double error_bar() const { return error_bar_; }
    /// Of the results of a launch on input set 0 that has completed.
    Result<Findings> examine(Device& device, const BenchCase& bench_case) const;
    /// Why these findings are wrong; "" if they are right.
    std::string fault(const Findings& findings) const;

private:
    Result<void> use_cpu(Device& device, const BenchCase& bench_case);
    Result<void> use_device(Device& device, Compiler& compiler, const BenchCase& bench_case,
                            unsigned seed);
    Result<void> load_scan(Device& device, Compiler& compiler);
    void set_error_bars(const std::vector<double>& baseline);
    Result<void> compare_rows(Device& device, const BenchCase& bench_case, Findings& found) const;
    Result<void> compare_lse(Device& device, const BenchCase& bench_case, Findings& found) const;
    Result<void> scan(Device& device, const BenchCase& bench_case, Findings& found) const;

    std::vector<RowRun> runs_;
    std::vector<double> o_;    // of the runs' rows, one after the other
    std::vector<double> lse_;  // likewise
    std::size_t value_dim_ = 0;
    double error_bar_ = 0;
    double row_error_bar_ = 0;
    double lse_bar_ = 0;
    std::optional<Probe> scan_;  // where O is scanned on the device
    DeviceBuffer scan_result_;
};

}  // namespace attune
