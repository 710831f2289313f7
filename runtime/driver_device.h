// DriverDevice = a Device over a GPU driver's module API: what cuda:N and hip:N have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "generator/formatted.h"
#include "runtime/device.h"

namespace attune {

/// An entry point of a driver (pointer to its member), and its name in messages.
template <class Entry>
struct DriverCall {
    const char* name;
    Entry entry;
};
template <class Entry>
DriverCall(const char*, Entry) -> DriverCall<Entry>;

/// Api names a driver's types and calls (runtime/cuda/device.cpp, runtime/hip/device.cpp):
///   Driver           the entry points; check(result, call) makes a Result of a driver's
///   Context          what a call needs to know about the device; gives it back when it ends
///   Bound            makes the device current for one call and leaves the caller's as it was
///   Pointer, Module, Function, Event, Stream
///   init ... destroy_event: a DriverCall each
///   id, hidden_by, host_flags: "cuda", the variable that hides GPUs, flags of pinned memory
template <class Api>
class DriverDevice : public Device {
    using Pointer = typename Api::Pointer;

public:
    ~DriverDevice() override {
        if (kernels_.empty() && host_flag_ == nullptr) return;
        const typename Api::Bound bound(driver_, context_);
        for (const auto& kernel : kernels_) (driver_.*Api::unload.entry)(kernel->module);
        if (host_flag_ != nullptr) (driver_.*Api::host_free.entry)(host_flag_);
    }

    const DeviceInfo& info() const override { return info_; }

    Result<DevicePtr> allocate(std::size_t bytes) override {
        Pointer pointer{};
        auto done = call(Api::allocate, &pointer, std::max<std::size_t>(bytes, 1));
        if (!done) return done.error();
        return DevicePtr(pointer);
    }
    Result<void> release(DevicePtr ptr) override { return call(Api::release, Pointer(ptr)); }
    Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override {
        return call(Api::copy_to_device, Pointer(to), from, bytes);
    }
    Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override {
        return call(Api::copy_to_host, to, Pointer(from), bytes);
    }
    Result<void> fill(DevicePtr to, std::uint32_t pattern, std::size_t bytes,
                      Stream stream) override {
        if (bytes == 0) return {};
        return call(Api::fill, Pointer(to), pattern, bytes / 4, as_stream(stream));
    }

    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t) override {
        auto kernel = std::make_unique<LoadedKernel>();
        auto loaded = call(Api::load, &kernel->module, static_cast<const void*>(binary.data()));
        if (!loaded) return loaded.error();
        auto found = call(Api::get_function, &kernel->function, kernel->module, entry.c_str());
        if (!found) {
            (void)call(Api::unload, kernel->module);
            return found.error();
        }
        kernels_.push_back(std::move(kernel));
        return Kernel(kernels_.back().get());
    }
    Result<void> unload(Kernel kernel) override {
        const auto it = std::find_if(kernels_.begin(), kernels_.end(),
                                     [&](const auto& one) { return Kernel(one.get()) == kernel; });
        if (it == kernels_.end())
            return Error{Code::invalid_argument, "this kernel is not loaded on this device", ""};
        const auto module = (*it)->module;
        kernels_.erase(it);
        return call(Api::unload, module);
    }
    Result<void> launch(Kernel kernel, const Launch& launch, const void* params, std::size_t,
                        Stream stream) override {
        if (launch.ctas == 0) return {};
        void* arguments[] = {const_cast<void*>(params)};
        return call(Api::launch, function_of(kernel), launch.ctas, 1, 1, launch.threads_per_cta, 1,
                    1, launch.shared_bytes, as_stream(stream), arguments, nullptr);
    }
    Result<void> synchronize() override { return call(Api::synchronize); }

    Result<Event> create_event() override {
        typename Api::Event event = nullptr;
        auto done = call(Api::create_event, &event, 0);
        if (!done) return done.error();
        return Event(event);
    }
    Result<void> record(Event event, Stream stream) override {
        return call(Api::record, as_event(event), as_stream(stream));
    }
    Result<double> elapsed_ms(Event start, Event stop) override {
        float milliseconds = 0;
        auto done = call(Api::elapsed, &milliseconds, as_event(start), as_event(stop));
        if (!done) return done.error();
        return double{milliseconds};
    }
    Result<void> destroy_event(Event event) override {
        return call(Api::destroy_event, as_event(event));
    }

    volatile std::uint32_t* host_flag() override { return host_flag_; }
    DevicePtr host_flag_device_ptr() override { return DevicePtr(host_flag_device_); }

protected:
    explicit DriverDevice(typename Api::Driver driver) : driver_(std::move(driver)) {}

    /// Runs one driver call on our device.
    template <class Entry, class... Arguments>
    Result<void> call(const DriverCall<Entry>& what, Arguments... arguments) const {
        const typename Api::Bound bound(driver_, context_);
        if (bound.result() != 0) return driver_.check(bound.result(), bound.call());
        return driver_.check((driver_.*what.entry)(arguments...), what.name);
    }

    /// Initialises the driver; not_found unless it sees such a GPU.
    Result<void> check_ordinal(int ordinal) const {
        auto ready = driver_.check((driver_.*Api::init.entry)(0), Api::init.name);
        if (!ready) return ready;
        int count = 0;
        auto counted = driver_.check((driver_.*Api::count.entry)(&count), Api::count.name);
        if (!counted) return counted;
        if (ordinal < 0 || ordinal >= count)
            return Error{
                Code::not_found,
                formatted("there is no {}:{}, the driver sees {} GPU(s)", Api::id, ordinal, count),
                formatted("`attune devices` lists them; {} hides some", Api::hidden_by)};
        return {};
    }

    Result<void> map_host_flag() {
        auto allocated = call(Api::host_allocate, reinterpret_cast<void**>(&host_flag_),
                              sizeof *host_flag_, Api::host_flags);
        if (!allocated) return allocated;
        *host_flag_ = 0;
        return call(Api::host_pointer, &host_flag_device_, host_flag_, 0);
    }

    static typename Api::Function function_of(Kernel kernel) {
        return reinterpret_cast<LoadedKernel*>(kernel)->function;
    }

    typename Api::Driver driver_;
    typename Api::Context context_;
    DeviceInfo info_;

private:
    struct LoadedKernel {
        typename Api::Module module = nullptr;
        typename Api::Function function = nullptr;
    };
    static typename Api::Stream as_stream(Stream stream) {
        return reinterpret_cast<typename Api::Stream>(stream);
    }
    static typename Api::Event as_event(Event event) {
        return reinterpret_cast<typename Api::Event>(event);
    }

    std::uint32_t* host_flag_ = nullptr;
    Pointer host_flag_device_{};
    std::vector<std::unique_ptr<LoadedKernel>> kernels_;
};

/// Opens Derived's driver, and the device on it; Derived::start(ordinal) asks what GPU that is.
template <class Derived, class Driver>
Result<std::unique_ptr<Device>> open_driver_device(int ordinal) {
    auto driver = Driver::open();
    if (!driver) return driver.error();
    auto device = std::make_unique<Derived>(*std::move(driver));
    auto started = device->start(ordinal);
    if (!started) return started.error();
    return std::unique_ptr<Device>(std::move(device));
}

}  // namespace attune
