// What this GPU reaches with nothing in the way: the ceiling that utilisation is reported against.
#pragma once

#include "generator/config.h"
#include "generator/problem.h"
#include "runtime/device.h"
#include "tuner/compiler.h"
#include "tuner/probe.h"

namespace attune {

struct Peak {
    double rate = 0;       // TFLOP/s, GB/s
    double clock_mhz = 0;  // of the SMs with the burst; 0 = the device has none to read
};

/// A kernel of nothing but the matrix instruction that `config` multiplies with, fp32 accumulate:
/// mma.sync m16n8k16, wgmma m64n256 (k16, k32 in e4m3), or AMD's with the config's shape.
struct MmaProbe {
    ProbeText text;
    double flop_per_step = 0;  // of a CTA
    int steps = 0;             // for about a millisecond on a GPU
};
/// unsupported where `target` lacks the instruction.
Result<MmaProbe> mma_probe(const Config& config, DType dtype, const Target& target);

/// TFLOP/s of `probe`, the median of one burst. On the emulator its estimate of a few steps.
Result<Peak> measure_mma(Device& device, Compiler& compiler, const MmaProbe& probe);

/// GB/s of streaming reads of much more than the L2, likewise.
Result<Peak> measure_read(Device& device, Compiler& compiler);

}  // namespace attune
