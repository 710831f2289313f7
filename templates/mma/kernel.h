// Attention forward in the way of FlashAttention-2: a CTA owns a q-tile, walks over the kv tiles,
// keeps O in registers and normalises once. The FlashAttention-1 ways (warps over kv, a CTA per
// head, O divided every step) are fields of the variant.
#pragma once

#include "templates/abi.h"
#include "templates/common/mask.h"
#include "templates/common/schedule.h"
#include "templates/mma/merge.h"
#include "templates/mma/products.h"
#include "templates/mma/ring.h"

namespace attune {

/// One q-tile of one head.
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
            load_q(q);
            ring.start();
        }
        // Only edge tiles look at single scores: the last ones of the row range, at least one.
        if (V::kv_forward) {
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
        store(o, softmax);
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

    ATTUNE_DEVICE static void clear(typename L::Output& o) {
        ATTUNE_UNROLL
        for (int i = 0; i < L::m_blocks * L::d_tiles * 4; ++i)
            o[i / (L::d_tiles * 4)][i / 4 % L::d_tiles][i % 4] = 0;
    }

    ATTUNE_DEVICE void load_q(QOperandOf<V>& q) const {
        const long long start = offset(p_.q_strides, work_.head);
        if constexpr (V::q_operand == q_in_registers) {
            q.read_global(p_.q, start, p_.q_strides.row, first_row_, p_.seqlen_q);
        } else {
            typename L::Copier copier(p_.q, start, p_.q_strides.row);
            copier.move(first_row_);
            copier.template copy<V::tile_q, false>(shared_, p_.seqlen_q - first_row_);
            q.use_shared(shared_);
        }
    }

    ATTUNE_DEVICE void store(typename L::Output& o, const typename L::Softmax& softmax) const {
        const long long row = first_row_;
        OutputTile out;
        out.row_stride = p_.o_strides.row;
        out.o = static_cast<unsigned short*>(p_.o) + offset(p_.o_strides, work_.head) +
                row * out.row_stride;
        out.rows = p_.seqlen_q - first_row_;
        out.lse = nullptr;
        if (V::write_lse)
            out.lse =
                p_.lse +
                (static_cast<long long>(work_.batch) * p_.heads_q + work_.head) * p_.seqlen_q + row;
        if constexpr (L::split_kv) {
            Merge<V>(shared_).run(o, softmax, out);
        } else {
            store_rows<L>(o, softmax, out);
        }
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

template <class V>
ATTUNE_DEVICE void attention_forward(const AttentionParams& p) {
    const SharedAddress shared = shared_base();
    const int q_tiles = (p.seqlen_q + V::tile_q - 1) / V::tile_q;
    const int heads = p.batch * p.heads_q;
    if (V::grid == grid_per_q_tile) {
        const Work work = work_of<V::section_heads>(cta_index(), q_tiles, p.heads_q, heads);
        QTile<V>(p, work, shared).run();
    } else {
        Work work = work_of<0>(cta_index(), 1, p.heads_q, heads);
        for (int q_tile = 0; q_tile < q_tiles; ++q_tile) {
            if (q_tile > 0) cta_sync();  // all are done with the shared memory of the tile before
            work.q_tile = q_tile;
            QTile<V>(p, work, shared).run();
        }
    }
}

}  // namespace attune
