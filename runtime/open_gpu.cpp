#include <charconv>

#include "generator/formatted.h"
#include "runtime/device.h"

namespace attune {
namespace {

struct Row {
    std::string_view prefix;
    Result<std::unique_ptr<Device>> (*open)(int ordinal);
};
constexpr Row rows[] = {{"cuda:", open_cuda_device}, {"hip:", open_hip_device}};

/// Where none opens, a driver that is there has more to say than one that is not.
Result<std::unique_ptr<Device>> open_first() {
    auto opened = open_cuda_device(0);
    if (opened || opened.error().code != Code::library_missing) return opened;
    auto other = open_hip_device(0);
    const bool missing = !other && other.error().code == Code::library_missing;
    return missing ? std::move(opened) : std::move(other);
}

}  // namespace

Result<std::unique_ptr<Device>> open_gpu(std::string_view id) {
    if (id.empty()) return open_first();
    for (const Row& row : rows) {
        if (!id.starts_with(row.prefix)) continue;
        const std::string_view number = id.substr(row.prefix.size());
        const char* last = number.data() + number.size();
        int ordinal = -1;
        const auto [end, fault] = std::from_chars(number.data(), last, ordinal);
        if (fault == std::errc{} && end == last && ordinal >= 0) return row.open(ordinal);
    }
    return Error{Code::invalid_argument, formatted("'{}' is not a device", id),
                 "name one like cuda:0 or hip:0"};
}

}  // namespace attune
