#include "runtime/hip/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "generator/formatted.h"
#include "runtime/driver_error.h"

namespace attune::hip {
namespace {

std::vector<std::string> candidates() {
    const std::vector<std::string> names = {"libamdhip64.so.7", "libamdhip64.so.6",
                                            "libamdhip64.so.5", "libamdhip64.so"};
    std::vector<std::string> list = candidates_from_environment("ATTUNE_LIBAMDHIP64", names);
    if (!list.empty()) return list;  // who names one means it
    for (const std::string& name : names)
        if (void* open = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
            dlclose(open);
            return {name};
        }
    std::vector<std::string> folders = {"/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
    if (const char* rocm = std::getenv("ROCM_PATH"))
        folders.insert(folders.begin(), formatted("{}/lib", rocm));
    list = names;
    for (const std::string& folder : folders)
        for (const std::string& name : names) list.push_back(formatted("{}/{}", folder, name));
    return list;
}

/// A fault on the GPU ends the process's queue: every later call repeats it.
constexpr const char* new_process = "the GPU's queue is lost: start a new process";
constexpr const char* not_visible =
    "check rocminfo, HIP_VISIBLE_DEVICES and who may open /dev/kfd (group render)";
constexpr DriverAdvice advice[] = {
    {1, 1, Code::device_error, "check sizes and pointers"},
    {2, 2, Code::out_of_memory, "free GPU memory, or use a smaller problem"},
    {35, 35, Code::unsupported, "update the amdgpu driver"},
    {100, 101, Code::not_found, not_visible},
    {200, 200, Code::corrupt, "compile the kernel again"},
    {209, 209, Code::unsupported, "compile the kernel for this GPU's arch, without features"},
    {218, 218, Code::corrupt, "compile the kernel again"},
    {500, 500, Code::not_found, "compile the kernel again: it lacks the name asked for"},
    {600, 600, Code::device_error, "synchronize before the times of events are read"},
    {214, 214, Code::device_error, new_process},
    {701, 701, Code::device_error, "launch with fewer threads, registers or LDS"},
    {700, 720, Code::device_error, new_process},
    {801, 801, Code::unsupported, "update ROCm"},
    {900, 908, Code::device_error, "leave this call out of the stream capture"},
    {999, 1053, Code::device_error, new_process},
};

}  // namespace

Result<Driver> Driver::open() {
    auto library = DynamicLibrary::open("the HIP runtime", candidates(),
                                        "install ROCm, or set ATTUNE_LIBAMDHIP64 to "
                                        "libamdhip64.so; without a GPU use --device emu:mi300x");
    if (!library) return library.error();
    Driver driver;
    driver.library = *std::move(library);
    const EntryPoint entries[] = {
#define ATTUNE_ENTRY(name, parameters) {#name, reinterpret_cast<void**>(&driver.name)},
        ATTUNE_HIP_ENTRY_POINTS(ATTUNE_ENTRY)
#undef ATTUNE_ENTRY
            {"hipGetErrorName", reinterpret_cast<void**>(&driver.hipGetErrorName)},
        {"hipGetDeviceProperties", reinterpret_cast<void**>(&driver.hipGetDeviceProperties)},
    };
    auto bound = driver.library.bind(entries, "update ROCm to 5.2 or later");
    if (!bound) return bound.error();
    driver.hipGetDevicePropertiesR0600 = reinterpret_cast<decltype(driver.hipGetDeviceProperties)>(
        driver.library.symbol("hipGetDevicePropertiesR0600"));
    return driver;
}

Result<void> Driver::check(hipError_t result, const char* call) const {
    if (result == 0) return {};
    const char* name = hipGetErrorName(result);
    return driver_error(call, name == nullptr ? "unknown error" : name, result, advice);
}

}  // namespace attune::hip
