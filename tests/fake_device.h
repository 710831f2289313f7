// A device that only writes down what it is asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace attune {

/// What a FakeDevice saw; outlives the device, which a context owns.
struct FakeLog {
    struct LaunchCall {
        Kernel kernel;
        Launch launch;
        AttentionParams params;
        Stream stream;
    };
    std::vector<std::string> loads;     // the binaries' bytes
    std::vector<std::string> entries;   // with each load
    std::vector<std::uint32_t> shared;  // with each load
    int unloads = 0;
    int allocations = 0;  // not released
    LaunchCall last{};
    std::atomic<int> launches = 0;
    std::string fail_load;    // not empty: load fails with it
    std::string fail_launch;  // not empty: launch fails with it
    bool closed = false;
};

class FakeDevice : public Device {
public:
    FakeDevice(const Target& target, std::shared_ptr<FakeLog> log) : log_(std::move(log)) {
        info_.id = "cuda:7";
        info_.target = target;
        info_.driver = "580.1";
    }
    ~FakeDevice() override { log_->closed = true; }

    const DeviceInfo& info() const override { return info_; }
    Result<DevicePtr> allocate(std::size_t bytes) override {
        if (bytes > (std::size_t(1) << 30)) return Error{Code::out_of_memory, "no room", ""};
        ++log_->allocations;
        return reinterpret_cast<DevicePtr>(::operator new(bytes));
    }
    Result<void> release(DevicePtr ptr) override {
        --log_->allocations;
        ::operator delete(reinterpret_cast<void*>(ptr));
        return {};
    }
    Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override {
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return {};
    }
    Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override {
        std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
        return {};
    }
    Result<void> fill(DevicePtr, std::uint32_t, std::size_t, Stream) override { return {}; }
    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override {
        if (!log_->fail_load.empty()) return Error{Code::device_error, log_->fail_load, ""};
        log_->loads.emplace_back(reinterpret_cast<const char*>(binary.data()), binary.size());
        log_->entries.push_back(entry);
        log_->shared.push_back(shared_bytes);
        return Kernel(log_->loads.size());
    }
    Result<void> unload(Kernel) override {
        ++log_->unloads;
        return {};
    }
    Result<void> launch(Kernel kernel, const Launch& launch, const void* params,
                        std::size_t params_bytes, Stream stream) override {
        ++log_->launches;
        if (!log_->fail_launch.empty()) return Error{Code::device_error, log_->fail_launch, "look"};
        log_->last = {kernel, launch, {}, stream};
        // Tensor maps follow in the parameter of kernels that load by TMA.
        std::memcpy(&log_->last.params, params, std::min(params_bytes, sizeof log_->last.params));
        return {};
    }
    Result<void> synchronize() override { return {}; }
    Result<void> encode_tensor_map(const TensorMapSpec&, TensorMap& map) override {
        map = {};
        return {};
    }
    Result<Event> create_event() override { return Event(1); }
    Result<void> record(Event, Stream) override { return {}; }
    Result<double> elapsed_ms(Event, Event) override { return 0.0; }
    Result<void> destroy_event(Event) override { return {}; }
    volatile std::uint32_t* host_flag() override { return nullptr; }
    DevicePtr host_flag_device_ptr() override { return 0; }

private:
    DeviceInfo info_;
    std::shared_ptr<FakeLog> log_;
};

}  // namespace attune
