// NVRTC's entry points, declared by us and opened at run time; tests/cuda_declarations_test.cpp
// holds them against nvrtc.h where there is one.
#pragma once

#include <cstddef>

#include "generator/status.h"
#include "runtime/dynamic_library.h"

struct _nvrtcProgram;

namespace attune::nvrtc {

using nvrtcResult = int;
using nvrtcProgram = _nvrtcProgram*;

/// X(name, parameters): every entry point returns an nvrtcResult.
// clang-format off
#define ATTUNE_NVRTC_ENTRY_POINTS(X)                                                              \
    X(nvrtcVersion, (int* major, int* minor))                                                     \
    X(nvrtcGetNumSupportedArchs, (int* count))                                                    \
    X(nvrtcGetSupportedArchs, (int* archs))                                                       \
    X(nvrtcCreateProgram, (nvrtcProgram* program, const char* source, const char* name,           \
                           int headers, const char* const* texts, const char* const* names))      \
    X(nvrtcDestroyProgram, (nvrtcProgram* program))                                               \
    X(nvrtcCompileProgram, (nvrtcProgram program, int count, const char* const* options))         \
    X(nvrtcGetProgramLogSize, (nvrtcProgram program, std::size_t* bytes))                         \
    X(nvrtcGetProgramLog, (nvrtcProgram program, char* log))                                      \
    X(nvrtcGetCUBINSize, (nvrtcProgram program, std::size_t* bytes))                              \
    X(nvrtcGetCUBIN, (nvrtcProgram program, char* cubin))
// clang-format on

constexpr nvrtcResult success = 0;
constexpr nvrtcResult error_invalid_option = 5;
constexpr nvrtcResult error_compilation = 6;

/// libnvrtc, opened, and its entry points.
struct Library {
    static Result<Library> open();

    DynamicLibrary library;
#define ATTUNE_DECLARE(name, parameters) nvrtcResult(*name) parameters = nullptr;
    ATTUNE_NVRTC_ENTRY_POINTS(ATTUNE_DECLARE)
#undef ATTUNE_DECLARE
};

/// Where libnvrtc is sought, in order: $ATTUNE_NVRTC alone where it is set, else the loader's path,
/// toolkit folders, pip's wheels.
std::vector<std::string> candidates();

}  // namespace attune::nvrtc
