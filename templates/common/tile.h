// A tile of 16-bit rows in shared memory, swizzled so that the 8 rows of an 8x8 matrix load lie in
// 8 different 16-byte bank groups.
#pragma once

#include "target.h"

namespace attune {

/// Where Q waits for its products.
enum QOperand { q_in_shared = 0, q_in_registers = 1 };

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
    static constexpr int swizzle_rows = period << shift;  // after so many rows it comes again

    ATTUNE_DEVICE static constexpr int bytes(int rows) { return rows * row_bytes; }

    /// What chunks of this row are XORed with.
    ATTUNE_DEVICE static int swizzle(int row) { return (row >> shift) & (period - 1); }

    ATTUNE_DEVICE static SharedAddress at(SharedAddress tile, int row, int chunk) {
        return tile + row * row_bytes + ((chunk ^ swizzle(row)) << 4);
    }

    /// From the address of (row, chunk c < period) to that of (row, c + more), where c and more
    /// have no bit in common: one XOR, or one constant add.
    ATTUNE_DEVICE static SharedAddress advance(SharedAddress first, int more) {
        return (first ^ ((more % period) << 4)) + more / period * (period * 16);
    }
};

}  // namespace attune
