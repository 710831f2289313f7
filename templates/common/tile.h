// A tile of 16-bit rows in shared memory, swizzled so that the 8 rows of an 8x8 matrix load lie in
// 8 different 16-byte bank groups.
#pragma once

#include "target.h"

namespace attune {

/// columns: elements per row, a multiple of 16. A row is columns/8 chunks of 16 bytes; chunk c of
/// row r is stored at c XOR ((r >> shift) mod period). With the largest power of two that divides
/// the chunks as period (8 at most), rows r..r+7 of one chunk column fall into all eight bank
/// groups.
template <int columns>
struct SharedTile {
    static_assert(columns % 16 == 0, "a row is whole 16-column MMA steps");
    static constexpr int chunks = columns / 8;
    static constexpr int row_bytes = columns * 2;
    static constexpr int period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;
    static constexpr int shift = period == 8 ? 0 : period == 4 ? 1 : 2;

    ATTUNE_DEVICE static constexpr int bytes(int rows) { return rows * row_bytes; }

    ATTUNE_DEVICE static SharedAddress at(SharedAddress tile, int row, int chunk) {
        return tile + row * row_bytes + ((chunk ^ ((row >> shift) & (period - 1))) << 4);
    }

    /// From the address of (row, chunk c < 2) to that of (row, c + 2 * step): one XOR, or one
    /// constant add.
    ATTUNE_DEVICE static SharedAddress advance(SharedAddress first, int step) {
        return (first ^ (((2 * step) % period) << 4)) + (2 * step) / period * (period * 16);
    }
};

/// Copies rows from global to shared memory, 16 bytes per thread and step. Columns past head_dim
/// and rows past the tensor's end become zeros and are not read.
template <int threads, int columns, int head_dim>
struct TileCopier {
    using Tile = SharedTile<columns>;
    static_assert(threads >= Tile::chunks, "a pass covers at least one row");
    static constexpr int rows_per_pass = threads / Tile::chunks;

    const unsigned short* source;  // of this thread's row 0 and chunk
    long long row_stride;          // elements
    int row;
    int chunk;

    ATTUNE_DEVICE TileCopier(const void* base, long long offset, long long stride) {
        row = thread_index() / Tile::chunks;
        chunk = thread_index() % Tile::chunks;
        row_stride = stride;
        source = static_cast<const unsigned short*>(base) + offset + row * stride + chunk * 8;
    }

    /// Rows first_row .. first_row + rows - 1 of the tensor; those at or past row_end are zeros.
    template <int rows>
    ATTUNE_DEVICE void copy(SharedAddress tile, int first_row, int row_end) const {
        const bool column_valid = chunk * 8 < head_dim;
        const unsigned short* from = source + first_row * row_stride;
        ATTUNE_UNROLL
        for (int pass = 0; pass * rows_per_pass < rows; ++pass) {
            const int r = row + pass * rows_per_pass;
            const bool mine = row < rows_per_pass && (rows % rows_per_pass == 0 || r < rows);
            if (mine)
                cp_async_16(Tile::at(tile, r, chunk), from,
                            column_valid && first_row + r < row_end);
            from += rows_per_pass * row_stride;
        }
    }
};

}  // namespace attune
