// cuda:N as a Device, through the driver API and the GPU's primary context (the one PyTorch and the
// CUDA runtime use, so that their pointers and streams are ours).

#include "runtime/cuda/device_info.h"
#include "runtime/cuda/driver.h"
#include "runtime/driver_device.h"

namespace attune {
namespace {

using namespace cuda;

/// Our share of the GPU's primary context.
class PrimaryContext {
public:
    PrimaryContext() = default;
    PrimaryContext(const PrimaryContext&) = delete;
    ~PrimaryContext() {
        if (context_ != nullptr) driver_->cuDevicePrimaryCtxRelease_v2(device_);
    }
    /// `driver` must outlive it.
    Result<void> retain(const Driver& driver, CUdevice device) {
        driver_ = &driver;
        device_ = device;
        return driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device),
                            "cuDevicePrimaryCtxRetain");
    }
    CUcontext get() const { return context_; }

private:
    const Driver* driver_ = nullptr;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
};

/// Legal inside stream capture.
class BoundContext {
public:
    BoundContext(const Driver& driver, const PrimaryContext& context)
        : driver_(driver), result_(driver.cuCtxPushCurrent_v2(context.get())) {}
    ~BoundContext() {
        CUcontext ignored;
        if (result_ == 0) driver_.cuCtxPopCurrent_v2(&ignored);
    }
    BoundContext(const BoundContext&) = delete;
    CUresult result() const { return result_; }
    const char* call() const { return "cuCtxPushCurrent"; }

private:
    const Driver& driver_;
    CUresult result_;
};

struct Cuda {
    using Driver = cuda::Driver;
    using Context = PrimaryContext;
    using Bound = BoundContext;
    using Pointer = CUdeviceptr;
    using Module = CUmodule;
    using Function = CUfunction;
    using Event = CUevent;
    using Stream = CUstream;

    static constexpr DriverCall init{"cuInit", &Driver::cuInit};
    static constexpr DriverCall count{"cuDeviceGetCount", &Driver::cuDeviceGetCount};
    static constexpr DriverCall allocate{"cuMemAlloc", &Driver::cuMemAlloc_v2};
    static constexpr DriverCall release{"cuMemFree", &Driver::cuMemFree_v2};
    static constexpr DriverCall copy_to_device{"cuMemcpyHtoD", &Driver::cuMemcpyHtoD_v2};
    static constexpr DriverCall copy_to_host{"cuMemcpyDtoH", &Driver::cuMemcpyDtoH_v2};
    static constexpr DriverCall fill{"cuMemsetD32Async", &Driver::cuMemsetD32Async};
    static constexpr DriverCall host_allocate{"cuMemHostAlloc", &Driver::cuMemHostAlloc};
    static constexpr DriverCall host_free{"cuMemFreeHost", &Driver::cuMemFreeHost};
    static constexpr DriverCall host_pointer{"cuMemHostGetDevicePointer",
                                             &Driver::cuMemHostGetDevicePointer_v2};
    static constexpr DriverCall load{"cuModuleLoadData", &Driver::cuModuleLoadData};
    static constexpr DriverCall unload{"cuModuleUnload", &Driver::cuModuleUnload};
    static constexpr DriverCall get_function{"cuModuleGetFunction", &Driver::cuModuleGetFunction};
    static constexpr DriverCall set_attribute{"cuFuncSetAttribute", &Driver::cuFuncSetAttribute};
    static constexpr DriverCall launch{"cuLaunchKernel", &Driver::cuLaunchKernel};
    static constexpr DriverCall encode{"cuTensorMapEncodeTiled", &Driver::cuTensorMapEncodeTiled};
    static constexpr DriverCall synchronize{"cuCtxSynchronize", &Driver::cuCtxSynchronize};
    static constexpr DriverCall create_event{"cuEventCreate", &Driver::cuEventCreate};
    static constexpr DriverCall record{"cuEventRecord", &Driver::cuEventRecord};
    static constexpr DriverCall elapsed{"cuEventElapsedTime", &Driver::cuEventElapsedTime};
    static constexpr DriverCall destroy_event{"cuEventDestroy", &Driver::cuEventDestroy_v2};

    static constexpr const char* id = "cuda";
    static constexpr const char* hidden_by = "CUDA_VISIBLE_DEVICES";
    static constexpr unsigned host_flags = host_alloc_portable | host_alloc_device_map;
};

class CudaDevice final : public DriverDevice<Cuda> {
public:
    explicit CudaDevice(Driver driver) : DriverDevice(std::move(driver)) {}

    Result<void> start(int ordinal) {
        auto there = check_ordinal(ordinal);
        if (!there) return there;
        CUdevice device = 0;
        auto found = driver_.check(driver_.cuDeviceGet(&device, ordinal), "cuDeviceGet");
        if (!found) return found;
        auto info = query_info(driver_, device, ordinal);
        if (!info) return info.error();
        info_ = *std::move(info);
        auto retained = context_.retain(driver_, device);
        if (!retained) return retained;
        return map_host_flag();
    }

    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override {
        auto kernel = DriverDevice::load(binary, entry, shared_bytes);
        if (!kernel) return kernel;
        // Above 48 KiB a kernel asks for its dynamic shared memory by name.
        auto set = call(Cuda::set_attribute, function_of(*kernel),
                        function_max_dynamic_shared_bytes, static_cast<int>(shared_bytes));
        if (set) return kernel;
        (void)unload(*kernel);
        return set.error();
    }

    Result<void> encode_tensor_map(const TensorMapSpec& spec, TensorMap& map) override {
        if (driver_.cuTensorMapEncodeTiled == nullptr)
            return Error{Code::unsupported, "this driver encodes no tensor maps",
                         "update NVIDIA's driver to 525 or later"};
        const std::uint64_t sizes[] = {std::uint64_t(spec.columns), std::uint64_t(spec.rows),
                                       std::uint64_t(spec.heads), std::uint64_t(spec.batch)};
        const std::uint64_t bytes = element_bytes(spec.dtype);
        const std::uint64_t strides[] = {bytes * std::uint64_t(spec.strides.row),
                                         bytes * std::uint64_t(spec.strides.head),
                                         bytes * std::uint64_t(spec.strides.batch)};
        const std::uint32_t box[] = {std::uint32_t(128 / bytes), std::uint32_t(spec.box_rows),
                                     std::uint32_t(spec.box_heads), 1};
        const std::uint32_t steps[] = {1, 1, 1, 1};
        return call(Cuda::encode, &map, tensor_map_elements[static_cast<int>(spec.dtype)], 4,
                    reinterpret_cast<void*>(spec.base), sizes, strides, box, steps, 0,
                    tensor_map_swizzle_128, tensor_map_l2_promotion_256, 0);
    }
};

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal) {
    return open_driver_device<CudaDevice, Driver>(ordinal);
}

}  // namespace attune
