// V transposed, for operands that lie along the depth alone: the producer's warps 1 .. 3 take each
// tile as it was loaded, [keys][columns], and leave [columns][keys] of one byte.
#pragma once

#include "templates/wgmma/worklist.h"

namespace attune {

/// A block is 32 keys x 16 columns: one load and one store of four 8 x 16-byte matrices. The keys
/// of each 16 come in the order of ElementTraits::fragment_word: place 4 c + i has key 2 c + i, and
/// 8 + 2 c + i - 2 for i >= 2. That is how the pairs lie in registers already. A warp takes strips
/// of 16 columns, all keys of the tile; from block to block addresses differ by constants, and
/// where the swizzle is in them by an XOR.
template <class V>
class Transposer {
    using L = Layout<V>;
    static constexpr int key_blocks = V::tile_kv / 32, strips = L::columns / 16;
    static constexpr int in_flight = 2;

public:
    ATTUNE_DEVICE Transposer(const TmaAttentionParams& p, SharedAddress shared)
        : p_(p),
          barriers_(shared),
          from_(shared + L::v_offset + source()),
          to_(shared + L::transposed_offset + target()) {}

    ATTUNE_DEVICE void run() {
        static_assert(!L::handed_on && !L::packed,
                      "the generator refuses both for one-byte operands");
        const typename L::Mask mask = L::mask(p_);
        Worklist<V> list(p_.attention, mask.packing);
        Work work;
        while (list.next(work)) {
            const int first_row = work.q_tile * V::tile_q;
            const int tiles = kv_tiles<V>(mask, first_row, V::tile_q, p_.attention.seqlen_q);
            for (int i = 0; i < tiles; ++i) transpose_tile();
        }
    }

private:
    ATTUNE_DEVICE void transpose_tile() {
        mbarrier_wait(barriers_.v_full(slot_.slot), slot_.parity);
        mbarrier_wait(barriers_.pv_empty(slot_.slot), slot_.parity ^ 1);
        for (int strip = warp_index() - 1; strip < strips; strip += L::transposing_warps)
            transpose_strip((from_ ^ (strip % 8 << 4)) + slot_.slot * L::v_bytes +
                                strip / 8 * L::kv_chunk_bytes,
                            to_ + slot_.slot * L::transposed_bytes + strip * 16 * 128);
        fence_async();  // wgmma reads what was stored, and the next load overwrites what was read
        warp_sync();
        if (lane_index() == 0) {
            mbarrier_arrive(barriers_.pv_full(slot_.slot));
            mbarrier_arrive(barriers_.v_empty(slot_.slot));
        }
        slot_.next();
    }

    ATTUNE_DEVICE static void transpose_strip(SharedAddress from, SharedAddress to) {
        ATTUNE_UNROLL
        for (int first = 0; first < key_blocks; first += in_flight) {
            unsigned x[in_flight][4];
            ATTUNE_UNROLL
            for (int i = 0; i < in_flight && first + i < key_blocks; ++i)
                ldmatrix_x4_trans(x[i], from + (first + i) * 32 * 128);
            ATTUNE_UNROLL
            for (int i = 0; i < in_flight && first + i < key_blocks; ++i) {
                const int block = first + i;
                store((to ^ (block % 4 << 5)) + block / 4 * L::transposed_chunk_bytes, x[i]);
            }
        }
    }

    /// The 16 bytes that this lane gives to ldmatrix, in block 0 of strip 0: a key's.
    ATTUNE_DEVICE static int source() {
        const int lane = lane_index();
        return lane * 128 + (lane % 8 << 4);
    }

    /// The 16 bytes that this lane gives to stmatrix: a column's. Lane l / 4 has the pair of
    /// columns 2 (l / 4) and + 1. Matrices 0 and 2 take the even one from lanes 0 .. 15 and the odd
    /// one from the others, 1 and 3 the other way round: eight rows of a matrix that differ modulo
    /// 8 lie in different banks. Matrices 2 and 3 are the second 16 keys.
    ATTUNE_DEVICE static int target() {
        const int lane = lane_index(), row = lane % 8, matrix = lane / 8;
        const int column = 2 * row + (row / 4 ^ matrix % 2);
        return column * 128 + ((matrix / 2 ^ column % 8) << 4);
    }

    ATTUNE_DEVICE static void store(SharedAddress at, const unsigned (&x)[4]) {
        constexpr unsigned even = 0x6420, odd = 0x7531;  // bytes of two words: of one column
        const unsigned first = lane_index() < 16 ? even : odd, second = first ^ even ^ odd;
        const unsigned columns[4] = {
            byte_permute(x[0], x[1], first), byte_permute(x[0], x[1], second),
            byte_permute(x[2], x[3], first), byte_permute(x[2], x[3], second)};
        stmatrix_x4(at, columns);
    }

    const TmaAttentionParams& p_;
    Barriers<V> barriers_;
    SharedAddress from_, to_;
    Cursor<V::stages> slot_;
};

}  // namespace attune
