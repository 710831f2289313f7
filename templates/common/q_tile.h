// One q-tile of one head: the loop over the kv tiles that every way without warp specialisation
// shares. A family has given, before it includes this file:
//   Layout<V>                     Scores, Output, Softmax, Fragments, warp_row(), warp_key(),
//                                 one_loop: all tiles go through the loop of the edge tiles
//   KvLoader<V>, RingOf<V>::Type  K and V tiles in shared memory, step by step
//   QOperandOf<V>                 Q of a warp
//   multiply_qk<V>(s, q, k_tile), softmax_pv<V, edge>(o, s, softmax, v_tile)
//   store_tile<V>(o, softmax, shared, out)
#pragma once

#include "templates/abi.h"
#include "templates/common/mask.h"
#include "templates/common/output.h"
#include "templates/common/schedule.h"

namespace attune {

template <class V>
class QTile {
    using L = Layout<V>;
    using Ring = typename RingOf<V>::Type;

public:
    ATTUNE_DEVICE QTile(const AttentionParams& p, const Work& work, SharedAddress shared)
        : p_(p),
          work_(work),
          shared_(shared),
          first_row_(work.q_tile * V::tile_q),
          mask_{p.seqlen_kv, p.seqlen_kv - p.seqlen_q} {}

    ATTUNE_DEVICE void run() {
        const int last_row = min_int(first_row_ + V::tile_q, p_.seqlen_q) - 1;
        const int tiles = mask_.tiles(last_row, V::tile_kv);
        const int whole = min_int(mask_.whole_tiles(first_row_, V::tile_kv), tiles);

        const int kv_head = work_.head / (p_.heads_q / p_.heads_kv);
        KvLoader<V> loader(shared_, {p_.k, offset(p_.k_strides, kv_head), p_.k_strides.row},
                           {p_.v, offset(p_.v_strides, kv_head), p_.v_strides.row}, tiles,
                           p_.seqlen_kv);
        Ring ring(loader);
        QOperandOf<V> q;
        typename L::Softmax softmax(p_.scale_log2);
        typename L::Output o;
        clear(o);

        if (tiles > 0) {
            q.load(p_, offset(p_.q_strides, work_.head), shared_, first_row_);
            ring.start();
        }
        // Only edge tiles need to look at single scores: the last ones of the row range, at least
        // one.
        if (L::one_loop) {
            steps<true>(0, tiles, loader, ring, q, softmax, o);
        } else if (V::kv_forward) {
            steps<false>(0, whole, loader, ring, q, softmax, o);
            steps<true>(whole, tiles, loader, ring, q, softmax, o);
        } else {
            steps<true>(0, tiles - whole, loader, ring, q, softmax, o);
            steps<false>(tiles - whole, tiles, loader, ring, q, softmax, o);
        }
        if constexpr (V::rescale == static_cast<int>(Rescale::deferred)) {
            if (cta_any(softmax.overflowed())) {
                softmax.reset();
                clear(o);
                loader.rewind();
                ring.start();
                steps<true>(0, tiles, loader, ring, q, softmax, o);
            }
        }
        softmax.finish(o);
        store_tile<V>(o, softmax, shared_, output_tile<V>(p_, work_, first_row_));
    }

private:
    template <bool edge>
    ATTUNE_DEVICE void steps(int from, int to, const KvLoader<V>& loader, Ring& ring,
                             const QOperandOf<V>& q, typename L::Softmax& softmax,
                             typename L::Output& o) {
        ATTUNE_UNROLL_N(V::unroll)
        for (int step = from; step < to; ++step) {
            const SharedAddress k_tile = ring.template wait_k<edge>(step);
            const int first_key = loader.tile(step) * V::tile_kv + L::warp_key();
            const int first_query = first_row_ + L::warp_row();
            // A warp whose rows attend nothing here only keeps the others company.
            const bool idle =
                edge && first_key >= mask_.key_end(first_query + L::rows_per_warp - 1);
            typename L::Scores s;
            if (!idle) multiply_qk<V>(s, q, k_tile);
            const SharedAddress v_tile = ring.template wait_v<edge>(step);
            if (!idle) {
                if (edge) mask_scores<typename L::Fragments>(s, mask_, first_query, first_key);
                softmax.template begin_tile<edge>(s, o);
                softmax_pv<V, edge>(o, s, softmax, v_tile);
                softmax.after_pv(o);
            }
            ring.release();
        }
    }

    template <int blocks, int tiles, int elements>
    ATTUNE_DEVICE static void clear(float (&o)[blocks][tiles][elements]) {
        ATTUNE_UNROLL
        for (int i = 0; i < blocks * tiles * elements; ++i)
            o[i / (tiles * elements)][i / elements % tiles][i % elements] = 0;
    }

    ATTUNE_DEVICE long long offset(const TensorStrides& strides, int head) const {
        return work_.batch * strides.batch + head * strides.head;
    }
    ATTUNE_DEVICE static int min_int(int a, int b) { return a < b ? a : b; }

    const AttentionParams& p_;
    Work work_;
    SharedAddress shared_;
    int first_row_;
    KeyMask<V::causal> mask_;
};

}  // namespace attune
