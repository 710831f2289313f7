#include "tuner/tune_bench.h"

#include "generator/space.h"
#include "tuner/devices.h"
#include "tuner/tune_trial.h"

namespace attune {
namespace {

Result<std::vector<Config>> configs_of(const BenchRequest& request, const Target& target) {
    const Signature& signature = request.problem.signature;
    auto able = applicable_families(signature, target);
    if (!able) return able.error();
    std::vector<Config> configs = request.configs;
    if (configs.empty())
        for (const Family* family : *able)
            configs.push_back(family->default_config(signature, target));
    for (const Config& config : configs)
        if (const Constraint* broken = broken_constraint(signature, config, target))
            return Error{Code::invalid_argument,
                         config.text() + " is not legal here: " + broken->name, broken->meaning};
    return configs;
}

}  // namespace

Result<BenchReport> bench_configs(const BenchRequest& request, const Stage& on_stage) {
    if (auto valid = validate(request.problem); !valid) return valid.error();
    auto bench = WorkerBench::open(request.workers, request.device, request.seed);
    if (!bench) return bench.error();
    const Target target = bench->info().target;
    auto pool = CompilePool::open(
        request.workers, compiler_for(bench->info().target.vendor, bench->info().emulated));
    if (!pool) return pool.error();
    const auto configs = configs_of(request, target);
    if (!configs) return configs.error();
    if (auto ready = bench->prepare(request.problem); !ready) return ready.error();

    const MeasurePolicy policy;
    Trial trial(**pool, *bench, target, request.problem);
    std::vector<Config> right;
    const Trial::Plan plan{policy, false, true, on_stage};
    auto checked = trial.run(*configs, plan, 0, [&](const Config& config, const Measurement& row) {
        if (row.verdict == Verdict::ok) right.push_back(config);
        return true;
    });
    if (!checked) return checked.error();
    BenchReport report{bench->info(), (*pool)->toolchain(), policy.id(), trial.rows()};
    if (right.empty()) return report;
    const auto timed = trial.final_round(right, policy);
    if (!timed) return timed.error();
    std::size_t next = 0;
    for (Measurement& row : report.rows)
        if (row.verdict == Verdict::ok) row = (*timed)[next++];
    return report;
}

}  // namespace attune
