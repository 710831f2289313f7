#include "runtime/emu/model.h"

#include <algorithm>
#include <cmath>

namespace attune::emu {
namespace {

constexpr double launch_us = 3;
constexpr double exp2_per_clock = 16;
constexpr double shared_bytes_per_clock = 128;
constexpr double flop_per_mma = 2.0 * 16 * 8 * 16;
// sm_90 reaches its dense rate by wgmma alone.
constexpr double mma_sync_share_hopper = 0.62;

}  // namespace

double estimate_us(const EmuCounts& counts, int ctas, const Target& target) {
    const double rounds = std::ceil(double(ctas) / target.multiprocessors);
    const double busy = ctas / rounds;  // multiprocessors
    const double clocks_per_us = target.boost_clock_mhz;
    const double mma_flop_per_us = target.dense_f16_tflops * 1e6 / target.multiprocessors;
    const double mma_sync_share = target.compute_capability() == 90 ? mma_sync_share_hopper : 1.0;
    const double mma_flop =
        flop_per_mma * (double(counts.wgmma) + double(counts.mma - counts.wgmma) / mma_sync_share);
    const double shared_clocks =
        double(counts.shared_bytes) / shared_bytes_per_clock + double(counts.bank_conflicts);
    const double on_chip_us =
        std::max({mma_flop / mma_flop_per_us, double(counts.exp2) / exp2_per_clock / clocks_per_us,
                  shared_clocks / clocks_per_us}) /
        busy;
    const double memory_us = double(counts.global_bytes) / (target.memory_gb_per_s * 1e3);
    return launch_us + std::max(on_chip_us, memory_us);
}

}  // namespace attune::emu
