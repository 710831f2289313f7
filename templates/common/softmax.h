// Online softmax over rows held in m16n8 accumulator fragments: element [b][n][e] of a thread is
// row 16 b + lane/4 + 8 (e/2), column 8 n + 2 (lane%4) + e%2. Scores enter exp2 with the scale
// folded in. A tile goes through begin_tile(), then block by block of 16 columns through block().
#pragma once

#include "target.h"

namespace attune {

enum class Rescale { each_step = 0, when_moved = 1, normalised = 2, stale = 3, deferred = 4 };

/// Reduces over the four lanes that share a row.
ATTUNE_DEVICE float quad_max(float v) {
    v = max_f32(v, shuffle_xor(v, 1));
    return max_f32(v, shuffle_xor(v, 2));
}
ATTUNE_DEVICE float quad_sum(float v) {
    v += shuffle_xor(v, 1);
    return v + shuffle_xor(v, 2);
}

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
template <Rescale rescale, int m_blocks>
struct OnlineSoftmax {
    static constexpr float moved_by = 8.0f;              // log2
    static constexpr float block_limit = 1024.0f;        // P <= block sum: far inside fp16's range
    static constexpr float shift_limit = 1.0995116e12f;  // 2^40
    static constexpr float lost_limit = 1.2089258e24f;   // 2^80: times |V| < 2^40 O stays finite
    static constexpr bool exact = rescale != Rescale::stale && rescale != Rescale::deferred;
    static constexpr float unset = -1e30f;  // below every score, and exp2(unset - unset) is 1

    /// A number for each row.
    struct Rows {
        float of[m_blocks][2];
    };

    float reference[m_blocks][2];  // log2 units
    float sum[m_blocks][2];        // of exp2(score - reference) over this thread's columns
    float scale_log2;

    ATTUNE_DEVICE explicit OnlineSoftmax(float scale) : scale_log2(scale) { reset(); }

    ATTUNE_DEVICE void reset() {
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            reference[i / 2][i % 2] = unset;
            sum[i / 2][i % 2] = 0;
        }
    }

