// Memory as the threads of a CTA see it: bounds, alignment, races, copies that land late.
#include <algorithm>
#include <array>
#include <cstring>

#include "generator/formatted.h"
#include "runtime/emu/cta.h"

namespace attune::emu {

void CtaRunner::check_shared(int thread, SharedAddress at, int bytes, const char* what) {
    if (!shared_.contains(at, bytes))
        fail(thread, [&] {
            return formatted("{} of {} bytes at shared byte {} is outside the launch's {} bytes",
                             what, bytes, std::int64_t(at) - shared_base, grid_.shared_bytes);
        });
    if (at % bytes != 0)
        fail(thread, [&] {
            return formatted("{} at shared byte {} is not aligned to {} bytes", what,
                             at - shared_base, bytes);
        });
}

void CtaRunner::check_global(const void* global, int bytes, const char* what) {
    const auto at = reinterpret_cast<std::uint64_t>(global);
    check_global_range(at, bytes, what);
    if (at % bytes != 0)
        fail(self_,
             [&] { return formatted("{} at {:#x} is not aligned to {} bytes", what, at, bytes); });
}

void CtaRunner::check_global_range(std::uint64_t at, int bytes, const char* what) {
    if (!last_range_.contains(at, bytes)) {
        last_range_ = grid_.memory->below(at);
        if (!last_range_.contains(at, bytes))
            fail(self_, [&] {
                return formatted("{} of {} bytes at {:#x} is outside every allocation: {}", what,
                                 bytes, at, grid_.memory->nearest(at));
            });
    }
    counts_.global_bytes += bytes;
}

// ---- races ------------------------------------------------------------------------------------

void CtaRunner::note_read(int thread, SharedAddress at, int bytes) {
    if (!grid_.options.detect_races) return;
    if (const auto conflict = shared_.read(thread, at, bytes, clocks_.now(thread)))
        fail_race(*conflict, thread, Access::read);
}

void CtaRunner::note_write(int thread, SharedAddress at, int bytes, Epoch epoch) {
    if (const auto conflict = shared_.write(thread, at, bytes, epoch))
        fail_race(*conflict, thread, Access::write);
}

void CtaRunner::fail_race(const Conflict& conflict, int thread, Access now) {
    const Epoch& epoch = conflict.epoch;
    const auto other = [&] {
        if (epoch.id >= clocks_.warp_id(0))
            return formatted("a wgmma of warp {} {}", epoch.id - clocks_.warp_id(0),
                             epoch.clock == in_flight ? "is still reading" : "read");
        if (epoch.id >= clocks_.barrier_id(0))
            return std::string("a copy wrote that landed through an mbarrier");
        if (epoch.clock == in_flight)
            return formatted("a copy of CTA {}, thread {} is still writing", cta_, epoch.id);
        return formatted("CTA {}, thread {} {}", cta_, epoch.id,
                         conflict.earlier == Access::read ? "read" : "wrote");
    };
    fail(thread, [&] {
        return formatted("race: {} shared byte {}, which {}, with nothing to order the two",
                         now == Access::read ? "reads" : "writes", conflict.address - shared_base,
                         other());
    });
}

// ---- loads and stores -------------------------------------------------------------------------

void CtaRunner::load_shared(void* to, SharedAddress at, int bytes, const void* site) {
    check_shared(self_, at, bytes, "load_shared");
    note_read(self_, at, bytes);
    my_warp().log.note(lane_of(self_), site, at, bytes, false);
    counts_.shared_bytes += bytes;
    std::memcpy(to, shared_.bytes(at), bytes);
}

void CtaRunner::store_shared(SharedAddress at, const void* from, int bytes, const void* site) {
    check_shared(self_, at, bytes, "store_shared");
    note_write(self_, at, bytes, clocks_now());
    my_warp().log.note(lane_of(self_), site, at, bytes, true);
    counts_.shared_bytes += bytes;
    std::memcpy(shared_.bytes(at), from, bytes);
    shared_.stored(self_, at, bytes);
}

// ---- asynchronous copies ----------------------------------------------------------------------

void CtaRunner::cp_async_16(SharedAddress to, const void* global, bool valid, const void* site) {
    static constexpr std::array<std::byte, 16> zeros{};
    if (valid) check_global(global, 16, "cp_async_16");
    start_copy({to, valid ? global : &zeros, 16, 0}, "cp_async_16", site);
}

void CtaRunner::copy_to_shared(SharedAddress to, const void* global, int bytes, const void* site) {
    if (global) check_global(global, bytes, "copy_window_to_shared");
    start_copy({to, global, bytes, 0}, "copy_window_to_shared", site);
}

/// Until it lands the destination holds NaN, and whoever touches it races with the copy.
void CtaRunner::start_copy(Copy copy, const char* what, const void* site) {
    check_shared(self_, copy.to, copy.bytes, what);
    note_write(self_, copy.to, copy.bytes, {static_cast<std::uint32_t>(self_), in_flight});
    my_warp().log.note(lane_of(self_), site, copy.to, copy.bytes, true);
    counts_.shared_bytes += copy.bytes;
    std::memset(shared_.bytes(copy.to), 0xff, copy.bytes);
    copy.group = threads_[self_].open_group;
    threads_[self_].copies.push_back(copy);
}

void CtaRunner::land(const Copy& copy, Epoch epoch) {
    if (copy.from) std::memcpy(shared_.bytes(copy.to), copy.from, copy.bytes);
    shared_.land(copy.to, copy.bytes, epoch);
}

void CtaRunner::cp_async_wait(int pending_groups) {
    Thread& thread = threads_[self_];
    const int landed = thread.open_group - pending_groups;
    auto copy = thread.copies.begin();
    for (; copy != thread.copies.end() && copy->group < landed; ++copy) land(*copy, clocks_now());
    thread.copies.erase(thread.copies.begin(), copy);
}

}  // namespace attune::emu
