#include "runtime/driver_error.h"

#include "generator/formatted.h"

namespace attune {

Error driver_error(const char* call, const char* name, int result,
                   std::span<const DriverAdvice> advice) {
    Error error{Code::device_error, formatted("{} failed: {} ({})", call, name, result), ""};
    for (const DriverAdvice& row : advice) {
        if (result < row.first || result > row.last) continue;
        error.code = row.code;
        error.next_step = row.next_step;
        break;
    }
    return error;
}

}  // namespace attune
