// A HIP runtime, loaded in the place of libamdhip64: two "AMD Instinct MI300X" that are one
// FakeGpu. With FAKE_HIP_5 it has the properties function of HIP 5 alone.
#include <cstring>
#include <string>

#include "tests/fake_gpu.h"

namespace {

attune::FakeGpu& gpu() {
    static attune::FakeGpu fake("mi300x");
    return fake;
}

constexpr int devices = 2;

struct ErrorName {
    int result;
    const char* name;
};
constexpr ErrorName error_names[] = {
    {1, "hipErrorInvalidValue"},   {2, "hipErrorOutOfMemory"},      {101, "hipErrorInvalidDevice"},
    {200, "hipErrorInvalidImage"}, {209, "hipErrorNoBinaryForGpu"}, {400, "hipErrorInvalidHandle"},
    {500, "hipErrorNotFound"},     {600, "hipErrorNotReady"},       {719, "hipErrorLaunchFailure"}};

/// HIP's structs of two generations: their sizes, and where gcnArchName stands in them.
int fill_properties(void* properties, std::size_t bytes, std::size_t arch_at, int device) {
    if (device < 0 || device >= devices) return 101;
    const attune::Target& target = gpu().target();
    std::memset(properties, 0, bytes);
    std::strcpy(static_cast<char*>(properties), target.name.c_str());
    const std::string given = gpu().control.arch;
    const std::string arch = given.empty() ? target.arch : given;
    const std::string features = target.wave_size == 64 ? ":sramecc+:xnack-" : "";
    std::strcpy(static_cast<char*>(properties) + arch_at, (arch + features).c_str());
    return 0;
}

}  // namespace

FAKE_API FakeControl* fake_control() {
    return &gpu().control;
}
FAKE_API int hipInit(unsigned) {
    FAKE_CALL(hipInit);
    return gpu().initialize();
}
FAKE_API int hipRuntimeGetVersion(int* version) {
    FAKE_CALL(hipRuntimeGetVersion);
    *version = 60443483;
    return 0;
}
FAKE_API const char* hipGetErrorName(int result) {
    for (const ErrorName& row : error_names)
        if (row.result == result) return row.name;
    return "hipErrorUnknown";
}
FAKE_API int hipGetDeviceCount(int* count) {
    FAKE_CALL(hipGetDeviceCount);
    *count = devices;
    return 0;
}
FAKE_API int hipGetDevice(int* device) {
    FAKE_BINDING(hipGetDevice);
    *device = gpu().control.bound;
    return 0;
}
FAKE_API int hipSetDevice(int device) {
    const int failed = gpu().begin("hipSetDevice", true);
    // Made to fail, it still sets back what it was told to set before.
    if (failed == 0 || device == 0) gpu().control.bound = device;
    return failed;
}
FAKE_API int hipDeviceGetName(char* name, int length, int) {
    FAKE_CALL(hipDeviceGetName);
    std::strncpy(name, gpu().target().name.c_str(), length);
    return 0;
}
FAKE_API int hipDeviceGetPCIBusId(char* id, int length, int device) {
    FAKE_CALL(hipDeviceGetPCIBusId);
    std::strncpy(id, device == 0 ? "0000:c1:00.0" : "0000:c2:00.0", length);
    return 0;
}
FAKE_API int hipDeviceGetAttribute(int* value, int attribute, int) {
    FAKE_CALL(hipDeviceGetAttribute);
    const attune::Target& target = gpu().target();
    const bool wgp = target.wave_size == 32;  // RDNA counts pairs of CUs
    switch (attribute) {
        case 5:
            *value = int(target.boost_clock_mhz * 1000);
            return 0;
        case 63:
            *value = target.multiprocessors / (wgp ? 2 : 1);
            return 0;
        case 74:
            *value = target.shared_bytes_per_cta;
            return 0;
        case 87:
            *value = target.wave_size;
            return 0;
    }
    return 1;
}
#ifndef FAKE_HIP_5
FAKE_API int hipGetDevicePropertiesR0600(void* properties, int device) {
    FAKE_CALL(hipGetDevicePropertiesR0600);
    return fill_properties(properties, 1472, 1160, device);
}
#endif
FAKE_API int hipGetDeviceProperties(void* properties, int device) {
    FAKE_CALL(hipGetDeviceProperties);
    return fill_properties(properties, 792, 396, device);
}
FAKE_API int hipDeviceSynchronize() {
    FAKE_CALL(hipDeviceSynchronize);
    return gpu().synchronize();
}
FAKE_API int hipMalloc(void** pointer, std::size_t bytes) {
    FAKE_CALL(hipMalloc);
    return gpu().allocate(pointer, bytes);
}
FAKE_API int hipFree(void* pointer) {
    FAKE_RELEASE(hipFree, gpu().release(pointer));
}
FAKE_API int hipMemcpyHtoD(void* to, const void* from, std::size_t bytes) {
    FAKE_CALL(hipMemcpyHtoD);
    return gpu().copy_to_device(to, from, bytes);
}
FAKE_API int hipMemcpyDtoH(void* to, const void* from, std::size_t bytes) {
    FAKE_CALL(hipMemcpyDtoH);
    return gpu().copy_to_host(to, from, bytes);
}
FAKE_API int hipMemsetD32Async(void* to, int pattern, std::size_t words, void*) {
    FAKE_CALL(hipMemsetD32Async);
    return gpu().fill(to, unsigned(pattern), words);
}
FAKE_API int hipHostMalloc(void** pointer, std::size_t bytes, unsigned flags) {
    FAKE_CALL(hipHostMalloc);
    const bool coherent = (flags & 0x40000000) != 0;  // else a kernel need not see a write
    return coherent ? gpu().allocate(pointer, bytes) : 1;
}
FAKE_API int hipHostFree(void* pointer) {
    FAKE_RELEASE(hipHostFree, gpu().release(pointer));
}
FAKE_API int hipHostGetDevicePointer(void** device, void* host, unsigned) {
    FAKE_CALL(hipHostGetDevicePointer);
    *device = host;
    return 0;
}
FAKE_API int hipModuleLoadData(void** module, const void* image) {
    FAKE_CALL(hipModuleLoadData);
    return gpu().load(module, image);
}
FAKE_API int hipModuleUnload(void* module) {
    FAKE_RELEASE(hipModuleUnload, gpu().unload(module));
}
FAKE_API int hipModuleGetFunction(void** function, void* module, const char* name) {
    FAKE_CALL(hipModuleGetFunction);
    return gpu().function(function, module, name);
}
FAKE_API int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, void* stream,
                                   void** params, void** extra) {
    FAKE_CALL(hipModuleLaunchKernel);
    if (grid_x * grid_y * grid_z == 0 || block_y * block_z != 1 || extra != nullptr) return 1;
    return gpu().launch(function, {grid_x, block_x, shared_bytes,
                                   reinterpret_cast<std::uint64_t>(stream), params[0]});
}
FAKE_API int hipEventCreateWithFlags(void** event, unsigned) {
    FAKE_CALL(hipEventCreateWithFlags);
    return gpu().create_event(event);
}
FAKE_API int hipEventRecord(void* event, void*) {
    FAKE_CALL(hipEventRecord);
    return gpu().record(event);
}
FAKE_API int hipEventElapsedTime(float* milliseconds, void* start, void* stop) {
    FAKE_CALL(hipEventElapsedTime);
    return gpu().elapsed(milliseconds, start, stop);
}
FAKE_API int hipEventDestroy(void* event) {
    FAKE_RELEASE(hipEventDestroy, gpu().destroy_event(event));
}
