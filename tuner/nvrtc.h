// NVRTC's entry points, declared by us and opened at run time; tests/cuda_declarations_test.cpp
// holds them against nvrtc.h where there is one.
#pragma once

#include <string>
#include <vector>

#include "generator/status.h"
#include "runtime/dynamic_library.h"
#include "tuner/program_compiler.h"

namespace attune::nvrtc {

/// X(member, name, parameters): what NVRTC has beside ProgramCalls. Every call returns 0 if it
/// succeeds.
#define ATTUNE_NVRTC_CALLS(X)                              \
    X(version, nvrtcVersion, (int* major, int* minor))     \
    X(arch_count, nvrtcGetNumSupportedArchs, (int* count)) \
    X(supported_archs, nvrtcGetSupportedArchs, (int* archs))

/// libnvrtc, opened.
struct Library : ProgramCalls {
    static Result<Library> open();

    DynamicLibrary library;
#define ATTUNE_DECLARE(member, name, parameters) int(*member) parameters = nullptr;
    ATTUNE_NVRTC_CALLS(ATTUNE_DECLARE)
#undef ATTUNE_DECLARE
};

/// Where libnvrtc is sought, in order: $ATTUNE_NVRTC alone where it is set, else the loader's path,
/// toolkit folders, pip's wheels.
std::vector<std::string> candidates();

}  // namespace attune::nvrtc
