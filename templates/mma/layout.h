// What follows from a variant's fields: how tiles are cut, and where they lie in shared memory.
// The generator's mma_needs computes the same sizes.
#pragma once

#include "templates/common/softmax.h"
#include "templates/common/tile.h"
#include "templates/mma/copier.h"

namespace attune {

enum Partition { warps_over_q = 0, warps_over_kv = 1 };
enum Grid { grid_per_q_tile = 0, grid_per_head = 1 };

template <class V>
struct Layout {
    using Element = typename V::Element;
    static constexpr int value_dim = V::head_dim_v;
    static constexpr bool write_lse = V::write_lse;
    static constexpr bool one_loop = false;
    static constexpr int threads = 32 * V::warps;
    static constexpr int columns = (V::head_dim + 15) / 16 * 16;
    static constexpr bool split_kv = V::partition == warps_over_kv;
    static constexpr int rows_per_warp = split_kv ? V::tile_q : V::tile_q / V::warps;
    static constexpr int keys_per_warp = split_kv ? V::tile_kv / V::warps : V::tile_kv;
    static_assert(rows_per_warp % 16 == 0, "a warp owns whole 16-row MMA blocks");
    static_assert(keys_per_warp % 16 == 0, "a warp multiplies whole 16-key MMA steps");

    static constexpr int m_blocks = rows_per_warp / 16;
    static constexpr int n_tiles = keys_per_warp / 8;     // of S
    static constexpr int d_tiles = columns / 8;           // of O
    static constexpr int d_steps = columns / 16;          // of Q K^T
    static constexpr int key_steps = keys_per_warp / 16;  // of P V

    using Tile = SharedTile<columns>;
    using Copier = TileCopier<threads, columns, V::head_dim>;
    static constexpr int q_bytes = V::q_operand == q_in_shared ? Tile::bytes(V::tile_q) : 0;
    static constexpr int stage_bytes = Tile::bytes(V::tile_kv);
    static constexpr int k_offset = q_bytes;
    static constexpr int v_offset = k_offset + V::stages * stage_bytes;
    static constexpr int barrier_offset = v_offset + V::stages * stage_bytes;

    using Fragments = QuadFragments<m_blocks>;
    using Softmax = OnlineSoftmax<static_cast<Rescale>(V::rescale), Fragments>;
    using Scores = float[m_blocks][n_tiles][4];
    using Output = float[m_blocks][d_tiles][4];

    /// First query row of this warp inside the q-tile, and first key inside a kv tile.
    ATTUNE_DEVICE static int warp_row() { return split_kv ? 0 : warp_index() * rows_per_warp; }
    ATTUNE_DEVICE static int warp_key() { return split_kv ? warp_index() * keys_per_warp : 0; }
};

}  // namespace attune
