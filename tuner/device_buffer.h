// Device memory that is given back when it goes out of scope.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace attune {

/// Its device must outlive it.
class DeviceBuffer {
public:
    DeviceBuffer() = default;
    static Result<DeviceBuffer> allocate(Device& device, std::size_t bytes) {
        auto ptr = device.allocate(bytes);
        if (!ptr) return ptr.error();
        DeviceBuffer buffer;
        buffer.device_ = &device;
        buffer.ptr_ = *ptr;
        buffer.bytes_ = bytes;
        return buffer;
    }
    DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
        DeviceBuffer(std::move(other)).swap(*this);
        return *this;
    }
    ~DeviceBuffer() {
        if (device_ != nullptr) (void)device_->release(ptr_);
    }

    DevicePtr ptr() const { return ptr_; }
    std::size_t bytes() const { return bytes_; }
    template <class T>
    T* as() const {
        return reinterpret_cast<T*>(ptr_);
    }

private:
    void swap(DeviceBuffer& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(ptr_, other.ptr_);
        std::swap(bytes_, other.bytes_);
    }

    Device* device_ = nullptr;
    DevicePtr ptr_ = 0;
    std::size_t bytes_ = 0;
};

/// `count` values from device memory, in host memory.
template <class T>
Result<std::vector<T>> read_back(Device& device, DevicePtr from, std::size_t count) {
    std::vector<T> values(count);
    auto copied = device.copy_to_host(values.data(), from, count * sizeof(T));
    if (!copied) return copied.error();
    return values;
}

}  // namespace attune
