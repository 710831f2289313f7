// WorkerBench = a Bench in a process of its own, which is replaced when a candidate brings it down.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/bench.h"
#include "tuner/tune.h"
#include "tuner/worker.h"

namespace attune {

/// A config and its binary.
struct Entrant {
    std::string config;
    const Binary* binary = nullptr;
};

class WorkerBench {
public:
    /// Starts the process and opens the device there.
    static Result<WorkerBench> open(const WorkerOptions& options, const std::string& device,
                                    unsigned seed);

    const DeviceInfo& info() const { return info_; }

    /// Everything after this is about `problem`.
    Result<void> prepare(const Problem& problem);

    /// Checks a candidate and, where `timed`, times it. What happens to it is a verdict; an error
    /// means that the device could not be opened or prepared again after it.
    Result<Measurement> measure(const Entrant& entrant, const MeasurePolicy& policy, double best_us,
                                bool timed, const Stage& on_stage = {});

    /// All entrants interleaved, in their order. Tried once more in a new process if the first is
    /// lost.
    Result<std::vector<Timing>> final_round(std::span<const Entrant> entrants,
                                            const MeasurePolicy& policy);

    /// TFLOP/s of the config's matrix instruction alone (tuner/peak.h), measured once in each
    /// process; 0 where that failed. After it only prepare() may follow.
    double mma_peak_tflops(DType dtype, const Config& config);

private:
    WorkerBench(const WorkerOptions& options, const std::string& device, unsigned seed);
    Result<void> start();
    Result<void> prepare_again();
    Result<Message> call(const Message& request, const Stage& on_stage = {});

    std::vector<std::string> command_;
    double timeout_s_;
    unsigned seed_;
    DeviceInfo info_;
    std::optional<Worker> worker_;
    std::optional<Problem> problem_;
};

}  // namespace attune
