// Checking and timing given configs of one problem, without search and without store.
#pragma once

#include <string>
#include <vector>

#include "generator/config.h"
#include "runtime/device.h"
#include "tuner/tune.h"
#include "tuner/worker.h"

namespace attune {

struct BenchRequest {
    std::string device;
    Problem problem;
    std::vector<Config> configs;  // empty: the default config of every family
    unsigned seed = 0;
    WorkerOptions workers;
};

struct BenchReport {
    DeviceInfo device;
    std::string toolchain;
    std::string policy;
    std::vector<Measurement> rows;  // a row per config; those that are right timed interleaved
};

Result<BenchReport> bench_configs(const BenchRequest& request, const Stage& on_stage = {});

}  // namespace attune
