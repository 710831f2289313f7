// Probes that stand in a queue beside the kernels that are timed.
#pragma once

#include "target.h"
#include "templates/probe/params.h"

namespace attune {

ATTUNE_DEVICE void hold_queue(const HoldParams& p) {
    const unsigned long long start = global_timer_ns();
    bool released = false, late = false;
    while (!released && !late) {
        released = load_global_volatile_32(p.flag) != 0;
        late = global_timer_ns() - start > p.timeout_ns;
    }
    if (thread_index() == 0) store_global_32(p.timed_out, released ? 0u : 1u);
}

/// The first new value of the timer from `earliest` on: some GPUs update it once a microsecond
/// only, so intervals are taken from tick to tick.
ATTUNE_DEVICE unsigned long long timer_tick(unsigned long long earliest) {
    const unsigned long long before = global_timer_ns();
    unsigned long long now = before;
    while (now == before || now < earliest) now = global_timer_ns();
    return now;
}

ATTUNE_DEVICE void read_clock(const ClockParams& p) {
    const unsigned long long start_ns = timer_tick(0);
    const unsigned long long start_cycles = clock_cycles();
    const unsigned long long stop_ns = timer_tick(start_ns + p.span_ns);
    const unsigned long long stop_cycles = clock_cycles();
    if (thread_index() != 0) return;
    store_global_32(p.result, static_cast<unsigned>(stop_cycles - start_cycles));
    store_global_32(p.result + 1, static_cast<unsigned>(stop_ns - start_ns));
}

}  // namespace attune
