// mbarriers and named barriers, and copies on their way.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emu/clocks.h"
#include "runtime/emu/tensor_map.h"

namespace attune::emu {

/// A cp.async that has been issued and has not landed.
struct Copy {
    SharedAddress to;
    const void* from;  // null: the NaN of a copy in flight stays
    int bytes;
    int group;
};

/// A tensor_load that has been issued and has not landed.
struct TensorLoad {
    SharedAddress to;
    TensorMapSpec tensor;
    TensorPoint first;
    int bytes() const { return rows_of_box(tensor) * box_row_bytes; }
};

struct Barrier {
    Barrier(SharedAddress where, int number, int count) : at(where), id(number), expected(count) {}

    SharedAddress at;
    int id;
    int expected;     // arrivals of a phase
    int arrived = 0;  // in the present phase
    std::uint32_t phase = 0;
    bool fenced = false;  // mbarrier_fence_init has followed
    // What lands when the present phase completes. Loads wait until somebody waits for them.
    std::vector<Copy> copies;
    std::vector<TensorLoad> loads;
    std::int64_t bytes_expected = 0;
    std::int64_t bytes_loading = 0;
    Clocks::Known arriving;   // released by arrivals of this phase and those before
    Clocks::Known completed;  // of phases before: what a wait acquires

    bool all_arrived() const { return arrived == expected; }
    /// The phase of that parity has completed (and the next one of it has not).
    bool passed(int parity) const { return (phase & 1) != static_cast<unsigned>(parity & 1); }
};

/// Barrier 1 .. 15 of a CTA (bar.sync, bar.arrive).
struct NamedBarrier {
    int threads = 0;  // of the present round; 0 before its first arrival
    int arrived = 0;
    std::vector<int> waiting;
    Clocks::Known arriving;
};

/// The mbarriers of a CTA, by address.
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
    const std::vector<Barrier>& all() const { return barriers_; }

private:
    std::vector<Barrier> barriers_;
};

}  // namespace attune::emu
