// What four warps do together: wgmma as late as the program allows, registers handed over.
#include <algorithm>
#include <cstring>

#include "generator/formatted.h"
#include "runtime/emu/cta.h"

namespace attune::emu {
namespace {

constexpr int registers_of_multiprocessor = 65536;
constexpr int max_registers = 255;
/// How often a warpgroup that could go on lets another go first.
constexpr std::uint32_t steps_per_switch = 4;

/// Registers per thread that a launch of so many threads may be given.
int launch_registers(int threads) {
    return std::min(max_registers, registers_of_multiprocessor / threads / 8 * 8);
}

bool same(const WgmmaCall* x, const WgmmaCall* y) {
    if (!x || !y) return x == y;
    return x->a_descriptor == y->a_descriptor && x->b_descriptor == y->b_descriptor &&
           x->n == y->n && x->element == y->element && x->accumulate == y->accumulate &&
           !x->a == !y->a;
}

}  // namespace

int CtaRunner::first_thread(const Warpgroup& group) const {
    return static_cast<int>(&group - warpgroups_.data()) * warpgroup_threads;
}

void CtaRunner::begin_warpgroups() {
    for (Warpgroup& group : warpgroups_) {
        group = {};
        group.registers = launch_registers(grid_.threads);
    }
    registers_free_ = 0;
}

void CtaRunner::warpgroup(WarpgroupStep step, int number, const WgmmaCall* call) {
    ++ticks_;
    if (grid_.threads % warpgroup_threads != 0)
        fail(self_, [] { return "a warpgroup's operation in a CTA that is not whole warpgroups"; });
    Warpgroup& group = warpgroups_[self_ / warpgroup_threads];
    if (group.arrived == 0) {
        group.first = self_;
        group.step = step;
        group.number = number;
    } else {
        check_same_step(group, step, number, call);
    }
    group.calls[self_ % warpgroup_threads] = call;
    if (++group.arrived == warpgroup_threads) execute(group);
    if (group.arrived != 0)
        block(State::warpgroup);
    else if (random() % steps_per_switch == 0)
        go_to(any_ready_thread());
}

void CtaRunner::check_same_step(const Warpgroup& group, WarpgroupStep step, int number,
                                const WgmmaCall* call) {
    const bool same_step = group.step == step && group.number == number;
    if (same_step && same(group.calls[group.first % warpgroup_threads], call)) return;
    fail(self_, [&] {
        Warpgroup mine;
        mine.step = step;
        mine.number = number;
        return formatted("divergent warpgroup: this thread is at {}, thread {} waits at {}{}",
                         step_name(mine), group.first, step_name(group),
                         same_step ? " of other operands" : "");
    });
}

void CtaRunner::execute(Warpgroup& group) {
    switch (group.step) {
        case WarpgroupStep::wgmma:
            issue_wgmma(group);
            break;
        case WarpgroupStep::fence:
            group.fenced = true;
            break;
        case WarpgroupStep::commit:
            ++group.commits;
            break;
        case WarpgroupStep::wait:
            finish_wgmmas(group);
            break;
        case WarpgroupStep::shrink:
            shrink_registers(group);
            break;
        case WarpgroupStep::grow:
            return grant_registers();
    }
    go_on(group);
}

void CtaRunner::go_on(Warpgroup& group) {
    group.arrived = 0;
    const int first = first_thread(group);
    for (int t = first; t < first + warpgroup_threads; ++t) make_ready(t);
}

// ---- wgmma ------------------------------------------------------------------------------------

void CtaRunner::issue_wgmma(Warpgroup& group) {
    if (!group.fenced)
        fail(self_, [] {
            return "wgmma without a wgmma_fence since the start or the last wgmma_wait: it may not "
                   "see what was written to its registers";
        });
    const WgmmaCall& call = *group.calls[0];
    PendingWgmma& wgmma = group.pending.emplace_back();
    wgmma.call = call;
    wgmma.batch = group.commits;
    for (int t = 0; t < warpgroup_threads; ++t) wgmma.a[t] = group.calls[t]->a;
    const MatrixOperand a = MatrixOperand::decode(call.a_descriptor);
    const MatrixOperand b = MatrixOperand::decode(call.b_descriptor);
    if (!b.supported || (!call.a && !a.supported))
        fail(self_, [] { return "wgmma with a descriptor that is not of 128-byte swizzle"; });
    for (int i = 0; !call.a && i < 64 * 2; ++i)
        wgmma.a_pieces.push_back(a.along_depth(i / 2, i % 2));
    for (int i = 0; i < call.n * 2; ++i)
        wgmma.b_pieces.push_back(call.across ? b.across_depth(i / (call.n / 8), i % (call.n / 8))
                                             : b.along_depth(i / 2, i % 2));
    read_operands(group, wgmma.a_pieces);
    read_operands(group, wgmma.b_pieces);
    ++open_accumulators(group).pending;
    const int products = call.n / 2 * depth_of(call.element) / 16;
    counts_.mma += products;
    counts_.wgmma += products;
}

/// All four warps read, and go on reading until the wait.
void CtaRunner::read_operands(Warpgroup& group, const std::vector<SharedAddress>& pieces) {
    const int first = first_thread(group);
    for (const SharedAddress at : pieces) {
        check_shared(self_, at, 16, "wgmma");
        for (int w = first / 32; grid_.options.detect_races && w < first / 32 + 4; ++w)
            if (const auto conflict = shared_.read(32 * w, at, 16, {clocks_.warp_id(w), in_flight}))
                fail_race(*conflict, 32 * w, Access::read);
        if (const auto unfenced = shared_.unfenced(at, 16))
            fail(self_, [&] {
                return formatted(
                    "wgmma reads shared byte {}, which thread {} stored with no fence_async after",
                    unfenced->address - shared_base, unfenced->thread);
            });
    }
    counts_.shared_bytes += 16 * pieces.size();
}

/// What the group's call adds to; the first of several that follow each other takes the registers.
Accumulators& CtaRunner::open_accumulators(Warpgroup& group) {
    const WgmmaCall& call = *group.calls[0];
    if (Accumulators* open = group.find_accumulators(call)) return *open;
    Accumulators& added = group.accumulators.emplace_back();
    for (int t = 0; t < warpgroup_threads; ++t) added.d[t] = group.calls[t]->d;
    added.n = call.n;
    added.take();
    return added;
}

void CtaRunner::finish_wgmmas(Warpgroup& group) {
    group.fenced = false;
    const std::uint32_t clock = ++landings_;
    while (!group.pending.empty() && group.pending.front().batch + group.number < group.commits) {
        finish(group, group.pending.front());
        set_reads(group, group.pending.front(), clock);
        group.pending.pop_front();
    }
    for (const PendingWgmma& later : group.pending) set_reads(group, later, in_flight);
    std::erase_if(group.accumulators, [](const Accumulators& accumulators) {
        if (accumulators.pending == 0) accumulators.give();
        return accumulators.pending == 0;
    });
    const int first = first_thread(group);
    for (int t = first; grid_.options.detect_races && t < first + warpgroup_threads; ++t)
        clocks_.learn(t, {clocks_.warp_id(t / 32), clock});
}

void CtaRunner::finish(Warpgroup& group, const PendingWgmma& wgmma) {
    const WgmmaCall& call = wgmma.call;
    const int depth = depth_of(call.element);
    Operands operands{std::vector<std::uint16_t>(std::size_t(64) * depth),
                      std::vector<std::uint16_t>(std::size_t(depth) * call.n)};
    if (call.a) unpack_registers(operands, wgmma);
    for (int i = 0; i < int(wgmma.a_pieces.size()); ++i)
        unpack_a(operands, call.element, i, shared_.bytes(wgmma.a_pieces[i]));
    for (int i = 0; i < int(wgmma.b_pieces.size()); ++i)
        unpack_b(operands, call, i, shared_.bytes(wgmma.b_pieces[i]));
    Accumulators* to = group.find_accumulators(call);
    multiply(to->values, operands, call);
    --to->pending;
}

void CtaRunner::set_reads(const Warpgroup& group, const PendingWgmma& wgmma, std::uint32_t clock) {
    const int first = first_thread(group) / 32;
    for (const auto* pieces : {&wgmma.a_pieces, &wgmma.b_pieces})
        for (const SharedAddress at : *pieces)
            for (int w = first; w < first + 4; ++w)
                shared_.set_read(w, at, 16, {clocks_.warp_id(w), clock});
}

// ---- registers --------------------------------------------------------------------------------

void CtaRunner::shrink_registers(Warpgroup& group) {
    if (group.number > group.registers)
        fail(self_, [&] {
            return formatted("{} of a warpgroup that has {}", step_name(group), group.registers);
        });
    registers_free_ += (group.registers - group.number) * warpgroup_threads;
    group.registers = group.number;
    grant_registers();
}

/// Warpgroups wait until others have given enough.
void CtaRunner::grant_registers() {
    for (Warpgroup& group : warpgroups_) {
        if (group.arrived < warpgroup_threads || group.step != WarpgroupStep::grow) continue;
        const int wanted = (group.number - group.registers) * warpgroup_threads;
        if (wanted < 0)
            fail(self_, [&] {
                return formatted("{} of a warpgroup that has {}", step_name(group),
                                 group.registers);
            });
        if (wanted > registers_free_) continue;
        registers_free_ -= wanted;
        group.registers = group.number;
        go_on(group);
    }
}

}  // namespace attune::emu
