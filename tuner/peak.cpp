#include "tuner/peak.h"

#include "generator/families/transposed.h"
#include "generator/family.h"
#include "generator/formatted.h"
#include "tuner/device_buffer.h"
#include "tuner/measure.h"

namespace attune {
namespace {

constexpr int launches = 6;
constexpr int threads = 256;
constexpr int independent = 8;   // peak_independent of templates/probe/peak.h
constexpr int wgmma_batch = 16;  // peak_wgmma_batch of templates/probe/peak_wgmma.h
constexpr std::uint32_t wgmma_shared_bytes = (threads / 128 * 64 + 256) * 128;
constexpr int emulated_steps = 4;

/// Two CTAs for each SM; one on the emulator.
std::uint32_t ctas_on(const DeviceInfo& info) {
    return info.emulated ? 1 : static_cast<std::uint32_t>(2 * info.target.multiprocessors);
}

/// A product of the shape m x n x k by each warp, with operands in registers.
MmaProbe by_registers(const char* header, const std::string& product, double m, double n, double k,
                      const Target& target) {
    MmaProbe probe;
    probe.text = {header, "PeakParams",
                  formatted("peak_products<{}, {}>(params)", product, threads), threads, ""};
    probe.flop_per_step = 2 * m * n * k * independent * threads / target.wave_size;
    probe.steps = 8192;
    return probe;
}

Result<Peak> measure(Device& device, Compiler& compiler, const ProbeText& text, std::uint32_t ctas,
                     PeakParams params, double work) {
    auto stopwatch = Stopwatch::create(device, compiler);
    if (!stopwatch) return stopwatch.error();
    auto sink = DeviceBuffer::allocate(device, sizeof(float) * threads * ctas);
    if (!sink) return sink.error();
    params.sink = sink->as<float>();
    auto probe = Probe::load(device, compiler, text);
    if (!probe) return probe.error();
    const auto burst =
        (*stopwatch)->burst(launches, [&](int) { return probe->launch(ctas, params); });
    if (!burst) return burst.error();
    return Peak{work / median(burst->samples_us), burst->clock_mhz};
}

}  // namespace

Result<MmaProbe> mma_probe(const Config& config, DType dtype, const Target& target) {
    const Signature signature{dtype, 64, Mask::full, false};
    const Family* family = find_family(config.family);
    if (!family) return Error{Code::invalid_argument, "no family " + config.family, ""};
    if (const auto applicable = family->applicable(signature, target); !applicable)
        return applicable.error();
    const char* element = element_name(dtype);
    if (config.family == "wgmma")
        return MmaProbe{{"templates/probe/peak_wgmma.h", "PeakParams",
                         formatted("peak_wgmma<{}, {}>(params)", element, threads), threads, "",
                         wgmma_shared_bytes},
                        2.0 * 64 * 256 * (32 / element_bytes(dtype)) * wgmma_batch * threads / 128,
                        256};
    if (config.family == "mma")
        return by_registers("templates/probe/peak.h", formatted("MmaSync<{}>", element), 16, 8, 16,
                            target);
    const TransposedNeeds needs = transposed_needs(signature, config, target);
    return by_registers(
        "templates/probe/peak_atom.h",
        formatted("AtomProduct<{}, {}>", static_cast<int>(atom_of(config, target)), element),
        needs.rows, needs.rows, needs.depth, target);
}

Result<Peak> measure_mma(Device& device, Compiler& compiler, const MmaProbe& probe) {
    const std::uint32_t ctas = ctas_on(device.info());
    const int steps = device.info().emulated ? emulated_steps : probe.steps;
    return measure(device, compiler, probe.text, ctas, PeakParams{nullptr, nullptr, 0, steps},
                   probe.flop_per_step * steps * ctas / 1e6);
}

Result<Peak> measure_read(Device& device, Compiler& compiler) {
    const DeviceInfo& info = device.info();
    const std::size_t bytes =
        info.emulated ? 1 << 16 : static_cast<std::size_t>(16 * info.target.l2_bytes);
    auto data = DeviceBuffer::allocate(device, bytes);
    if (!data) return data.error();
    if (auto filled = device.fill(data->ptr(), 1, bytes); !filled) return filled.error();
    const ProbeText text{"templates/probe/peak.h", "PeakParams",
                         formatted("peak_read<{}>(params)", threads), threads, ""};
    const PeakParams params{data->as<void>(), nullptr, static_cast<long long>(bytes / 16), 0};
    return measure(device, compiler, text, 8 * ctas_on(info), params,
                   static_cast<double>(bytes) / 1e3);
}

}  // namespace attune
