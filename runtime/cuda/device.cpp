// cuda:N as a Device, through the driver API and the GPU's primary context (the one PyTorch and the
// CUDA runtime use, so that their pointers and streams are ours).

#include <algorithm>
#include <vector>

#include "generator/formatted.h"
#include "runtime/cuda/device_info.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace attune {
namespace {

using namespace cuda;

struct LoadedKernel {
    CUmodule module;
    CUfunction function;
};

/// Makes the context current for one call and leaves the caller's own as it was. Legal inside
/// stream capture.
class Bound {
public:
    Bound(const Driver& driver, CUcontext context)
        : driver_(driver), result_(driver.cuCtxPushCurrent_v2(context)) {}
    ~Bound() {
        CUcontext ignored;
        if (result_ == 0) driver_.cuCtxPopCurrent_v2(&ignored);
    }
    Bound(const Bound&) = delete;
    CUresult result() const { return result_; }

private:
    const Driver& driver_;
    CUresult result_;
};

template <class Pointer>
std::uint64_t handle(Pointer pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
}
CUstream as_stream(Stream stream) {
    return reinterpret_cast<CUstream>(stream);
}
CUevent as_event(Event event) {
    return reinterpret_cast<CUevent>(event);
}

class CudaDevice final : public Device {
public:
    static Result<std::unique_ptr<Device>> open(int ordinal);
    ~CudaDevice() override;

    const DeviceInfo& info() const override { return info_; }

    Result<DevicePtr> allocate(std::size_t bytes) override {
        CUdeviceptr pointer = 0;
        auto done = call("cuMemAlloc", [&] {
            return driver_.cuMemAlloc_v2(&pointer, std::max<std::size_t>(bytes, 1));
        });
        if (!done) return done.error();
        return DevicePtr{pointer};
    }
    Result<void> release(DevicePtr ptr) override {
        return call("cuMemFree", [&] { return driver_.cuMemFree_v2(ptr); });
    }
    Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override {
        return call("cuMemcpyHtoD", [&] { return driver_.cuMemcpyHtoD_v2(to, from, bytes); });
    }
    Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override {
        return call("cuMemcpyDtoH", [&] { return driver_.cuMemcpyDtoH_v2(to, from, bytes); });
    }
    Result<void> fill(DevicePtr to, std::uint32_t pattern, std::size_t bytes,
                      Stream stream) override {
        if (bytes == 0) return {};
        return call("cuMemsetD32Async", [&] {
            return driver_.cuMemsetD32Async(to, pattern, bytes / 4, as_stream(stream));
        });
    }

    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override;
    Result<void> unload(Kernel kernel) override;
    Result<void> launch(Kernel kernel, const Launch& launch, const void* params,
                        std::size_t params_bytes, Stream stream) override;
    Result<void> encode_tensor_map(const TensorMapSpec& spec, TensorMap& map) override;
    Result<void> synchronize() override {
        return call("cuCtxSynchronize", [&] { return driver_.cuCtxSynchronize(); });
    }

    Result<Event> create_event() override {
        CUevent event = nullptr;
        auto done = call("cuEventCreate", [&] { return driver_.cuEventCreate(&event, 0); });
        if (!done) return done.error();
        return Event{handle(event)};
    }
    Result<void> record(Event event, Stream stream) override {
        return call("cuEventRecord",
                    [&] { return driver_.cuEventRecord(as_event(event), as_stream(stream)); });
    }
    Result<double> elapsed_ms(Event start, Event stop) override {
        float milliseconds = 0;
        auto done = call("cuEventElapsedTime", [&] {
            return driver_.cuEventElapsedTime(&milliseconds, as_event(start), as_event(stop));
        });
        if (!done) return done.error();
        return double{milliseconds};
    }
    Result<void> destroy_event(Event event) override {
        return call("cuEventDestroy", [&] { return driver_.cuEventDestroy_v2(as_event(event)); });
    }

    volatile std::uint32_t* host_flag() override { return host_flag_; }
    DevicePtr host_flag_device_ptr() override { return host_flag_device_; }

private:
    explicit CudaDevice(Driver driver) : driver_(std::move(driver)) {}
    Result<void> start(int ordinal);
    Result<void> map_host_flag();

    /// Runs one driver call in our context.
    template <class Call>
    Result<void> call(const char* name, Call&& driver_call) {
        const Bound bound(driver_, context_);
        if (bound.result() != 0) return driver_.check(bound.result(), "cuCtxPushCurrent");
        return driver_.check(driver_call(), name);
    }

