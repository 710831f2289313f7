// A first estimate for the wgmma family: per kv step the busier of tensor cores and softmax, plus
// the part of the other that does not hide under it. Rates per SM and cycle: CUDA C++ Programming
// Guide, arithmetic throughput table. The shares are fitted to an H200 (docs/perf-notes.md).
#include <algorithm>
#include <cmath>

#include "generator/families/common.h"
#include "generator/families/wgmma.h"

namespace attune {
namespace {

constexpr double exp2_per_cycle = 16;
constexpr double fp32_per_cycle = 128;
constexpr double shared_bytes_per_cycle = 128;
constexpr double power_factor = 1.12;  // a dense kernel clocks lower
constexpr double step_cycles_fixed = 100;
constexpr double part_cycles_fixed = 150;   // of MMAs that one consumer waits for; not yet measured
constexpr double tile_cycles_alone = 3000;  // start, first load and store of a CTA's one tile
constexpr double tile_cycles_persistent = 1500;
constexpr double tile_cycles_early_q = 1000;  // with a second slot for Q
constexpr double launch_us = 3;

double step_cycles(const Problem& problem, const Config& c, const Target& t) {
    const WgmmaNeeds needs = wgmma_needs(problem.signature, c);
    const double d = needs.depth, d_v = needs.value_columns, q = c["q"], kv = c["kv"];
    const double flop_per_cycle = t.dense_tflops(element_bytes(problem.signature.dtype)) * 1e6 /
                                  (t.multiprocessors * t.boost_clock_mhz);
    const double tensor = power_factor * 2 * q * kv * (d + d_v) / flop_per_cycle;
    const double per_score = c["rescale"] == stale ? 3.5 : 5;  // scale, sum, conversion; maximum
    const double added = c["acc"] > 0 ? q * d_v : 0;           // parts of P V to O
    const double handed_over = c["p"] == 1 ? 4 * q * kv : 0;   // bytes of P, stored and read
    const double softmax = q * kv / exp2_per_cycle + (per_score * q * kv + added) / fp32_per_cycle +
                           handed_over / shared_bytes_per_cycle;
    const double later_parts = c["acc"] > 0 ? std::ceil(d_v / c["acc"]) - 1 : 0;
    // What runs beside the busier one: the other warpgroups' MMAs, and P V of the tile before.
    double hidden = needs.consumers == 3 ? 0.9 : needs.consumers == 2 ? 0.85 : 0.4;
    if (softmax > tensor && needs.consumers < 3) hidden = 0.4;
    if (c["overlap"] == 0) hidden *= c["pp"] == 1 ? 0.75 : 0.6;
    return std::max(tensor, softmax) + (1 - hidden) * std::min(tensor, softmax) +
           step_cycles_fixed + later_parts * part_cycles_fixed / needs.consumers;
}

}  // namespace

double wgmma_estimate_us(const Problem& problem, const Config& c, const Target& t) {
    const Shape& shape = problem.shape;
    if (shape.batch == 0 || shape.heads_q == 0 || shape.seqlen_q == 0) return launch_us;
    const bool causal = problem.signature.mask == Mask::causal;
    const bool persists = c["sched"] != 0;
    const double group = c["pack"] == 1 ? packed_heads(shape) : 1;
    const double q_tiles = std::ceil(shape.seqlen_q * group / c["q"]);
    const double full_steps = std::ceil(double(shape.seqlen_kv) / c["kv"]);
    const double edge = causal ? 0.5 * (1 + 64 / group / c["kv"]) : 0;
    const double steps = std::min(full_steps, full_steps * kept_share(problem) + edge);
    const double tile_cycles =
        steps * step_cycles(problem, c, t) + (!persists      ? tile_cycles_alone
                                              : c["qs"] == 1 ? tile_cycles_persistent
                                                             : tile_cycles_early_q);
    const double tiles = shape.batch * (shape.heads_q / group) * q_tiles;
    double rounds = tiles / t.multiprocessors;
    if (!causal) rounds = std::ceil(rounds);
    if (causal) rounds = std::max(1.0, rounds) * (c["sec"] == 0 ? 1.15 : persists ? 1.03 : 1.06);
    return launch_us + rounds * tile_cycles / t.boost_clock_mhz;
}

}  // namespace attune
