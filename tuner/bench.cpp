// Bench over any Device: one tuned case with rotating inputs, one ragged case, a stopwatch.
#include "tuner/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "generator/formatted.h"
#include "runtime/launch_attention.h"
#include "tuner/bench_case.h"
#include "tuner/bench_judge.h"
#include "tuner/measure.h"

namespace attune {
namespace {

constexpr int slow_block_retries = 2;

/// The same signature and head ratio at small odd lengths. Causal takes more queries than keys, so
/// that some rows attend nothing.
Problem ragged_problem(const Problem& tuned) {
    Problem ragged = tuned;
    const int ratio = tuned.shape.heads_q / tuned.shape.heads_kv;
    ragged.shape.batch = 2;
    ragged.shape.heads_kv = ratio > 2 ? 1 : 2;
    ragged.shape.heads_q = ratio * ragged.shape.heads_kv;
    const bool causal = tuned.signature.mask == Mask::causal;
    ragged.shape.seqlen_q = causal ? 203 : 113;
    ragged.shape.seqlen_kv = causal ? 113 : 203;
    return ragged;
}

void sleep_ms(double milliseconds) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

class AttentionBench final : public Bench {
public:
    AttentionBench(Device& device, BenchCase tuned, Judge tuned_judge, BenchCase ragged,
                   Judge ragged_judge, std::unique_ptr<Stopwatch> stopwatch)
        : device_(device),
          tuned_(std::move(tuned)),
          tuned_judge_(std::move(tuned_judge)),
          ragged_(std::move(ragged)),
          ragged_judge_(std::move(ragged_judge)),
          stopwatch_(std::move(stopwatch)) {}

    Result<Candidate> load(const std::string& config, const Binary& binary) override;
    Result<void> unload(const Candidate& candidate) override {
        return device_.unload(candidate.kernel);
    }
    Result<CheckResult> check(const Candidate& candidate) override;
    Result<Timing> time(const Candidate& candidate, const MeasurePolicy& policy,
                        double best_us) override;
    Result<std::vector<Timing>> time_interleaved(std::span<const Candidate> candidates,
                                                 const MeasurePolicy& policy) override;

private:
    struct Run {
        std::string fault;
        Findings findings;
    };
    Result<Run> run(const Candidate& candidate, const Launch& launch, BenchCase& bench_case,
                    const Judge& judge);
    Result<void> launch_once(const Candidate& candidate, std::size_t input_set);
    Result<Burst> burst(const Candidate& candidate, const MeasurePolicy& policy, int launches);
    Result<void> settle(const Candidate& candidate, const MeasurePolicy& policy,
                        std::vector<Burst>& bursts);

