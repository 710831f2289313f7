// Devices and compilers by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tuner/compiler.h"

namespace attune {

/// "cuda:N", "hip:N" or "emu:<gpu>"; "" is the first GPU that opens. invalid_argument for another
/// form.
Result<std::unique_ptr<Device>> open_device(const std::string& id);

/// GPUs that open, cuda:N and then hip:N in order; empty where there are none or no driver. GPUs
/// that Attune does not know are left out. The emulator's devices are emu:<id> for every id of
/// known_targets().
std::vector<DeviceInfo> gpu_devices();

/// "nvrtc" or "hiprtc" by vendor, "host" for the emulator.
const char* compiler_for(Vendor vendor, bool emulated);
/// "nvrtc", "hiprtc" or "host". hiprtc works in a process of its own, started from this executable
/// (tuner/compiler_process.h).
Result<std::unique_ptr<Compiler>> open_compiler(const std::string& name);
/// In this process, whatever a source may do to it: what a worker process opens.
Result<std::unique_ptr<Compiler>> open_compiler_here(const std::string& name);

}  // namespace attune
