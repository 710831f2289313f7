// Online softmax over rows held as fragments F (fragments.h). Scores enter exp2 with the scale
// folded in. A tile of scores goes through begin_tile(), then step by step of P V through open(),
// exponentiate() and close().
#pragma once

#include "templates/common/fragments.h"

namespace attune {

enum class Rescale { each_step = 0, when_moved = 1, normalised = 2, stale = 3, deferred = 4 };

/// What is subtracted from a row's scores is its reference; P, its sum and O share it, so that any
/// reference is exact up to rounding as long as nothing overflows.
/// each_step:  the running maximum; O follows it every step.
/// when_moved: stays until a tile's maximum passes it by more than 2^8.
/// normalised: as each_step, and O is divided by the running sum every step (FlashAttention-1).
/// stale:      no maximum is taken. A block whose sum shows that some P grew past `block_limit` is
///             done again with the reference raised to its maximum.
/// deferred:   as stale on edge tiles. Elsewhere the running sum is looked at once per tile, when
///             the tile is through: bf16's range lets P grow meanwhile. Past `lost_limit` the sum
///             becomes NaN, overflowed() tells, and the q-tile is done again as stale.
/// largest_p_log2 > 0: P is to fill a small range up to 2^largest_p_log2. An exact reference lies
/// so far under the row's maximum, one that waits or is stale less far, so that P may grow.
template <Rescale rescale, class F, int largest_p_log2 = 0>
struct OnlineSoftmax {
    static constexpr float moved_by = 8.0f;  // log2
    static_assert(largest_p_log2 == 0 || largest_p_log2 == 8, "P that has moved fills the range");
    static constexpr int room_log2 = rescale == Rescale::when_moved ? 2
                                     : rescale == Rescale::stale    ? 3
                                                                    : 0;
    static constexpr float below_maximum = largest_p_log2 == 0 ? 0 : largest_p_log2 - room_log2;
    static constexpr float block_limit = 1024.0f;        // P <= block sum: far inside fp16's range
    static constexpr float shift_limit = 1.0995116e12f;  // 2^40
    static constexpr float lost_limit = 1.2089258e24f;   // 2^80: times |V| < 2^40 O stays finite
    static constexpr bool exact = rescale != Rescale::stale && rescale != Rescale::deferred;
    static constexpr float unset = -1e30f;  // below every score, and exp2(unset - unset) is 1

    /// A number for each row.
    struct Rows {
        float of[F::rows];
    };

    float reference[F::rows];  // log2 units
    float sum[F::rows];        // of exp2(score - reference) over this thread's columns
    float scale_log2;

    ATTUNE_DEVICE explicit OnlineSoftmax(float scale) : scale_log2(scale) { reset(); }

    ATTUNE_DEVICE void reset() {
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) {
            reference[i] = unset;
            sum[i] = 0;
        }
    }

