#include "generator/status.h"

#include <array>

namespace attune {

const char* code_name(Code code) {
    static constexpr std::array names{"ok",           "invalid_argument", "unsupported",
                                      "not_found",    "library_missing",  "compile_failed",
                                      "device_error", "out_of_memory",    "io_error",
                                      "corrupt",      "version_mismatch", "wrong_result",
                                      "timed_out",    "internal"};
    const auto index = static_cast<std::size_t>(code);
    return index < names.size() ? names[index] : "unknown";
}

}  // namespace attune
