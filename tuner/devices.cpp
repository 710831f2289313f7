#include "tuner/devices.h"

#include <charconv>

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
constexpr CompilerRow compilers[] = {{"nvrtc", open_nvrtc, false},
                                     {"hiprtc", open_hiprtc, true},
                                     {"host", open_host_compiler, false}};

Result<const CompilerRow*> find_compiler(const std::string& name) {
    for (const CompilerRow& row : compilers)
        if (name == row.name) return &row;
    return Error{Code::invalid_argument, formatted("'{}' is no compiler", name),
                 "use nvrtc, hiprtc or host"};
}

Error unknown_device(const std::string& id) {
    return {Code::invalid_argument, formatted("'{}' is no device", id),
            "write cuda:0 or emu:h200; attune devices lists them"};
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const std::string& id) {
    const std::size_t colon = id.find(':');
    if (colon == std::string::npos) return unknown_device(id);
    const std::string rest = id.substr(colon + 1);
    if (id.starts_with("emu:")) {
        auto emulator = open_emulator(rest);
        if (!emulator) return emulator.error();
        return std::unique_ptr<Device>(std::move(*emulator));
    }
    int ordinal = -1;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), ordinal);
    if (!id.starts_with("cuda:") || fault != std::errc{} || end != rest.data() + rest.size() ||
        ordinal < 0)
        return unknown_device(id);
    return open_cuda_device(ordinal);
}

std::vector<DeviceInfo> cuda_devices() {
    std::vector<DeviceInfo> found;
    for (int ordinal = 0;; ++ordinal) {
        const auto device = open_cuda_device(ordinal);
        if (!device) return found;
        found.push_back((*device)->info());
    }
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
