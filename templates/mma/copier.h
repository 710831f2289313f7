// Tiles of rows copied by cp.async.
#pragma once

#include "templates/common/tile.h"

namespace attune {

/// Copies tiles of rows from global to shared memory, 16 bytes per thread and step. Columns past
/// head_dim and rows past the tensor's end become zeros and are not read.
template <int threads, int columns, int head_dim>
class TileCopier {
    using Tile = SharedTile<columns>;
    static_assert(threads >= Tile::chunks, "a pass covers at least one row");
    static constexpr int rows_per_pass = threads / Tile::chunks;
    static constexpr bool all_copy = threads % Tile::chunks == 0;
    // Passes this far apart see the same swizzle: one address and constants serve all.
    static constexpr bool same_swizzle = rows_per_pass % Tile::swizzle_rows == 0;

public:
    /// `offset` elements from `base` lies the first row of a tile that first_row will count from.
    ATTUNE_DEVICE TileCopier(const void* base, long long offset, long long stride) {
        row_ = thread_index() / Tile::chunks;
        chunk_ = thread_index() % Tile::chunks;
        stride_ = stride;
        from_ = static_cast<const unsigned short*>(base) + offset + row_ * stride + chunk_ * 8;
    }

    /// Moves on (or back) by so many rows.
    ATTUNE_DEVICE void move(int rows) { from_ += rows * stride_; }

    /// Copies `rows` rows from where it stands, of which `valid_rows` exist; `whole`: all do.
    template <int rows, bool whole>
    ATTUNE_DEVICE void copy(SharedAddress tile, int valid_rows) const {
        const bool column_valid = columns == head_dim || chunk_ * 8 < head_dim;
        const SharedAddress first = Tile::at(tile, row_, chunk_);
        ATTUNE_UNROLL
        for (int pass = 0; pass * rows_per_pass < rows; ++pass) {
            const int r = row_ + pass * rows_per_pass;
            const SharedAddress to = same_swizzle ? first + pass * rows_per_pass * Tile::row_bytes
                                                  : Tile::at(tile, r, chunk_);
            const bool mine =
                (all_copy || row_ < rows_per_pass) && (rows % rows_per_pass == 0 || r < rows);
            if (mine)
                cp_async_16(to, from_ + pass * rows_per_pass * stride_,
                            column_valid && (whole || r < valid_rows));
        }
    }

private:
    const unsigned short* from_;  // this thread's row and chunk of the tile to be copied
    long long stride_;            // elements
    int row_;
    int chunk_;
};

}  // namespace attune
