#include "runtime/cuda/driver.h"

#include "generator/formatted.h"
#include "runtime/driver_error.h"

namespace attune::cuda {
namespace {

std::vector<std::string> candidates() {
    const std::string name = "libcuda.so.1";
    std::vector<std::string> list = candidates_from_environment("ATTUNE_LIBCUDA", {name});
    if (!list.empty()) return list;  // who names one means it
    list.push_back(name);
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64",
                               "/usr/lib/wsl/lib", "/run/opengl-driver/lib"})
        list.push_back(formatted("{}/{}", folder, name));
    return list;
}

/// From 700 on most results are sticky: the context is
/// lost and every later call repeats them.
constexpr const char* new_process = "the CUDA context is lost: start a new process";
constexpr DriverAdvice advice[] = {
    {1, 1, Code::device_error, "check sizes and pointers"},
    {2, 2, Code::out_of_memory, "free GPU memory, or use a smaller problem"},
    {100, 100, Code::not_found, "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {101, 101, Code::not_found, "use an ordinal that `attune devices` lists"},
    {200, 200, Code::corrupt, "compile the kernel again"},
    {209, 209, Code::unsupported, "compile the kernel for this GPU's arch"},
    {218, 222, Code::unsupported, "update the driver, or compile with an older NVRTC"},
    {500, 500, Code::not_found, "compile the kernel again: it lacks the name asked for"},
    {600, 600, Code::device_error, "synchronize before the times of events are read"},
    {214, 214, Code::device_error, new_process},
    {701, 701, Code::device_error, "launch with fewer threads, registers or shared memory"},
    {700, 720, Code::device_error, new_process},
    {800, 805, Code::device_error, "check that driver and GPU match (nvidia-smi)"},
    {900, 908, Code::device_error, "leave this call out of the stream capture"},
    {999, 999, Code::device_error, new_process},
};

}  // namespace

Result<Driver> Driver::open() {
    auto library = DynamicLibrary::open("the CUDA driver", candidates(),
                                        "install NVIDIA's driver, or set ATTUNE_LIBCUDA to "
                                        "libcuda.so.1; without a GPU use --device emu:h200");
    if (!library) return library.error();
    Driver driver;
    driver.library = *std::move(library);
    const EntryPoint entries[] = {
#define ATTUNE_ENTRY(name, parameters) {#name, reinterpret_cast<void**>(&driver.name)},
        ATTUNE_CUDA_ENTRY_POINTS(ATTUNE_ENTRY)
#undef ATTUNE_ENTRY
    };
    auto bound = driver.library.bind(entries, "update NVIDIA's driver to 470 or later");
    if (!bound) return bound.error();
#define ATTUNE_OPTIONAL(name, parameters) \
    driver.name = reinterpret_cast<decltype(driver.name)>(driver.library.symbol(#name));
    ATTUNE_CUDA_OPTIONAL_ENTRY_POINTS(ATTUNE_OPTIONAL)
#undef ATTUNE_OPTIONAL
    return driver;
}

Result<void> Driver::check(CUresult result, const char* call) const {
    if (result == 0) return {};
    const char* name = nullptr;
    if (cuGetErrorName(result, &name) != 0 || name == nullptr) name = "unknown error";
    return driver_error(call, name, result, advice);
}

}  // namespace attune::cuda
