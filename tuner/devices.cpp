#include "tuner/devices.h"

#include <charconv>

#include "generator/formatted.h"
#include "runtime/emu/emu.h"

namespace attune {
namespace {

using OpenCompiler = Result<std::unique_ptr<Compiler>> (*)(const std::vector<TemplateFile>&);
struct CompilerRow {
    const char* name;
    OpenCompiler open;
};
constexpr CompilerRow compilers[] = {{"nvrtc", open_nvrtc}, {"host", open_host_compiler}};

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

const char* compiler_for(bool emulated) {
    return compilers[emulated ? 1 : 0].name;
}

Result<std::unique_ptr<Compiler>> open_compiler(const std::string& name) {
    for (const CompilerRow& row : compilers)
        if (name == row.name) return row.open(embedded_templates());
    return Error{Code::invalid_argument, formatted("'{}' is no compiler", name),
                 "use nvrtc or host"};
}

}  // namespace attune
