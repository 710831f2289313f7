// What NVRTC and hiprtc have in common: a program is made of a text and headers, compiled, and its
// log and code are taken. hiprtc's calls are NVRTC's under another prefix.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tuner/compiler.h"

namespace attune {

/// X(member, name, parameters) for the library of that prefix, which calls its output `Code`. Every
/// call returns 0 if it succeeds.
// clang-format off
#define ATTUNE_PROGRAM_CALLS(X, prefix, Code)                                                     \
    X(create, prefix##CreateProgram, (void** program, const char* source, const char* name,      \
                                      int headers, const char* const* texts,                     \
                                      const char* const* names))                                 \
    X(destroy, prefix##DestroyProgram, (void** program))                                          \
    X(compile, prefix##CompileProgram, (void* program, int count, const char* const* options))   \
    X(log_bytes, prefix##GetProgramLogSize, (void* program, std::size_t* bytes))                  \
    X(log, prefix##GetProgramLog, (void* program, char* log))                                     \
    X(code_bytes, prefix##Get##Code##Size, (void* program, std::size_t* bytes))                   \
    X(code, prefix##Get##Code, (void* program, char* code))
// clang-format on

struct ProgramCalls {
#define ATTUNE_DECLARE(member, name, parameters) int(*member) parameters = nullptr;
    ATTUNE_PROGRAM_CALLS(ATTUNE_DECLARE, , )
#undef ATTUNE_DECLARE
};

class ProgramCompiler : public Compiler {
public:
    std::string toolchain() const override { return info_.toolchain; }
    std::string opened() const override { return info_.opened; }
    std::vector<std::string> archs() const override { return info_.archs; }
    Result<Binary> compile(const Source& source, const std::string& arch) override;

protected:
    struct Info {
        std::string toolchain, opened;
        std::vector<std::string> archs;
    };
    /// Kernels that include "target.h" are handed `target_header`, one of the templates.
    ProgramCompiler(const ProgramCalls& calls, Info info,
                    const std::vector<TemplateFile>& templates, const std::string& target_header);

private:
    /// unsupported where the library does not know it; `archs()` says what it knows.
    virtual Result<void> knows(const std::string& arch) const = 0;
    virtual std::vector<std::string> options(const std::string& arch) const = 0;
    virtual Result<Resources> resources(const Binary& binary) const = 0;

    Result<void*> create(const Source& source) const;
    Result<void> run(void* program, const Source& source, const std::string& arch,
                     Binary& binary) const;
    std::string log_of(void* program) const;

    ProgramCalls calls_;
    Info info_;
    std::vector<TemplateFile> headers_;
};

}  // namespace attune
