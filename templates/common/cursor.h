// A place in a ring of slots, for rings in shared memory.
#pragma once

#include "target.h"

namespace attune {

/// A slot of a ring and the parity of the lap it is in.
template <int stages>
struct Cursor {
    int slot = 0;
    int parity = 0;

    ATTUNE_DEVICE void next() {
        const bool wraps = slot == stages - 1;
        slot = wraps ? 0 : slot + 1;
        parity ^= wraps ? 1 : 0;
    }
};

}  // namespace attune
