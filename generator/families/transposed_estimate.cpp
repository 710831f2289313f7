// A first estimate for AMD's matrix cores: per kv step what a CU's SIMDs have to issue. MFMAs run
// beside the VALU work of other waves, RDNA's WMMAs do not (AMD, "Matrix Instruction Calculator",
// co-execution). Rates per CU and cycle: AMD, CDNA 3 and RDNA 3 ISA guides and white papers.
#include <algorithm>
#include <cmath>

#include "generator/families/common.h"
#include "generator/families/transposed.h"

namespace attune {
namespace {

constexpr double lds_bytes_per_cycle = 128;
constexpr double tile_cycles_fixed = 4000;  // start, first load and store of a CTA
constexpr double step_cycles_fixed = 150;   // barriers and the latency that nothing hides
constexpr double launch_us = 5;
constexpr double cache_bytes_per_cycle = 32;  // of a CU; there spilled registers go and come back

/// Registers of a lane that the compiler would spill, by what it wanted beside transposed_needs
/// where it did not: fitted to 1400 kernels of pairwise covers, compiled by hiprtc 7.2 for five
/// GPUs. Scores that a stale reference may have to see again stay alive, two loops keep more so,
/// direct copies of K keep addresses, and above 256 registers half of them are accumulators, which
/// the VALU reaches by copies alone.
int spilled_registers(const TransposedNeeds& needs, const Config& c, const Target& t) {
    const int rows = c["q"] / c["w"];
    const int outputs = rows * needs.value_columns / t.wave_size;
    const int scores = c["rescale"] >= stale ? rows * c["kv"] / t.wave_size : 0;
    const int cap = transposed_register_cap(c, t);
    const int wanted = 44 + outputs / 2 + (t.wave_size == 64 ? 1 : 2) * scores +
                       (c["loops"] == 2 ? 40 : 0) + (needs.direct_bytes != 0 ? 48 : 0) +
                       (cap > 256 ? 100 : 0);
    return std::max(0, needs.accumulators + wanted - cap);
}

/// Cycles of a CU for one kv step of one CTA.
double step_cycles(const TransposedNeeds& needs, const Config& c, const Target& t) {
    const double q = c["q"], kv = c["kv"];
    const double lanes = 16.0 * simds_per_cu(t) * (t.wave_size == 64 ? 1 : 2);  // VALU, per cycle
    const double flop_per_cycle =
        t.dense_f16_tflops * 1e6 / (t.multiprocessors * t.boost_clock_mhz);
    const double tensor = 2 * q * kv * (needs.columns + needs.value_columns) / flop_per_cycle;
    // A quarter-rate exp2 counts as four; scale, sum and packing; the maximum where one is taken.
    const double per_score = 4 + (c["rescale"] >= stale ? 3.5 : 5);
    const double stored = kv * (needs.columns + needs.value_columns);
    const double softmax = q * kv * per_score / lanes + stored / 2 / lanes;
    // Each wave reads all of K and V for its rows, and Q that waits in shared memory; a tile is
    // written once.
    const double read = stored * c["w"] + (c["qop"] == in_shared ? q * needs.columns : 0);
    const double lds = 2 * (read + stored) / lds_bytes_per_cycle;
    const double fixed = step_cycles_fixed + 2.0 * 4 * spilled_registers(needs, c, t) *
                                                 needs.threads / cache_bytes_per_cycle;
    if (t.wave_size == 32) return tensor + softmax + 0.3 * lds + fixed;
    const double busiest = std::max({tensor, softmax, lds});
    const double overlap = c["c"] * c["w"] > 4 ? 0.7 : 0.4;  // with another wave on the SIMD
    return busiest + (1 - overlap) * (tensor + softmax + lds - busiest) + fixed;
}

}  // namespace

double transposed_estimate_us(const Problem& problem, const Config& c, const Target& t) {
    const Shape& shape = problem.shape;
    if (shape.batch == 0 || shape.heads_q == 0 || shape.seqlen_q == 0) return launch_us;
    const bool causal = problem.signature.mask == Mask::causal;
    const double q_tiles = std::ceil(double(shape.seqlen_q) / c["q"]);
    const double full_steps = std::ceil(double(shape.seqlen_kv) / c["kv"]);
    const double edge = causal ? 0.5 * (1 + double(c["q"]) / c["kv"]) : 0;
    const double steps = std::min(full_steps, full_steps * kept_share(problem) + edge);
    const TransposedNeeds needs = transposed_needs(problem.signature, c, t);
    const double tile_cycles = steps * step_cycles(needs, c, t) + tile_cycles_fixed / c["c"];
    const double ctas = double(shape.batch) * shape.heads_q * q_tiles;
    double rounds = ctas / t.multiprocessors;
    if (!causal) rounds = std::ceil(rounds);
    if (causal) rounds = std::max(1.0, rounds) * (c["sec"] == 0 ? 1.15 : 1.05);
    // Direct copies are not proven on silicon: only a measurement chooses them.
    const double unproven = needs.direct_bytes != 0 ? 2 : 1;
    return launch_us + unproven * rounds * tile_cycles / t.boost_clock_mhz;
}

}  // namespace attune
