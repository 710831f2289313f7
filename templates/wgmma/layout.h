// What follows from a variant's fields in the wgmma family: how tiles are cut, where they lie in
// shared memory, and what guards them. The generator's wgmma_needs computes the same sizes.
#pragma once

#include "templates/abi.h"
#include "templates/common/cursor.h"
#include "templates/common/mask.h"
#include "templates/common/softmax.h"

namespace attune {

enum Schedule { cta_per_tile = 0, persistent = 1, dynamic = 2 };

template <class V>
struct Layout {
    using Element = typename V::Element;
    static constexpr int value_dim = V::head_dim_v;
    static constexpr bool write_lse = V::write_lse;
    static constexpr int consumers = V::tile_q / 64;  // warpgroups of 64 query rows
    static_assert(V::tile_q % 64 == 0, "a consumer warpgroup owns 64 query rows");
    static_assert(V::tile_kv % 16 == 0, "P V takes whole 16-key steps");

    static constexpr int depth = (V::head_dim + 15) / 16 * 16;      // of Q K^T
    static constexpr int columns = (V::head_dim_v + 15) / 16 * 16;  // of V and O
    // Of 64 columns, 128-byte rows.
    static constexpr int qk_chunks = (depth + 63) / 64, v_chunks = (columns + 63) / 64;
    static constexpr int m_blocks = 1;
    static constexpr int n_tiles = V::tile_kv / 8;  // of S
    static constexpr int d_tiles = columns / 8;     // of O
    static constexpr int d_steps = depth / 16;      // of Q K^T
    static constexpr int key_steps = V::tile_kv / 16;

    // Rings of Q [stage][warpgroup][chunk][64 rows], of K and of V [stage][chunk][tile_kv rows].
    static constexpr int q_chunk_bytes = 64 * 128;
    static constexpr int q_bytes = consumers * qk_chunks * q_chunk_bytes;
    static constexpr int kv_chunk_bytes = V::tile_kv * 128;
    static constexpr int k_bytes = qk_chunks * kv_chunk_bytes;
    static constexpr int v_bytes = v_chunks * kv_chunk_bytes;
    static constexpr int k_offset = V::q_stages * q_bytes;
    static constexpr int v_offset = k_offset + V::stages * k_bytes;
    static constexpr int barrier_offset = v_offset + V::stages * v_bytes;
    // Where the producer tells the consumers what to work on: for each slot of Q.
    static constexpr bool handed_on = V::schedule == dynamic;
    static constexpr int work_offset = barrier_offset + 16 * (V::q_stages + 2 * V::stages);

    static constexpr bool packed = V::pack != 0;
    using Packing = attune::Packing<packed>;
    using Mask = KeyMask<V::causal, packed>;
    ATTUNE_DEVICE static Mask mask(const TmaAttentionParams& p) {
        const AttentionParams& a = p.attention;
        return {a.seqlen_kv, a.seqlen_kv - a.seqlen_q, Packing(p.pack_shift)};
    }

    using Fragments = QuadFragments<m_blocks>;
    using Softmax = OnlineSoftmax<static_cast<Rescale>(V::rescale), Fragments>;
    using Scores = float[m_blocks][n_tiles][4];
    using Output = float[m_blocks][d_tiles][4];

    /// Consumer warpgroup of this thread; warpgroup 0 of the CTA is the producer's.
    ATTUNE_DEVICE static int consumer() { return warp_index() / 4 - 1; }
    /// First row of this warp inside the q-tile.
    ATTUNE_DEVICE static int warp_row() { return consumer() * 64 + warp_index() % 4 * 16; }
};

/// mbarriers: full and empty of every slot of the Q, K and V rings. A load fills, all consumer
/// warps empty. Fulls are waited for with the parity of the lap, empties with that of the
/// lap before.
template <class V>
class Barriers {
    using L = Layout<V>;

public:
    ATTUNE_DEVICE explicit Barriers(SharedAddress shared) : base_(shared + L::barrier_offset) {}

    ATTUNE_DEVICE SharedAddress q_full(int slot) const { return base_ + 16 * slot; }
    ATTUNE_DEVICE SharedAddress q_empty(int slot) const { return q_full(slot) + 8; }
    ATTUNE_DEVICE SharedAddress k_full(int slot) const {
        return base_ + 16 * V::q_stages + 32 * slot;
    }
    ATTUNE_DEVICE SharedAddress k_empty(int slot) const { return k_full(slot) + 8; }
    ATTUNE_DEVICE SharedAddress v_full(int slot) const { return k_full(slot) + 16; }
    ATTUNE_DEVICE SharedAddress v_empty(int slot) const { return k_full(slot) + 24; }

    /// By all threads of the CTA.
    ATTUNE_DEVICE void init() const {
        if (thread_index() == 0) {
            for (int i = 0; i < V::q_stages + 2 * V::stages; ++i) {
                mbarrier_init(base_ + 16 * i, 1);
                mbarrier_init(base_ + 16 * i + 8, 4 * L::consumers);
            }
            mbarrier_fence_init();
        }
        cta_sync();  // the barriers exist for all
    }

private:
    SharedAddress base_;
};

}  // namespace attune
