// Device = what runs kernels: cuda:N, hip:N, emu:<gpu>. One interface, so that the same emit ->
// compile -> load -> launch path serves all. Not thread-safe; one Device per thread,
// except that launch() of one that is not emulated may be called from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "generator/family.h"
#include "generator/problem.h"
#include "generator/status.h"
#include "generator/target.h"

namespace attune {

/// A device address. On the emulator it is a host pointer the emulator handed out.
using DevicePtr = std::uint64_t;
/// A queue of work. 0 is the device's default stream; on cuda a CUstream, on hip a hipStream_t.
using Stream = std::uint64_t;
/// Loaded code; 0 is none.
using Kernel = std::uint64_t;
/// A point in a stream with a time; 0 is none.
using Event = std::uint64_t;

struct DeviceInfo {
    std::string id;      // "cuda:0", "hip:0", "emu:h200"
    Target target;       // asked from the device
    std::string driver;  // "580.159.03", "hip 7.2.0"; the emulator's version for emu
    std::string uuid;    // partition or board identity (hip: PCI bus id); empty where there is none
    bool emulated = false;  // its times are never stored as measurements
};

/// A [batch][head][row][column] tensor for loads by TMA.
struct TensorMapSpec {
    DevicePtr base = 0;  // on 16 bytes
    DType dtype = DType::bf16;
    int columns = 0, rows = 0, heads = 0, batch = 0;
    TensorStrides strides{};  // elements, multiples of 16 bytes; columns are adjacent
    int box_rows = 0;         // a load brings this many rows of 128 bytes
    int box_heads = 1;        // of each of so many heads
};

class Device {
public:
    virtual ~Device() = default;

    virtual const DeviceInfo& info() const = 0;

    virtual Result<DevicePtr> allocate(std::size_t bytes) = 0;
    virtual Result<void> release(DevicePtr ptr) = 0;
    virtual Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) = 0;
    virtual Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) = 0;
    /// Fills with a repeated 32-bit pattern; bytes is a multiple of 4. In stream order of `stream`.
    virtual Result<void> fill(DevicePtr to, std::uint32_t pattern, std::size_t bytes,
                              Stream stream = 0) = 0;

    /// Loads a binary (cubin, code object, emulator object) and looks up its extern "C" entry.
    /// `shared_bytes` is the dynamic shared memory the kernel will be launched with.
    virtual Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                                std::uint32_t shared_bytes) = 0;
    virtual Result<void> unload(Kernel kernel) = 0;
    /// `params` is the kernel's single by-value parameter.
    virtual Result<void> launch(Kernel kernel, const Launch& launch, const void* params,
                                std::size_t params_bytes, Stream stream = 0) = 0;
    virtual Result<void> synchronize() = 0;
    /// The map becomes what tensor_load takes (templates/target/contract.md), swizzled by 128
    /// bytes. unsupported where the GPU has no such loads. Allocates nothing.
    virtual Result<void> encode_tensor_map(const TensorMapSpec&, TensorMap&) {
        return Error{Code::unsupported, info().id + " has no tensor loads",
                     "use another kernel family"};
    }

    virtual Result<Event> create_event() = 0;
    virtual Result<void> record(Event event, Stream stream = 0) = 0;
    /// Milliseconds between two recorded events that have completed. The emulator reports its
    /// estimate of the work between them.
    virtual Result<double> elapsed_ms(Event start, Event stop) = 0;
    virtual Result<void> destroy_event(Event event) = 0;

    /// Pinned host word the device can read, for the holding kernel; null where the device has no
    /// asynchronous queue (the emulator runs a launch when it is made).
    virtual volatile std::uint32_t* host_flag() = 0;
    virtual DevicePtr host_flag_device_ptr() = 0;
};

/// Opens "cuda:N" or "hip:N"; "" is the first GPU that opens, cuda:0 before hip:0. invalid_argument
/// for another form; not_found and library_missing say where was looked.
Result<std::unique_ptr<Device>> open_gpu(std::string_view id);
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal);
Result<std::unique_ptr<Device>> open_hip_device(int ordinal);

}  // namespace attune
