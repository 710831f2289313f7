// What this GPU reaches with nothing in the way: the ceiling that utilisation is reported against.
#pragma once

#include "generator/problem.h"
#include "runtime/device.h"
#include "tuner/compiler.h"

namespace attune {

struct Peak {
    double mma_tflops = 0;      // mma.sync m16n8k16, fp32 accumulate, operands in registers
    double read_gb_per_s = 0;   // streaming reads of much more than the L2
    double mma_clock_mhz = 0;   // SM clock with the MMA burst; 0 = the device has none to read
    double read_clock_mhz = 0;  // likewise
};

/// TFLOP/s of mma.sync m16n8k16 alone, as in Peak.
Result<double> measure_mma_tflops(Device& device, Compiler& compiler, DType dtype);

/// Medians of one burst each, well under a second. On the emulator its estimates.
Result<Peak> measure_peak(Device& device, Compiler& compiler, DType dtype);

}  // namespace attune
