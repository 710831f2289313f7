#include "runtime/emu/cta.h"

#include <bit>
#include <map>
#include <utility>

#include "generator/formatted.h"

namespace attune::emu {
namespace {

// A kernel's functions are called without a context: this is how they find it. Set while a CTA
// runs.
thread_local CtaRunner* running = nullptr;

/// How often a warp that could go on lets another go first.
constexpr std::uint32_t turns_per_switch = 16;

/// The first lane of a mask from `lane` + 1 on, round and round.
int lane_after(std::uint64_t mask, int lane) {
    const int first = (lane + 1) % 64;
    return (first + std::countr_zero(std::rotr(mask, first))) % 64;
}

const char* name_of(Collective what) {
    static const char* const names[] = {
        "warp_sync",         "shuffle",     "warp_any",  "warp_all",   "ldmatrix_x4",
        "ldmatrix_x4_trans", "stmatrix_x4", "mma (f16)", "mma (bf16)", "a matrix core's MMA"};
    return names[static_cast<int>(what)];
}

}  // namespace

CtaRunner& CtaRunner::current() {
    return *running;
}

Result<void> CtaRunner::prepare(const Grid& grid) {
    if (const Result<void> reserved = stacks_.reserve(grid.threads); !reserved)
        return reserved.error();
    grid_ = grid;
    threads_.resize(grid.threads);
    warps_.resize(grid.threads / grid.wave_size);
    warpgroups_.resize(grid.threads / warpgroup_threads);
    counts_ = {};
    last_range_ = {};
    forget_records();
    return {};
}

void CtaRunner::forget_records() {
    const bool detect = grid_.options.detect_races;
    if (detect) clocks_.reset(grid_.threads);
    shared_.configure(grid_.shared_bytes, grid_.threads / 32, detect ? &clocks_ : nullptr);
    landings_ = 0;
}

std::optional<std::string> CtaRunner::run(int cta) {
    running = this;
    cta_ = cta;
    begin();
    self_ = any_ready_thread();
    switch_to(host_, threads_[self_].fiber);
    if (!fault_ && exited_ < grid_.threads) fault_ = formatted("CTA {}: {}", cta_, deadlock());
    for (Warp& warp : warps_) counts_.bank_conflicts += warp.log.flush(grid_.banks);
    bool unfinished = fault_.has_value();  // or copies and wgmmas that nobody waited for
    for (const Thread& thread : threads_) unfinished |= !thread.copies.empty();
    for (const Barrier& barrier : barriers_.all())
        unfinished |= !barrier.copies.empty() || !barrier.loads.empty();
    for (const Warpgroup& group : warpgroups_) unfinished |= !group.pending.empty();
    if (unfinished) forget_records();
    running = nullptr;
    return fault_;
}

/// Records stay: a CTA begins as if all its threads had met after the CTA before it.
void CtaRunner::begin() {
    ticks_ = 0;
    at_cta_sync_ = exited_ = 0;
    votes_ = false;
    random_ = (std::uint64_t(grid_.options.seed) << 32) + static_cast<std::uint32_t>(cta_);
    fault_.reset();
    shared_.poison();
    barriers_.clear();
    named_barriers_.fill({});
    begin_warpgroups();
    if (grid_.options.detect_races) clocks_.join(0, grid_.threads);
    for (int t = 0; t < grid_.threads; ++t) {
        Thread& thread = threads_[t];
        thread.copies.clear();
        thread.open_group = 0;
        thread.state = State::ready;
        stacks_.start(thread.fiber, t, thread_main, this);
    }
    for (Warp& warp : warps_) {
        warp.ready = all_lanes();
        warp.arrived = 0;
    }
}

void CtaRunner::thread_main(void* runner) {
    CtaRunner& cta = *static_cast<CtaRunner*>(runner);
    cta.grid_.kernel->run(cta.grid_.params);
    ++cta.exited_;
    cta.block(State::exited);
}

// ---- scheduling -------------------------------------------------------------------------------

void CtaRunner::leave() {
    switch_to(threads_[self_].fiber, host_);
}

void CtaRunner::go_to(int thread) {
    const int from = std::exchange(self_, thread);
    if (from != thread) switch_to(threads_[from].fiber, threads_[thread].fiber);
}

void CtaRunner::make_ready(int thread) {
    threads_[thread].state = State::ready;
    warps_[warp_of(thread)].ready |= std::uint64_t(1) << lane_of(thread);
}

/// Another lane of the warp goes first, so that the warp stays together; then another warp.
void CtaRunner::block(State state) {
    threads_[self_].state = state;
    Warp& warp = my_warp();
    warp.ready &= ~my_bit();
    if (warp.ready) {
        go_to(first_lane() + lane_after(warp.ready, lane_of(self_)));
        return;
    }
    check_divergence(warp);
    const int next = any_ready_thread();
    if (next < 0)
        leave();
    else
        go_to(next);
}

/// A lane of a warp picked at random among those that can run; -1 if none can.
int CtaRunner::any_ready_thread() {
    std::uint32_t ready_warps = 0;
    for (std::size_t w = 0; w < warps_.size(); ++w)
        ready_warps |= (warps_[w].ready != 0 ? 1u : 0u) << w;
    if (ready_warps == 0) return -1;
    for (int skip = random() % std::popcount(ready_warps); skip > 0; --skip)
        ready_warps &= ready_warps - 1;
    const int warp = std::countr_zero(ready_warps);
    return warp * grid_.wave_size + lane_after(warps_[warp].ready, lane_of(self_));
}

/// splitmix64
std::uint32_t CtaRunner::random() {
    std::uint64_t x = random_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::uint32_t>(x >> 32);
}

void CtaRunner::cta_sync() {
    if (++at_cta_sync_ < grid_.threads) {
        block(State::cta);
        return;
    }
    at_cta_sync_ = 0;
    vote_any_ = std::exchange(votes_, false);
    ++counts_.barriers;
    if (grid_.options.detect_races) clocks_.join(0, grid_.threads);
    for (int t = 0; t < grid_.threads; ++t) make_ready(t);
    for (Warp& warp : warps_) counts_.bank_conflicts += warp.log.flush(grid_.banks);
    go_to(any_ready_thread());
}

bool CtaRunner::cta_any(bool vote) {
    votes_ = votes_ || vote;
    cta_sync();
    return vote_any_;
}

void CtaRunner::collective(Collective what, const LaneArguments& arguments) {
    Warp& warp = my_warp();
    ++ticks_;
    if (warp.arrived != 0 && warp.at != what)
        fail(self_, [&] {
            return formatted("divergent warp: this lane is at {}, thread {} waits at {}",
                             name_of(what), first_lane() + std::countr_zero(warp.arrived),
                             name_of(warp.at));
        });
    warp.at = what;
    warp.arrived |= my_bit();
    warp.arguments[lane_of(self_)] = arguments;
    if (warp.arrived != all_lanes()) {
        block(State::warp);
        return;
    }
    execute(warp);
    warp.arrived = 0;
    for (int lane = 0; lane < grid_.wave_size; ++lane) make_ready(first_lane() + lane);
    counts_.bank_conflicts += warp.log.flush(grid_.banks);
    if (random() % turns_per_switch == 0) go_to(any_ready_thread());
}

/// Lanes that wait for each other will never meet one that waits for more than
/// the warp or has left.
void CtaRunner::check_divergence(const Warp& warp) {
    if (warp.arrived == 0) return;
    const int first = first_lane();
    for (int t = first; t < first + grid_.wave_size; ++t)
        if (threads_[t].state == State::cta || threads_[t].state == State::warpgroup ||
            threads_[t].state == State::exited)
            fail(t, [&] {
                return formatted("divergent warp: this lane {}, thread {} {}", waits_for(t),
                                 first + std::countr_zero(warp.arrived),
                                 waits_for(first + std::countr_zero(warp.arrived)));
            });
}

std::string CtaRunner::waits_for(int t) const {
    const Thread& thread = threads_[t];
    switch (thread.state) {
        case State::ready:
            return "can run";
        case State::warp:
            return formatted("waits at {}", name_of(warps_[warp_of(t)].at));
        case State::cta:
            return "waits at cta_sync";
        case State::warpgroup:
            return "waits at " + step_name(warpgroups_[t / warpgroup_threads]);
        case State::mbarrier:
            return waits_for_mbarrier(thread);
        case State::named: {
            const NamedBarrier& barrier = named_barriers_[thread.barrier];
            return formatted("waits at named_sync({}, {}), where {} have come", thread.barrier,
                             barrier.threads, barrier.arrived);
        }
        case State::exited:
            return "has exited";
    }
    return "";
}

std::string CtaRunner::waits_for_mbarrier(const Thread& thread) const {
    std::string text = formatted("waits at mbarrier_wait(shared byte {}, parity {})",
                                 thread.barrier - shared_base, thread.parity);
    for (const Barrier& barrier : barriers_.all())
        if (barrier.at == thread.barrier && barrier.bytes_expected != barrier.bytes_loading)
            text += formatted(", where {} bytes are expected and {} have been loaded",
                              barrier.bytes_expected, barrier.bytes_loading);
    return text;
}

std::string CtaRunner::deadlock() const {
    std::map<std::string, std::pair<int, int>> kinds;  // to how many, and the first
    for (int t = 0; t < grid_.threads; ++t)
        ++kinds.try_emplace(waits_for(t), 0, t).first->second.first;
    std::string text = "deadlock";
    const char* separator = ": ";
    for (const auto& [wait, threads] : kinds) {
        text += formatted("{}thread {} {} ({} threads)", separator, threads.second, wait,
                          threads.first);
        separator = ", ";
    }
    return text;
}

}  // namespace attune::emu
