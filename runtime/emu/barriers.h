// mbarriers, and copies on their way.
#pragma once

#include <vector>

#include "runtime/emu/clocks.h"
#include "templates/target/emu_abi.h"

namespace attune::emu {

/// A cp.async that has been issued and has not landed.
struct Copy {
    SharedAddress to;
    const void* from;  // null: zeros
    int group;
};

struct Barrier {
    Barrier(SharedAddress where, int number, int count) : at(where), id(number), expected(count) {}

    SharedAddress at;
    int id;
    int expected;     // arrivals of a phase
    int arrived = 0;  // in the present phase
    std::uint32_t phase = 0;
    std::vector<Copy> copies;  // land when the present phase completes
    Clocks::Known arriving;    // released by arrivals of this phase and those before
    Clocks::Known completed;   // of phases before: what a wait acquires

    /// The phase of that parity has completed (and the next one of it has not).
    bool passed(int parity) const { return (phase & 1) != static_cast<unsigned>(parity & 1); }
};

/// The barriers of a CTA, by address.
class Barriers {
public:
    void clear() { barriers_.clear(); }
    Barrier* find(SharedAddress at) {
        for (Barrier& barrier : barriers_)
            if (barrier.at == at) return &barrier;
        return nullptr;
    }
    /// Null when there are already as many as clocks can tell apart.
    Barrier* add(SharedAddress at) {
        if (barriers_.size() == Clocks::max_barriers) return nullptr;
        barriers_.emplace_back(at, static_cast<int>(barriers_.size()), 0);
        return &barriers_.back();
    }
    std::vector<Barrier>& all() { return barriers_; }

private:
    std::vector<Barrier> barriers_;
};

}  // namespace attune::emu
