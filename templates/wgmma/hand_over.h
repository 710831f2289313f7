// What the producer tells the consumers to work on where only it knows.
#pragma once

#include "templates/common/schedule.h"
#include "templates/wgmma/layout.h"

namespace attune {

/// Work lies beside the slot of its Q, guarded by that slot's barriers.
template <class V>
class HandOver {
public:
    ATTUNE_DEVICE explicit HandOver(SharedAddress shared)
        : base_(shared + Layout<V>::work_offset) {}

    ATTUNE_DEVICE void put(int slot, const Work& work) const {
        store_shared_128(base_ + 16 * slot,
                         U128{static_cast<unsigned>(work.batch), static_cast<unsigned>(work.head),
                              static_cast<unsigned>(work.q_tile), 1});
    }
    /// There is no more.
    ATTUNE_DEVICE void put_end(int slot) const {
        store_shared_128(base_ + 16 * slot, U128{0, 0, 0, 0});
    }

    /// By whole warps. False at the end. Read by lane 0, which also gives the slot back.
    ATTUNE_DEVICE bool take(int slot, Work& work) const {
        U128 read{};
        if (lane_index() == 0) read = load_shared_128(base_ + 16 * slot);
        work.batch = static_cast<int>(shuffle(read.x, 0));
        work.head = static_cast<int>(shuffle(read.y, 0));
        work.q_tile = static_cast<int>(shuffle(read.z, 0));
        return warp_any(read.w != 0);  // a vote: the compiler knows that all lanes go on
    }

private:
    SharedAddress base_;
};

}  // namespace attune
