// K and V tiles on their way from global to shared memory. Two rings with one interface:
//   start()      begins the first loads; copies issued before it (Q) land with the first K tile.
//                Again, when all warps are through with the steps of the last start
//   wait_k<edge>(step)  the K tile of a step, landed and visible; steps in order
//   wait_v<edge>(step)  its V tile; after the products with K, before those with V
//   release()    this warp is done with the step
#pragma once

#include "templates/common/cursor.h"
#include "templates/mma/layout.h"

namespace attune {

enum Guard { guard_barrier = 0, guard_mbarrier = 1 };

/// The loads themselves: K and V tiles, in the order of the steps.
template <class V>
class KvLoader {
    using L = Layout<V>;
    using Copier = typename L::Copier;

public:
    /// k and v stand at key 0; kv tiles 0 .. steps-1 will be loaded.
    ATTUNE_DEVICE KvLoader(SharedAddress shared, const Copier& k, const Copier& v, int steps,
                           int seqlen_kv)
        : shared_(shared), k_(k), v_(v), steps_(steps), seqlen_kv_(seqlen_kv) {
        k_.move(tile(0) * V::tile_kv);
        v_.move(tile(0) * V::tile_kv);
    }

    ATTUNE_DEVICE int steps() const { return steps_; }
    ATTUNE_DEVICE int tile(int step) const { return V::kv_forward ? step : steps_ - 1 - step; }
    ATTUNE_DEVICE SharedAddress shared() const { return shared_; }
    ATTUNE_DEVICE SharedAddress k_slot(int slot) const {
        return shared_ + L::k_offset + slot * L::stage_bytes;
    }
    ATTUNE_DEVICE SharedAddress v_slot(int slot) const {
        return shared_ + L::v_offset + slot * L::stage_bytes;
    }

    /// The next K tile, which is that of `step`. `edge`: it may reach past the last key.
    template <bool edge>
    ATTUNE_DEVICE void load_k(int step, int slot) {
        load<edge>(k_, step, k_slot(slot));
    }
    template <bool edge>
    ATTUNE_DEVICE void load_v(int step, int slot) {
        load<edge>(v_, step, v_slot(slot));
    }

    /// All steps have been loaded: back to the first.
    ATTUNE_DEVICE void rewind() {
        k_.move(-steps_ * tile_move);
        v_.move(-steps_ * tile_move);
    }

private:
    static constexpr int tile_move = V::kv_forward ? V::tile_kv : -V::tile_kv;

    template <bool edge>
    ATTUNE_DEVICE void load(Copier& copier, int step, SharedAddress to) {
        if (step >= steps_) return;
        constexpr bool whole = !edge && !V::kv_forward;
        copier.template copy<V::tile_kv, whole>(to, seqlen_kv_ - tile(step) * V::tile_kv);
        copier.move(tile_move);
    }

    SharedAddress shared_;
    Copier k_;
    Copier v_;
    int steps_;
    int seqlen_kv_;
};

/// Guarded by a CTA barrier per tile and cp.async groups.
/// stages == 1: one K and one V tile; V loads under Q K^T, the next K under softmax and P V (two
/// barriers a step). stages >= 2: K/V pairs loaded stages-1 steps ahead (one barrier a step).
/// Groups are committed also when empty, so that their count stays in step with the loop.
template <class V>
class BarrierRing {
    static constexpr int ahead = V::stages - 1;

public:
    ATTUNE_DEVICE explicit BarrierRing(KvLoader<V>& loader) : loader_(loader) {}

    ATTUNE_DEVICE void start() {
        write_ = read_;
        if (V::stages == 1) {
            loader_.template load_k<true>(0, 0);
            cp_async_commit();
        }
        ATTUNE_UNROLL
        for (int step = 0; step < ahead; ++step) load_pair<true>(step);
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_k(int step) {
        if (V::stages == 1) {
            cp_async_wait<0>();
            cta_sync();  // K is here for all; all are done with the V tile of the step before
            loader_.template load_v<edge>(step, 0);
            cp_async_commit();
        } else {
            cp_async_wait<(V::stages > 1 ? V::stages - 2 : 0)>();
            cta_sync();  // the pair is here for all; all are done with the slot loaded next
            load_pair<edge>(step + ahead);
        }
        return loader_.k_slot(read_.slot);
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_v(int step) {
        if (V::stages == 1) {
            cp_async_wait<0>();
            cta_sync();  // V is here for all; all are done with K
            loader_.template load_k<edge>(step + 1, 0);
            cp_async_commit();
        }
        return loader_.v_slot(read_.slot);
    }

    ATTUNE_DEVICE void release() { read_.next(); }

private:
    template <bool edge>
    ATTUNE_DEVICE void load_pair(int step) {
        loader_.template load_k<edge>(step, write_.slot);
        loader_.template load_v<edge>(step, write_.slot);
        cp_async_commit();
        write_.next();
    }

    KvLoader<V>& loader_;
    Cursor<V::stages> read_;
    Cursor<V::stages> write_;
};

/// Guarded by two mbarriers per slot: full (every thread arrives as its copies land) and empty
/// (every warp arrives when done). Loads run stages-2 steps ahead (at least 1), so that with 3
/// stages or more a warp may be a step ahead of another.
template <class V>
class MbarrierRing {
    using L = Layout<V>;
    static constexpr int ahead = V::stages > 2 ? V::stages - 2 : 1;

public:
    ATTUNE_DEVICE explicit MbarrierRing(KvLoader<V>& loader)
        : loader_(loader), barriers_(loader.shared() + L::barrier_offset) {
        if (thread_index() == 0) {
            ATTUNE_UNROLL
            for (int slot = 0; slot < V::stages; ++slot) {
                mbarrier_init(full(slot), L::threads);
                mbarrier_init(empty(slot), V::warps);
            }
        }
        cta_sync();  // the barriers exist for all
    }

    ATTUNE_DEVICE void start() {
        ATTUNE_UNROLL
        for (int step = 0; step < ahead; ++step) load_pair<true>(step);
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_k(int step) {
        load_pair<edge>(step + ahead);
        mbarrier_wait(full(read_.slot), read_.parity);
        return loader_.k_slot(read_.slot);
    }

    template <bool edge>
    ATTUNE_DEVICE SharedAddress wait_v(int) const {
        return loader_.v_slot(read_.slot);
    }

    ATTUNE_DEVICE void release() {
        warp_sync();  // lane 0 speaks for all lanes
        if (lane_index() == 0) mbarrier_arrive(empty(read_.slot));
        read_.next();
    }

private:
    ATTUNE_DEVICE SharedAddress full(int slot) const { return barriers_ + 16 * slot; }
    ATTUNE_DEVICE SharedAddress empty(int slot) const { return barriers_ + 16 * slot + 8; }

    template <bool edge>
    ATTUNE_DEVICE void load_pair(int step) {
        if (step >= loader_.steps()) return;
        // The lap before must have been read by all warps; the first lap finds the slots free.
        if (step >= V::stages) mbarrier_wait(empty(write_.slot), write_.parity ^ 1);
        loader_.template load_k<edge>(step, write_.slot);
        loader_.template load_v<edge>(step, write_.slot);
        mbarrier_arrive_cp_async(full(write_.slot));
        write_.next();
    }

    KvLoader<V>& loader_;
    SharedAddress barriers_;
    Cursor<V::stages> read_;
    Cursor<V::stages> write_;
};

template <class V, int guard = V::guard>
struct RingOf {
    using Type = BarrierRing<V>;
};
template <class V>
struct RingOf<V, guard_mbarrier> {
    using Type = MbarrierRing<V>;
};

}  // namespace attune
