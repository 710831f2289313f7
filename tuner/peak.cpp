#include "tuner/peak.h"

#include <fmt/format.h>

#include "tuner/device_buffer.h"
#include "tuner/measure.h"
#include "tuner/probe.h"

namespace attune {
namespace {

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

}  // namespace

Result<Peak> measure_peak(Device& device, Compiler& compiler, DType dtype) {
    const Sizes sizes = sizes_on(device.info());
    auto stopwatch = Stopwatch::create(device, compiler);
    if (!stopwatch) return stopwatch.error();
    auto data = DeviceBuffer::allocate(device, sizes.read_bytes);
    if (!data) return data.error();
    const std::uint32_t read_ctas = 8 * sizes.ctas;
    auto sink = DeviceBuffer::allocate(device, sizeof(float) * threads * read_ctas);
    if (!sink) return sink.error();
    auto filled = device.fill(data->ptr(), 1, sizes.read_bytes);
    if (!filled) return filled.error();
    const PeakParams params{data->as<void>(), sink->as<float>(),
                            static_cast<long long>(sizes.read_bytes / 16), sizes.steps};
    const std::string header = "templates/probe/peak.h";
    auto mma =
        run(device, compiler, **stopwatch,
            {header, "PeakParams",
             fmt::format("peak_mma<{}, {}>(params)", element_name(dtype), threads), threads, ""},
            sizes.ctas, params);
    if (!mma) return mma.error();
    auto read =
        run(device, compiler, **stopwatch,
            {header, "PeakParams", fmt::format("peak_read<{}>(params)", threads), threads, ""},
            read_ctas, params);
    if (!read) return read.error();
    const double warps = static_cast<double>(sizes.ctas) * threads / 32;
    const double flop = flop_per_mma * mma_per_step * sizes.steps * warps;
    return Peak{flop / median(mma->samples_us) / 1e6,
                sizes.read_bytes / median(read->samples_us) / 1e3, mma->clock_mhz, read->clock_mhz};
}

}  // namespace attune
