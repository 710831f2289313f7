// A GPU driver's result as an Error: its name, and what to do next.
#pragma once

#include <span>

#include "generator/status.h"

namespace attune {

/// What results `first` to `last` mean.
struct DriverAdvice {
    int first, last;
    Code code;
    const char* next_step;
};

/// "`call` failed: `name` (`result`)", with code and next step of the first row that holds it;
/// device_error where none does.
Error driver_error(const char* call, const char* name, int result,
                   std::span<const DriverAdvice> advice);

}  // namespace attune
