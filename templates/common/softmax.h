// Online softmax over rows held in m16n8 accumulator fragments: element [b][n][e] of a thread is
// row 16 b + lane/4 + 8 (e/2), column 8 n + 2 (lane%4) + e%2. Scores enter exp2 with the scale
// folded in.
#pragma once

#include "target.h"

namespace attune {

enum class Rescale { each_step = 0, when_moved = 1, normalised = 2 };

/// Reduces over the four lanes that share a row.
ATTUNE_DEVICE float quad_max(float v) {
    v = max_f32(v, shuffle_xor(v, 1));
    return max_f32(v, shuffle_xor(v, 2));
}
ATTUNE_DEVICE float quad_sum(float v) {
    v += shuffle_xor(v, 1);
    return v + shuffle_xor(v, 2);
}

/// each_step: the reference is the running maximum, O follows it every step.
/// when_moved: the reference stays until a row maximum passes it by more than 2^8; exact up to
/// rounding, since P, its
///             sum and O share the reference (P <= 2^8 is far inside fp16's range).
/// normalised: as each_step, and O is divided by the running sum every step (FlashAttention-1).
template <Rescale rescale, int m_blocks>
struct OnlineSoftmax {
    static constexpr float moved_by = 8.0f;  // log2

    float reference[m_blocks]
                   [2];  // what is subtracted, in log2 units; -inf before the first attended key
    float sum[m_blocks]
             [2];  // of exp2(score - reference): this thread's columns, whole row if normalised
    float scale_log2;

    ATTUNE_DEVICE explicit OnlineSoftmax(float scale) : scale_log2(scale) {
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            reference[i / 2][i % 2] = -infinity();
            sum[i / 2][i % 2] = 0;
        }
    }

    /// Turns scores into P in place and brings O to the new reference.
    template <int n_tiles, int d_tiles>
    ATTUNE_DEVICE void step(float (&s)[m_blocks][n_tiles][4], float (&o)[m_blocks][d_tiles][4]) {
        float top[m_blocks][2];
        bool moved = false;
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            top[b][half] = row_max(s[b], half) * scale_log2;
            moved = moved || top[b][half] > reference[b][half] + moved_by;
        }
        if (rescale != Rescale::when_moved || warp_any(moved)) raise(top, o);
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) exponentiate(s[i / 2], i / 2, i % 2);
    }

    template <int d_tiles>
    ATTUNE_DEVICE void after_pv(float (&o)[m_blocks][d_tiles][4]) {
        if (rescale == Rescale::normalised)
            scale_rows(o, [&](int b, int half) { return reciprocal(sum[b][half]); });
    }

    /// Makes `sum` whole rows and O what divided by it is the answer.
    template <int d_tiles>
    ATTUNE_DEVICE void finish(float (&o)[m_blocks][d_tiles][4]) {
        if (rescale == Rescale::normalised) {
            scale_rows(o, [&](int b, int half) { return sum[b][half]; });
        } else {
            ATTUNE_UNROLL
            for (int i = 0; i < 2 * m_blocks; ++i) sum[i / 2][i % 2] = quad_sum(sum[i / 2][i % 2]);
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
    template <int n_tiles>
    ATTUNE_DEVICE static float row_max(const float (&s)[n_tiles][4], int half) {
        float top = -infinity();
        ATTUNE_UNROLL
        for (int n = 0; n < n_tiles; ++n)
            top = max_f32(top, max_f32(s[n][2 * half], s[n][2 * half + 1]));
        return quad_max(top);
    }

    template <int d_tiles>
    ATTUNE_DEVICE void raise(const float (&top)[m_blocks][2], float (&o)[m_blocks][d_tiles][4]) {
        float factor[m_blocks][2];
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            const float before = reference[b][half];
            const float now = max_f32(before, top[b][half]);
            reference[b][half] = now;
            const float shrink = exp2_approx(before - finite(now));
            factor[b][half] = shrink;
            if (rescale == Rescale::normalised) factor[b][half] *= sum[b][half];
            sum[b][half] *= shrink;
        }
        scale_rows(o, [&](int b, int half) { return factor[b][half]; });
    }

    template <int n_tiles>
    ATTUNE_DEVICE void exponentiate(float (&s)[n_tiles][4], int b, int half) {
        const float subtract = -finite(reference[b][half]);
        float part = 0;
        ATTUNE_UNROLL
        for (int n = 0; n < n_tiles; ++n) {
            ATTUNE_UNROLL
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
                s[n][e] = exp2_approx(fma_rn(s[n][e], scale_log2, subtract));
                part += s[n][e];
            }
        }
        if (rescale == Rescale::normalised) part = quad_sum(part);
        sum[b][half] += part;
    }

    template <int d_tiles, class Factor>
    ATTUNE_DEVICE static void scale_rows(float (&o)[m_blocks][d_tiles][4], Factor factor) {
        ATTUNE_UNROLL
        for (int b = 0; b < m_blocks; ++b) {
            const float upper = factor(b, 0), lower = factor(b, 1);
            ATTUNE_UNROLL
            for (int d = 0; d < d_tiles; ++d) {
                o[b][d][0] *= upper;
                o[b][d][1] *= upper;
                o[b][d][2] *= lower;
                o[b][d][3] *= lower;
            }
        }
    }

    /// -inf - -inf would be NaN: a row without an attended key subtracts 0.
    ATTUNE_DEVICE static float finite(float reference) {
        return reference == -infinity() ? 0.0f : reference;
    }
};

}  // namespace attune
