// The producer: one thread that keeps the rings filled.
#pragma once

#include "templates/wgmma/hand_over.h"
#include "templates/wgmma/worklist.h"

namespace attune {

template <class V>
class Producer {
    using L = Layout<V>;

public:
    ATTUNE_DEVICE Producer(const TmaAttentionParams& p, SharedAddress shared)
        : p_(p), shared_(shared), barriers_(shared), hand_over_(shared) {}

    ATTUNE_DEVICE void run() {
        const AttentionParams& a = p_.attention;
        const typename L::Mask mask = L::mask(p_);
        Worklist<V> list(a, mask.packing);
        Work work;
        while (list.next(work)) {
            const int first_row = work.q_tile * V::tile_q;
            const int tiles = kv_tiles<V>(mask, first_row, V::tile_q, a.seqlen_q);
            if (tiles == 0 && !L::handed_on) continue;
            load_q(work, first_row, mask.packing);
            const int kv_head = mask.packing.first_head(work.head) / (a.heads_q / a.heads_kv);
            for (int tile = tiles - 1; tile >= 0; --tile) load_kv(work.batch, kv_head, tile);
        }
        if constexpr (L::handed_on) end();
    }

private:
    using Packing = typename L::Packing;

    ATTUNE_DEVICE void load_q(const Work& work, int first_row, const Packing& packing) {
        mbarrier_wait(barriers_.q_empty(q_.slot), q_.parity ^ 1);
        if (L::handed_on) hand_over_.put(q_.slot, work);
        mbarrier_arrive_expect(barriers_.q_full(q_.slot), L::q_bytes);
        const SharedAddress tile = shared_ + q_.slot * L::q_bytes;
        const int head = packing.first_head(work.head);
        for (int w = 0; w < L::consumers; ++w) {
            const int query = packing.query(first_row + 64 * w);
            // Packed, the heads are the map's rows.
            load<L::qk_chunks>(p_.q, tile + w * L::qk_chunks * L::q_chunk_bytes, L::q_chunk_bytes,
                               barriers_.q_full(q_.slot), L::packed ? head : query,
                               L::packed ? query : head, work.batch);
        }
        q_.next();
    }

    /// Instead of another Q.
    ATTUNE_DEVICE void end() {
        mbarrier_wait(barriers_.q_empty(q_.slot), q_.parity ^ 1);
        hand_over_.put_end(q_.slot);
        mbarrier_arrive(barriers_.q_full(q_.slot));
    }

    ATTUNE_DEVICE void load_kv(int batch, int head, int tile) {
        const int row = tile * V::tile_kv;
        mbarrier_wait(barriers_.k_empty(kv_.slot), kv_.parity ^ 1);
        mbarrier_arrive_expect(barriers_.k_full(kv_.slot), L::k_bytes);
        load<L::qk_chunks>(p_.k, shared_ + L::k_offset + kv_.slot * L::k_bytes, L::kv_chunk_bytes,
                           barriers_.k_full(kv_.slot), row, head, batch);
        mbarrier_wait(barriers_.v_empty(kv_.slot), kv_.parity ^ 1);
        mbarrier_arrive_expect(barriers_.v_full(kv_.slot), L::v_bytes);
        load<L::v_chunks>(p_.v, shared_ + L::v_offset + kv_.slot * L::v_bytes, L::kv_chunk_bytes,
                          barriers_.v_full(kv_.slot), row, head, batch);
        kv_.next();
    }

    template <int chunks>
    ATTUNE_DEVICE void load(const TensorMap& map, SharedAddress to, int chunk_bytes,
                            SharedAddress barrier, int row, int head, int batch) {
        for (int c = 0; c < chunks; ++c)
            tensor_load(to + c * chunk_bytes, map, barrier, L::chunk_columns * c, row, head, batch);
    }

    const TmaAttentionParams& p_;
    SharedAddress shared_;
    Barriers<V> barriers_;
    HandOver<V> hand_over_;
    Cursor<V::q_stages> q_;
    Cursor<V::stages> kv_;
};

}  // namespace attune
