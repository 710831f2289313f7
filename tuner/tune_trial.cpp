#include "tuner/tune_trial.h"

#include <algorithm>

#include "tuner/prune.h"

namespace attune {

MeasurePolicy screening_policy() {
    MeasurePolicy policy;
    policy.launches_per_burst = 6;
    policy.max_bursts = 2;
    policy.drop_factor = 1.03;
    policy.idle_gap_ms = 40;
    return policy;
}

Source Trial::source(const Config& config) const {
    return emit({problem_.signature, config, target_});
}

std::shared_ptr<const Compiled> Trial::compiled(const Config& config) const {
    return pool_.compile(source(config), target_.arch).get();
}

Result<void> Trial::run(const std::vector<Config>& configs, const Plan& plan, double best_us,
                        const std::function<bool(const Config&, const Measurement&)>& on_row) {
    // Enough to keep every compiler busy while one candidate is measured, little enough that a
    // whole space does not wait in memory.
    const std::size_t ahead = 4 * std::size_t(pool_.processes());
    std::vector<CompilePool::Future> futures;
    for (std::size_t i = 0; i < configs.size(); ++i) {
        while (futures.size() < std::min(configs.size(), i + ahead))
            futures.push_back(pool_.compile(source(configs[futures.size()]), target_.arch));
        if (plan.on_stage) plan.on_stage("compile");
        auto row = attempt(configs[i], *futures[i].get(), plan, best_us);
        if (!row) return row.error();
        if (!plan.keep_binaries) {
            futures[i] = {};
            pool_.forget(source(configs[i]), target_.arch);
        }
        if (row->verdict == Verdict::ok && plan.timed)
            best_us = best_us > 0 ? std::min(best_us, row->median_us) : row->median_us;
        rows_.push_back(*row);
        if (!on_row(configs[i], *row)) break;
    }
    pool_.drop_waiting();
    return {};
}

Result<Measurement> Trial::attempt(const Config& config, const Compiled& compiled, const Plan& plan,
                                   double best_us) {
    ++compiled_count_;
    Measurement row;
    row.config = config.text();
    row.verdict = compiled.verdict;
    row.reason = compiled.reason;
    if (compiled.verdict != Verdict::ok) return row;
    const Binary& binary = compiled.binary;
    const Launch launch =
        find_family(config.family)->launch(problem_.signature, config, problem_.shape, target_);
    row.registers = binary.resources.registers;
    row.spill_bytes = binary.resources.spill_bytes;
    row.shared_bytes = int(launch.shared_bytes);
    row.compile_ms = binary.compile_ms;
    row.reason = prune_reason(binary.resources, launch, target_);
    if (!row.reason.empty()) {
        row.verdict = Verdict::pruned;
        return row;
    }
    auto measured =
        bench_.measure({row.config, &binary}, plan.policy, best_us, plan.timed, plan.on_stage);
    if (!measured) return measured;
    measured->shared_bytes = row.shared_bytes;
    ++checked_count_;
    if (!measured->samples_us.empty()) ++timed_count_;
    return measured;
}

Result<std::vector<Measurement>> Trial::final_round(const std::vector<Config>& configs,
                                                    const MeasurePolicy& policy) {
    std::vector<std::shared_ptr<const Compiled>> binaries;
    std::vector<Entrant> entrants;
    for (const Config& config : configs) binaries.push_back(compiled(config));
    for (std::size_t i = 0; i < configs.size(); ++i)
        entrants.push_back({configs[i].text(), &binaries[i]->binary});
    auto timings = bench_.final_round(entrants, policy);
    if (!timings) return timings.error();
    if (timings->size() != configs.size())
        return Error{Code::internal, "the final round timed another number of kernels", ""};
    std::vector<Measurement> final_rows;
    for (std::size_t i = 0; i < configs.size(); ++i) {
        const Timing& timing = (*timings)[i];
        Measurement row = *std::find_if(rows_.begin(), rows_.end(), [&](const Measurement& m) {
            return m.config == entrants[i].config;
        });
        row.verdict = Verdict::ok;
        row.reason.clear();
        row.samples_us = timing.samples_us;
        row.clocks_mhz = timing.clocks_mhz;
        row.median_us = timing.median_us;
        row.spread = timing.spread;
        row.final_round = true;
        final_rows.push_back(std::move(row));
    }
    rows_.insert(rows_.end(), final_rows.begin(), final_rows.end());
    return final_rows;
}

double Trial::mma_peak_tflops(const Config& config) {
    return bench_.info().emulated ? 0 : bench_.mma_peak_tflops(problem_.signature.dtype, config);
}

}  // namespace attune
