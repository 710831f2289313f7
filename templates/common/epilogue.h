// From accumulators to O and LSE. L is a family's layout: Element (of O), Output, Softmax,
// value_dim, write_lse, m_blocks, d_tiles, warp_row().
#pragma once

#include "templates/common/output.h"
#include "templates/common/softmax.h"

namespace attune {

/// Swaps four registers of four lanes: afterwards register i of lane t holds what register t of
/// lane i held.
ATTUNE_DEVICE void quad_transpose(unsigned (&x)[4]) {
    const int lane = lane_index();
    ATTUNE_UNROLL
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool upper = (lane & bit) != 0;
        ATTUNE_UNROLL
        for (int i = 0; i < 4; ++i) {
            if (i & bit) continue;
            const unsigned received = shuffle_xor(upper ? x[i] : x[i + bit], bit);
            (upper ? x[i] : x[i + bit]) = received;
        }
    }
}

/// One row of a warp's O, times `factor`: 16-byte stores, four lanes to 64 bytes; 4-byte stores for
/// a narrow rest.
template <class L>
ATTUNE_DEVICE void store_row(const float (&o)[L::d_tiles][4], int half, float factor,
                             unsigned short* row, bool valid) {
    constexpr int whole = L::d_tiles / 4 * 4;
    const int quad_lane = lane_index() % 4;
    ATTUNE_UNROLL
    for (int d = 0; d < L::d_tiles; d += 4) {
        unsigned x[4] = {};
        ATTUNE_UNROLL
        for (int i = 0; i < 4; ++i)
            if (d + i < L::d_tiles)
                x[i] = pack2(o[d + i][2 * half] * factor, o[d + i][2 * half + 1] * factor,
                             typename L::Element{});
        if (d < whole) {
            quad_transpose(x);
            const int column = 8 * (d + quad_lane);
            if (valid && column < L::value_dim)
                store_global_128(row + column, U128{x[0], x[1], x[2], x[3]});
        } else {
            ATTUNE_UNROLL
            for (int i = 0; i < L::d_tiles - whole; ++i) {
                const int column = 8 * (d + i);
                if (valid && column < L::value_dim)
                    store_global_32(row + column + 2 * quad_lane, x[i]);
            }
        }
    }
}

/// Each warp stores its own rows, O times `scale`.
template <class L, bool packed>
ATTUNE_DEVICE void store_rows(typename L::Output& o, const typename L::Softmax& softmax,
                              const OutputTile<packed>& out, float scale = 1.0f) {
    const int lane = lane_index();
    ATTUNE_UNROLL
    for (int i = 0; i < 2 * L::m_blocks; ++i) {
        const int row = L::warp_row() + L::Fragments::row(i, lane);
        const float sum = softmax.sum[i];
        const bool valid = row < out.rows;
        store_row<L>(o[i / 2], i % 2, L::Softmax::reciprocal(sum) * scale, out.o_row(row), valid);
        if (L::write_lse && valid && lane % 4 == 0)
            store_global_f32(out.lse_of(row), L::Softmax::lse(softmax.reference[i], sum));
    }
}

}  // namespace attune
