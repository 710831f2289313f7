// K and V tiles on their way to shared memory: cp.async groups, barriers per tile.
#pragma once

#include "templates/mma/layout.h"

namespace attune {

/// stages == 1: one K and one V tile; V loads under Q K^T, the next K under softmax and P V (two
/// barriers a step). stages >= 2: a ring of K/V pairs loaded stages-1 steps ahead (one barrier a
/// step). Groups are committed also when empty, so that their count stays in step with the loop.
template <class V>
class KvRing {
    using L = Layout<V>;
    static constexpr int ahead = V::stages - 1;

public:
    ATTUNE_DEVICE KvRing(SharedAddress shared, const typename L::Copier& k,
                         const typename L::Copier& v, int first_tile, int steps, int seqlen_kv)
        : shared_(shared),
          k_(k),
          v_(v),
          first_tile_(first_tile),
          steps_(steps),
          seqlen_kv_(seqlen_kv) {}

    /// kv tile of a step.
    ATTUNE_DEVICE int tile(int step) const {
        return V::kv_forward ? first_tile_ + step : first_tile_ + steps_ - 1 - step;
    }

    /// Starts the first loads; copies issued before it (Q) belong to their first group.
    ATTUNE_DEVICE void start() {
        if (V::stages == 1) {
            load_k(0);
            cp_async_commit();
        }
        ATTUNE_UNROLL
        for (int step = 0; step < ahead; ++step) {
            load_k(step);
            load_v(step);
            cp_async_commit();
        }
    }

    /// The K tile of `step`, landed and visible to all warps. Called once per step, in order.
    ATTUNE_DEVICE SharedAddress wait_k(int step) {
        if (V::stages == 1) {
            cp_async_wait<0>();
            cta_sync();  // K is here for all; all are done with the V tile of the step before
            load_v(step);
        } else {
            cp_async_wait<(V::stages > 1 ? V::stages - 2 : 0)>();
            cta_sync();  // the pair is here for all; all are done with the slot loaded next
            load_k(step + ahead);
            load_v(step + ahead);
        }
        cp_async_commit();
        return shared_ + L::k_offset + slot(step) * L::stage_bytes;
    }

    /// The V tile of `step`. Called after the products with K, before those with V.
    ATTUNE_DEVICE SharedAddress wait_v(int step) {
        if (V::stages == 1) {
            cp_async_wait<0>();
            cta_sync();  // V is here for all; all are done with K
            load_k(step + 1);
            cp_async_commit();
        }
        return shared_ + L::v_offset + slot(step) * L::stage_bytes;
    }

private:
    ATTUNE_DEVICE static int slot(int step) { return V::stages == 1 ? 0 : step % V::stages; }

    ATTUNE_DEVICE void load_k(int step) { load(k_, L::k_offset, step); }
    ATTUNE_DEVICE void load_v(int step) { load(v_, L::v_offset, step); }
    ATTUNE_DEVICE void load(const typename L::Copier& copier, int offset, int step) {
        if (step < steps_)
            copier.template copy<V::tile_kv>(shared_ + offset + slot(step) * L::stage_bytes,
                                             tile(step) * V::tile_kv, seqlen_kv_);
    }

    SharedAddress shared_;
    const typename L::Copier& k_;
    const typename L::Copier& v_;
    int first_tile_;
    int steps_;
    int seqlen_kv_;
};

}  // namespace attune
