// One problem of a sweep: search, final round, record.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/store.h"
#include "tuner/tune.h"
#include "tuner/worker_bench.h"
#include "tuner/worker_pool.h"

namespace attune {

/// What the problems of a sweep share.
struct Sweep {
    const TuneRequest& request;
    const EffortPlan& plan;
    WorkerBench bench;
    std::unique_ptr<CompilePool> pool;
    Store store;
    Target target;  // the device's, its shared memory limited as requested
    DeviceKey device;
    std::string restriction;
    std::map<std::string, Config> winners;  // of the latest problem of each signature
};

/// Tunes one problem and stores its record. `note` gets stage, counts and best so far.
TuneOutcome tune_problem(Sweep& sweep, const Problem& problem,
                         const std::function<void(const TuneProgress&)>& note);

}  // namespace attune
