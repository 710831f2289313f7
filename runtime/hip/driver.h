// The few entry points of the HIP runtime that Attune calls, declared by us as AMD's HIP API
// reference gives them (module, device, event, memory management) and opened at run time.
// tests/hip_declarations_test.cpp holds them against hip_runtime_api.h where there is one.
#pragma once

#include <cstddef>

#include "generator/status.h"
#include "runtime/dynamic_library.h"

struct ihipModule_t;
struct ihipModuleSymbol_t;
struct ihipEvent_t;
struct ihipStream_t;

namespace attune::hip {

using hipError_t = int;
using hipDeviceptr_t = void*;
using hipModule_t = ihipModule_t*;
using hipFunction_t = ihipModuleSymbol_t*;
using hipEvent_t = ihipEvent_t*;
using hipStream_t = ihipStream_t*;

/// X(name, parameters): every entry point returns a hipError_t. All are there since HIP 5.2.
// clang-format off
#define ATTUNE_HIP_ENTRY_POINTS(X)                                                                \
    X(hipInit, (unsigned flags))                                                                  \
    X(hipRuntimeGetVersion, (int* version))                                                       \
    X(hipGetDeviceCount, (int* count))                                                            \
    X(hipGetDevice, (int* device))                                                                \
    X(hipSetDevice, (int device))                                                                 \
    X(hipDeviceGetName, (char* name, int length, int device))                                     \
    X(hipDeviceGetPCIBusId, (char* id, int length, int device))                                   \
    X(hipDeviceGetAttribute, (int* value, int attribute, int device))                             \
    X(hipDeviceSynchronize, ())                                                                   \
    X(hipMalloc, (hipDeviceptr_t* pointer, std::size_t bytes))                                    \
    X(hipFree, (hipDeviceptr_t pointer))                                                          \
    X(hipMemcpyHtoD, (hipDeviceptr_t to, const void* from, std::size_t bytes))                    \
    X(hipMemcpyDtoH, (void* to, hipDeviceptr_t from, std::size_t bytes))                          \
    X(hipMemsetD32Async, (hipDeviceptr_t to, int pattern, std::size_t words, hipStream_t stream)) \
    X(hipHostMalloc, (void** pointer, std::size_t bytes, unsigned flags))                         \
    X(hipHostFree, (void* pointer))                                                               \
    X(hipHostGetDevicePointer, (hipDeviceptr_t* device, void* host, unsigned flags))              \
    X(hipModuleLoadData, (hipModule_t* module, const void* image))                                \
    X(hipModuleUnload, (hipModule_t module))                                                      \
    X(hipModuleGetFunction, (hipFunction_t* function, hipModule_t module, const char* name))      \
    X(hipModuleLaunchKernel, (hipFunction_t function, unsigned grid_x, unsigned grid_y,           \
                              unsigned grid_z, unsigned block_x, unsigned block_y,                \
                              unsigned block_z, unsigned shared_bytes, hipStream_t stream,        \
                              void** params, void** extra))                                       \
    X(hipEventCreateWithFlags, (hipEvent_t* event, unsigned flags))                               \
    X(hipEventRecord, (hipEvent_t event, hipStream_t stream))                                     \
    X(hipEventElapsedTime, (float* milliseconds, hipEvent_t start, hipEvent_t stop))              \
    X(hipEventDestroy, (hipEvent_t event))
// clang-format on

/// libamdhip64, opened, and its entry points.
struct Driver {
    /// Sought, in order: $ATTUNE_LIBAMDHIP64 alone where it is set; the one this process has open
    /// already (PyTorch brings its own, and pointers are shared within one only); the loader's
    /// path; $ROCM_PATH/lib, /opt/rocm/lib and the system's library folders. Newer versions first.
    static Result<Driver> open();

    DynamicLibrary library;
#define ATTUNE_DECLARE(name, parameters) hipError_t(*name) parameters = nullptr;
    ATTUNE_HIP_ENTRY_POINTS(ATTUNE_DECLARE)
#undef ATTUNE_DECLARE
    const char* (*hipGetErrorName)(hipError_t error) = nullptr;
    /// The struct that gives gcnArchName grew with HIP 6 and its function got another name; 5 has
    /// the older only, and null here.
    hipError_t (*hipGetDevicePropertiesR0600)(void* properties, int device) = nullptr;
    hipError_t (*hipGetDeviceProperties)(void* properties, int device) = nullptr;

    /// ok, or HIP's name for the result and what to do next. `call` is what was tried.
    Result<void> check(hipError_t result, const char* call) const;
};

/// The same numbers from HIP 5.2 to 7.2.
enum Attribute {
    clock_rate_khz = 5,
    multiprocessor_count = 63,  // work-group processors (two CUs) on RDNA
    max_shared_bytes_per_block = 74,
    warp_size = 87,
};
constexpr std::size_t arch_name_offset = 396;         // in what hipGetDeviceProperties fills
constexpr std::size_t arch_name_offset_r0600 = 1160;  // in what hipGetDevicePropertiesR0600 fills
constexpr std::size_t properties_bytes = 4096;        // more than either struct
constexpr unsigned host_malloc_portable = 1;
constexpr unsigned host_malloc_mapped = 2;
constexpr unsigned host_malloc_coherent = 0x40000000;  // a running kernel sees the host's writes

}  // namespace attune::hip
