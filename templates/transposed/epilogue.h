// From accumulators of O^T to O and LSE.
#pragma once

#include "templates/common/output.h"
#include "templates/transposed/layout.h"

namespace attune {

/// A lane's words of one pair of row blocks, two neighbouring columns each: 4 words go to 8 columns
/// from first[i] on.
template <class A>
struct ColumnWords {
    static constexpr int stores = A::registers / 4;
    unsigned of[stores][4];

    ATTUNE_DEVICE static int first(int i, int lane) {
        return A::row_step == 1 ? 2 * (lane / A::rows * A::rows / 2 + 4 * i)
                                : 2 * (A::row(4 * i) + lane / A::rows * A::row_step);
    }
    /// RDNA 3 holds every other row of a block in either half of a wave: the lower half takes the
    /// first eight rows, the upper half the others.
    ATTUNE_DEVICE void exchange() {
        const bool upper = lane_index() >= A::rows;
        ATTUNE_UNROLL
        for (int r = 0; r < 4; ++r) {
            const unsigned received = shuffle_xor(upper ? of[0][r] : of[1][r], A::rows);
            of[0][r] = upper ? received : of[0][r];
            of[1][r] = upper ? of[1][r] : received;
        }
        unsigned x[8];
        ATTUNE_UNROLL
        for (int r = 0; r < 4; ++r) {
            x[2 * r] = of[0][r];
            x[2 * r + 1] = of[1][r];
        }
        ATTUNE_UNROLL
        for (int i = 0; i < 8; ++i) of[i / 4][i % 4] = x[i];
    }
};

template <class V>
ATTUNE_DEVICE void store_tile(const typename Layout<V>::Output& o,
                              const typename Layout<V>::Softmax& softmax, SharedAddress,
                              const OutputTile<>& out) {
    using L = Layout<V>;
    using A = typename L::A;
    const int lane = lane_index();
    ATTUNE_UNROLL
    for (int b = 0; b < L::q_blocks; ++b) {
        const int row = L::warp_row() + L::Fragments::row(b, lane);
        const float sum = softmax.sum[b], factor = L::Softmax::reciprocal(sum);
        const bool valid = row < out.rows;
        ATTUNE_UNROLL
        for (int m = 0; m < L::d_pairs; ++m) {
            ColumnWords<A> words;
            ATTUNE_UNROLL
            for (int r = 0; r < A::registers; ++r)
                words.of[r / 4][r % 4] = pack2(o[b][2 * m][r] * factor, o[b][2 * m + 1][r] * factor,
                                               typename L::Element{});
            if constexpr (A::row_step == 1) words.exchange();
            ATTUNE_UNROLL
            for (int i = 0; i < words.stores; ++i) {
                const int column = 2 * A::rows * m + words.first(i, lane);
                const unsigned(&x)[4] = words.of[i];
                if (valid && column < V::head_dim_v)
                    store_global_128(out.o + row * out.row_stride + column,
                                     U128{x[0], x[1], x[2], x[3]});
            }
        }
        if (V::write_lse && valid && lane < A::rows)
            store_global_f32(out.lse + row, L::Softmax::lse(softmax.reference[b], sum));
    }
}

}  // namespace attune
