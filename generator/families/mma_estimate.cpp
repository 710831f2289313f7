// A first estimate for the mma family: per kv step the busiest unit, plus what does not hide under
// it. Rates are per SM and cycle. Sources: CUDA C++ Programming Guide, arithmetic throughput table
// (special functions, fp32) and shared-memory bandwidth of 32 banks x 4 bytes. The rest is fitted
// to 2181 times of 43 problems on an H200 (docs/perf-notes.md).
#include <algorithm>
#include <cmath>

#include "generator/families/common.h"
#include "generator/families/mma.h"

namespace attune {
namespace {

constexpr double shared_bytes_per_cycle = 128;
constexpr double l2_bytes_per_cycle = 64;
constexpr double exp2_per_cycle = 11;  // of 16, which nothing reaches
constexpr double fp32_per_cycle = 128;
constexpr double operations_per_copy = 5;   // of 16 bytes
constexpr double tile_cycles_fixed = 8000;  // start, first load and store of a CTA
constexpr double step_cycles_fixed = 240;   // the latency that nothing hides but another CTA
constexpr double meeting_cycles = 60;       // of a step that waits for the slowest warp
constexpr double unordered_share = 1.05;    // causal q-tiles not longest first
constexpr double forward_share = 1.1;       // edge tiles last
constexpr double launch_us = 3;

/// By the rescale axis: operations per score (scale, maximum or check, sum, conversion), operations
/// on each O element per step; and registers beside the accumulators without which ptxas spills
/// more than 64 bytes: `registers`, `of_outputs` of those of O and 3/4 of those of S, fitted to 928
/// kernels, then raised until the estimates for every GPU known kept to it.
struct SoftmaxCost {
    double per_score, per_output;
    double registers, of_outputs;
};
constexpr SoftmaxCost softmax_costs[] = {{5.5, 4, 42, 0.25},
                                         {3.7, 0.4, 46, 0.25},
                                         {7.4, 8, 42, 0.25},
                                         {3.9, 0.2, 62, 0},
                                         {3.9, 0.2, 50, 0.25}};
constexpr double causal_registers = 20;  // more, for the mask of edge tiles
constexpr double mixed_share = 0.87;     // of softmax, when its exp2 issue among MMAs

/// What mma.sync reaches of the dense rate: that is another instruction's from sm_90 on (644 of 989
/// TFLOP/s on an H200), but for sm_120.
double mma_share(const Target& t) {
    const int capability = t.compute_capability();
    return capability >= 90 && capability < 120 ? 0.65 : 1.0;
}

/// Cycles of an SM for the registers that ptxas spills in one kv step.
double spill_cycles(const MmaNeeds& needs, const Signature& s, const Config& c, const Target& t) {
    const SoftmaxCost& cost = softmax_costs[c["rescale"]];
    const double outputs = needs.rows_per_warp * needs.head_dim_padded / 32.0;
    const double scores = needs.rows_per_warp * needs.keys_per_warp / 32.0;
    const double wanted = needs.accumulators + cost.registers + cost.of_outputs * outputs +
                          0.75 * scores + (c["u"] == 2 ? 16 : 0) +
                          (s.mask == Mask::causal ? causal_registers : 0);
    const double spilled = std::max(0.0, wanted - mma_register_cap(c, t));
    return 4 * spilled * needs.threads * 8 / shared_bytes_per_cycle;
}

/// Cycles of an SM for one kv step of one of its `resident` CTAs.
double step_cycles(const MmaNeeds& needs, const Signature& s, const Config& c, const Target& t,
                   int resident) {
    const double d = needs.head_dim_padded, q = c["q"], kv = c["kv"], warps = c["w"];
    const double flop_per_cycle =
        t.dense_f16_tflops * 1e6 / (t.multiprocessors * t.boost_clock_mhz) * mma_share(t);
    const double tensor = 4 * q * kv * d / flop_per_cycle;
    // Every warp reads its keys of K and V once per step, and its rows of Q unless they are in
    // registers.
    double read = warps * needs.keys_per_warp * d * 4;
    if (c["qop"] == in_shared) read += warps * needs.rows_per_warp * d * 2;
    const double shared = read / shared_bytes_per_cycle;
    const SoftmaxCost& cost = softmax_costs[c["rescale"]];
    double softmax = q * kv / exp2_per_cycle +
                     (cost.per_score * q * kv + cost.per_output * q * d) / fp32_per_cycle;
    if (c["mix"] == 1) softmax *= mixed_share;
    const double copied = kv * d * 4;
    const double copies =
        copied / l2_bytes_per_cycle + copied / 16 * operations_per_copy / fp32_per_cycle;
    const double busiest = std::max({tensor, shared, softmax, copies});
    const double rest = tensor + shared + softmax + copies - busiest;
    const double warps_per_scheduler = std::max(0.5, resident * warps / 4.0);
    const bool runs_ahead = c["ring"] == 1 && c["s"] > 2;
    const double waits = (step_cycles_fixed + (runs_ahead ? 0 : meeting_cycles)) / resident;
    const double cycles = busiest + rest * (0.15 + 0.13 / warps_per_scheduler) + waits;
    return cycles * (c["dir"] == 1 ? forward_share : 1) + spill_cycles(needs, s, c, t);
}

int ctas_per_sm(const MmaNeeds& needs, const Config& c, const Target& t) {
    const int registers = std::min(mma_register_cap(c, t), (needs.accumulators + 70 + 7) / 8 * 8);
    const int by_registers = t.registers_per_multiprocessor / (registers * needs.threads);
    const int by_shared =
        t.shared_bytes_per_multiprocessor / (needs.shared_bytes + t.shared_bytes_reserved_per_cta);
    const int by_threads = t.max_threads_per_multiprocessor / needs.threads;
    return std::max(1,
                    std::min({by_registers, by_shared, by_threads, t.max_ctas_per_multiprocessor}));
}

}  // namespace

double mma_estimate_us(const Problem& problem, const Config& c, const Target& t) {
    const Shape& shape = problem.shape;
    if (shape.batch == 0 || shape.heads_q == 0 || shape.seqlen_q == 0) return launch_us;
    const MmaNeeds needs = mma_needs(problem.signature, c);
    const int resident = ctas_per_sm(needs, c, t);
    // Masked-out work inside tiles counts: a causal tile is computed whole where any score of it is
    // kept.
    const double q_tiles = std::ceil(double(shape.seqlen_q) / c["q"]);
    const double full_steps = std::ceil(double(shape.seqlen_kv) / c["kv"]);
    const bool causal = problem.signature.mask == Mask::causal;
    const double edge = causal ? 0.5 * (1 + double(c["q"]) / c["kv"]) : 0;
    const double steps = std::min(full_steps, full_steps * kept_share(problem) + edge);
    const bool per_head = c["grid"] == 1;
    const double ctas = double(shape.batch) * shape.heads_q * (per_head ? 1 : q_tiles);
    const double tile_cycles = steps * step_cycles(needs, problem.signature, c, t, resident) +
                               tile_cycles_fixed / resident;
    // CTAs that do not fill the GPU: the busiest SM has the last one alone.
    const double per_sm = ctas / t.multiprocessors;
    const double rounds = per_sm < resident ? std::ceil(per_sm) : per_sm;
    const double order = causal && !per_head && c["sec"] != 32 ? unordered_share : 1;
    const double penalty = 1 + 0.002 * (c["u"] - 1);  // ties go to the plain form
    const double cycles = rounds * tile_cycles * (per_head ? q_tiles : 1) * order * penalty;
    return launch_us + cycles / t.boost_clock_mhz;
}

}  // namespace attune
