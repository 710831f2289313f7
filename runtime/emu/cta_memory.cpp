// Memory as the threads of a CTA see it: bounds, alignment, races, copies that land late.
#include <algorithm>
#include <cstring>

#include "runtime/emu/cta.h"

namespace attune::emu {

void CtaRunner::check_shared(int thread, SharedAddress at, int bytes, const char* what) {
    if (!shared_.contains(at, bytes))
        fail(thread, [&] {
            return fmt::format("{} of {} bytes at shared byte {} is outside the launch's {} bytes",
                               what, bytes, std::int64_t(at) - shared_base, grid_.shared_bytes);
        });
    if (at % bytes != 0)
        fail(thread, [&] {
            return fmt::format("{} at shared byte {} is not aligned to {} bytes", what,
                               at - shared_base, bytes);
        });
}

void CtaRunner::check_global(const void* global, int bytes, const char* what) {
    const auto at = reinterpret_cast<std::uint64_t>(global);
    if (!last_range_.contains(at, bytes)) {
        last_range_ = grid_.memory->below(at);
        if (!last_range_.contains(at, bytes))
            fail(self_, [&] {
                return fmt::format("{} of {} bytes at {:#x} is outside every allocation: {}", what,
                                   bytes, at, grid_.memory->nearest(at));
            });
    }
    if (at % bytes != 0)
        fail(self_, [&] {
            return fmt::format("{} at {:#x} is not aligned to {} bytes", what, at, bytes);
        });
    counts_.global_bytes += bytes;
}

// ---- races ------------------------------------------------------------------------------------

void CtaRunner::note_read(int thread, SharedAddress at, int bytes) {
    if (const auto conflict = shared_.read(thread, at, bytes))
        fail_race(*conflict, thread, Access::read);
}

void CtaRunner::note_write(SharedAddress at, int bytes, Epoch epoch) {
    if (const auto conflict = shared_.write(self_, at, bytes, epoch))
        fail_race(*conflict, self_, Access::write);
}

void CtaRunner::fail_race(const Conflict& conflict, int thread, Access now) {
    const Epoch& epoch = conflict.epoch;
    const auto other = [&] {
        if (epoch.id >= static_cast<std::uint32_t>(grid_.threads))
            return std::string("a cp_async_16 wrote that landed through an mbarrier");
        if (epoch.clock == in_flight)
            return fmt::format("a cp_async_16 of CTA {}, thread {} is still writing", cta_,
                               epoch.id);
        return fmt::format("CTA {}, thread {} {}", cta_, epoch.id,
                           conflict.earlier == Access::read ? "read" : "wrote");
    };
    fail(thread, [&] {
        return fmt::format("race: {} shared byte {}, which {}, with nothing to order the two",
                           now == Access::read ? "reads" : "writes", conflict.address - shared_base,
                           other());
    });
}

// ---- loads and stores -------------------------------------------------------------------------

void CtaRunner::load_shared(void* to, SharedAddress at, int bytes, const void* site) {
    check_shared(self_, at, bytes, "load_shared");
    note_read(self_, at, bytes);
    my_warp().log.note(self_ % 32, site, at, bytes);
    counts_.shared_bytes += bytes;
    std::memcpy(to, shared_.bytes(at), bytes);
}

void CtaRunner::store_shared(SharedAddress at, const void* from, int bytes, const void* site) {
    check_shared(self_, at, bytes, "store_shared");
    note_write(at, bytes, clocks_now());
    my_warp().log.note(self_ % 32, site, at, bytes);
    counts_.shared_bytes += bytes;
    std::memcpy(shared_.bytes(at), from, bytes);
}

// ---- asynchronous copies ----------------------------------------------------------------------

/// Until it lands the destination holds NaN, and whoever touches it races with the copy.
void CtaRunner::cp_async_16(SharedAddress to, const void* global, bool valid, const void* site) {
    check_shared(self_, to, 16, "cp_async_16");
    if (valid) check_global(global, 16, "cp_async_16");
    note_write(to, 16, {static_cast<std::uint32_t>(self_), in_flight});
    my_warp().log.note(self_ % 32, site, to, 16);
    counts_.shared_bytes += 16;
    std::memset(shared_.bytes(to), 0xff, 16);
    threads_[self_].copies.push_back({to, valid ? global : nullptr, threads_[self_].open_group});
}

void CtaRunner::land(const Copy& copy, Epoch epoch) {
    if (copy.from)
        std::memcpy(shared_.bytes(copy.to), copy.from, 16);
    else
        std::memset(shared_.bytes(copy.to), 0, 16);
    shared_.land(copy.to, 16, epoch);
}

void CtaRunner::cp_async_wait(int pending_groups) {
    Thread& thread = threads_[self_];
    const int landed = thread.open_group - pending_groups;
    auto copy = thread.copies.begin();
    for (; copy != thread.copies.end() && copy->group < landed; ++copy) land(*copy, clocks_now());
    thread.copies.erase(thread.copies.begin(), copy);
}

// ---- mbarriers --------------------------------------------------------------------------------

void CtaRunner::mbarrier_init(SharedAddress at, int count) {
    check_shared(self_, at, 8, "mbarrier_init");
    note_write(at, 8, clocks_now());
    Barrier* barrier = barriers_.find(at);
    if (!barrier) barrier = barriers_.add(at);
    if (!barrier)
        fail(self_,
             [&] { return fmt::format("more than {} mbarriers in a CTA", Clocks::max_barriers); });
    *barrier = Barrier(at, barrier->id, count);
    if (grid_.options.detect_races) barrier->arriving = barrier->completed = clocks_.nothing();
}

/// Using a barrier is a read of what mbarrier_init wrote.
Barrier& CtaRunner::barrier_at(SharedAddress at, const char* what) {
    check_shared(self_, at, 8, what);
    note_read(self_, at, 8);
    Barrier* barrier = barriers_.find(at);
    if (!barrier)
        fail(self_, [&] {
            return fmt::format("{} at shared byte {}, where no mbarrier was initialised", what,
                               at - shared_base);
        });
    return *barrier;
}

void CtaRunner::mbarrier_arrive(SharedAddress at) {
    Barrier& barrier = barrier_at(at, "mbarrier_arrive");
    if (grid_.options.detect_races) clocks_.release(self_, barrier.arriving);
    arrived(barrier);
}

/// Covers the thread's copies, and releases nothing else.
void CtaRunner::mbarrier_arrive_cp_async(SharedAddress at) {
    Barrier& barrier = barrier_at(at, "mbarrier_arrive_cp_async");
    std::vector<Copy>& copies = threads_[self_].copies;
    barrier.copies.insert(barrier.copies.end(), copies.begin(), copies.end());
    copies.clear();
    arrived(barrier);
}

void CtaRunner::arrived(Barrier& barrier) {
    if (++barrier.arrived < barrier.expected) return;
    barrier.arrived = 0;
    ++barrier.phase;
    const Epoch epoch{static_cast<std::uint32_t>(grid_.threads + barrier.id), ++landings_};
    for (const Copy& copy : barrier.copies) land(copy, epoch);
    barrier.copies.clear();
    if (grid_.options.detect_races) {
        barrier.arriving[epoch.id] = epoch.clock;
        barrier.completed = barrier.arriving;
    }
    for (int t = 0; t < grid_.threads; ++t) {
        const Thread& thread = threads_[t];
        if (thread.state != State::mbarrier || thread.barrier != barrier.at ||
            !barrier.passed(thread.parity))
            continue;
        if (grid_.options.detect_races) clocks_.acquire(t, barrier.completed);
        make_ready(t);
    }
}

void CtaRunner::mbarrier_wait(SharedAddress at, int parity) {
    Barrier& barrier = barrier_at(at, "mbarrier_wait");
    if (barrier.passed(parity)) {
        if (grid_.options.detect_races) clocks_.acquire(self_, barrier.completed);
        return;
    }
    threads_[self_].barrier = at;
    threads_[self_].parity = parity;
    block(State::mbarrier);
}

}  // namespace attune::emu
