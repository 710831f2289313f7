// Trial = one problem's candidates: compiled ahead, pruned, checked, timed, each with a row.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generator/emit.h"
#include "tuner/worker_bench.h"
#include "tuner/worker_pool.h"

namespace attune {

/// While searching: few bursts, enough to rank. The final round takes the whole policy.
MeasurePolicy screening_policy();

class Trial {
public:
    /// `bench` is prepared for the problem.
    Trial(CompilePool& pool, WorkerBench& bench, Target target, Problem problem)
        : pool_(pool), bench_(bench), target_(std::move(target)), problem_(std::move(problem)) {}

    struct Plan {
        MeasurePolicy policy;
        bool timed = true;          // false: only checked
        bool keep_binaries = true;  // false: a binary is dropped once it is measured
        Stage on_stage;             // "compile", "load", "check", "time"
    };
    /// Tries configs in order while compilers work ahead; `on_row` hears each row and says whether
    /// to go on. Fails only where the device is lost for good.
    Result<void> run(const std::vector<Config>& configs, const Plan& plan, double best_us,
                     const std::function<bool(const Config&, const Measurement&)>& on_row);

    /// Interleaves configs that run() found right; a row with final_round for each, in their order.
    Result<std::vector<Measurement>> final_round(const std::vector<Config>& configs,
                                                 const MeasurePolicy& policy);

    /// What the instruction that the config multiplies with reaches alone, TFLOP/s. 0 where that
    /// failed and on the emulator, which measures nothing. After it only WorkerBench::prepare() may
    /// follow.
    double mma_peak_tflops(const Config& config);

    Source source(const Config& config) const;
    /// Compiles again what was dropped.
    std::shared_ptr<const Compiled> compiled(const Config& config) const;

    /// In the order they came, final round last.
    const std::vector<Measurement>& rows() const { return rows_; }
    int compiled_count() const { return compiled_count_; }
    int checked_count() const { return checked_count_; }
    int timed_count() const { return timed_count_; }

private:
    Result<Measurement> attempt(const Config& config, const Compiled& compiled, const Plan& plan,
                                double best_us);

    CompilePool& pool_;
    WorkerBench& bench_;
    Target target_;
    Problem problem_;
    std::vector<Measurement> rows_;
    int compiled_count_ = 0, checked_count_ = 0, timed_count_ = 0;
};

}  // namespace attune
