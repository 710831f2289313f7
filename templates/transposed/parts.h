// What one thread brings of a tile: from global memory into registers, from there to shared memory.
#pragma once

#include "templates/transposed/layout.h"

namespace attune {

/// Element i of a thread where `threads` threads walk `major` rows of `minor` places: the minor and
/// the major coordinate, each a part of the thread's own plus a constant, of no common bit.
template <int threads, int minor, int major>
struct Walk {
    static constexpr int total = minor * major;
    static constexpr int count = (total + threads - 1) / threads;  // elements of a thread
    static constexpr bool rows = threads % minor == 0;             // a thread stays in its column
    static constexpr bool columns = minor % threads == 0;          // or in its row, for a while
    static constexpr int laps = columns ? minor / threads : 1;

    /// Whether element i is one: the last lap may be a part of one.
    ATTUNE_DEVICE static bool inside(int i) {
        return total % threads == 0 || thread_index() + i * threads < total;
    }
    ATTUNE_DEVICE static int own_minor(int i) {
        return columns ? thread_index() : (thread_index() + own_offset(i)) % minor;
    }
    ATTUNE_DEVICE static int own_major(int i) {
        return columns ? 0 : (thread_index() + own_offset(i)) / minor;
    }
    ATTUNE_DEVICE static constexpr int more_minor(int i) {
        return columns ? i % laps * threads : 0;
    }
    ATTUNE_DEVICE static constexpr int more_major(int i) {
        return rows ? i * (threads / minor) : columns ? i / laps : 0;
    }

private:
    ATTUNE_DEVICE static constexpr int own_offset(int i) { return rows ? 0 : i * threads; }
};

/// Rows of Q, K or V of one head.
struct RowSource {
    const void* base;
    long long offset;  // elements, of row 0
    long long stride;

