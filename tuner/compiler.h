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
    int registers = -1;    // per thread; on AMD vector registers, those for accumulation among them
    int spill_bytes = -1;  // stores + loads, as the compiler's own report counts them; on AMD 4 per
                           // register of a thread that is kept in scratch memory
    int stack_bytes = -1;  // per thread; on AMD scratch memory (the private segment)
    int shared_static_bytes = -1;
    int serialised_note = -1;         // number of ptxas's note that every wgmma is waited for
    int accumulation_registers = -1;  // CDNA, of `registers`: only MFMAs and moves reach them
    int scalar_registers = -1;        // AMD, per wave
};

struct Binary {
    std::vector<std::byte> bytes;  // cubin, code object, or the emulator's shared object
    std::string entry;
    Resources resources;
    std::string toolchain;  // "nvrtc 13.0", "hiprtc 7.2.53211", "g++ 12.2.0"
    std::string log;        // the compiler's, warnings included
    double compile_ms = 0;
};

class Compiler {
public:
    virtual ~Compiler() = default;
    virtual std::string toolchain() const = 0;
    /// The library that was opened, and the archs that it knows; empty where there is nothing to
    /// say.
    virtual std::string opened() const { return {}; }
    virtual std::vector<std::string> archs() const { return {}; }
    /// compile_failed carries the log; unsupported names an arch this compiler does not know and
    /// those it does.
    virtual Result<Binary> compile(const Source& source, const std::string& arch) = 0;
};

/// NVRTC, opened at run time. library_missing says where it was sought: $ATTUNE_NVRTC, the loader's
/// path, toolkit folders, pip's wheels. Needs no GPU.
Result<std::unique_ptr<Compiler>> open_nvrtc(
    const std::vector<TemplateFile>& templates = embedded_templates());

/// hiprtc, opened at run time: $ATTUNE_HIPRTC, the prefix that tools/rocm-prefix.sh makes, the
/// loader's path, ROCm's folders. Needs no GPU. What it cannot select instructions for ends the
/// process, and a prefix needs a C library of its own: open_compiler (tuner/devices.h) does it in a
/// process that has both.
Result<std::unique_ptr<Compiler>> open_hiprtc(
    const std::vector<TemplateFile>& templates = embedded_templates());

/// $ATTUNE_CXX, else c++, g++, clang++ from PATH: builds kernels for the emulator.
Result<std::unique_ptr<Compiler>> open_host_compiler(
    const std::vector<TemplateFile>& templates = embedded_templates());

}  // namespace attune
