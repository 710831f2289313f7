#include "tuner/tune.h"

#include <algorithm>
#include <chrono>

#include "generator/emit.h"
#include "generator/formatted.h"
#include "tuner/devices.h"
#include "tuner/tune_problem.h"

namespace attune {
namespace {

/// A record that resume leaves alone: of this effort or more, with a binary of the present
/// templates, measured where this run could measure.
bool is_done(const Record& record, const Sweep& sweep) {
    const bool measures = sweep.plan.finalists > 0 && !sweep.bench.info().emulated;
    return record.effort >= sweep.plan.effort && !record.binary_sha256.empty() &&
           (record.evidence == Evidence::measured || !measures) && !is_outdated(record);
}

Result<Sweep> open_sweep(const TuneRequest& request) {
    if (request.problems.empty())
        return Error{Code::invalid_argument, "there is no problem to tune",
                     "name a preset or a problem with --shapes"};
    auto store = Store::open(request.store_path, Store::Access::write);
    if (!store) return store.error();
    auto bench = WorkerBench::open(request.workers, request.device, request.seed);
    if (!bench) return bench.error();
    auto pool = CompilePool::open(
        request.workers, compiler_for(bench->info().target.vendor, bench->info().emulated));
    if (!pool) return pool.error();
    Target target = request.restriction.applied_to(bench->info().target);
    const DeviceKey device = device_key(bench->info());
    return Sweep{request,          plan_of(request.effort),    std::move(*bench),
                 std::move(*pool), std::move(*store),          std::move(target),
                 device,           request.restriction.text(), {}};
}

/// The record that makes a problem done already, if --resume may skip it.
Result<std::optional<Record>> finished_record(const Sweep& sweep, const Problem& problem) {
    if (!sweep.request.resume) return std::optional<Record>{};
    auto record = sweep.store.find(sweep.device, problem, sweep.restriction);
    if (record && *record && !is_done(**record, sweep)) return std::optional<Record>{};
    return record;
}

}  // namespace

Target target_of(const DeviceKey& device) {
    for (const Target& known : known_targets())
        if (known.arch == device.arch) return known;
    Target target;
    target.vendor = device.vendor == name_of(Vendor::amd) ? Vendor::amd : Vendor::nvidia;
    target.arch = device.arch;
    return target;
}

bool is_outdated(const Record& record) {
    const auto config = Config::parse(record.config);
    if (!config) return true;
    return emit({record.problem.signature, *config, target_of(record.device)}).hash !=
           record.source_hash;
}

Result<std::vector<TuneOutcome>> tune(const TuneRequest& request,
                                      const std::function<void(const TuneProgress&)>& progress) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto elapsed_s = [&] {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    auto sweep = open_sweep(request);
    if (!sweep) return sweep.error();
    std::vector<TuneOutcome> outcomes;
    for (const Problem& problem : request.problems) {
        if (request.budget_s > 0 && elapsed_s() > request.budget_s) break;
        auto finished = finished_record(*sweep, problem);
        if (!finished) return finished.error();
        if (*finished) {
            TuneOutcome outcome;
            outcome.problem = problem;
            outcome.record = **finished;
            outcome.skipped = true;
            if (const auto config = Config::parse(outcome.record.config))
                sweep->winners.insert_or_assign(problem.signature.text(), *config);
            outcomes.push_back(std::move(outcome));
            continue;
        }
        outcomes.push_back(tune_problem(*sweep, problem, [&](TuneProgress at) {
            at.problem_index = outcomes.size();
            at.problem_count = request.problems.size();
            at.problem = problem.text();
            at.elapsed_s = elapsed_s();
            if (progress) progress(at);
        }));
    }
    return outcomes;
}

}  // namespace attune
