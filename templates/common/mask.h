// Which keys a query row attends, and which kv tiles need looking at single scores.
#pragma once

#include "target.h"

namespace attune {

/// Keys of query row i: j < key_end(i). Causal is bottom-right aligned: j <= i + seqlen_kv -
/// seqlen_q.
template <bool causal>
struct KeyMask {
    int seqlen_kv;
    int diagonal;  // seqlen_kv - seqlen_q

    ATTUNE_DEVICE int key_end(int query) const {
        if (!causal) return seqlen_kv;
        const int end = query + diagonal + 1;
        return end < seqlen_kv ? end : seqlen_kv;
    }
    /// kv tiles that hold a key some row of first_query .. last_query attends.
    ATTUNE_DEVICE int tiles(int last_query, int tile_kv) const {
        const int end = key_end(last_query);
        return end > 0 ? (end + tile_kv - 1) / tile_kv : 0;
    }
    /// Leading kv tiles that every row from first_query on attends whole, less the one that holds
    /// the last key of first_query: the tiles after them hold a key of every such row.
    ATTUNE_DEVICE int whole_tiles(int first_query, int tile_kv) const {
        const int end = key_end(first_query);
        return end > 0 ? (end - 1) / tile_kv : 0;
    }
};

/// Scores at or past their row's key end become -inf. first_query, first_key: of this warp. L is a
/// family's layout: Scores, m_blocks, n_tiles.
template <class L, class Mask>
ATTUNE_DEVICE void mask_scores(typename L::Scores& s, const Mask& mask, int first_query,
                               int first_key) {
    const int lane = lane_index();
    ATTUNE_UNROLL
    for (int i = 0; i < 2 * L::m_blocks; ++i) {
        const int b = i / 2, half = i % 2;
        const int query = first_query + 16 * b + lane / 4 + 8 * half;
        const int end = mask.key_end(query) - first_key - 2 * (lane % 4);
        ATTUNE_UNROLL
        for (int j = 0; j < 2 * L::n_tiles; ++j)
            if (8 * (j / 2) + j % 2 >= end) s[b][j / 2][2 * half + j % 2] = -infinity();
    }
}

}  // namespace attune
