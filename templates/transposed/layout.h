// The transposed way: S^T = K Q^T, then O^T = V^T P^T. A lane owns one query column of every block,
// its registers hold keys (of S and P) or columns of head_dim (of O), and P goes from accumulators
// to operand without leaving the lane. The generator's transposed_needs computes the same sizes.
#pragma once

#include "templates/common/fragments.h"
#include "templates/common/softmax.h"
#include "templates/common/tile.h"
#include "templates/transposed/atom.h"

namespace attune {

/// Scores of a lane: [block of queries][step of P V][8 keys]. The 8 of a step are what the lane
/// brings of P as operand (RDNA 3: half of it).
template <class A, int q_blocks>
struct ColumnFragments {
    static constexpr int blocks = q_blocks;
    static constexpr int elements = 8;
    static constexpr int rows = q_blocks;
    static constexpr int step_tiles = 1;
    static constexpr int row_lanes = A::row_lanes;

    ATTUNE_DEVICE static int row(int i, int lane) { return i * A::rows + lane % A::rows; }
    ATTUNE_DEVICE static constexpr int key(int step, int e) {
        const int flat = 8 * step + e;
        return flat / A::registers * A::rows + A::row(flat % A::registers);
    }
    ATTUNE_DEVICE static int lane_key(int lane) { return lane / A::rows * A::row_step; }
};

template <class V>
struct Layout {
    using Element = typename V::Element;
    using A = MatrixAtom<V::atom>;
    static constexpr bool write_lse = V::write_lse;
    static constexpr bool one_loop = V::loops == 1;
    static constexpr int threads = V::wave_size * V::warps;
    static constexpr int rows_per_warp = V::tile_q / V::warps;
    static constexpr int q_blocks = rows_per_warp / A::rows;
    static_assert(rows_per_warp % A::rows == 0, "a warp owns whole blocks of query columns");
    static_assert(V::tile_kv % A::depth == 0, "P V takes whole steps of keys");
    static_assert(V::tile_kv % A::rows == 0, "K Q^T makes whole blocks of keys");

    static constexpr int depth_chunks = A::depth / 8;  // 16-byte chunks of an operand's row, a step
    static constexpr int groups = depth_chunks / A::chunks;  // lanes / rows that differ in depth
    static constexpr int words = 4 * A::chunks;              // of a lane's operand

    // Q K^T runs over columns; O has whole pairs of row blocks, see VTile.
    static constexpr int columns = (V::head_dim + A::depth - 1) / A::depth * A::depth;
    static constexpr int d_steps = columns / A::depth;
    static constexpr int d_pairs = (V::head_dim + 2 * A::rows - 1) / (2 * A::rows);
    static constexpr int value_columns = 2 * A::rows * d_pairs;
    static constexpr int n_blocks = V::tile_kv / A::rows;    // of S^T
    static constexpr int key_steps = V::tile_kv / A::depth;  // of P V

    /// K as it comes: rows are keys.
    using KTile = SharedTile<columns, V::bank_groups>;
    /// V transposed: rows are columns of V. Row block 2 m holds the even columns of 2 rows m .. ,
    /// row block 2 m + 1 the odd ones, so that a lane's O has neighbours to store as one word.
    /// Chunk c holds the 8 keys that group c % depth_chunks brings of P in step c / depth_chunks.
    using VTile = SharedTile<V::tile_kv, V::bank_groups>;
    static constexpr int k_bytes = KTile::bytes(V::tile_kv);
    static constexpr int v_bytes = VTile::bytes(value_columns);
    static constexpr int stage_bytes = k_bytes + v_bytes;
    static constexpr int q_offset = V::stages * stage_bytes;  // of Q's tile, where it waits there

    using Fragments = ColumnFragments<A, q_blocks>;
    using Softmax = OnlineSoftmax<static_cast<Rescale>(V::rescale), Fragments>;
    using Scores = float[q_blocks][key_steps][8];
    using Output = float[q_blocks][2 * d_pairs][A::registers];

    /// First query of this warp inside the q-tile; every warp looks at all keys.
    ATTUNE_DEVICE static int warp_row() { return warp_index() * rows_per_warp; }
    ATTUNE_DEVICE static int warp_key() { return 0; }
    /// Chunk of an operand's row that this lane brings first in a step.
    ATTUNE_DEVICE static int lane_chunk(int lane) { return lane / A::rows % groups * A::chunks; }

    /// Element e of chunk c of a V^T row has key key_of(c) + key_in(e). Chunks without a common bit
    /// add up: key_of(c + d) is key_of(c) + key_of(d).
    ATTUNE_DEVICE static constexpr int key_of(int chunk) {
        return chunk / depth_chunks * A::depth + chunk % depth_chunks * A::row_step;
    }
    ATTUNE_DEVICE static constexpr int key_in(int e) { return Fragments::key(0, e); }
};

}  // namespace attune
