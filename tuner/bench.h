// Bench = one device and one problem with its buffers: checks candidates and times them.
// Right before fast: a candidate is timed only after check() passed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generator/problem.h"
#include "generator/status.h"
#include "runtime/device.h"
#include "runtime/record.h"
#include "tuner/compiler.h"

namespace attune {

/// How time is taken; `id()` is stored with every record. See the measuring section of the README.
struct MeasurePolicy {
    int launches_per_burst = 8;  // back to back behind a holding kernel; the first is thrown away
    int min_bursts = 2;
    int max_bursts = 6;           // stops earlier once spread <= target_spread
    double target_spread = 0.01;  // (p75 - p25) / median
    double idle_gap_ms = 60;      // between bursts: big GPUs are power-limited
    double drop_factor =
        1.06;  // a burst slower than this times the best so far is the candidate's last
    double reject_factor =
        1.5;  // a first launch slower than this times the best so far ends the candidate: slow
    double cold_l2_factor = 3;    // buffers rotate over at least this many L2s
    double max_launch_ms = 2000;  // a launch that takes longer is timed_out

    std::string id() const;
};

/// A loaded candidate.
struct Candidate {
    std::string config;
    Kernel kernel = 0;
    Launch launch;
};

struct CheckResult {
    bool ok = false;
    std::string reason;    // what was wrong: error over the bar, NaN, canary, not repeatable, LSE
    double max_error = 0;  // of O on the tuned shape
    double error_bar = 0;  // 2 x the low-precision baseline's own error + 1e-5
};

struct Timing {
    std::vector<double> samples_us;
    std::vector<double> clocks_mhz;  // one per burst; empty where the device has no clock to read
    double median_us = 0;
    double spread = 0;
    bool rejected = false;  // by reject_factor
};

class Bench {
public:
    /// Allocates rotating inputs (random normal, seeded), poisoned outputs with canary zones, and
    /// computes the reference: on CUDA with an fp32 kernel of our own (compiled by `compiler`), in
    /// fp64 on the CPU for the emulator and for small shapes. Also prepares one small ragged
    /// problem of the same signature.
    static Result<std::unique_ptr<Bench>> prepare(Device& device, Compiler& compiler,
                                                  const Problem& problem, unsigned seed = 0);
    virtual ~Bench() = default;

    virtual Result<Candidate> load(const std::string& config, const Binary& binary) = 0;
    virtual Result<void> unload(const Candidate& candidate) = 0;

    /// O and LSE against the reference on the tuned and the ragged shape, a second run bitwise
    /// equal, canaries intact, no poison left. device_error if the launch itself failed.
    virtual Result<CheckResult> check(const Candidate& candidate) = 0;

    /// One candidate, with early rejection against best_us (0 = none yet).
    virtual Result<Timing> time(const Candidate& candidate, const MeasurePolicy& policy,
                                double best_us) = 0;
    /// The final round: all candidates, burst by burst round-robin. Same order as `candidates`.
    virtual Result<std::vector<Timing>> time_interleaved(std::span<const Candidate> candidates,
                                                         const MeasurePolicy& policy) = 0;
};

/// fp64 attention on the CPU with the inputs as the kernel sees them (rounded to dtype), O and
/// natural-log LSE. Tensors are contiguous BHSD of 16-bit values; `o` and `lse` are resized.
void reference_attention(const Problem& problem, float scale, std::span<const std::uint16_t> q,
                         std::span<const std::uint16_t> k, std::span<const std::uint16_t> v,
                         std::vector<double>& o, std::vector<double>& lse);

}  // namespace attune
