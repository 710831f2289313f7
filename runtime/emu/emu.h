// The emulator as a Device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace attune {

/// What one launch did, for the estimator and for tests. Sums over all CTAs.
struct EmuCounts {
    std::uint64_t mma = 0;             // warp-wide m16n8k16; a wgmma is as many as it is worth
    std::uint64_t wgmma = 0;           // those of `mma` that wgmmas did
    std::uint64_t ldmatrix = 0;        // warp-wide instructions
    std::uint64_t exp2 = 0;            // per thread
    std::uint64_t shared_bytes = 0;    // read and written
    std::uint64_t bank_conflicts = 0;  // extra shared-memory wavefronts beyond the least possible
    std::uint64_t global_bytes = 0;
    std::uint64_t barriers = 0;  // CTA-wide
};

struct EmuOptions {
    unsigned seed = 0;         // shuffles which warp runs next; same seed, same run
    bool detect_races = true;  // vector clocks per thread over shared memory
    int threads = 0;           // host threads running CTAs, 32 at most; 0 = all cores
};

class EmuDevice : public Device {
public:
    virtual const EmuCounts& last_counts() const = 0;
    virtual void set_options(const EmuOptions& options) = 0;
};

/// `gpu` is an id of known_targets(): "h200".
Result<std::unique_ptr<EmuDevice>> open_emulator(const std::string& gpu,
                                                 const EmuOptions& options = {});

}  // namespace attune
