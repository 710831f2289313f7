// A CUDA driver, loaded in the place of libcuda: one "NVIDIA H200", which is a FakeGpu.
#include <cstdlib>
#include <cstring>

#include "templates/abi.h"
#include "tests/fake_gpu.h"

namespace {

attune::FakeGpu& gpu() {
    static attune::FakeGpu fake("h200");
    return fake;
}

struct Attribute {
    int id, value;
};
constexpr Attribute attributes[] = {
    {10, 32}, {13, 1980000}, {16, 132},    {36, 3201000}, {37, 6144},   {38, 62914560}, {39, 2048},
    {75, 9},  {76, 0},       {81, 233472}, {82, 65536},   {97, 232448}, {106, 32},      {111, 1024},
};

int give(int& counter, int by) {
    counter += by;
    return 0;
}

}  // namespace

/// What the driver does only for a thread with a current context.
#define FAKE_IN_CONTEXT(name) \
    FAKE_CALL(name);          \
    if (gpu().control.bound == 0) return attune::fake_result::invalid_context
#define FAKE_RELEASE_IN_CONTEXT(name, release)                                 \
    if (gpu().control.bound == 0) return attune::fake_result::invalid_context; \
    FAKE_RELEASE(name, release)

FAKE_API FakeControl* fake_control() {
    return &gpu().control;
}
FAKE_API int cuInit(unsigned) {
    FAKE_CALL(cuInit);
    return gpu().initialize();
}
FAKE_API int cuDriverGetVersion(int* version) {
    FAKE_CALL(cuDriverGetVersion);
    *version = 13000;
    return 0;
}
FAKE_API int cuGetErrorName(int, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return 0;
}
FAKE_API int cuDeviceGetCount(int* count) {
    FAKE_CALL(cuDeviceGetCount);
    *count = 1;
    return 0;
}
FAKE_API int cuDeviceGet(int* device, int ordinal) {
    FAKE_CALL(cuDeviceGet);
    *device = ordinal;
    return 0;
}
FAKE_API int cuDeviceGetName(char* name, int length, int) {
    FAKE_CALL(cuDeviceGetName);
    std::strncpy(name, "NVIDIA H200", length);
    return 0;
}
FAKE_API int cuDeviceGetUuid_v2(char* uuid, int) {
    FAKE_CALL(cuDeviceGetUuid_v2);
    for (int i = 0; i < 16; ++i) uuid[i] = static_cast<char>(0xf0 + i);
    return 0;
}
FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int) {
    FAKE_CALL(cuDeviceGetAttribute);
    const char* l2_bytes = std::getenv("FAKE_L2");
    if (attribute == 38 && l2_bytes != nullptr) {
        *value = std::atoi(l2_bytes);
        return 0;
    }
    for (const Attribute& row : attributes)
        if (row.id == attribute) {
            *value = row.value;
            return 0;
        }
    return 1;
}
FAKE_API int cuDevicePrimaryCtxRetain(void** context, int) {
    FAKE_CALL(cuDevicePrimaryCtxRetain);
    *context = &gpu();
    return give(gpu().control.live, 1);
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int) {
    FAKE_RELEASE(cuDevicePrimaryCtxRelease_v2, give(gpu().control.live, -1));
}
FAKE_API int cuCtxPushCurrent_v2(void*) {
    FAKE_BINDING(cuCtxPushCurrent_v2);
    return give(gpu().control.bound, 1);
}
FAKE_API int cuCtxPopCurrent_v2(void**) {
    FAKE_RELEASE(cuCtxPopCurrent_v2, give(gpu().control.bound, -1));
}
FAKE_API int cuCtxSynchronize() {
    FAKE_IN_CONTEXT(cuCtxSynchronize);
    return gpu().synchronize();
}
FAKE_API int cuMemAlloc_v2(void** pointer, std::size_t bytes) {
    FAKE_IN_CONTEXT(cuMemAlloc_v2);
    return gpu().allocate(pointer, bytes);
}
FAKE_API int cuMemFree_v2(void* pointer) {
    FAKE_RELEASE_IN_CONTEXT(cuMemFree_v2, gpu().release(pointer));
}
FAKE_API int cuMemcpyHtoD_v2(void* to, const void* from, std::size_t bytes) {
    FAKE_IN_CONTEXT(cuMemcpyHtoD_v2);
    return gpu().copy_to_device(to, from, bytes);
}
FAKE_API int cuMemcpyDtoH_v2(void* to, const void* from, std::size_t bytes) {
    FAKE_IN_CONTEXT(cuMemcpyDtoH_v2);
    return gpu().copy_to_host(to, from, bytes);
}
FAKE_API int cuMemsetD32Async(void* to, unsigned pattern, std::size_t words, void*) {
    FAKE_IN_CONTEXT(cuMemsetD32Async);
    return gpu().fill(to, pattern, words);
}
FAKE_API int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    FAKE_IN_CONTEXT(cuMemHostAlloc);
    return gpu().allocate(pointer, bytes);
}
FAKE_API int cuMemFreeHost(void* pointer) {
    FAKE_RELEASE_IN_CONTEXT(cuMemFreeHost, gpu().release(pointer));
}
FAKE_API int cuMemHostGetDevicePointer_v2(void** device, void* host, unsigned) {
    FAKE_IN_CONTEXT(cuMemHostGetDevicePointer_v2);
    *device = host;
    return 0;
}
FAKE_API int cuModuleLoadData(void** module, const void* image) {
    FAKE_IN_CONTEXT(cuModuleLoadData);
    return gpu().load(module, image);
}
FAKE_API int cuModuleUnload(void* module) {
    FAKE_RELEASE_IN_CONTEXT(cuModuleUnload, gpu().unload(module));
}
FAKE_API int cuModuleGetFunction(void** function, void* module, const char* name) {
    FAKE_IN_CONTEXT(cuModuleGetFunction);
    return gpu().function(function, module, name);
}
FAKE_API int cuFuncSetAttribute(void*, int attribute, int value) {
    FAKE_IN_CONTEXT(cuFuncSetAttribute);
    if (attribute != 8) return 1;
    gpu().control.dynamic_shared = value;
    return 0;
}
FAKE_API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void* stream, void** params, void** extra) {
    FAKE_IN_CONTEXT(cuLaunchKernel);
    if (grid_x * grid_y * grid_z == 0 || block_y * block_z != 1 || extra != nullptr) return 1;
    return gpu().launch(function, {grid_x, block_x, shared_bytes,
                                   reinterpret_cast<std::uint64_t>(stream), params[0]});
}
FAKE_API int cuTensorMapEncodeTiled(attune::TensorMap* map, int type, unsigned rank, void* base,
                                    const std::uint64_t* sizes, const std::uint64_t* strides_bytes,
                                    const std::uint32_t* box, const std::uint32_t*, int, int, int,
                                    int) {
    FAKE_IN_CONTEXT(cuTensorMapEncodeTiled);
    if (rank != 4) return 1;
    const attune::DType dtype = type == 6   ? attune::DType::f16
                                : type == 9 ? attune::DType::bf16
                                            : attune::DType::e4m3;
    const auto stride = [&](int i) {
        return static_cast<long long>(strides_bytes[i] / attune::element_bytes(dtype));
    };
    const attune::TensorMapSpec spec{reinterpret_cast<attune::DevicePtr>(base),
                                     dtype,
                                     int(sizes[0]),
                                     int(sizes[1]),
                                     int(sizes[2]),
                                     int(sizes[3]),
                                     {stride(2), stride(1), stride(0)},
                                     int(box[1]),
                                     int(box[2])};
    return gpu().emulator().encode_tensor_map(spec, *map) ? 0 : 1;
}
FAKE_API int cuEventCreate(void** event, unsigned) {
    FAKE_IN_CONTEXT(cuEventCreate);
    return gpu().create_event(event);
}
FAKE_API int cuEventRecord(void* event, void*) {
    FAKE_IN_CONTEXT(cuEventRecord);
    return gpu().record(event);
}
FAKE_API int cuEventElapsedTime(float* milliseconds, void* start, void* stop) {
    FAKE_IN_CONTEXT(cuEventElapsedTime);
    return gpu().elapsed(milliseconds, start, stop);
}
FAKE_API int cuEventDestroy_v2(void* event) {
    FAKE_RELEASE_IN_CONTEXT(cuEventDestroy_v2, gpu().destroy_event(event));
}
