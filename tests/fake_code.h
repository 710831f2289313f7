// Code objects as the fake drivers know them: ELF files that hold the string which
// templates/target/{cuda,hip}.h put into every kernel, `attune source <hash> <what it is>`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit.h"
#include "tuner/compiler.h"

namespace attune {

/// The least that is a code object for the fakes: as if `source` were compiled for the target.
std::vector<std::byte> fake_code_object(const Source& source, const Target& target);

/// Makes them of any source.
class FakeCompiler final : public Compiler {
public:
    std::string toolchain() const override { return "fake 1.0"; }
    Result<Binary> compile(const Source& source, const std::string& arch) override;
};

/// The bytes of an ELF file of which only the start is known.
std::string_view elf_image(const void* start);
/// Whether it is for this target: the vendor's machine number, and AMD's of the arch.
bool is_for(std::string_view image, const Target& target);
/// Whether it has such a kernel.
bool has_kernel(std::string_view image, const std::string& name, Vendor vendor);

/// The source it was made from, emitted again; not_found where the present generator and templates
/// make another one. Kernels of templates/probe are told by their hash alone.
Result<Source> source_of(std::string_view image, const Target& target);
/// The same source compiled for the emulator; kept in $FAKE_TWINS.
Result<Binary> twin_of(const Source& source);

}  // namespace attune
