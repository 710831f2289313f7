// The few entry points of the CUDA driver that Attune calls, declared by us and opened at run time.
// tests/cuda_declarations_test.cpp holds them against cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "generator/status.h"
#include "runtime/dynamic_library.h"
#include "templates/abi.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUevent_st;
struct CUstream_st;

namespace attune::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = CUctx_st*;
using CUmodule = CUmod_st*;
using CUfunction = CUfunc_st*;
using CUevent = CUevent_st*;
using CUstream = CUstream_st*;
struct CUuuid {
    char bytes[16];
};

/// X(name, parameters): every entry point returns a CUresult. The _v2 names are the current ABI.
// clang-format off
#define ATTUNE_CUDA_ENTRY_POINTS(X)                                                               \
    X(cuInit, (unsigned flags))                                                                   \
    X(cuDriverGetVersion, (int* version))                                                         \
    X(cuGetErrorName, (CUresult error, const char** name))                                        \
    X(cuDeviceGetCount, (int* count))                                                             \
    X(cuDeviceGet, (CUdevice* device, int ordinal))                                               \
    X(cuDeviceGetName, (char* name, int length, CUdevice device))                                 \
    X(cuDeviceGetUuid_v2, (CUuuid* uuid, CUdevice device))                                        \
    X(cuDeviceGetAttribute, (int* value, int attribute, CUdevice device))                         \
    X(cuDevicePrimaryCtxRetain, (CUcontext* context, CUdevice device))                            \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                            \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                                   \
    X(cuCtxPopCurrent_v2, (CUcontext* context))                                                   \
    X(cuCtxSynchronize, ())                                                                       \
    X(cuMemAlloc_v2, (CUdeviceptr* pointer, std::size_t bytes))                                   \
    X(cuMemFree_v2, (CUdeviceptr pointer))                                                        \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, std::size_t bytes))                     \
    X(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, std::size_t bytes))                           \
    X(cuMemsetD32Async, (CUdeviceptr to, unsigned pattern, std::size_t words, CUstream stream))   \
    X(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned flags))                        \
    X(cuMemFreeHost, (void* pointer))                                                             \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr* device, void* host, unsigned flags))            \
    X(cuModuleLoadData, (CUmodule* module, const void* image))                                    \
    X(cuModuleUnload, (CUmodule module))                                                          \
    X(cuModuleGetFunction, (CUfunction* function, CUmodule module, const char* name))             \
    X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                        \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,    \
                       unsigned block_x, unsigned block_y, unsigned block_z,                      \
                       unsigned shared_bytes, CUstream stream, void** params, void** extra))      \
    X(cuEventCreate, (CUevent* event, unsigned flags))                                            \
    X(cuEventRecord, (CUevent event, CUstream stream))                                            \
    X(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent stop))                     \
    X(cuEventDestroy_v2, (CUevent event))

/// Not in every driver (12.0 and later): null where it is missing.
#define ATTUNE_CUDA_OPTIONAL_ENTRY_POINTS(X)                                                      \
    X(cuTensorMapEncodeTiled, (TensorMap* map, int type, unsigned rank, void* base,               \
                               const std::uint64_t* sizes, const std::uint64_t* strides_bytes,    \
                               const std::uint32_t* box, const std::uint32_t* element_strides,    \
                               int interleave, int swizzle, int l2_promotion, int fill))
// clang-format on

/// libcuda, opened, and its entry points.
struct Driver {
    static Result<Driver> open();

    DynamicLibrary library;
#define ATTUNE_DECLARE(name, parameters) CUresult(*name) parameters = nullptr;
    ATTUNE_CUDA_ENTRY_POINTS(ATTUNE_DECLARE)
    ATTUNE_CUDA_OPTIONAL_ENTRY_POINTS(ATTUNE_DECLARE)
#undef ATTUNE_DECLARE

    /// ok, or the driver's name for the result and what to do next. `call` is what was tried.
    Result<void> check(CUresult result, const char* call) const;
};

enum Attribute {
    warp_size = 10,
    clock_rate_khz = 13,
    multiprocessor_count = 16,
    memory_clock_rate_khz = 36,
    memory_bus_width_bits = 37,
    l2_cache_bytes = 38,
    max_threads_per_multiprocessor = 39,
    compute_capability_major = 75,
    compute_capability_minor = 76,
    max_shared_bytes_per_multiprocessor = 81,
    max_registers_per_multiprocessor = 82,
    max_shared_bytes_per_block_opt_in = 97,
    max_blocks_per_multiprocessor = 106,
    reserved_shared_bytes_per_block = 111,
};
constexpr int function_max_dynamic_shared_bytes = 8;
constexpr int tensor_map_elements[] = {6, 9, 0};  // in DType's order; bytes for e4m3
constexpr int tensor_map_swizzle_128 = 3;
constexpr int tensor_map_l2_promotion_256 = 3;
constexpr unsigned host_alloc_portable = 1;
constexpr unsigned host_alloc_device_map = 2;

}  // namespace attune::cuda
