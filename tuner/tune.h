// Tune = for each problem: legal configs -> compile -> prune -> check -> time -> store.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "generator/problem.h"
#include "generator/status.h"
#include "runtime/record.h"
#include "runtime/store.h"

namespace attune {

/// One row of the effort table (tuner/effort.cpp), printed by `attune tune --help` and in the
/// README.
struct EffortPlan {
    Effort effort;
    const char* summary;
    int first_candidates;  // best by estimate, tables and default included
    int neighbour_rounds;  // local search: rounds over one-step neighbours of the best so far
    int round_candidates;  // neighbours tried in one round
    int finalists;  // interleaved in the final round, beside the default; 0: nothing is timed
    bool whole_space;
};
/// Ascending.
std::span<const EffortPlan> effort_plans();
const EffortPlan& plan_of(Effort effort);

/// The processes that compile and measure: what they run may crash, hang or abort.
struct WorkerOptions {
    std::vector<std::string> command;  // empty: {"/proc/self/exe", "worker"}
    int compile_processes = 0;         // 0 = one per core
    double compile_timeout_s = 180;    // for one kernel
    double measure_timeout_s = 180;    // for one stage of one candidate
};

struct TuneRequest {
    std::string device;  // "cuda:0", "emu:h200"
    std::vector<Problem> problems;
    Effort effort = Effort::measure;
    double budget_s = 0;  // 0 = none; the sweep stops after the problem that overruns it
    Restriction restriction;
    bool resume = false;  // skip problems that have a record of this effort or more
    std::string store_path;
    unsigned seed = 0;
    WorkerOptions workers;
};

struct TuneProgress {
    std::size_t problem_index = 0, problem_count = 0;
    std::string problem;
    std::string stage;  // "compile", "check", "time", "final", "done"
    int done = 0, total = 0;
    double best_us = 0;  // so far; 0 = none
    std::string best_config;
    double elapsed_s = 0;
};

struct TuneOutcome {
    Problem problem;
    Record record;  // valid if `error` is ok
    std::vector<Measurement> measurements;
    bool stored = false;   // false: a record of higher effort was kept, or it failed
    bool skipped = false;  // resume found it done
    Error error{Code::ok, "", ""};
};

/// What the kernels of a record are emitted for: the first known GPU of the device's arch, else its
/// vendor and arch alone.
Target target_of(const DeviceKey& device);

/// Whether the present templates would emit another kernel for a record's config than the one that
/// was measured.
bool is_outdated(const Record& record);

/// Fails only where nothing can be tuned at all (no device, no compiler, no store); a problem that
/// fails is an outcome.
Result<std::vector<TuneOutcome>> tune(const TuneRequest& request,
                                      const std::function<void(const TuneProgress&)>& progress);

}  // namespace attune
