// A CUDA driver over host memory, loaded in the place of libcuda: one "NVIDIA H200". It records its
// calls, fails the nth one on demand, and counts what is not given back. A release that is made to
// fail releases all the same.
#include "tests/fake_libcuda.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

FakeControl control{};

/// Logs a call; true if it shall fail.
bool fails(const char* name) {
    ++control.calls;
    const std::size_t used = std::strlen(control.log), length = std::strlen(name);
    if (used + length + 2 < sizeof control.log) {
        std::memcpy(control.log + used, name, length);
        std::memcpy(control.log + used + length, " ", 2);
    }
    if (control.calls != control.fail_at) return false;
    std::strncpy(control.failed, name, sizeof control.failed - 1);
    return true;
}

struct Attribute {
    int id, value;
};
constexpr Attribute attributes[] = {
    {10, 32}, {13, 1980000}, {16, 132},    {36, 3201000}, {37, 6144},   {38, 62914560}, {39, 2048},
    {75, 9},  {76, 0},       {81, 233472}, {82, 65536},   {97, 232448}, {106, 32},      {111, 1024},
};

/// What a driver owns, and still holds where the program has no context left to give it back in.
std::map<void*, std::unique_ptr<std::byte[]>> owned;

void* make_handle(std::size_t bytes = sizeof(double)) {
    ++control.live;
    auto memory = std::make_unique<std::byte[]>(bytes);
    void* handle = memory.get();
    owned.emplace(handle, std::move(memory));
    return handle;
}
/// Never given out, or given back before: not counted, so that `live` stays off.
void drop_handle(void* handle) {
    if (owned.erase(handle) == 1) --control.live;
}

}  // namespace

#define FAKE_CALL(name) \
    if (fails(#name)) return control.fail_with
#define FAKE_RELEASE(name, release)   \
    const bool failed = fails(#name); \
    release;                          \
    return failed ? control.fail_with : 0

FAKE_API FakeControl* fake_control() {
    return &control;
}
FAKE_API int cuInit(unsigned) {
    FAKE_CALL(cuInit);
    return 0;
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
    for (const Attribute& row : attributes)
        if (row.id == attribute) {
            *value = row.value;
            return 0;
        }
    return 1;
}
FAKE_API int cuDevicePrimaryCtxRetain(void** context, int) {
    FAKE_CALL(cuDevicePrimaryCtxRetain);
    *context = &control;
    ++control.live;
    return 0;
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int) {
    FAKE_RELEASE(cuDevicePrimaryCtxRelease_v2, --control.live);
}
FAKE_API int cuCtxPushCurrent_v2(void*) {
    FAKE_CALL(cuCtxPushCurrent_v2);
    ++control.bound;
    return 0;
}
FAKE_API int cuCtxPopCurrent_v2(void**) {
    FAKE_RELEASE(cuCtxPopCurrent_v2, --control.bound);
}
FAKE_API int cuCtxSynchronize() {
    FAKE_CALL(cuCtxSynchronize);
    return 0;
}
FAKE_API int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
    FAKE_CALL(cuMemAlloc_v2);
    if (bytes == 0) return 1;
    *pointer = reinterpret_cast<unsigned long long>(make_handle(bytes));
    return 0;
}
FAKE_API int cuMemFree_v2(unsigned long long pointer) {
    FAKE_RELEASE(cuMemFree_v2, drop_handle(reinterpret_cast<void*>(pointer)));
}
FAKE_API int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
    FAKE_CALL(cuMemcpyHtoD_v2);
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
}
FAKE_API int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
    FAKE_CALL(cuMemcpyDtoH_v2);
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return 0;
}
FAKE_API int cuMemsetD32Async(unsigned long long to, unsigned pattern, std::size_t words, void*) {
    FAKE_CALL(cuMemsetD32Async);
    for (std::size_t i = 0; i < words; ++i) reinterpret_cast<unsigned*>(to)[i] = pattern;
    return 0;
}
FAKE_API int cuMemHostAlloc(void** pointer, std::size_t, unsigned) {
    FAKE_CALL(cuMemHostAlloc);
    *pointer = make_handle();
    return 0;
}
FAKE_API int cuMemFreeHost(void* pointer) {
    FAKE_RELEASE(cuMemFreeHost, drop_handle(pointer));
}
FAKE_API int cuMemHostGetDevicePointer_v2(unsigned long long* device, void* host, unsigned) {
    FAKE_CALL(cuMemHostGetDevicePointer_v2);
    *device = reinterpret_cast<unsigned long long>(host);
    return 0;
}
FAKE_API int cuModuleLoadData(void** module, const void*) {
    FAKE_CALL(cuModuleLoadData);
    *module = make_handle();
    return 0;
}
FAKE_API int cuModuleUnload(void* module) {
    FAKE_RELEASE(cuModuleUnload, drop_handle(module));
}
FAKE_API int cuModuleGetFunction(void** function, void* module, const char* name) {
    FAKE_CALL(cuModuleGetFunction);
    if (std::strcmp(name, "no_such_kernel") == 0) return 500;
    *function = module;
    return 0;
}
FAKE_API int cuFuncSetAttribute(void*, int attribute, int value) {
    FAKE_CALL(cuFuncSetAttribute);
    if (attribute != 8) return 1;
    control.dynamic_shared = value;
    return 0;
}
FAKE_API int cuLaunchKernel(void*, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void* stream, void** params, void** extra) {
    FAKE_CALL(cuLaunchKernel);
    if (grid_x * grid_y * grid_z == 0 || block_y * block_z != 1 || extra != nullptr) return 1;
    if (control.on_launch != nullptr)
        control.on_launch(control.user, {grid_x, block_x, shared_bytes,
                                         reinterpret_cast<std::uint64_t>(stream), params[0]});
    return 0;
}
FAKE_API int cuEventCreate(void** event, unsigned) {
    FAKE_CALL(cuEventCreate);
    *event = make_handle();
    return 0;
}
FAKE_API int cuEventRecord(void* event, void*) {
    FAKE_CALL(cuEventRecord);
    *static_cast<double*>(event) = control.now_ms;
    return 0;
}
FAKE_API int cuEventElapsedTime(float* milliseconds, void* start, void* stop) {
    FAKE_CALL(cuEventElapsedTime);
    *milliseconds = static_cast<float>(*static_cast<double*>(stop) - *static_cast<double*>(start));
    return 0;
}
FAKE_API int cuEventDestroy_v2(void* event) {
    FAKE_RELEASE(cuEventDestroy_v2, drop_handle(event));
}
