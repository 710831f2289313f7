// What a HIP device says about itself.
#pragma once

#include "runtime/device.h"
#include "runtime/hip/driver.h"

namespace attune::hip {

struct QueriedInfo {
    DeviceInfo info;
    std::string
        isa;  // "gfx942:sramecc+:xnack-", as HIP names it; target.arch is it without features
};

/// Needs hipInit. unsupported where configs/gpus knows no GPU of the arch.
Result<QueriedInfo> query_info(const Driver& driver, int device);

}  // namespace attune::hip
