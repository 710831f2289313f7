// What follows from a variant's fields in the wgmma family: how tiles are cut, where they lie in
// shared memory, and what guards them. The generator's wgmma_needs computes the same sizes.
#pragma once

#include "templates/abi.h"
#include "templates/common/cursor.h"
#include "templates/common/element.h"
#include "templates/common/mask.h"
#include "templates/common/softmax.h"

namespace attune {

enum Schedule { cta_per_tile = 0, persistent = 1, dynamic = 2 };

template <class V>
struct Layout {
    using Operand = typename V::Element;  // of Q, K, V and P
    using Traits = ElementTraits<Operand>;
    using Element = typename Traits::Output;  // of O
    static constexpr int value_dim = V::head_dim_v;
    static constexpr bool write_lse = V::write_lse;
    static constexpr int consumers = V::tile_q / 64;  // warpgroups of 64 query rows
    static_assert(V::tile_q % 64 == 0, "a consumer warpgroup owns 64 query rows");
    static constexpr int step = 32 / sizeof(Operand);  // depth of an MMA
    static_assert(V::tile_kv % step == 0, "P V takes whole steps of keys");

    static constexpr int depth = (V::head_dim + step - 1) / step * step;  // of Q K^T
    static constexpr int columns = (V::head_dim_v + 15) / 16 * 16;        // of V and O
    // 128-byte rows. Narrower ones come padded with zeros: all operands have one swizzle.
    static constexpr int chunk_columns = 128 / sizeof(Operand);
    static constexpr int qk_chunks = (depth + chunk_columns - 1) / chunk_columns;
    static constexpr int v_chunks = (columns + chunk_columns - 1) / chunk_columns;
    static constexpr int m_blocks = 1;
    static constexpr int n_tiles = V::tile_kv / 8;  // of S
    static constexpr int d_tiles = columns / 8;     // of O
    static constexpr int d_steps = depth / step;    // of Q K^T
    static constexpr int key_steps = V::tile_kv / step;
    // Operands of one byte lie along the depth alone: V has to be transposed.
    static constexpr bool transposes = sizeof(Operand) == 1;
    static constexpr int transposing_warps = 3;
    // Columns of P V whose MMAs have accumulators of their own for a tile; 0: they add to O.
    static constexpr int apart = V::apart_columns < columns ? V::apart_columns : columns;

    // Rings of Q [stage][warpgroup][chunk][64 rows], of K and of V [stage][chunk][tile_kv rows],
    // and of V transposed [stage][chunk of 128 keys][columns].
    static constexpr int q_chunk_bytes = 64 * 128;
    static constexpr int q_bytes = consumers * qk_chunks * q_chunk_bytes;
    static constexpr int kv_chunk_bytes = V::tile_kv * 128;
    static constexpr int k_bytes = qk_chunks * kv_chunk_bytes;
    static constexpr int v_bytes = v_chunks * kv_chunk_bytes;
    static constexpr int k_offset = V::q_stages * q_bytes;
    static constexpr int v_offset = k_offset + V::stages * k_bytes;
    static constexpr int transposed_offset = v_offset + V::stages * v_bytes;
    static constexpr int transposed_chunk_bytes = columns * 128;
    static constexpr int transposed_bytes =
        transposes ? (V::tile_kv + 127) / 128 * transposed_chunk_bytes : 0;
    // Where P goes through shared memory: [warpgroup][chunk of 64 keys][64 rows].
    static constexpr int p_offset = transposed_offset + V::stages * transposed_bytes;
    static constexpr int p_bytes = V::p_shared ? (V::tile_kv + 63) / 64 * q_chunk_bytes : 0;
    static constexpr int barrier_offset = p_offset + consumers * p_bytes;
    // Where the producer tells the consumers what to work on: for each slot of Q.
    static constexpr bool handed_on = V::schedule == dynamic;
    static constexpr int work_offset =
        barrier_offset + 16 * (V::q_stages + (transposes ? 3 : 2) * V::stages);

    static constexpr bool packed = V::pack != 0;
    using Packing = attune::Packing<packed>;
    using Mask = KeyMask<V::causal, packed>;
    ATTUNE_DEVICE static Mask mask(const TmaAttentionParams& p) {
        const AttentionParams& a = p.attention;
        return {a.seqlen_kv, a.seqlen_kv - a.seqlen_q, Packing(p.pack_shift)};
    }

    // V as P V takes it, and how far on a step of it lies.
    static constexpr int pv_offset = transposes ? transposed_offset : v_offset;
    static constexpr int pv_bytes = transposes ? transposed_bytes : v_bytes;
    static constexpr int pv_leading_bytes = transposes ? 16 : kv_chunk_bytes;
    ATTUNE_DEVICE static constexpr int pv_step(int step) {
        return transposes ? step / 4 * transposed_chunk_bytes + step % 4 * 32 : step * 16 * 128;
    }

    using Fragments = QuadFragments<m_blocks, Traits::step_tiles>;
    using Softmax =
        OnlineSoftmax<static_cast<Rescale>(V::rescale), Fragments, Traits::largest_p_log2>;
    using Scores = float[m_blocks][n_tiles][4];
    using Output = float[m_blocks][d_tiles][4];

    /// Consumer warpgroup of this thread; warpgroup 0 of the CTA is the producer's.
    ATTUNE_DEVICE static int consumer() { return warp_index() / 4 - 1; }
    /// First row of this warp inside the q-tile.
    ATTUNE_DEVICE static int warp_row() { return consumer() * 64 + warp_index() % 4 * 16; }
};

/// mbarriers: full and empty of every slot of the rings. A load fills, all consumer warps empty;
/// but where V is transposed, those warps empty V and fill its copy. Fulls are waited for with the
/// parity of the lap, empties with that of the lap before.
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
    /// Of V as P V takes it.
    ATTUNE_DEVICE SharedAddress pv_full(int slot) const {
        return L::transposes ? k_full(V::stages) + 16 * slot : v_full(slot);
    }
    ATTUNE_DEVICE SharedAddress pv_empty(int slot) const { return pv_full(slot) + 8; }

    /// By all threads of the CTA.
    ATTUNE_DEVICE void init() const {
        if (thread_index() == 0) {
            constexpr int consumers = 4 * L::consumers, transposers = L::transposing_warps;
            for (int i = 0; i < V::q_stages; ++i) init_slot(q_full(i), 1, consumers);
            for (int i = 0; i < V::stages; ++i) {
                init_slot(k_full(i), 1, consumers);
                init_slot(v_full(i), 1, L::transposes ? transposers : consumers);
                if (L::transposes) init_slot(pv_full(i), transposers, consumers);
            }
            mbarrier_fence_init();
        }
        cta_sync();  // the barriers exist for all
    }

private:
    ATTUNE_DEVICE static void init_slot(SharedAddress full, int fills, int empties) {
        mbarrier_init(full, fills);
        mbarrier_init(full + 8, empties);
    }

    SharedAddress base_;
};

}  // namespace attune
