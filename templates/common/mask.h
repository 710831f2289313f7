// Which keys a row of Q attends, and which kv tiles need looking at single scores.
#pragma once

#include "templates/common/fragments.h"
#include "templates/common/packing.h"

namespace attune {

/// Keys of row r: j < key_end(r). Causal is bottom-right aligned: query i attends j <= i +
/// seqlen_kv - seqlen_q.
template <bool causal, bool packed = false>
struct KeyMask {
    int seqlen_kv;
    int diagonal;  // seqlen_kv - seqlen_q
    Packing<packed> packing{};

    ATTUNE_DEVICE int key_end(int row) const {
        if (!causal) return seqlen_kv;
        const int end = packing.query(row) + diagonal + 1;
        return end < seqlen_kv ? end : seqlen_kv;
    }
    /// kv tiles that hold a key some row up to last_row attends.
    ATTUNE_DEVICE int tiles(int last_row, int tile_kv) const {
        const int end = key_end(last_row);
        return end > 0 ? (end + tile_kv - 1) / tile_kv : 0;
    }
    /// Leading kv tiles that every row from first_row on attends whole, less the one that holds
    /// the last key of first_row: the tiles after them hold a key of every such row.
    ATTUNE_DEVICE int whole_tiles(int first_row, int tile_kv) const {
        const int end = key_end(first_row);
        return end > 0 ? (end - 1) / tile_kv : 0;
    }
};

/// Scores at or past their row's key end become -inf. first_row, first_key: of this warp.
template <class F, class Mask, int tiles>
ATTUNE_DEVICE void mask_scores(float (&s)[F::blocks][tiles][F::elements], const Mask& mask,
                               int first_row, int first_key) {
    constexpr int block_rows = F::rows / F::blocks, width = F::elements / block_rows;
    const int lane = lane_index();
    ATTUNE_UNROLL
    for (int i = 0; i < F::rows; ++i) {
        const int end = mask.key_end(first_row + F::row(i, lane)) - first_key - F::lane_key(lane);
        ATTUNE_UNROLL
        for (int j = 0; j < tiles * width; ++j) {
            const int e = i % block_rows * width + j % width;
            if (F::key(j / width, e) >= end) s[i / block_rows][j / width][e] = -infinity();
        }
    }
}

}  // namespace attune
