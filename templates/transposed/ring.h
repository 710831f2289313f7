// K and V tiles on their way from global memory through registers (K: or directly) to shared
// memory: the loads of the next tile are issued before the products of this one and stored, or
// waited for, after them. The interface is that of templates/mma/ring.h.
#pragma once

#include "templates/transposed/parts.h"

namespace attune {

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

    /// `edge`: the tile may reach past the last key. Its slot will be `slot`.
    template <bool edge>
    ATTUNE_DEVICE void load(KPart<V>& k, VPart<V>& v, int step, SharedAddress slot) const {
        constexpr bool whole = !edge && !V::kv_forward;
        const int first = tile(step) * V::tile_kv, valid = seqlen_kv_ - first;
        k.template load<whole>(slot, k_.window(first), k_.row_bytes(), valid);
        v.template load<whole>(v_.window(first), v_.row_bytes(), valid);
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
    static_assert(V::direct_bytes == 0 || V::stages == 2, "this tile's slot is still read");

public:
    ATTUNE_DEVICE explicit RegisterRing(KvLoader<V>& loader) : loader_(loader) {}

    ATTUNE_DEVICE void start() {
        slot_ = 0;
        loader_.template load<true>(k_, v_, 0, loader_.slot(0));
        store();
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_k(int step) {
        cta_sync();  // the tile is here for all; all are done with the slot stored to next
        more_ = step + 1 < loader_.steps();
        if (more_)
            loader_.template load<edge>(k_, v_, step + 1, loader_.slot(slot_ ^ (V::stages - 1)));
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
