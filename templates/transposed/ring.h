// K and V tiles on their way from global memory through registers to shared memory: the loads of
// the next tile are issued before the products of this one and stored after them. The interface is
// that of templates/mma/ring.h.
#pragma once

#include "templates/transposed/layout.h"

namespace attune {

/// One thread's part of a K tile: 16-byte chunks, and where they go.
template <class V>
class KPart {
    using L = Layout<V>;
    using Tile = typename L::KTile;
    static constexpr int total = V::tile_kv * Tile::chunks;
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

/// The rows of K or V of one head.
struct RowSource {
    const void* base;
    long long offset;  // elements, of key 0
    long long stride;

    ATTUNE_DEVICE const unsigned short* row(int key) const {
        return static_cast<const unsigned short*>(base) + offset + key * stride;
    }
};

/// Which kv tile a step takes, and where it comes from.
template <class V>
class KvLoader {
    using L = Layout<V>;

public:
    ATTUNE_DEVICE KvLoader(SharedAddress shared, const RowSource& k, const RowSource& v, int steps,
                           int seqlen_kv)
        : shared_(shared), k_(k), v_(v), steps_(steps), seqlen_kv_(seqlen_kv) {}

    ATTUNE_DEVICE int steps() const { return steps_; }
    ATTUNE_DEVICE int tile(int step) const { return V::kv_forward ? step : steps_ - 1 - step; }
    ATTUNE_DEVICE SharedAddress slot(int slot) const { return shared_ + slot * L::stage_bytes; }

    /// `edge`: the tile may reach past the last key.
    template <bool edge>
    ATTUNE_DEVICE void load(KPart<V>& k, VPart<V>& v, int step) const {
        constexpr bool whole = !edge && !V::kv_forward;
        const int first = tile(step) * V::tile_kv, valid = seqlen_kv_ - first;
        k.template load<whole>(k_.row(first), k_.stride, valid);
        v.template load<whole>(v_.row(first), v_.stride, valid);
    }
    ATTUNE_DEVICE void rewind() const {}  // no step depends on the one before

private:
    SharedAddress shared_;
    RowSource k_, v_;
    int steps_;
    int seqlen_kv_;
};

/// stages == 1: one K and V tile, two barriers a step. stages == 2: one barrier a step.
template <class V>
class RegisterRing {
    using L = Layout<V>;
    static_assert(V::stages <= 2, "the registers hold one tile ahead");

public:
    ATTUNE_DEVICE explicit RegisterRing(KvLoader<V>& loader) : loader_(loader) {}

    ATTUNE_DEVICE void start() {
        slot_ = 0;
        loader_.template load<true>(k_, v_, 0);
        store();
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_k(int step) {
        cta_sync();  // the tile is here for all; all are done with the slot stored to next
        more_ = step + 1 < loader_.steps();
        if (more_) loader_.template load<edge>(k_, v_, step + 1);
        return loader_.slot(slot_);
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_v(int) const {
        return loader_.slot(slot_) + L::k_bytes;
    }

    ATTUNE_DEVICE void release() {
        if (V::stages == 1) cta_sync();  // all are done with the tile
        if (V::stages == 2) slot_ ^= 1;
        if (more_) store();
    }

private:
    ATTUNE_DEVICE void store() const {
        k_.store(loader_.slot(slot_));
        v_.store(loader_.slot(slot_) + L::k_bytes);
    }

    KvLoader<V>& loader_;
    KPart<V> k_;
    VPart<V> v_;
    int slot_ = 0;
    bool more_ = false;
};

template <class V>
struct RingOf {
    using Type = RegisterRing<V>;
};

}  // namespace attune
