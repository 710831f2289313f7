// An NVRTC that compiles nothing: every program fails with a log of several lines.
#include <cstring>

#include "tuner/nvrtc.h"

namespace {

constexpr char log_text[] =
    "attune_kernel.cu(7): error: a first fault\n"
    "attune_kernel.cu(9): error: a second one\n"
    "2 errors detected in the compilation of \"attune_kernel.cu\".\n";
constexpr int compilation_error = 6;  // NVRTC_ERROR_COMPILATION

}  // namespace

#define ATTUNE_DECLARE(member, name, parameters) \
    __attribute__((visibility("default"))) int name parameters;
extern "C" {
ATTUNE_PROGRAM_CALLS(ATTUNE_DECLARE, nvrtc, CUBIN)
ATTUNE_NVRTC_CALLS(ATTUNE_DECLARE)
}
#undef ATTUNE_DECLARE

int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
    *count = 1;
    return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
    archs[0] = 86;
    return 0;
}
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                       const char* const*) {
    *program = nullptr;
    return 0;
}
int nvrtcDestroyProgram(void**) {
    return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) {
    return compilation_error;
}
int nvrtcGetProgramLogSize(void*, std::size_t* bytes) {
    *bytes = sizeof log_text;
    return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
    std::memcpy(log, log_text, sizeof log_text);
    return 0;
}
int nvrtcGetCUBINSize(void*, std::size_t* bytes) {
    *bytes = 0;
    return 0;
}
int nvrtcGetCUBIN(void*, char*) {
    return compilation_error;
}
