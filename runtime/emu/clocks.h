// Vector clocks: which accesses of which threads a thread may rely on having happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attune::emu {

/// A moment in a thread's life. Copies that land through an mbarrier belong to no thread's life:
/// their epochs are of the barrier (Clocks::barrier_id) and its phase. Reads by a wgmma are of the
/// warps it is for (Clocks::warp_id).
struct Epoch {
    std::uint32_t id = 0;
    std::uint32_t clock = 0;
};

/// An epoch nobody has reached: of a copy or a wgmma in flight.
constexpr std::uint32_t in_flight = ~0u;

/// What each thread of a CTA knows of every thread's, barrier's and warp's clock. A thread's clock
/// moves when it releases: what it does later is not covered by that release.
class Clocks {
public:
    static constexpr int max_barriers = 64;
    using Known = std::vector<std::uint32_t>;  // by id

    void reset(int threads);
    int threads() const { return threads_; }
    std::uint32_t barrier_id(int barrier) const { return threads_ + barrier; }
    std::uint32_t warp_id(int warp) const { return threads_ + max_barriers + warp; }

    Epoch now(int thread) const {
        return {static_cast<std::uint32_t>(thread), row(thread)[thread]};
    }
    bool knows(int thread, Epoch epoch) const { return row(thread)[epoch.id] >= epoch.clock; }

    /// All of first .. first + count - 1 know what any of them knows, and move on.
    void join(int first, int count);
    /// `into` learns what `thread` knows; the thread moves on.
    void release(int thread, Known& into);
    void acquire(int thread, const Known& from);
    void learn(int thread, Epoch epoch) { row(thread)[epoch.id] = epoch.clock; }
    Known nothing() const { return Known(width_, 0); }

private:
    std::uint32_t* row(int thread) { return known_.data() + std::size_t(thread) * width_; }
    const std::uint32_t* row(int thread) const {
        return known_.data() + std::size_t(thread) * width_;
    }

    int threads_ = 0;
    int width_ = 0;
    std::vector<std::uint32_t> known_;  // [threads][threads + max_barriers + warps]
};

}  // namespace attune::emu
