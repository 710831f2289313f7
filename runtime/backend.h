// What attune_backend is inside the library: a Device that somebody else made.
#pragma once

#include <memory>

#include "runtime/device.h"

struct attune_backend {
    std::unique_ptr<attune::Device> device;
};
