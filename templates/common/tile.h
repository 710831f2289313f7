// A tile of 16-bit rows in shared memory, swizzled so that the rows that are read together, as many
// as there are 16-byte groups of banks, lie in different ones.
#pragma once

#include "target.h"

namespace attune {

/// Where Q waits for its products.
enum QOperand { q_in_shared = 0, q_in_registers = 1 };

/// columns: elements per row, a multiple of 16. A row is columns/8 chunks of 16 bytes; chunk c of
/// row r is stored at c XOR ((r >> shift) mod period), or nearly so. With the largest power of two
/// that divides the chunks as period (bank_groups at most), as many rows of one chunk column as
/// there are bank groups fall into all of them.
template <int columns, int bank_groups = 8>
struct SharedTile {
    static_assert(columns % 16 == 0, "a row is whole 16-column MMA steps");
    static constexpr int chunks = columns / 8;
    static constexpr int row_bytes = columns * 2;
    static constexpr int power = chunks & -chunks;  // the largest that divides them
    static constexpr int period = power < bank_groups ? power : bank_groups;
    static constexpr int rows_per_line = bank_groups / period;  // rows that one XOR value serves
    static constexpr int shift = rows_per_line == 1   ? 0
                                 : rows_per_line == 2 ? 1
                                 : rows_per_line == 4 ? 2
                                                      : 3;
    static constexpr int swizzle_rows = bank_groups;  // after so many rows it comes again

    ATTUNE_DEVICE static constexpr int bytes(int rows) { return rows * row_bytes; }

    /// What chunks of this row are XORed with. Sixteen groups are read from but, it seems, written
    /// to by halves: so that eight neighbouring rows lie in different groups of eight too, and four
    /// rows of a chunk and the other four of the next in different ones of sixteen.
    ATTUNE_DEVICE static int swizzle(int row) {
        const int line = row >> shift & (period - 1);
        if constexpr (bank_groups == 8 || shift == 0)
            return line;
        else if constexpr (period == 4)
            return ((line & 1) << 1) ^ (line >> 1) * 3 ^ (row >> 1 & 1);
        else
            return line ^ (row >> (shift - 1) & 1) * (period / 2);
    }

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
