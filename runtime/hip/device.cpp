// hip:N as a Device, through HIP's module API and the GPU's one context (the one PyTorch uses too,
// so that its pointers and streams are ours).

#include "runtime/driver_device.h"
#include "runtime/hip/device_info.h"
#include "runtime/hip/driver.h"

namespace attune {
namespace {

using namespace hip;

/// Makes a device the thread's current one. Legal inside stream capture.
class BoundDevice {
public:
    BoundDevice(const Driver& driver, int device)
        : driver_(driver), result_(driver.hipGetDevice(&before_)) {
        if (result_ != 0 || before_ == device) return;
        call_ = "hipSetDevice";
        result_ = driver.hipSetDevice(device);
        changed_ = result_ == 0;
    }
    ~BoundDevice() {
        if (changed_) driver_.hipSetDevice(before_);
    }
    BoundDevice(const BoundDevice&) = delete;
    hipError_t result() const { return result_; }
    const char* call() const { return call_; }

private:
    const Driver& driver_;
    int before_ = 0;
    const char* call_ = "hipGetDevice";
    hipError_t result_;
    bool changed_ = false;
};

struct Hip {
    using Driver = hip::Driver;
    using Context = int;  // the device's ordinal
    using Bound = BoundDevice;
    using Pointer = hipDeviceptr_t;
    using Module = hipModule_t;
    using Function = hipFunction_t;
    using Event = hipEvent_t;
    using Stream = hipStream_t;

    static constexpr DriverCall init{"hipInit", &Driver::hipInit};
    static constexpr DriverCall count{"hipGetDeviceCount", &Driver::hipGetDeviceCount};
    static constexpr DriverCall allocate{"hipMalloc", &Driver::hipMalloc};
    static constexpr DriverCall release{"hipFree", &Driver::hipFree};
    static constexpr DriverCall copy_to_device{"hipMemcpyHtoD", &Driver::hipMemcpyHtoD};
    static constexpr DriverCall copy_to_host{"hipMemcpyDtoH", &Driver::hipMemcpyDtoH};
    static constexpr DriverCall fill{"hipMemsetD32Async", &Driver::hipMemsetD32Async};
    static constexpr DriverCall host_allocate{"hipHostMalloc", &Driver::hipHostMalloc};
    static constexpr DriverCall host_free{"hipHostFree", &Driver::hipHostFree};
    static constexpr DriverCall host_pointer{"hipHostGetDevicePointer",
                                             &Driver::hipHostGetDevicePointer};
    static constexpr DriverCall load{"hipModuleLoadData", &Driver::hipModuleLoadData};
    static constexpr DriverCall unload{"hipModuleUnload", &Driver::hipModuleUnload};
    static constexpr DriverCall get_function{"hipModuleGetFunction", &Driver::hipModuleGetFunction};
    static constexpr DriverCall launch{"hipModuleLaunchKernel", &Driver::hipModuleLaunchKernel};
    static constexpr DriverCall synchronize{"hipDeviceSynchronize", &Driver::hipDeviceSynchronize};
    static constexpr DriverCall create_event{"hipEventCreateWithFlags",
                                             &Driver::hipEventCreateWithFlags};
    static constexpr DriverCall record{"hipEventRecord", &Driver::hipEventRecord};
    static constexpr DriverCall elapsed{"hipEventElapsedTime", &Driver::hipEventElapsedTime};
    static constexpr DriverCall destroy_event{"hipEventDestroy", &Driver::hipEventDestroy};

    static constexpr const char* id = "hip";
    static constexpr const char* hidden_by = "HIP_VISIBLE_DEVICES";
    static constexpr unsigned host_flags =
        host_malloc_portable | host_malloc_mapped | host_malloc_coherent;
};

class HipDevice final : public DriverDevice<Hip> {
public:
    explicit HipDevice(Driver driver) : DriverDevice(std::move(driver)) {}

    Result<void> start(int ordinal) {
        auto there = check_ordinal(ordinal);
        if (!there) return there;
        auto queried = query_info(driver_, ordinal);
        if (!queried) return queried.error();
        info_ = std::move(queried->info);
        isa_ = std::move(queried->isa);
        context_ = ordinal;
        return map_host_flag();
    }

    /// Dynamic LDS needs no opt-in; a launch with too much of it would only be an invalid value.
    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override {
        if (const int most = info_.target.shared_bytes_per_cta; int(shared_bytes) > most)
            return Error{Code::unsupported,
                         formatted("{} needs {} bytes of LDS, a work group of {} has {}", entry,
                                   shared_bytes, info_.id, most),
                         "use a smaller tile or fewer stages"};
        auto kernel = DriverDevice::load(binary, entry, shared_bytes);
        if (kernel) return kernel;
        Error error = kernel.error();
        error.message += " on " + isa_;  // which may differ in its features alone
        return error;
    }

private:
    std::string isa_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_hip_device(int ordinal) {
    return open_driver_device<HipDevice, Driver>(ordinal);
}

}  // namespace attune
