// Taking time: statistics over samples, and bursts of launches behind a holding kernel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device.h"
#include "tuner/compiler.h"

namespace attune {

/// Of a copy; 0 for none. Even counts take the mean of the middle two.
double median(std::vector<double> values);
/// (p75 - p25) / median, quartiles by linear interpolation; 0 for fewer than two values.
double relative_spread(std::vector<double> values);

/// The block whose clock lies furthest below the median of the others', if by more than
/// `tolerance`. None where a block has no clock (0).
std::optional<std::size_t> slow_block(const std::vector<double>& clocks_mhz,
                                      double tolerance = 0.03);

struct Burst {
    std::vector<double> samples_us;  // without the first launch
    double clock_mhz = 0;            // just after the launches; 0 = the device has none to read
};

/// Times launches back to back on the default stream. Its device must outlive it.
class Stopwatch {
public:
    /// Compiles and loads the holding and the clock probe, where the device has an asynchronous
    /// queue.
    static Result<std::unique_ptr<Stopwatch>> create(Device& device, Compiler& compiler);
    virtual ~Stopwatch() = default;

    /// Calls `enqueue(i)` for i = 0 .. launches - 1 and times each; the first is thrown away. The
    /// kernels must have run before: where a driver loads code lazily, a first launch may wait for
    /// the queue to drain, and it is held. On a
    /// device without a queue (the emulator) one launch is made and its estimate is the one sample.
    virtual Result<Burst> burst(int launches, const std::function<Result<void>(int)>& enqueue) = 0;
};

}  // namespace attune
