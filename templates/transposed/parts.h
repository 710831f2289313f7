// What one thread brings of a tile: from global memory into registers, from there to shared memory.
#pragma once

#include "templates/transposed/layout.h"

namespace attune {

/// One thread's part of a tile of `rows` rows of Q or K: 16-byte chunks, and where they go.
template <class V, int rows>
class RowPart {
    using L = Layout<V>;
    using Tile = typename L::KTile;
    static constexpr int total = rows * Tile::chunks;
    static constexpr int count = (total + L::threads - 1) / L::threads;

public:
    template <bool whole>
    ATTUNE_DEVICE void load(const unsigned short* from, long long stride, int valid_rows) {
        ATTUNE_UNROLL
        for (int i = 0; i < count; ++i) {
            const int at = thread_index() + i * L::threads;
            const int row = at / Tile::chunks, chunk = at % Tile::chunks;
            const bool there = (total % L::threads == 0 || at < total) &&
                               (whole || row < valid_rows) &&
                               (L::columns == V::head_dim || 8 * chunk < V::head_dim);
            data_[i] = there ? load_global_128(from + row * stride + 8 * chunk) : U128{};
        }
    }
    ATTUNE_DEVICE void store(SharedAddress tile) const {
        ATTUNE_UNROLL
        for (int i = 0; i < count; ++i) {
            const int at = thread_index() + i * L::threads;
            if (total % L::threads == 0 || at < total)
                store_shared_128(Tile::at(tile, at / Tile::chunks, at % Tile::chunks), data_[i]);
        }
    }

private:
    U128 data_[count];
};

template <class V>
using KPart = RowPart<V, V::tile_kv>;

/// One thread's part of a V tile: two neighbouring columns of 8 keys, which become a chunk of two
/// rows of V^T.
template <class V>
class VPart {
    using L = Layout<V>;
    using Tile = typename L::VTile;
    static constexpr int pairs = L::value_columns / 2;
    static constexpr int total = pairs * Tile::chunks;
    static constexpr int count = (total + L::threads - 1) / L::threads;

public:
    template <bool whole>
    ATTUNE_DEVICE void load(const unsigned short* from, long long stride, int valid_rows) {
        ATTUNE_UNROLL
        for (int i = 0; i < count; ++i) {
            const int at = thread_index() + i * L::threads;
            const int pair = at % pairs, chunk = at / pairs;
            const bool column_there = (total % L::threads == 0 || at < total) &&
                                      (2 * pairs == V::head_dim || 2 * pair < V::head_dim);
            ATTUNE_UNROLL
            for (int e = 0; e < 8; ++e) {
                const int key = L::key_of(chunk, e);
                const bool there = column_there && (whole || key < valid_rows);
                data_[i][e] = there ? load_global_32(from + key * stride + 2 * pair) : 0u;
            }
        }
    }
    ATTUNE_DEVICE void store(SharedAddress tile) const {
        ATTUNE_UNROLL
        for (int i = 0; i < count; ++i) {
            const int at = thread_index() + i * L::threads;
            if (total % L::threads != 0 && at >= total) continue;
            const int pair = at % pairs, chunk = at / pairs;
            const int row = pair / L::A::rows * 2 * L::A::rows + pair % L::A::rows;
            const unsigned(&x)[8] = data_[i];
            store_shared_128(Tile::at(tile, row, chunk),
                             U128{low_halves(x[0], x[1]), low_halves(x[2], x[3]),
                                  low_halves(x[4], x[5]), low_halves(x[6], x[7])});
            store_shared_128(Tile::at(tile, row + L::A::rows, chunk),
                             U128{high_halves(x[0], x[1]), high_halves(x[2], x[3]),
                                  high_halves(x[4], x[5]), high_halves(x[6], x[7])});
        }
    }

private:
    unsigned data_[count][8];
};

}  // namespace attune
