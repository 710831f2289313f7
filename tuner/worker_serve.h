// What a worker process does: the answering side of worker_pool.h and worker_bench.h.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tuner/compiler.h"
#include "tuner/worker.h"

namespace attune {

/// Opens a compiler by its name: open_compiler (tuner/devices.h), unless a test says otherwise.
using CompilerOpener = std::function<Result<std::unique_ptr<Compiler>>(const std::string& name)>;

/// Answers {"source": Source, "arch": "sm_90a"} with {"binary": Binary} and its bytes, and
/// {"toolchain": ""} with the compiler's and what it "opened" and which "archs" it knows. Where the
/// compiler does not open, every answer is why.
Handler compile_handler(const std::string& compiler);
Handler compile_handler(Result<std::unique_ptr<Compiler>> compiler);

/// Answers, in "do": open → {"info": DeviceInfo}; prepare {"problem", "seed"}; candidate
/// {"config", "binary", "policy", "best_us", "timed"} + bytes → {"measurement", "device_lost"};
/// final {"candidates": [{"config", "binary", "bytes"}], "policy"} + bytes → {"timings": [...]};
/// peak {"dtype", "config"} → {"mma_tflops"}. `open_compiler` opens the one for probes.
Handler measure_handler(const std::string& device);
Handler measure_handler(const std::string& device, CompilerOpener open_compiler);

/// `attune worker compile nvrtc`, `attune worker measure cuda:0`: serves until the tuner closes.
/// Returns 2 where the arguments are not two.
int run_worker(std::span<const std::string> arguments);

}  // namespace attune
