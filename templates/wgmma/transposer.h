// V transposed, for operands that lie along the depth alone: the producer's warps 1 .. 3 take each
// tile as it was loaded, [keys][columns], and leave [columns][keys] of one byte.
#pragma once

#include "templates/wgmma/worklist.h"

namespace attune {

/// A block is 32 keys x 16 columns: one load and one store of four 8 x 16-byte matrices. The keys
/// of each 16 come in the order of ElementTraits::fragment_word: place 4 c + i has key 2 c + i, and
/// 8 + 2 c + i - 2 for i >= 2. That is how the pairs lie in registers already.
template <class V>
class Transposer {
    using L = Layout<V>;
    static constexpr int key_blocks = V::tile_kv / 32;
    static constexpr int blocks = key_blocks * (L::columns / 16);
    static constexpr int in_flight = 2;

public:
    ATTUNE_DEVICE Transposer(const AttentionParams& p, SharedAddress shared)
        : p_(p), barriers_(shared), v_(shared + L::v_offset), to_(shared + L::transposed_offset) {}

    ATTUNE_DEVICE void run() {
        const KeyMask<V::causal> mask{p_.seqlen_kv, p_.seqlen_kv - p_.seqlen_q};
        Worklist<V> list(p_);
        Work work;
        while (list.next(work)) {
            const int first_row = work.q_tile * V::tile_q;
            const int tiles = kv_tiles<V>(mask, first_row, V::tile_q, p_.seqlen_q);
            for (int i = 0; i < tiles; ++i) transpose_tile();
        }
    }

private:
    ATTUNE_DEVICE void transpose_tile() {
        mbarrier_wait(barriers_.v_full(slot_.slot), slot_.parity);
        mbarrier_wait(barriers_.pv_empty(slot_.slot), slot_.parity ^ 1);
        const SharedAddress from = v_ + slot_.slot * L::v_bytes;
        const SharedAddress to = to_ + slot_.slot * L::transposed_bytes;
        for (int first = warp_index() - 1; first < blocks;
             first += in_flight * L::transposing_warps) {
            unsigned x[in_flight][4];
            ATTUNE_UNROLL
            for (int i = 0; i < in_flight; ++i) {
                const int block = first + i * L::transposing_warps;
                if (block < blocks) ldmatrix_x4_trans(x[i], from + source(block));
            }
            ATTUNE_UNROLL
            for (int i = 0; i < in_flight; ++i) {
                const int block = first + i * L::transposing_warps;
                if (block < blocks) store(to + target(block), x[i]);
            }
        }
        fence_async();  // wgmma reads what was stored, and the next load overwrites what was read
        warp_sync();
        if (lane_index() == 0) {
            mbarrier_arrive(barriers_.pv_full(slot_.slot));
            mbarrier_arrive(barriers_.v_empty(slot_.slot));
        }
        slot_.next();
    }

    /// The 16 bytes that this lane gives to ldmatrix: a key's.
    ATTUNE_DEVICE static int source(int block) {
        const int lane = lane_index(), column = block / key_blocks;  // of 16
        const int key = block % key_blocks * 32 + lane;
        return column / 8 * L::kv_chunk_bytes + key * 128 + ((column % 8 ^ lane % 8) << 4);
    }

    /// The 16 bytes that this lane gives to stmatrix: a column's. Lane l / 4 has the pair of
    /// columns 2 (l / 4) and + 1. Matrices 0 and 2 take the even one from lanes 0 .. 15 and the odd
    /// one from the others, 1 and 3 the other way round: eight rows of a matrix that differ modulo
    /// 8 lie in different banks.
    ATTUNE_DEVICE static int target(int block) {
        const int lane = lane_index(), row = lane % 8, matrix = lane / 8;
        const int column = 2 * row + (row / 4 ^ matrix % 2);
        const int keys = block % key_blocks * 2 + matrix / 2;  // of 16
        return keys / 8 * L::transposed_chunk_bytes + (block / key_blocks * 16 + column) * 128 +
               ((keys % 8 ^ column % 8) << 4);
    }

    ATTUNE_DEVICE static void store(SharedAddress at, const unsigned (&x)[4]) {
        constexpr unsigned even = 0x6420, odd = 0x7531;  // bytes of two words: of one column
        const unsigned first = lane_index() < 16 ? even : odd, second = first ^ even ^ odd;
        const unsigned columns[4] = {
            byte_permute(x[0], x[1], first), byte_permute(x[0], x[1], second),
            byte_permute(x[2], x[3], first), byte_permute(x[2], x[3], second)};
        stmatrix_x4(at, columns);
    }

    const AttentionParams& p_;
    Barriers<V> barriers_;
    SharedAddress v_, to_;
    Cursor<V::stages> slot_;
};

}  // namespace attune
