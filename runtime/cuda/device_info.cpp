#include "runtime/cuda/device_info.h"

#include "generator/formatted.h"

namespace attune::cuda {
namespace {

struct IntRow {
    Attribute attribute;
    int Target::*member;
};
constexpr IntRow int_rows[] = {
    {multiprocessor_count, &Target::multiprocessors},
    {max_shared_bytes_per_block_opt_in, &Target::shared_bytes_per_cta},
    {max_shared_bytes_per_multiprocessor, &Target::shared_bytes_per_multiprocessor},
    {reserved_shared_bytes_per_block, &Target::shared_bytes_reserved_per_cta},
    {max_registers_per_multiprocessor, &Target::registers_per_multiprocessor},
    {max_threads_per_multiprocessor, &Target::max_threads_per_multiprocessor},
    {max_blocks_per_multiprocessor, &Target::max_ctas_per_multiprocessor},
    {warp_size, &Target::wave_size},
};

/// Dense 16-bit FLOP per cycle and SM with fp32 accumulation, derived from the datasheets of the
/// GPUs named (rate / SMs / boost clock).
struct MmaRate {
    int compute_capability;
    double flop_per_cycle;
};
constexpr MmaRate mma_rates[] = {
    {75, 1024},   // T4
    {80, 2048},   // A100
    {86, 1024},   // A10
    {89, 1024},   // L4, L40S
    {90, 4096},   // H100 SXM
    {100, 8192},  // B200
    {103, 8192},  // B300
    {120, 512},   // RTX 5090
};

/// Two transfers per memory clock.
double bandwidth_gb_per_s(int clock_khz, int bus_bits) {
    return 2.0 * clock_khz * 1e3 * bus_bits / 8 / 1e9;
}

/// Hopper's wgmma needs the architecture-specific target.
std::string arch_name(int major, int minor) {
    return formatted("sm_{}{}{}", major, minor, major == 9 ? "a" : "");
}

/// Of the same GPU in configs/gpus, else from the table above; 0 where neither knows.
double dense_tflops(const Target& target) {
    for (const Target& known : known_targets())
        if (known.name == target.name) return known.dense_f16_tflops;
    for (const MmaRate& rate : mma_rates)
        if (rate.compute_capability == target.compute_capability())
            return rate.flop_per_cycle * target.multiprocessors * target.boost_clock_mhz / 1e6;
    return 0;
}

/// "580.159.03" through NVML; empty where NVML does not open or answer.
std::string nvml_driver_version() {
    const std::string name = "libnvidia-ml.so.1";
    auto library = DynamicLibrary::open("NVML", {name, "/usr/local/nvidia/lib64/" + name}, "");
    if (!library) return {};
    const auto init = reinterpret_cast<int (*)()>(library->symbol("nvmlInit_v2"));
    const auto shutdown = reinterpret_cast<int (*)()>(library->symbol("nvmlShutdown"));
    const auto version =
        reinterpret_cast<int (*)(char*, unsigned)>(library->symbol("nvmlSystemGetDriverVersion"));
    if (!init || !shutdown || !version || init() != 0) return {};
    char text[96] = {};
    const bool answered = version(text, sizeof text - 1) == 0;
    shutdown();
    return answered ? text : "";
}

/// "GPU-8f2c...": as nvidia-smi prints it; a MIG device carries the UUID of its instance.
std::string uuid_text(const CUuuid& uuid, const std::string& device_name) {
    std::string text = device_name.find(" MIG ") == std::string::npos ? "GPU-" : "MIG-";
    for (int i = 0; i < 16; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += formatted("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
    }
    return text;
}

Result<void> query_identity(const Driver& driver, CUdevice device, DeviceInfo& info) {
    char name[256] = {};
    auto named =
        driver.check(driver.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
    if (!named) return named;
    info.target.name = name;
    CUuuid uuid{};
    auto identified = driver.check(driver.cuDeviceGetUuid_v2(&uuid, device), "cuDeviceGetUuid");
    if (!identified) return identified;
    info.uuid = uuid_text(uuid, info.target.name);
    int version = 0;
    auto versioned = driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
    if (!versioned) return versioned;
    info.driver = nvml_driver_version();
    if (info.driver.empty())
        info.driver = formatted("cuda {}.{}", version / 1000, version % 1000 / 10);
    return {};
}

}  // namespace

Result<DeviceInfo> query_info(const Driver& driver, CUdevice device, int ordinal) {
    DeviceInfo info;
    info.id = formatted("cuda:{}", ordinal);
    Target& target = info.target;
    target.id = info.id;
    target.vendor = Vendor::nvidia;
    auto identity = query_identity(driver, device, info);
    if (!identity) return identity.error();

    Result<void> asked;
    const auto ask = [&](Attribute attribute) {
        int value = 0;
        auto result = driver.check(driver.cuDeviceGetAttribute(&value, attribute, device),
                                   "cuDeviceGetAttribute");
        if (asked) asked = std::move(result);
        return value;
    };
    for (const IntRow& row : int_rows) target.*row.member = ask(row.attribute);
    const int major = ask(compute_capability_major);
    target.arch = arch_name(major, ask(compute_capability_minor));
    target.l2_bytes = ask(l2_cache_bytes);
    target.boost_clock_mhz = ask(clock_rate_khz) / 1e3;
    const int memory_clock_khz = ask(memory_clock_rate_khz);
    target.memory_gb_per_s = bandwidth_gb_per_s(memory_clock_khz, ask(memory_bus_width_bits));
    if (!asked) return asked.error();
    target.dense_f16_tflops = dense_tflops(target);
    return info;
}

}  // namespace attune::cuda
