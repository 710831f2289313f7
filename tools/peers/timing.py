"""Times launches of any candidate the same way: bursts queued behind a holding kernel."""

import statistics
import time
from dataclasses import dataclass, field

import torch


class CannotTime(Exception):
    """Why a candidate has no time in this row."""


@dataclass(frozen=True)
class Policy:
    launches_per_burst: int = 8  # the first of every burst is dropped
    bursts: int = 6
    idle_gap_ms: float = 60  # before every burst: big GPUs are power-limited
    cold_l2_factor: float = 3  # inputs rotate over at least this many L2s
    error_heads: int = 4
    seed: int = 0

    def describe(self):
        return {
            **vars(self),
            "id": "peers/1",
            "dropped_per_burst": 1,
            "hold": "torch.cuda._sleep until the host has queued the burst, else repeated",
            "order": "candidates interleaved burst by burst, rotated by one each round",
            "statistic": "median of per-launch CUDA-event times",
        }


@dataclass
class Samples:
    times_us: list = field(default_factory=list)
    clocks_mhz: list = field(default_factory=list)  # one a burst
    hold_cycles: int = 4_000_000  # a millisecond or two: eight launches of a warm peer
    failure: str = ""  # why there is no time

    @property
    def median_us(self):
        return statistics.median(self.times_us)


LONGEST_HOLD_CYCLES = 500_000_000  # a quarter of a second, for a host under load
PROBE_CYCLES = (50_000, 450_000)


def interleave(candidates, policy):
    """{name: launch()} -> {name: Samples}, burst by burst, another candidate first in each round."""
    samples = {name: Samples() for name in candidates}
    names = list(candidates)
    for turn in range(policy.bursts if names else 0):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            if not samples[name].failure:
                _add_burst(candidates[name], samples[name], policy)
    return samples


def _add_burst(launch, samples, policy):
    """Adds a burst's times but the first, and the SM clock right after it."""
    while True:
        time.sleep(policy.idle_gap_ms / 1000)
        marks, held = _queue_burst(launch, samples.hold_cycles, policy.launches_per_burst)
        marks[-1].synchronize()
        if held:
            break
        if samples.hold_cycles >= LONGEST_HOLD_CYCLES:
            samples.failure = "the host did not queue a burst within the longest hold"
            return
        samples.hold_cycles *= 2
    steps_us = [1000 * start.elapsed_time(stop) for start, stop in zip(marks, marks[1:])]
    *times_us, short_us, long_us = steps_us
    samples.times_us += times_us[1:]
    # The difference of two sleeps is free of what starting one costs.
    samples.clocks_mhz.append((PROBE_CYCLES[1] - PROBE_CYCLES[0]) / (long_us - short_us))


def _queue_burst(launch, hold_cycles, launches):
    """Events round every launch and the two clock probes; whether all was queued under the hold."""
    marks = [_event() for _ in range(1 + launches + len(PROBE_CYCLES))]
    torch.cuda._sleep(hold_cycles)
    marks[0].record()
    for mark in marks[1 : 1 + launches]:
        launch()
        mark.record()
    for cycles, mark in zip(PROBE_CYCLES, marks[1 + launches :]):
        torch.cuda._sleep(cycles)
        mark.record()
    return marks, not marks[0].query()


def _event():
    return torch.cuda.Event(enable_timing=True)


def sustained_us(launch, expected_us, seconds):
    """Mean time of launches back to back for `seconds`, hot. CannotTime where the GPU had to wait for
    the host. No hold: so many launches do not fit into a queue."""
    ahead = 16
    count = max(4 * ahead, round(seconds * 1e6 / expected_us))
    start, late, stop = _event(), _event(), _event()
    start.record()
    for index in range(count):
        if index == count - ahead:
            late.record()
        launch()
    stop.record()
    host_was_ahead = not late.query()
    stop.synchronize()
    if not host_was_ahead:
        raise CannotTime("sustained: the host queues launches slower than the GPU runs them")
    return 1000 * start.elapsed_time(stop) / count
