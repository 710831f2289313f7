#include "tuner/worker_bench.h"

#include "tuner/worker_json.h"
#include "tuner/worker_pool.h"

namespace attune {

WorkerBench::WorkerBench(const WorkerOptions& options, const std::string& device, unsigned seed)
    : command_(worker_command(options, "measure", device)),
      timeout_s_(options.measure_timeout_s),
      seed_(seed) {}

Result<WorkerBench> WorkerBench::open(const WorkerOptions& options, const std::string& device,
                                      unsigned seed) {
    WorkerBench bench(options, device, seed);
    if (auto started = bench.start(); !started) return started.error();
    return bench;
}

Result<void> WorkerBench::start() {
    auto worker = Worker::start(command_);
    if (!worker) return worker.error();
    worker_.emplace(std::move(*worker));
    const auto answer = call({{{"do", "open"}}, {}});
    if (!answer) return answer.error();
    auto info = field<DeviceInfo>(answer->head, "info");
    if (!info) return info.error();
    info_ = std::move(*info);
    return {};
}

/// An answer that is an error is one here too; a lost worker leaves worker_ empty.
Result<Message> WorkerBench::call(const Message& request, const Stage& on_stage) {
    auto answer = worker_->call(request, timeout_s_, on_stage);
    if (!answer) {
        worker_.reset();
        return answer.error();
    }
    if (const auto done = error_of(*answer); !done) return done.error();
    return answer;
}

Result<void> WorkerBench::prepare(const Problem& problem) {
    problem_ = problem;
    return prepare_again();
}

Result<void> WorkerBench::prepare_again() {
    if (!worker_)
        if (auto started = start(); !started) return started;
    const auto answer =
        call({{{"do", "prepare"}, {"problem", problem_->text()}, {"seed", seed_}}, {}});
    if (!answer) return answer.error();
    return {};
}

Result<Measurement> WorkerBench::measure(const Entrant& entrant, const MeasurePolicy& policy,
                                         double best_us, bool timed, const Stage& on_stage) {
    const Message request{{{"do", "candidate"},
                           {"config", entrant.config},
                           {"binary", *entrant.binary},
                           {"policy", policy},
                           {"best_us", best_us},
                           {"timed", timed}},
                          entrant.binary->bytes};
    const auto answer = call(request, on_stage);
    Measurement row;
    bool lost = !worker_;
    if (answer) {
        auto measured = field<Measurement>(answer->head, "measurement");
        if (!measured) return measured.error();
        row = std::move(*measured);
        lost = answer->head.value("device_lost", false);
    } else if (!lost) {
        return answer.error();
    } else {
        const bool late = answer.error().code == Code::timed_out;
        row.verdict = late ? Verdict::timed_out : Verdict::crashed;
        row.reason = answer.error().message;
    }
    row.config = entrant.config;
    row.registers = entrant.binary->resources.registers;
    row.spill_bytes = entrant.binary->resources.spill_bytes;
    row.compile_ms = entrant.binary->compile_ms;
    if (!lost) return row;
    worker_.reset();  // an error of the device outlives the candidate: start afresh
    if (auto ready = prepare_again(); !ready) return ready.error();
    return row;
}

Result<std::vector<Timing>> WorkerBench::final_round(std::span<const Entrant> entrants,
                                                     const MeasurePolicy& policy) {
    Message request{{{"do", "final"}, {"policy", policy}}, {}};
    for (const Entrant& entrant : entrants) {
        const std::vector<std::byte>& bytes = entrant.binary->bytes;
        request.head["candidates"].push_back({{"config", entrant.config},
                                              {"binary", *entrant.binary},
                                              {"bytes", std::int64_t(bytes.size())}});
        request.blob.insert(request.blob.end(), bytes.begin(), bytes.end());
    }
    auto answer = call(request);
    if (!answer) {
        worker_.reset();
        if (auto ready = prepare_again(); !ready) return ready.error();
        answer = call(request);
    }
    if (!answer) return answer.error();
    return field<std::vector<Timing>>(answer->head, "timings");
}

double WorkerBench::mma_peak_tflops(DType dtype, const Config& config) {
    const auto answer =
        call({{{"do", "peak"}, {"dtype", name_of(dtype)}, {"config", config.text()}}, {}});
    if (answer) return answer->head.value("mma_tflops", 0.0);
    worker_.reset();  // its device may be unusable: the next problem starts afresh
    return 0;
}

}  // namespace attune
