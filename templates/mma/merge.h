// Warps that split the keys bring their partial results together.
#pragma once

#include "templates/common/epilogue.h"
#include "templates/mma/layout.h"

namespace attune {

/// warps_over_kv: every warp holds a partial O, reference and sum of the same rows. They meet in
/// shared memory: [tile_q][columns] fp32 O, then references [warps][tile_q], then sums
/// [warps][tile_q].
template <class V>
class Merge {
    using L = Layout<V>;
    using Softmax = typename L::Softmax;
    static constexpr int stats_offset = 4 * V::tile_q * L::columns;

public:
    ATTUNE_DEVICE explicit Merge(SharedAddress shared) : shared_(shared) {}

    ATTUNE_DEVICE void run(typename L::Output& o, const Softmax& softmax,
                           const OutputTile<>& out) const {
        cta_sync();  // all are done with the K/V ring this memory was
        write_stats(softmax);
        cta_sync();  // every warp's statistics are there
        for (int warp = 0; warp < V::warps; ++warp) {
            if (warp == warp_index()) add(o, softmax, warp == 0);
            cta_sync();  // the next warp adds to what this one wrote
        }
        store(out);
    }

private:
    ATTUNE_DEVICE SharedAddress stat(int which, int warp, int row) const {
        return shared_ + stats_offset + 4 * ((which * V::warps + warp) * V::tile_q + row);
    }

    ATTUNE_DEVICE void write_stats(const Softmax& softmax) const {
        const int lane = lane_index(), warp = warp_index();
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * L::m_blocks; ++i) {
            const int row = L::Fragments::row(i, lane);
            if (lane % 4 == 0) {
                store_shared_f32(stat(0, warp, row), softmax.reference[i]);
                store_shared_f32(stat(1, warp, row), softmax.sum[i]);
            }
        }
    }

    ATTUNE_DEVICE float top_reference(int row) const {
        float top = -infinity();
        for (int warp = 0; warp < V::warps; ++warp)
            top = max_f32(top, load_shared_f32(stat(0, warp, row)));
        return top;
    }

    /// What a partial result of this reference weighs against the row's highest reference.
    ATTUNE_DEVICE static float weight(float reference, float top) {
        return reference == -infinity() ? 0.0f : exp2_approx(reference - top);
    }

    ATTUNE_DEVICE void add(const typename L::Output& o, const Softmax& softmax, bool first) const {
        const int lane = lane_index();
        ATTUNE_UNROLL
        for (int i = 0; i < 2 * L::m_blocks; ++i) {
            const int b = i / 2, half = i % 2;
            const int row = L::Fragments::row(i, lane);
            const float factor = weight(softmax.reference[i], top_reference(row));
            ATTUNE_UNROLL
            for (int j = 0; j < 2 * L::d_tiles; ++j) {
                const int column = 8 * (j / 2) + 2 * (lane % 4) + j % 2;
                const SharedAddress at = shared_ + 4 * (row * L::columns + column);
                const float part = o[b][j / 2][2 * half + j % 2] * factor;
                store_shared_f32(at, first ? part : load_shared_f32(at) + part);
            }
        }
    }

    ATTUNE_DEVICE void store(const OutputTile<>& out) const {
        for (int i = thread_index(); i < V::tile_q * (V::head_dim / 8); i += L::threads) {
            const int row = i / (V::head_dim / 8), chunk = i % (V::head_dim / 8);
            if (row >= out.rows) continue;
            const float top = top_reference(row);
            float sum = 0;
            for (int warp = 0; warp < V::warps; ++warp)
                sum += load_shared_f32(stat(1, warp, row)) *
                       weight(load_shared_f32(stat(0, warp, row)), top);
            store_chunk(out.o + row * out.row_stride + 8 * chunk,
                        shared_ + 4 * (row * L::columns + 8 * chunk), Softmax::reciprocal(sum));
            if (V::write_lse && chunk == 0) store_global_f32(out.lse + row, Softmax::lse(top, sum));
        }
    }

    ATTUNE_DEVICE static void store_chunk(unsigned short* to, SharedAddress from, float factor) {
        unsigned x[4];
        ATTUNE_UNROLL
        for (int i = 0; i < 4; ++i)
            x[i] = pack2(load_shared_f32(from + 8 * i) * factor,
                         load_shared_f32(from + 8 * i + 4) * factor, typename L::Element{});
        store_global_128(to, U128{x[0], x[1], x[2], x[3]});
    }

    SharedAddress shared_;
};

template <class V>
ATTUNE_DEVICE void store_tile(typename Layout<V>::Output& o,
                              const typename Layout<V>::Softmax& softmax, SharedAddress shared,
                              const OutputTile<>& out) {
    if constexpr (Layout<V>::split_kv) {
        Merge<V>(shared).run(o, softmax, out);
    } else {
        store_rows<Layout<V>>(o, softmax, out);
    }
}

}  // namespace attune
