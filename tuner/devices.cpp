#include "tuner/devices.h"

#include "generator/formatted.h"
#include "runtime/emu/emu.h"
#include "tuner/compiler_process.h"
#include "tuner/tune.h"

namespace attune {
namespace {

using OpenCompiler = Result<std::unique_ptr<Compiler>> (*)(const std::vector<TemplateFile>&);
struct CompilerRow {
    const char* name;
    OpenCompiler open;
    bool own_process;
};
constexpr int most_gpus = 64;  // of one vendor
constexpr CompilerRow compilers[] = {{"nvrtc", open_nvrtc, false},
                                     {"hiprtc", open_hiprtc, true},
                                     {"host", open_host_compiler, false}};

Result<const CompilerRow*> find_compiler(const std::string& name) {
    for (const CompilerRow& row : compilers)
        if (name == row.name) return &row;
    return Error{Code::invalid_argument, formatted("'{}' is no compiler", name),
                 "use nvrtc, hiprtc or host"};
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const std::string& id) {
    if (!id.starts_with("emu:")) return open_gpu(id);
    auto emulator = open_emulator(id.substr(4));
    if (!emulator) return emulator.error();
    return std::unique_ptr<Device>(std::move(*emulator));
}

std::vector<DeviceInfo> gpu_devices() {
    std::vector<DeviceInfo> found;
    for (const auto open : {open_cuda_device, open_hip_device})
        for (int ordinal = 0; ordinal < most_gpus; ++ordinal) {
            const auto device = open(ordinal);
            if (device)
                found.push_back((*device)->info());
            else if (device.error().code != Code::unsupported)
                break;
        }
    return found;
}

const char* compiler_for(Vendor vendor, bool emulated) {
    if (emulated) return "host";
    return vendor == Vendor::nvidia ? "nvrtc" : "hiprtc";
}

Result<std::unique_ptr<Compiler>> open_compiler(const std::string& name) {
    const auto row = find_compiler(name);
    if (!row) return row.error();
    if (!(*row)->own_process) return (*row)->open(embedded_templates());
    auto process = CompilerProcess::open({}, name);
    if (!process) return process.error();
    return std::unique_ptr<Compiler>(std::move(*process));
}

Result<std::unique_ptr<Compiler>> open_compiler_here(const std::string& name) {
    const auto row = find_compiler(name);
    if (!row) return row.error();
    return (*row)->open(embedded_templates());
}

}  // namespace attune
