// Compiler = source to binary: NVRTC for NVIDIA, the host's C++ compiler for the emulator, hiprtc
// for AMD.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "generator/emit.h"
#include "generator/status.h"

namespace attune {

/// What the compiler says the kernel uses. -1 where the compiler does not say.
struct Resources {
    int registers = -1;    // per thread
    int spill_bytes = -1;  // stores + loads, as the compiler's own report counts them
    int stack_bytes = -1;
    int shared_static_bytes = -1;
    int serialised_note = -1;  // number of ptxas's note that every wgmma is waited for
};

struct Binary {
    std::vector<std::byte> bytes;  // cubin, code object, or the emulator's shared object
    std::string entry;
    Resources resources;
    std::string toolchain;  // "nvrtc 13.0", "g++ 12.2.0"
    std::string log;        // the compiler's, warnings included
    double compile_ms = 0;
};

class Compiler {
public:
    virtual ~Compiler() = default;
    virtual std::string toolchain() const = 0;
    /// compile_failed carries the log; unsupported names an arch this compiler does not know and
    /// those it does.
    virtual Result<Binary> compile(const Source& source, const std::string& arch) = 0;
};

/// NVRTC, opened at run time. library_missing says where it was sought: $ATTUNE_NVRTC, the loader's
/// path, toolkit folders, pip's wheels. Needs no GPU.
Result<std::unique_ptr<Compiler>> open_nvrtc(
    const std::vector<TemplateFile>& templates = embedded_templates());

/// $ATTUNE_CXX, else c++, g++, clang++ from PATH: builds kernels for the emulator.
Result<std::unique_ptr<Compiler>> open_host_compiler(
    const std::vector<TemplateFile>& templates = embedded_templates());

}  // namespace attune