    /// Row maxima of n-tiles from .. to - 1, in log2 units.
    template <int n_tiles>
    ATTUNE_DEVICE Rows maxima(const float (&s)[m_blocks][n_tiles][4], int from, int to) const {
        Rows top;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            float most = -infinity();
            ATTUNE_UNROLL
            for (int n = from; n < to; ++n)
                most = max_f32(most, max_f32(s[b][n][2 * half], s[b][n][2 * half + 1]));
            top.of[b][half] = quad_max(most) * scale_log2;
        }
        return top;
    }

    /// An exact reference has to follow these maxima.
    ATTUNE_DEVICE bool must_follow(const Rows& top) const {
        if (rescale != Rescale::when_moved) return true;
        bool moved = false;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i)
            moved = moved || top.of[i / 2][i % 2] > reference[i / 2][i % 2] + moved_by;
        return warp_any(moved);
    }

    /// Raises references to `top` where that is higher. Returns what O shrinks by.
    ATTUNE_DEVICE Rows raise(const Rows& top) {
        Rows by;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            const float before = reference[b][half];
            const float now = max_f32(before, top.of[b][half]);
            reference[b][half] = now;
            const float factor = exp2_approx(before - now);
            by.of[b][half] = factor;
            if (rescale == Rescale::normalised) by.of[b][half] *= quad_sum(sum[b][half]);
            sum[b][half] *= factor;
        }
        return by;
    }

    template <int d_tiles>
    ATTUNE_DEVICE static void shrink(float (&o)[m_blocks][d_tiles][4], const Rows& by) {
        ATTUNE_UNROLL
        for (int i = 0; i < m_blocks * d_tiles * 4; ++i)
            o[i / (4 * d_tiles)][i / 4 % d_tiles][i % 4] *= by.of[i / (4 * d_tiles)][i % 4 / 2];
    }

    /// Brings references and O in order for a tile of scores. `edge`: every block will be checked.
    template <bool edge, int n_tiles, int d_tiles>
    ATTUNE_DEVICE void begin_tile(const float (&s)[m_blocks][n_tiles][4],
                                  float (&o)[m_blocks][d_tiles][4]) {
        if constexpr (exact) {
            const Rows top = maxima(s, 0, n_tiles);
            if (must_follow(top)) shrink(o, raise(top));
        } else if constexpr (rescale == Rescale::deferred && !edge) {
            bool large = false;
            ATTUNE_UNROLL
            for (int i = 0; i < 2 * m_blocks; ++i)
                large = large || !(sum[i / 2][i % 2] <= shift_limit);
            if (warp_any(large)) shrink(o, shift());
        }
    }

    /// P of 16 columns, and this thread's row sums: of the block where it will be checked, else of
    /// all columns so far.
    struct Block {
        float p[m_blocks][2][4];
        Rows sum;
    };
    template <bool edge>
    static constexpr bool checked = !exact && (edge || rescale == Rescale::stale);

    template <bool edge>
    ATTUNE_DEVICE Block open() const {
        Block block;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i)
            block.sum.of[i / 2][i % 2] = checked<edge> ? 0.0f : sum[i / 2][i % 2];
        return block;
    }

    /// P of columns 16 block .. 16 block + 15. `part` of `parts` does its share of the elements, so
    /// that they can be placed among other instructions.
    template <int n_tiles>
    ATTUNE_DEVICE void exponentiate(Block& out, const float (&s)[m_blocks][n_tiles][4], int block,
                                    int part = 0, int parts = 1) const {
        constexpr int elements = 8 * m_blocks;
        ATTUNE_UNROLL
        for (int i = 0; i < elements; ++i) {
            if (i * parts / elements != part) continue;
            const int b = i / 8, n = i / 4 % 2, e = i % 4;
            const float x = fma_rn(s[b][2 * block + n][e], scale_log2, -reference[b][e / 2]);
            out.p[b][n][e] = exp2_approx(x);
            out.sum.of[b][e / 2] += out.p[b][n][e];
        }
    }

    /// The block is complete: takes its sums. Where it is checked, P that grew too far is made
    /// again with a reference raised to the block's maximum.
    template <bool edge, int n_tiles, int d_tiles>
    ATTUNE_DEVICE void close(Block& block, const float (&s)[m_blocks][n_tiles][4], int index,
                             float (&o)[m_blocks][d_tiles][4]) {
        if constexpr (checked<edge>) {
            if (grown(block.sum, block_limit)) redo(block, s, index, o);
            take(block.sum);
        } else {
            ATTUNE_UNROLL
            for (int i = 0; i < 2 * m_blocks; ++i) sum[i / 2][i % 2] = block.sum.of[i / 2][i % 2];
        }
    }

    /// Some sum of the warp's is past the limit, or NaN.
    ATTUNE_DEVICE static bool grown(const Rows& sums, float limit) {
        bool past = false;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) past = past || !(sums.of[i / 2][i % 2] <= limit);
        return warp_any(past);
    }

    ATTUNE_DEVICE void take(const Rows& sums) {
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) sum[i / 2][i % 2] += sums.of[i / 2][i % 2];
    }

    template <int d_tiles>
    ATTUNE_DEVICE void after_pv(float (&o)[m_blocks][d_tiles][4]) {
        if constexpr (rescale == Rescale::normalised) {
            Rows by;
            ATTUNE_UNROLL
            for (int i = 0; i < 2 * m_blocks; ++i)
                by.of[i / 2][i % 2] = reciprocal(quad_sum(sum[i / 2][i % 2]));
            shrink(o, by);
        }
    }

    /// Some row's sum was lost (deferred), or is NaN.
    ATTUNE_DEVICE bool overflowed() const {
        bool lost = false;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) lost = lost || !(sum[i / 2][i % 2] < lost_limit);
        return lost;
    }

    /// Makes `sum` whole rows and O what divided by it is the answer.
    template <int d_tiles>
    ATTUNE_DEVICE void finish(float (&o)[m_blocks][d_tiles][4]) {
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) sum[i / 2][i % 2] = quad_sum(sum[i / 2][i % 2]);
        if constexpr (rescale == Rescale::normalised) {
            Rows whole;
            ATTUNE_UNROLL
            for (int i = 0; i < 2 * m_blocks; ++i) whole.of[i / 2][i % 2] = sum[i / 2][i % 2];
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
    template <int n_tiles, int d_tiles>
    ATTUNE_DEVICE void redo(Block& block, const float (&s)[m_blocks][n_tiles][4], int index,
                            float (&o)[m_blocks][d_tiles][4]) {
        shrink(o, raise(maxima(s, 2 * index, 2 * index + 2)));
        block = open<true>();
        exponentiate(block, s, index);
    }

    /// Rows with large sums get them back near 1. Returns what O shrinks by.
    ATTUNE_DEVICE Rows shift() {
        Rows by;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            const float top = quad_max(sum[b][half]);
            const float bits = top > shift_limit ? log2_approx(top) : 0.0f;
            by.of[b][half] = exp2_approx(-bits);
            reference[b][half] += bits;
            sum[b][half] = sum[b][half] < lost_limit ? sum[b][half] * by.of[b][half] : lost();
        }
        return by;
    }
    ATTUNE_DEVICE static float lost() { return infinity() - infinity(); }
};

}  // namespace attune
