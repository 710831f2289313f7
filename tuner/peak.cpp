#include "tuner/peak.h"

#include "generator/formatted.h"
#include "tuner/device_buffer.h"
#include "tuner/measure.h"
#include "tuner/probe.h"

namespace attune {
namespace {

constexpr const char* header = "templates/probe/peak.h";
constexpr int launches = 6;
constexpr int threads = 256;
constexpr double flop_per_mma = 2.0 * 16 * 8 * 16;
constexpr int mma_per_step = 8;  // peak_mma_per_step of templates/probe/peak.h

/// Enough work for about a millisecond on a GPU; next to none on the emulator.
struct Sizes {
    std::uint32_t ctas;
    int steps;
    std::size_t read_bytes;
};
Sizes sizes_on(const DeviceInfo& info) {
    if (info.emulated) return {1, 4, 1 << 16};
    const auto ctas = static_cast<std::uint32_t>(2 * info.target.multiprocessors);
    return {ctas, 8192, static_cast<std::size_t>(16 * info.target.l2_bytes)};
}

Result<Burst> run(Device& device, Compiler& compiler, Stopwatch& stopwatch, const ProbeText& text,
                  std::uint32_t ctas, const PeakParams& params) {
    auto probe = Probe::load(device, compiler, text);
    if (!probe) return probe.error();
    return stopwatch.burst(launches, [&](int) { return probe->launch(ctas, params); });
}

struct Rate {
    double value, clock_mhz;
};

Result<Rate> mma_rate(Device& device, Compiler& compiler, Stopwatch& stopwatch, DType dtype) {
    if (device.info().target.vendor != Vendor::nvidia)
        return Error{
            Code::unsupported,
            formatted("{} has no mma.sync, whose rate would be measured", device.info().id),
            "compare with the datasheet's rate (attune devices)"};
    const Sizes sizes = sizes_on(device.info());
    auto sink = DeviceBuffer::allocate(device, sizeof(float) * threads * sizes.ctas);
    if (!sink) return sink.error();
    const std::string call = formatted("peak_mma<{}, {}>(params)", element_name(dtype), threads);
    const auto burst = run(device, compiler, stopwatch, {header, "PeakParams", call, threads, ""},
                           sizes.ctas, PeakParams{nullptr, sink->as<float>(), 0, sizes.steps});
    if (!burst) return burst.error();
    const double warps = static_cast<double>(sizes.ctas) * threads / 32;
    const double flop = flop_per_mma * mma_per_step * sizes.steps * warps;
    return Rate{flop / median(burst->samples_us) / 1e6, burst->clock_mhz};
}

Result<Rate> read_rate(Device& device, Compiler& compiler, Stopwatch& stopwatch) {
    const Sizes sizes = sizes_on(device.info());
    auto data = DeviceBuffer::allocate(device, sizes.read_bytes);
    if (!data) return data.error();
    const std::uint32_t ctas = 8 * sizes.ctas;
    auto sink = DeviceBuffer::allocate(device, sizeof(float) * threads * ctas);
    if (!sink) return sink.error();
    auto filled = device.fill(data->ptr(), 1, sizes.read_bytes);
    if (!filled) return filled.error();
    const std::string call = formatted("peak_read<{}>(params)", threads);
    const auto burst =
        run(device, compiler, stopwatch, {header, "PeakParams", call, threads, ""}, ctas,
            PeakParams{data->as<void>(), sink->as<float>(),
                       static_cast<long long>(sizes.read_bytes / 16), sizes.steps});
    if (!burst) return burst.error();
    return Rate{sizes.read_bytes / median(burst->samples_us) / 1e3, burst->clock_mhz};
}

}  // namespace

Result<double> measure_mma_tflops(Device& device, Compiler& compiler, DType dtype) {
    auto stopwatch = Stopwatch::create(device, compiler);
    if (!stopwatch) return stopwatch.error();
    const auto mma = mma_rate(device, compiler, **stopwatch, dtype);
    if (!mma) return mma.error();
    return mma->value;
}

Result<Peak> measure_peak(Device& device, Compiler& compiler, DType dtype) {
    auto stopwatch = Stopwatch::create(device, compiler);
    if (!stopwatch) return stopwatch.error();
    const auto mma = mma_rate(device, compiler, **stopwatch, dtype);
    if (!mma) return mma.error();
    const auto read = read_rate(device, compiler, **stopwatch);
    if (!read) return read.error();
    return Peak{mma->value, read->value, mma->clock_mhz, read->clock_mhz};
}

}  // namespace attune
