// From what a launch did to how long a GPU might take for it.
#pragma once

#include "runtime/emu/emu.h"

namespace attune::emu {

/// Microseconds: a fixed launch cost, and the slowest of what a multiprocessor does side by side:
/// MMAs at the dense rate (mma.sync on sm_90 at a share of it), 16 exp2 per clock, 128
/// shared-memory bytes or one conflicting wavefront per clock; and global bytes at the memory's
/// bandwidth. Work is spread over the multiprocessors CTA by CTA, so that a partly filled last
/// round costs a whole one. An ordering, not a measurement.
double estimate_us(const EmuCounts& counts, int ctas, const Target& target);

}  // namespace attune::emu
