// Build = binaries for records that came without one (imported), for any arch without its GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store.h"
#include "tuner/tune.h"

namespace attune {

struct BuildRequest {
    std::string store_path;
    std::optional<DeviceKey> device;  // none = every device of the store
    bool again = false;               // also records that have a binary
    WorkerOptions workers;
};

struct BuildOutcome {
    Record record;
    bool outdated = false;  // the present templates make another kernel than the measured one; the
                            // record's source hash goes on saying so
    double compile_ms = 0;
    Error error{Code::ok, "", ""};
};

/// Compiles, stores and reports one record after the other. Fails only where the store or the
/// compiler does not open.
Result<std::vector<BuildOutcome>> build(
    const BuildRequest& request,
    const std::function<void(const BuildOutcome&, std::size_t done, std::size_t total)>& progress);

}  // namespace attune
