// A first estimate for the mma family: per kv step the busiest unit, plus what does not hide under
// it. Rates are per SM and cycle. Sources: CUDA C++ Programming Guide, arithmetic throughput table
// (special functions, fp32) and shared-memory bandwidth of 32 banks x 4 bytes; the share of the
// dense MMA rate that mma.sync reaches and the synchronisation costs are fitted to an H200
// (docs/perf-notes.md).
#include <algorithm>
#include <cmath>

#include "generator/families/common.h"
#include "generator/families/mma.h"

namespace attune {
namespace {

constexpr double shared_bytes_per_cycle = 128;
constexpr double exp2_per_cycle = 16;
constexpr double fp32_per_cycle = 128;
constexpr double mma_share_of_peak = 0.78;
constexpr double barrier_cycles = 120;
constexpr double launch_us = 3;

/// By the rescale axis: operations per score (scale, maximum or check, sum, conversion), and
/// multiplications of each O element per step.
struct SoftmaxCost {
    double per_score, rescales;
};
constexpr SoftmaxCost softmax_costs[] = {{5, 1}, {5, 0.1}, {5, 2}, {4, 0.05}, {3, 0.05}};
constexpr double mixed_share = 0.5;  // of softmax, when its exp2 issue among MMAs

struct Step {
    double tensor, shared, softmax;  // cycles of one CTA's kv step on each unit
};

Step step_cycles(const Problem& problem, const Config& c, const Target& t) {
    const MmaNeeds needs = mma_needs(problem.signature, c);
    const double d = needs.head_dim_padded, q = c["q"], kv = c["kv"], warps = c["w"];
    const double flop_per_cycle =
        t.dense_f16_tflops * 1e6 / (t.multiprocessors * t.boost_clock_mhz) * mma_share_of_peak;
    Step step{};
    step.tensor = 4 * q * kv * d / flop_per_cycle;
    // Every warp reads its keys of K and V once per step, and its rows of Q unless they are in
    // registers.
    double bytes = warps * needs.keys_per_warp * d * 4;
    if (c["qop"] == in_shared) bytes += warps * needs.rows_per_warp * d * 2;
    step.shared = bytes / shared_bytes_per_cycle;
    const SoftmaxCost& cost = softmax_costs[c["rescale"]];
    step.softmax = q * kv / exp2_per_cycle +
                   (cost.per_score * q * kv + cost.rescales * q * d) / fp32_per_cycle;
    if (c["mix"] == 1) step.softmax *= mixed_share;
    return step;
}

int ctas_per_sm(const Problem& problem, const Config& c, const Target& t) {
    const MmaNeeds needs = mma_needs(problem.signature, c);
    const int registers = std::min(mma_register_cap(c, t), (needs.accumulators + 60 + 7) / 8 * 8);
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
    const int resident = ctas_per_sm(problem, c, t);
    const Step step = step_cycles(problem, c, t);
    const double busiest = std::max({step.tensor, step.shared, step.softmax});
    const double rest = step.tensor + step.shared + step.softmax - busiest;
    const double warps_per_scheduler = resident * c["w"] / 4.0;
    // A warp waits for the others twice a step, once with pairs loaded ahead, and rarely where full
    // and empty slots let it run ahead of them.
    const double meetings = c["ring"] == 1 ? (c["s"] == 2 ? 0.5 : 0.1) : c["s"] == 1 ? 2 : 1;
    const double barriers = meetings * barrier_cycles / resident;
    const double penalty = 1 + 0.002 * (c["dir"] + c["u"] - 1);  // ties go to the plain form
    const double cycles =
        (busiest + rest / std::max(0.5, warps_per_scheduler) + barriers) * penalty;

    // Masked-out work inside tiles counts: a causal tile is computed whole where any score of it is
    // kept.
    const double q_tiles = std::ceil(double(shape.seqlen_q) / c["q"]);
    const double full_steps = std::ceil(double(shape.seqlen_kv) / c["kv"]);
    const bool causal = problem.signature.mask == Mask::causal;
    const double edge = causal ? 0.5 * (1 + double(c["q"]) / c["kv"]) : 0;
    const double steps = std::min(full_steps, full_steps * kept_share(problem) + edge) +
                         2;  // + prologue and epilogue
    const bool per_head = c["grid"] == 1;
    const double ctas = double(shape.batch) * shape.heads_q * (per_head ? 1 : q_tiles);
    const double slots = double(t.multiprocessors) * resident;
    const double imbalance = causal && !per_head && c["sec"] == 0 ? 1.12 : 1.0;
    const double rounds =
        ctas < slots ? std::ceil(ctas / t.multiprocessors) / resident : ctas / slots + 0.5;
    const double total = rounds * resident * steps * (per_head ? q_tiles : 1) * cycles * imbalance;
    return launch_us + total / t.boost_clock_mhz;
}

}  // namespace attune
