// Ablation = one problem's kernels from the oldest way to write them to the newest, one switch at a
// time, each step with its own best tiles, so that no straw man is beaten.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generator/family.h"
#include "runtime/device.h"
#include "tuner/tune.h"

namespace attune {

struct AblationRequest {
    std::string device;
    Problem problem;
    Restriction restriction;  // family "" = all that run the problem and have steps, in turn
    unsigned seed = 0;
    WorkerOptions workers;
    int candidates = 16;  // of a step; more where the tables have more
};

struct AblationRow {
    AblationStep step;
    std::string left_out;  // why nothing was measured; else empty
    int candidates = 0;    // tried
    Measurement best;      // of the final round, in which the steps' best meet
    double tflops = 0;
    double gain = 0;  // over the measured step before; 0 for the first
};

struct AblationReport {
    DeviceInfo device;
    std::string toolchain;
    std::string policy;
    double mma_peak_tflops = 0;  // measured in the same run; 0 = not measured
    double datasheet_tflops = 0;
    std::vector<AblationRow> rows;
};

/// Fails where no family has steps for the problem, or no step gave a right answer.
Result<AblationReport> run_ablation(const AblationRequest& request,
                                    const std::function<void(const TuneProgress&)>& progress);

/// What holds at a step: the values that axes may have, by key.
using Settings = std::map<std::string, std::vector<int>, std::less<>>;

/// `settings` with a step's own in place of what they say of the same axes.
Settings settings_after(Settings settings, const AblationStep& step);

/// `config` with each axis that breaks the settings changed to hold them: one config for every
/// combination of values, legal or not.
std::vector<Config> changed_to(const Config& config, const Settings& settings);

/// Legal configs that hold the settings: the winner of the step before, the default and the table
/// points changed to them, then the model's best up to `count`. Empty where there is none.
std::vector<Config> step_candidates(const Family& family, const Settings& settings,
                                    const Problem& problem, const Target& target,
                                    const std::optional<Config>& previous, int count);

}  // namespace attune