    Driver driver_;
    DeviceInfo info_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    std::uint32_t* host_flag_ = nullptr;
    CUdeviceptr host_flag_device_ = 0;
    std::vector<std::unique_ptr<LoadedKernel>> kernels_;
};

Result<std::unique_ptr<Device>> CudaDevice::open(int ordinal) {
    auto driver = Driver::open();
    if (!driver) return driver.error();
    std::unique_ptr<CudaDevice> device(new CudaDevice(*std::move(driver)));
    auto started = device->start(ordinal);
    if (!started) return started.error();
    return std::unique_ptr<Device>(std::move(device));
}

Result<void> CudaDevice::start(int ordinal) {
    auto ready = driver_.check(driver_.cuInit(0), "cuInit");
    if (!ready) return ready;
    int count = 0;
    auto counted = driver_.check(driver_.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (!counted) return counted;
    if (ordinal < 0 || ordinal >= count)
        return Error{Code::not_found,
                     formatted("there is no cuda:{}, the driver sees {} GPU(s)", ordinal, count),
                     "`attune devices` lists them; CUDA_VISIBLE_DEVICES hides some"};
    auto found = driver_.check(driver_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
    if (!found) return found;
    auto info = query_info(driver_, device_, ordinal);
    if (!info) return info.error();
    info_ = *std::move(info);
    auto retained = driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, device_),
                                  "cuDevicePrimaryCtxRetain");
    if (!retained) return retained;
    return map_host_flag();
}

Result<void> CudaDevice::map_host_flag() {
    auto allocated = call("cuMemHostAlloc", [&] {
        return driver_.cuMemHostAlloc(reinterpret_cast<void**>(&host_flag_), sizeof *host_flag_,
                                      host_alloc_portable | host_alloc_device_map);
    });
    if (!allocated) return allocated;
    *host_flag_ = 0;
    return call("cuMemHostGetDevicePointer", [&] {
        return driver_.cuMemHostGetDevicePointer_v2(&host_flag_device_, host_flag_, 0);
    });
}

CudaDevice::~CudaDevice() {
    if (context_ == nullptr) return;
    {
        const Bound bound(driver_, context_);
        for (const auto& kernel : kernels_) driver_.cuModuleUnload(kernel->module);
        if (host_flag_ != nullptr) driver_.cuMemFreeHost(host_flag_);
    }
    driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

Result<Kernel> CudaDevice::load(std::span<const std::byte> binary, const std::string& entry,
                                std::uint32_t shared_bytes) {
    auto kernel = std::make_unique<LoadedKernel>();
    auto loaded = call("cuModuleLoadData",
                       [&] { return driver_.cuModuleLoadData(&kernel->module, binary.data()); });
    if (!loaded) return loaded.error();
    auto found = call("cuModuleGetFunction", [&] {
        return driver_.cuModuleGetFunction(&kernel->function, kernel->module, entry.c_str());
    });
    // Above 48 KiB a kernel asks for its dynamic shared memory by name.
    if (found)
        found = call("cuFuncSetAttribute", [&] {
            return driver_.cuFuncSetAttribute(kernel->function, function_max_dynamic_shared_bytes,
                                              static_cast<int>(shared_bytes));
        });
    if (!found) {
        (void)call("cuModuleUnload", [&] { return driver_.cuModuleUnload(kernel->module); });
        return found.error();
    }
    kernels_.push_back(std::move(kernel));
    return Kernel{handle(kernels_.back().get())};
}

Result<void> CudaDevice::unload(Kernel kernel) {
    const auto it = std::find_if(kernels_.begin(), kernels_.end(),
                                 [&](const auto& one) { return handle(one.get()) == kernel; });
    if (it == kernels_.end())
        return Error{Code::invalid_argument, "this kernel is not loaded on this device", ""};
    const CUmodule module = (*it)->module;
    kernels_.erase(it);
    return call("cuModuleUnload", [&] { return driver_.cuModuleUnload(module); });
}

Result<void> CudaDevice::launch(Kernel kernel, const Launch& launch, const void* params,
                                std::size_t, Stream stream) {
    if (launch.ctas == 0) return {};
    void* arguments[] = {const_cast<void*>(params)};
    return call("cuLaunchKernel", [&] {
        return driver_.cuLaunchKernel(reinterpret_cast<LoadedKernel*>(kernel)->function,
                                      launch.ctas, 1, 1, launch.threads_per_cta, 1, 1,
                                      launch.shared_bytes, as_stream(stream), arguments, nullptr);
    });
}

Result<void> CudaDevice::encode_tensor_map(const TensorMapSpec& spec, TensorMap& map) {
    if (driver_.cuTensorMapEncodeTiled == nullptr)
        return Error{Code::unsupported, "this driver encodes no tensor maps",
                     "update NVIDIA's driver to 525 or later"};
    const std::uint64_t sizes[] = {std::uint64_t(spec.columns), std::uint64_t(spec.rows),
                                   std::uint64_t(spec.heads), std::uint64_t(spec.batch)};
    const std::uint64_t strides[] = {2 * std::uint64_t(spec.strides.row),
                                     2 * std::uint64_t(spec.strides.head),
                                     2 * std::uint64_t(spec.strides.batch)};
    const std::uint32_t box[] = {64, std::uint32_t(spec.box_rows), 1, 1};
    const std::uint32_t steps[] = {1, 1, 1, 1};
    return driver_.check(driver_.cuTensorMapEncodeTiled(
                             &map, spec.dtype == DType::f16 ? tensor_map_f16 : tensor_map_bf16, 4,
                             reinterpret_cast<void*>(spec.base), sizes, strides, box, steps, 0,
                             tensor_map_swizzle_128, tensor_map_l2_promotion_256, 0),
                         "cuTensorMapEncodeTiled");
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal) {
    return CudaDevice::open(ordinal);
}

}  // namespace attune