    Device& device_;
    BenchCase tuned_;
    Judge tuned_judge_;
    BenchCase ragged_;
    Judge ragged_judge_;
    std::unique_ptr<Stopwatch> stopwatch_;
    std::size_t next_set_ = 0;
};

Result<Launch> launch_of(const std::string& config_text, const Problem& problem,
                         const Target& target) {
    auto config = Config::parse(config_text);
    if (!config) return config.error();
    return find_family(config->family)->launch(problem.signature, *config, problem.shape, target);
}

/// Samples of all bursts, as the interface reports them.
Timing timing_of(const std::vector<Burst>& bursts) {
    Timing timing;
    for (const Burst& burst : bursts) {
        timing.samples_us.insert(timing.samples_us.end(), burst.samples_us.begin(),
                                 burst.samples_us.end());
        if (burst.clock_mhz > 0) timing.clocks_mhz.push_back(burst.clock_mhz);
    }
    timing.median_us = median(timing.samples_us);
    timing.spread = relative_spread(timing.samples_us);
    return timing;
}

Result<Candidate> AttentionBench::load(const std::string& config, const Binary& binary) {
    auto launch = launch_of(config, tuned_.problem(), device_.info().target);
    if (!launch) return launch.error();
    auto kernel = device_.load(binary.bytes, binary.entry, launch->shared_bytes);
    if (!kernel) return kernel.error();
    return Candidate{config, *kernel, *launch};
}

Result<AttentionBench::Run> AttentionBench::run(const Candidate& candidate, const Launch& launch,
                                                BenchCase& bench_case, const Judge& judge) {
    auto done = bench_case.reserve_workspace(device_, launch.workspace_bytes);
    if (done) done = bench_case.poison(device_);
    const Signature& signature = bench_case.problem().signature;
    if (done)
        done = launch_attention(device_, candidate.kernel, launch, signature, bench_case.params(0));
    if (done) done = device_.synchronize();
    if (!done) return done.error();
    auto damage = bench_case.damage(device_);
    if (!damage) return damage.error();
    auto findings = judge.examine(device_, bench_case);
    if (!findings) return findings.error();
    Run run{judge.fault(*findings), *findings};
    if (!damage->empty()) run.fault = *std::move(damage);
    return run;
}

Result<CheckResult> AttentionBench::check(const Candidate& candidate) {
    auto ragged_launch = launch_of(candidate.config, ragged_.problem(), device_.info().target);
    if (!ragged_launch) return ragged_launch.error();
    auto first = run(candidate, candidate.launch, tuned_, tuned_judge_);
    if (!first) return first.error();
    CheckResult result{false, first->fault, first->findings.max_error, tuned_judge_.error_bar()};
    if (!result.reason.empty()) return result;
    auto second = run(candidate, candidate.launch, tuned_, tuned_judge_);
    if (!second) return second.error();
    result.reason = second->fault;
    if (result.reason.empty() && second->findings.fingerprint != first->findings.fingerprint)
        result.reason = "a second run gave other bits";
    if (!result.reason.empty()) return result;
    auto ragged = run(candidate, *ragged_launch, ragged_, ragged_judge_);
    if (!ragged) return ragged.error();
    if (!ragged->fault.empty())
        result.reason = formatted("at {}: {}", ragged_.problem().shape.text(), ragged->fault);
    result.ok = result.reason.empty();
    return result;
}

Result<void> AttentionBench::launch_once(const Candidate& candidate, std::size_t input_set) {
    const Signature& signature = tuned_.problem().signature;
    return launch_attention(device_, candidate.kernel, candidate.launch, signature,
                            tuned_.params(input_set));
}

Result<Burst> AttentionBench::burst(const Candidate& candidate, const MeasurePolicy& policy,
                                    int launches) {
    const double cold_bytes = policy.cold_l2_factor * device_.info().target.l2_bytes;
    const auto wanted = static_cast<std::size_t>(std::ceil(cold_bytes / tuned_.input_set_bytes()));
    const std::size_t sets = std::clamp<std::size_t>(wanted, 1, tuned_.input_sets());
    auto burst = stopwatch_->burst(launches,
                                   [&](int) { return launch_once(candidate, next_set_++ % sets); });
    if (!burst) return burst;
    for (const double sample : burst->samples_us)
        if (sample > 1e3 * policy.max_launch_ms)
            return Error{Code::timed_out,
                         formatted("a launch took {:.0f} ms, over {:.0f}", sample / 1e3,
                                   policy.max_launch_ms),
                         ""};
    return burst;
}

Result<Timing> AttentionBench::time(const Candidate& candidate, const MeasurePolicy& policy,
                                    double best_us) {
    auto glance = burst(candidate, policy, 2);
    if (!glance) return glance.error();
    Timing first = timing_of({*glance});
    first.rejected = best_us > 0 && first.median_us > policy.reject_factor * best_us;
    if (first.rejected || device_.info().emulated) return first;
    std::vector<Burst> bursts;
    for (int i = 0; i < policy.max_bursts; ++i) {
        sleep_ms(policy.idle_gap_ms);
        auto one = burst(candidate, policy, policy.launches_per_burst);
        if (!one) return one.error();
        bursts.push_back(*std::move(one));
        const bool beaten =
            best_us > 0 && timing_of(bursts).median_us > policy.drop_factor * best_us;
        if (beaten) break;
        if (i + 1 >= policy.min_bursts && timing_of(bursts).spread <= policy.target_spread) break;
    }
    return timing_of(bursts);
}

/// Measures again, a bounded number of times, a block that ran at a lower clock than the others.
Result<void> AttentionBench::settle(const Candidate& candidate, const MeasurePolicy& policy,
                                    std::vector<Burst>& bursts) {
    for (int i = 0; i < slow_block_retries; ++i) {
        std::vector<double> clocks;
        for (const Burst& burst : bursts) clocks.push_back(burst.clock_mhz);
        const auto slow = slow_block(clocks);
        if (!slow) break;
        sleep_ms(policy.idle_gap_ms);
        auto again = burst(candidate, policy, policy.launches_per_burst);
        if (!again) return again.error();
        bursts[*slow] = *std::move(again);
    }
    return {};
}

Result<std::vector<Timing>> AttentionBench::time_interleaved(std::span<const Candidate> candidates,
                                                             const MeasurePolicy& policy) {
    const std::size_t count = candidates.size();
    const int rounds = device_.info().emulated ? 1 : policy.max_bursts;
    std::vector<std::vector<Burst>> bursts(count);
    for (const Candidate& candidate : candidates) {  // may have been loaded anew since its check
        auto reserved = tuned_.reserve_workspace(device_, candidate.launch.workspace_bytes);
        if (reserved) reserved = launch_once(candidate, 0);
        if (!reserved) return reserved.error();
    }
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t turn = (round + i) % count;  // everybody comes first once
            if (!device_.info().emulated) sleep_ms(policy.idle_gap_ms);
            auto one = burst(candidates[turn], policy, policy.launches_per_burst);
            if (!one) return one.error();
            bursts[turn].push_back(*std::move(one));
        }
    }
    std::vector<Timing> timings;
    for (std::size_t i = 0; i < count; ++i) {
        auto settled = settle(candidates[i], policy, bursts[i]);
        if (!settled) return settled.error();
        timings.push_back(timing_of(bursts[i]));
    }
    return timings;
}

