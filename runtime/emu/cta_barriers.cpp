// Where threads of a CTA meet in memory: mbarriers, loads that land through them, named barriers.
#include <algorithm>
#include <cstring>

#include "generator/formatted.h"
#include "runtime/emu/cta.h"

namespace attune::emu {

void CtaRunner::mbarrier_init(SharedAddress at, int count) {
    check_shared(self_, at, 8, "mbarrier_init");
    note_write(self_, at, 8, clocks_now());
    Barrier* barrier = barriers_.find(at);
    if (!barrier) barrier = barriers_.add(at);
    if (!barrier)
        fail(self_,
             [&] { return formatted("more than {} mbarriers in a CTA", Clocks::max_barriers); });
    *barrier = Barrier(at, barrier->id, count);
    if (grid_.options.detect_races) barrier->arriving = barrier->completed = clocks_.nothing();
}

void CtaRunner::mbarrier_fence_init() {
    for (Barrier& barrier : barriers_.all()) barrier.fenced = true;
}

/// Using a barrier is a read of what mbarrier_init wrote.
Barrier& CtaRunner::barrier_at(SharedAddress at, const char* what) {
    check_shared(self_, at, 8, what);
    note_read(self_, at, 8);
    Barrier* barrier = barriers_.find(at);
    if (!barrier)
        fail(self_, [&] {
            return formatted("{} at shared byte {}, where no mbarrier was initialised", what,
                             at - shared_base);
        });
    return *barrier;
}

void CtaRunner::check_fenced(const Barrier& barrier, const char* what) {
    if (barrier.fenced) return;
    fail(self_, [&] {
        return formatted(
            "{} at shared byte {}, where no mbarrier_fence_init followed mbarrier_init", what,
            barrier.at - shared_base);
    });
}

void CtaRunner::mbarrier_arrive(SharedAddress at) {
    Barrier& barrier = barrier_at(at, "mbarrier_arrive");
    if (grid_.options.detect_races) clocks_.release(self_, barrier.arriving);
    arrived(barrier);
}

void CtaRunner::mbarrier_arrive_expect(SharedAddress at, int bytes) {
    Barrier& barrier = barrier_at(at, "mbarrier_arrive_expect");
    check_fenced(barrier, "mbarrier_arrive_expect");
    if (barrier.all_arrived()) settle(barrier, true);
    if (grid_.options.detect_races) clocks_.release(self_, barrier.arriving);
    barrier.bytes_expected += bytes;
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
    if (barrier.all_arrived()) settle(barrier, true);
    if (barrier.all_arrived())
        fail(self_, [&] {
            return formatted(
                "arrives at the mbarrier at shared byte {}, which has all {} arrivals of a phase "
                "where {} bytes are expected and {} have been loaded",
                barrier.at - shared_base, barrier.expected, barrier.bytes_expected,
                barrier.bytes_loading);
        });
    ++barrier.arrived;
    settle(barrier, is_waited_for(barrier));
}

bool CtaRunner::is_waited_for(const Barrier& barrier) const {
    return std::any_of(threads_.begin(), threads_.end(), [&](const Thread& thread) {
        return thread.state == State::mbarrier && thread.barrier == barrier.at;
    });
}

/// Completes the phase if everything has come. Loads come as late as they may: when somebody needs
/// them.
void CtaRunner::settle(Barrier& barrier, bool waited_for) {
    if (!barrier.all_arrived() || barrier.bytes_loading != barrier.bytes_expected) return;
    if (!barrier.loads.empty() && !waited_for) return;
    barrier.arrived = 0;
    barrier.bytes_expected = barrier.bytes_loading = 0;
    ++barrier.phase;
    const Epoch epoch{static_cast<std::uint32_t>(grid_.threads + barrier.id), ++landings_};
    for (const Copy& copy : barrier.copies) land(copy, epoch);
    for (const TensorLoad& load : barrier.loads) land(load, epoch);
    barrier.copies.clear();
    barrier.loads.clear();
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
    if (!barrier.passed(parity)) settle(barrier, true);
    if (barrier.passed(parity)) {
        if (grid_.options.detect_races) clocks_.acquire(self_, barrier.completed);
        return;
    }
    threads_[self_].barrier = at;
    threads_[self_].parity = parity;
    block(State::mbarrier);
}

// ---- loads by TMA -----------------------------------------------------------------------------

/// Until it lands the destination holds NaN, and whoever touches it races with the load.
void CtaRunner::tensor_load(SharedAddress to, const TensorMap& map, SharedAddress at,
                            const TensorPoint& first) {
    const std::optional<TensorMapSpec> tensor = decode_tensor_map(map);
    if (!tensor)
        fail(self_, [] { return "tensor_load from a map that encode_tensor_map did not make"; });
    const TensorLoad load{to, *tensor, first};
    if (!shared_.contains(to, load.bytes()) || to % 1024 != 0)
        fail(self_, [&] {
            return formatted(
                "tensor_load of {} bytes to shared byte {} is {} the launch's {} bytes",
                load.bytes(), std::int64_t(to) - shared_base,
                to % 1024 != 0 ? "not aligned to 1024 bytes of" : "outside", grid_.shared_bytes);
        });
    for (int row = 0; row < rows_of_box(*tensor); ++row)
        if (const BoxRow line = box_row(*tensor, first, row); line.bytes > 0)
            check_global_range(reinterpret_cast<std::uint64_t>(line.from), line.bytes,
                               "tensor_load");
    Barrier& barrier = barrier_at(at, "tensor_load");
    check_fenced(barrier, "tensor_load");
    note_write(self_, to, load.bytes(), {static_cast<std::uint32_t>(self_), in_flight});
    std::memset(shared_.bytes(to), 0xff, load.bytes());
    counts_.shared_bytes += load.bytes();
    barrier.loads.push_back(load);
    barrier.bytes_loading += load.bytes();
    settle(barrier, is_waited_for(barrier));
}

void CtaRunner::land(const TensorLoad& load, Epoch epoch) {
    for (int row = 0; row < rows_of_box(load.tensor); ++row) {
        std::array<std::byte, box_row_bytes> bytes{};
        const BoxRow line = box_row(load.tensor, load.first, row);
        if (line.bytes > 0) std::memcpy(bytes.data() + line.begin, line.from, line.bytes);
        const SharedAddress to = load.to + row * box_row_bytes;
        for (int i = 0; i < box_row_bytes; i += 16)
            std::memcpy(shared_.bytes(swizzle_128(to + i)), bytes.data() + i, 16);
    }
    shared_.land(load.to, load.bytes(), epoch);
}

// ---- named barriers ---------------------------------------------------------------------------

void CtaRunner::named_barrier(int id, int threads, bool wait) {
    if (id < 1 || id > 15 || threads % 32 != 0 || threads < 32 || threads > grid_.threads)
        fail(self_, [&] {
            return formatted("no barrier {} of {} threads: barriers 1 .. 15, whole warps", id,
                             threads);
        });
    NamedBarrier& barrier = named_barriers_[id];
    if (barrier.arrived == 0) barrier.threads = threads;
    if (barrier.threads != threads)
        fail(self_, [&] {
            return formatted("barrier {} is for {} threads here and {} elsewhere", id, threads,
                             barrier.threads);
        });
    const bool detect = grid_.options.detect_races;
    if (detect && barrier.arriving.empty()) barrier.arriving = clocks_.nothing();
    if (detect) clocks_.release(self_, barrier.arriving);
    if (wait) barrier.waiting.push_back(self_);
    if (++barrier.arrived < threads) {
        threads_[self_].barrier = id;
        if (wait) block(State::named);
        return;
    }
    for (const int t : barrier.waiting) {
        if (detect) clocks_.acquire(t, barrier.arriving);
        make_ready(t);
    }
    barrier = {};
}

}  // namespace attune::emu