    /// Row maxima of tiles from .. to - 1, in log2 units.
    template <int tiles>
    ATTUNE_DEVICE Rows maxima(const float (&s)[F::blocks][tiles][F::elements], int from,
                              int to) const {
        constexpr int block_rows = F::rows / F::blocks, width = F::elements / block_rows;
        Rows top;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) {
            const int b = i / block_rows, first = i % block_rows * width;
            float most = -infinity();
            ATTUNE_UNROLL
            for (int j = from * width; j < to * width; j += 2) {
                const auto& tile = s[b][j / width];
                const int e = first + j % width;
                most = max_f32(most, max_f32(tile[e], tile[e + 1]));
            }
            top.of[i] = row_max<F>(most) * scale_log2;
        }
        return top;
    }

    /// An exact reference has to follow these maxima.
    ATTUNE_DEVICE bool must_follow(const Rows& top) const {
        if (rescale != Rescale::when_moved) return true;
        bool moved = false;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) moved = moved || top.of[i] > reference[i] + moved_by;
        return warp_any(moved);
    }

    /// Raises references to `top` (less below_maximum) where that is higher. Returns what O shrinks
    /// by.
    ATTUNE_DEVICE Rows raise(const Rows& top) {
        Rows by;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) {
            const float before = reference[i];
            const float now = max_f32(before, top.of[i] - below_maximum);
            reference[i] = now;
            const float factor = exp2_approx(before - now);
            by.of[i] = factor;
            if (rescale == Rescale::normalised) by.of[i] *= row_sum<F>(sum[i]);
            sum[i] *= factor;
        }
        return by;
    }

    /// O may come in tiles of another size than S.
    template <int tiles, int width>
    ATTUNE_DEVICE static void shrink(float (&o)[F::blocks][tiles][width], const Rows& by) {
        ATTUNE_UNROLL
        for (int i = 0; i < F::blocks * tiles * width; ++i) {
            const int b = i / (tiles * width), e = i % width;
            o[b][i / width % tiles][e] *= by.of[row_of<F>(b, e, width)];
        }
    }

    /// Brings references and O in order for a tile of scores. `edge`: every block will be checked.
    template <bool edge, int tiles, class Output>
    ATTUNE_DEVICE void begin_tile(const float (&s)[F::blocks][tiles][F::elements], Output& o) {
        if constexpr (exact) {
            const Rows top = maxima(s, 0, tiles);
            if (must_follow(top)) shrink(o, raise(top));
        } else if constexpr (rescale == Rescale::deferred && !edge) {
            bool large = false;
            ATTUNE_UNROLL
            for (int i = 0; i < F::rows; ++i) large = large || !(sum[i] <= shift_limit);
            if (warp_any(large)) shrink(o, shift());
        }
    }

    /// P of a step, and this thread's row sums: of the step where it will be checked, else of all
    /// columns so far.
    struct Block {
        float p[F::blocks][F::step_tiles][F::elements];
        Rows sum;
    };
    template <bool edge>
    static constexpr bool checked = !exact && (edge || rescale == Rescale::stale);

    template <bool edge>
    ATTUNE_DEVICE Block open() const {
        Block block;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) block.sum.of[i] = checked<edge> ? 0.0f : sum[i];
        return block;
    }

    /// P of a step. `part` of `parts` does its share of the elements, so that they can be placed
    /// among other instructions.
    template <int tiles>
    ATTUNE_DEVICE void exponentiate(Block& out, const float (&s)[F::blocks][tiles][F::elements],
                                    int step, int part = 0, int parts = 1) const {
        constexpr int width = F::elements, of_block = F::step_tiles * width;
        ATTUNE_UNROLL
        for (int i = 0; i < F::blocks * of_block; ++i) {
            if (i * parts / (F::blocks * of_block) != part) continue;
            const int b = i / of_block, n = i / width % F::step_tiles, e = i % width;
            const int row = row_of<F>(b, e, width);
            const float x = fma_rn(s[b][F::step_tiles * step + n][e], scale_log2, -reference[row]);
            out.p[b][n][e] = exp2_approx(x);
            out.sum.of[row] += out.p[b][n][e];
        }
    }

    /// The step's P is complete: takes its sums. Where it is checked, P that grew too far is made
    /// again with a reference raised to the step's maximum.
    template <bool edge, int tiles, class Output>
    ATTUNE_DEVICE void close(Block& block, const float (&s)[F::blocks][tiles][F::elements],
                             int step, Output& o) {
        if constexpr (checked<edge>) {
            if (grown(block.sum, block_limit)) redo(block, s, step, o);
            take(block.sum);
        } else {
            ATTUNE_UNROLL
            for (int i = 0; i < F::rows; ++i) sum[i] = block.sum.of[i];
        }
    }

    /// Some sum of the warp's is past the limit, or NaN.
    ATTUNE_DEVICE static bool grown(const Rows& sums, float limit) {
        bool past = false;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) past = past || !(sums.of[i] <= limit);
        return warp_any(past);
    }

    ATTUNE_DEVICE void take(const Rows& sums) {
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) sum[i] += sums.of[i];
    }

    template <class Output>
    ATTUNE_DEVICE void after_pv(Output& o) {
        if constexpr (rescale == Rescale::normalised) {
            Rows by;
            ATTUNE_UNROLL
            for (int i = 0; i < F::rows; ++i) by.of[i] = reciprocal(row_sum<F>(sum[i]));
            shrink(o, by);
        }
    }

    /// Some row's sum was lost (deferred), or is NaN.
    ATTUNE_DEVICE bool overflowed() const {
        bool lost = false;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) lost = lost || !(sum[i] < lost_limit);
        return lost;
    }

    /// Makes `sum` whole rows and O what divided by it is the answer.
    template <class Output>
    ATTUNE_DEVICE void finish(Output& o) {
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) sum[i] = row_sum<F>(sum[i]);
        if constexpr (rescale == Rescale::normalised) {
            Rows whole;
            ATTUNE_UNROLL
            for (int i = 0; i < F::rows; ++i) whole.of[i] = sum[i];
            shrink(o, whole);
        }
    }

    /// 1/x, and 0 for the sum of a row that attends nothing; NaN stays NaN.
    ATTUNE_DEVICE static float reciprocal(float x) { return x == 0 ? 0.0f : 1.0f / x; }

    /// Natural-log LSE of a row; -inf where nothing was attended.
    ATTUNE_DEVICE static float lse(float reference, float sum) {
        constexpr float ln2 = 0.693147180559945f;
        return sum == 0 ? -infinity() : (reference + log2_approx(sum)) * ln2;
    }

private:
    template <int tiles, class Output>
    ATTUNE_DEVICE void redo(Block& block, const float (&s)[F::blocks][tiles][F::elements], int step,
                            Output& o) {
        shrink(o, raise(maxima(s, F::step_tiles * step, F::step_tiles * (step + 1))));
        block = open<true>();
        exponentiate(block, s, step);
    }

    /// Rows with large sums get them back near 1. Returns what O shrinks by.
    ATTUNE_DEVICE Rows shift() {
        Rows by;
        ATTUNE_UNROLL
        for (int i = 0; i < F::rows; ++i) {
            const float top = row_max<F>(sum[i]);
            const float bits = top > shift_limit ? log2_approx(top) : 0.0f;
            by.of[i] = exp2_approx(-bits);
            reference[i] += bits;
            sum[i] = sum[i] < lost_limit ? sum[i] * by.of[i] : lost();
        }
        return by;
    }
    ATTUNE_DEVICE static float lost() { return infinity() - infinity(); }
};

}  // namespace attune