struct JudgedCase {
    BenchCase bench_case;
    Judge judge;
};
Result<JudgedCase> prepare_case(Device& device, Compiler& compiler, const Problem& problem,
                                unsigned seed, std::size_t input_bytes) {
    auto bench_case = BenchCase::make(device, problem, seed, input_bytes);
    if (!bench_case) return bench_case.error();
    auto judge = Judge::make(device, compiler, *bench_case, seed);
    if (!judge) return judge.error();
    return JudgedCase{*std::move(bench_case), *std::move(judge)};
}

}  // namespace

Result<std::unique_ptr<Bench>> Bench::prepare(Device& device, Compiler& compiler,
                                              const Problem& problem, unsigned seed) {
    auto valid = validate(problem);
    if (!valid) return valid.error();
    const double cold_bytes = MeasurePolicy{}.cold_l2_factor * device.info().target.l2_bytes;
    auto tuned = prepare_case(device, compiler, problem, seed,
                              device.info().emulated ? 0 : static_cast<std::size_t>(cold_bytes));
    if (!tuned) return tuned.error();
    auto ragged = prepare_case(device, compiler, ragged_problem(problem), seed + 1, 0);
    if (!ragged) return ragged.error();
    auto stopwatch = Stopwatch::create(device, compiler);
    if (!stopwatch) return stopwatch.error();
    return std::unique_ptr<Bench>(std::make_unique<AttentionBench>(
        device, std::move(tuned->bench_case), std::move(tuned->judge),
        std::move(ragged->bench_case), std::move(ragged->judge), *std::move(stopwatch)));
}

}  // namespace attune
