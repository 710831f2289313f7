#include "runtime/hip/device_info.h"

#include <array>

#include "generator/formatted.h"

namespace attune::hip {
namespace {

/// "gfx942:sramecc+:xnack-".
Result<std::string> query_isa(const Driver& driver, int device) {
    std::array<char, properties_bytes> properties{};
    const bool r0600 = driver.hipGetDevicePropertiesR0600 != nullptr;
    auto asked = driver.check((r0600 ? driver.hipGetDevicePropertiesR0600
                                     : driver.hipGetDeviceProperties)(properties.data(), device),
                              "hipGetDeviceProperties");
    if (!asked) return asked.error();
    return std::string(properties.data() + (r0600 ? arch_name_offset_r0600 : arch_name_offset));
}

/// The GPU of this name in configs/gpus, else the first of this arch. The numbers that HIP does not
/// say are its: HIP gives the L2 of one chiplet, and a memory clock without transfers per clock.
Result<Target> known_as(const std::string& name, const std::string& arch) {
    const Target* same_arch = nullptr;
    for (const Target& known : known_targets()) {
        if (known.arch != arch) continue;
        if (known.name == name) return known;
        if (same_arch == nullptr) same_arch = &known;
    }
    if (same_arch != nullptr) return *same_arch;
    return Error{Code::unsupported, formatted("{} is a {}, which Attune does not know", name, arch),
                 "describe the GPU in configs/gpus, and see whether a kernel family fits it"};
}

Result<void> query_identity(const Driver& driver, int device, DeviceInfo& info, std::string& name) {
    char text[256] = {};
    auto named =
        driver.check(driver.hipDeviceGetName(text, sizeof text - 1, device), "hipDeviceGetName");
    if (!named) return named;
    name = text;
    char bus_id[64] = {};
    auto identified = driver.check(driver.hipDeviceGetPCIBusId(bus_id, sizeof bus_id - 1, device),
                                   "hipDeviceGetPCIBusId");
    if (!identified) return identified;
    info.uuid = bus_id;
    int version = 0;
    auto versioned = driver.check(driver.hipRuntimeGetVersion(&version), "hipRuntimeGetVersion");
    if (!versioned) return versioned;
    info.driver =
        formatted("hip {}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
    return {};
}

}  // namespace

Result<QueriedInfo> query_info(const Driver& driver, int device) {
    QueriedInfo queried;
    DeviceInfo& info = queried.info;
    info.id = formatted("hip:{}", device);
    std::string name;
    auto identity = query_identity(driver, device, info, name);
    if (!identity) return identity.error();
    auto isa = query_isa(driver, device);
    if (!isa) return isa.error();
    queried.isa = *std::move(isa);
    const std::string arch = queried.isa.substr(0, queried.isa.find(':'));
    if (name.empty()) name = "AMD " + arch;  // the driver's table of names may lack a GPU
    auto known = known_as(name, arch);
    if (!known) return known.error();

    Result<void> asked;
    const auto ask = [&](Attribute attribute) {
        int value = 0;
        auto result = driver.check(driver.hipDeviceGetAttribute(&value, attribute, device),
                                   "hipDeviceGetAttribute");
        if (asked) asked = std::move(result);
        return value;
    };
    Target& target = info.target;
    target = *known;
    target.id = info.id;
    target.name = name;
    target.wave_size = ask(warp_size);
    target.multiprocessors = ask(multiprocessor_count) * (target.wave_size == 32 ? 2 : 1);
    target.shared_bytes_per_cta = ask(max_shared_bytes_per_block);
    target.boost_clock_mhz = ask(clock_rate_khz) / 1e3;
    if (!asked) return asked.error();
    target.dense_f16_tflops *= double(target.multiprocessors) / known->multiprocessors *
                               target.boost_clock_mhz / known->boost_clock_mhz;
    return queried;
}

}  // namespace attune::hip