    ATTUNE_DEVICE GlobalWindow window(int row) const {
        return global_window(static_cast<const unsigned short*>(base) + offset + row * stride);
    }
    ATTUNE_DEVICE unsigned row_bytes() const { return static_cast<unsigned>(2 * stride); }
};

/// One thread's part of a tile of `tile_rows` rows of Q or K: 16-byte chunks that wait in
/// registers.
template <class V, int tile_rows>
class RowPart {
    using L = Layout<V>;
    using Tile = typename L::KTile;
    using Place = Walk<L::threads, Tile::chunks, tile_rows>;

public:
    /// The rows of a window of which valid_rows exist; `whole`: all do.
    template <bool whole>
    ATTUNE_DEVICE void load(SharedAddress, const GlobalWindow& from, unsigned row_bytes,
                            int valid_rows) {
        ATTUNE_UNROLL
        for (int i = 0; i < Place::count; ++i) {
            const int row = Place::own_major(i), chunk = Place::own_minor(i);
            const bool there =
                Place::inside(i) && (whole || row + Place::more_major(i) < valid_rows) &&
                (L::columns == V::head_dim || 8 * (chunk + Place::more_minor(i)) < V::head_dim);
            data_[i] =
                load_window_128(from, there ? row * row_bytes + 16 * chunk : outside_window,
                                Place::more_major(i) * row_bytes + 16 * Place::more_minor(i));
        }
    }
    ATTUNE_DEVICE void store(SharedAddress tile) const {
        ATTUNE_UNROLL
        for (int i = 0; i < Place::count; ++i) {
            const int row = Place::own_major(i), more = Place::more_major(i);
            const SharedAddress own =
                more % Tile::swizzle_rows == 0
                    ? Tile::at(tile, row, Place::own_minor(i))
                    : Tile::at(tile, row + more, Place::own_minor(i)) - more * Tile::row_bytes;
            if (Place::inside(i))
                store_shared_128(Tile::advance(own, Place::more_minor(i)) + more * Tile::row_bytes,
                                 data_[i]);
        }
    }

private:
    U128 data_[Place::count];
};

/// One thread's part of a tile of K that goes directly to shared memory. There a wave's bytes lie
/// side by side, so that it is their source that is swizzled. Keys that are not there are not
/// written as zeros: their scores are masked.
template <class V>
class DirectPart {
    using L = Layout<V>;
    using Tile = typename L::KTile;
    static constexpr int bytes = V::direct_bytes;  // of a lane and copy
    static constexpr int pieces = 16 / bytes;      // of a chunk
    using Place = Walk<L::threads, Tile::row_bytes / bytes, V::tile_kv>;
    static_assert(L::columns == V::head_dim, "no column is left without a source");
    static_assert(Place::total % V::wave_size == 0, "a copy is a whole wave's");

public:
    template <bool whole>
    ATTUNE_DEVICE void load(SharedAddress tile, const GlobalWindow& from, unsigned row_bytes,
                            int valid_rows) {
        ATTUNE_UNROLL
        for (int i = 0; i < Place::count; ++i) {
            if (!Place::inside(i)) continue;
            const int row = Place::own_major(i), more = Place::more_major(i);
            const int piece = Place::own_minor(i);
            const int swizzle =
                Tile::swizzle(more % Tile::swizzle_rows == 0 ? row : row + more) * pieces;
            const bool there = whole || row + more < valid_rows;
            copy_window_to_shared<bytes>(
                tile + (warp_index() * V::wave_size + i * L::threads) * bytes, from,
                there ? row * row_bytes + (piece ^ swizzle) * bytes : outside_window,
                more * row_bytes + Place::more_minor(i) * bytes);
        }
    }
    ATTUNE_DEVICE void store(SharedAddress) const { wait_window_copies(); }
};

template <class V, bool direct>
struct KPartOf {
    using Type = RowPart<V, V::tile_kv>;
};
template <class V>
struct KPartOf<V, true> {
    using Type = DirectPart<V>;
};
template <class V>
using KPart = typename KPartOf<V, V::direct_bytes != 0>::Type;

/// One thread's part of a V tile: two neighbouring columns of 8 keys, which become a chunk of two
/// rows of V^T.
template <class V>
class VPart {
    using L = Layout<V>;
    using Tile = typename L::VTile;
    static constexpr int pairs = L::value_columns / 2;
    using Place = Walk<L::threads, pairs, Tile::chunks>;

public:
    template <bool whole>
    ATTUNE_DEVICE void load(const GlobalWindow& from, unsigned row_bytes, int valid_rows) {
        ATTUNE_UNROLL
        for (int i = 0; i < Place::count; ++i) {
            const int pair = Place::own_minor(i), own_key = L::key_of(Place::own_major(i));
            const bool column_there =
                Place::inside(i) &&
                (2 * pairs == V::head_dim || 2 * (pair + Place::more_minor(i)) < V::head_dim);
            const unsigned own = own_key * row_bytes + 4 * pair;
            ATTUNE_UNROLL
            for (int e = 0; e < 8; ++e) {
                const int more = L::key_of(Place::more_major(i)) + L::key_in(e);
                const bool there = column_there && (whole || own_key + more < valid_rows);
                data_[i][e] = load_window_32(from, there ? own : outside_window,
                                             more * row_bytes + 4 * Place::more_minor(i));
            }
        }
    }
    ATTUNE_DEVICE void store(SharedAddress tile) const {
        ATTUNE_UNROLL
        for (int i = 0; i < Place::count; ++i) {
            if (!Place::inside(i)) continue;
            const int pair = Place::own_minor(i);
            const int row = pair / L::A::rows * 2 * L::A::rows + pair % L::A::rows;
            const SharedAddress even =
                Tile::advance(Tile::at(tile, row, Place::own_major(i)), Place::more_major(i)) +
                2 * Place::more_minor(i) * Tile::row_bytes;
            const unsigned(&x)[8] = data_[i];
            store_shared_128(even, U128{low_halves(x[0], x[1]), low_halves(x[2], x[3]),
                                        low_halves(x[4], x[5]), low_halves(x[6], x[7])});
            store_shared_128(even + L::A::rows * Tile::row_bytes,
                             U128{high_halves(x[0], x[1]), high_halves(x[2], x[3]),
                                  high_halves(x[4], x[5]), high_halves(x[6], x[7])});
        }
    }

private:
    unsigned data_[Place::count][8];
};

}  // namespace attune
