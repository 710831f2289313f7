// What a CUDA device says about itself.
#pragma once

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace attune::cuda {

/// Needs cuInit, no context. `ordinal` only names the device: "cuda:0".
Result<DeviceInfo> query_info(const Driver& driver, CUdevice device, int ordinal);

}  // namespace attune::cuda
