// How a warp's rows of S and O lie in registers: element [block][tile][e] of a thread. Softmax and
// mask are written for any such layout F:
//   blocks, elements      S and P of a thread are float[blocks][tiles][elements]
//   rows                  of a thread; an equal share of each block's elements belongs to each
//   step_tiles            tiles that one step of P V takes
//   row_lanes             lanes whose numbers differ only in these bits hold parts of the same rows
//   row(i, lane)          the thread's i-th row inside the warp's
//   key(tile, e)          key of an element inside the warp's, less
//   lane_key(lane)        what the lane adds
#pragma once

#include "target.h"

namespace attune {

/// Accumulators of m16n8 MMAs. PTX ISA, "Matrix fragments for mma.m16n8k16".
template <int m_blocks, int tiles_of_step = 2>
struct QuadFragments {
    static constexpr int blocks = m_blocks;
    static constexpr int elements = 4;
    static constexpr int rows = 2 * m_blocks;
    static constexpr int step_tiles = tiles_of_step;
    static constexpr int row_lanes = 3;

    ATTUNE_DEVICE static int row(int i, int lane) { return 16 * (i / 2) + lane / 4 + 8 * (i % 2); }
    ATTUNE_DEVICE static constexpr int key(int tile, int e) { return 8 * tile + e % 2; }
    ATTUNE_DEVICE static int lane_key(int lane) { return 2 * (lane % 4); }
};

/// Which of a thread's rows element e of a block belongs to, in tiles of so many elements.
template <class F>
ATTUNE_DEVICE constexpr int row_of(int block, int e, int elements) {
    constexpr int block_rows = F::rows / F::blocks;
    return block_rows * block + e * block_rows / elements;
}

/// Reduces over the lanes that share a row.
template <class F>
ATTUNE_DEVICE float row_max(float v) {
    ATTUNE_UNROLL
    for (int bit = 1; bit < 64; bit *= 2)
        if (F::row_lanes & bit) v = max_f32(v, shuffle_xor(v, bit));
    return v;
}
template <class F>
ATTUNE_DEVICE float row_sum(float v) {
    ATTUNE_UNROLL
    for (int bit = 1; bit < 64; bit *= 2)
        if (F::row_lanes & bit) v += shuffle_xor(v, bit);
    return v;
}

}  // namespace attune
