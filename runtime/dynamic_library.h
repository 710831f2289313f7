// A library opened at run time: the first of a list of candidates that opens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/status.h"

namespace attune {

/// A function that a library must have, and where its address goes.
struct EntryPoint {
    const char* name;
    void** slot;
};

/// Stays open for the life of the process: GPU libraries install exit handlers and thread-local
/// state that must not be unmapped.
class DynamicLibrary {
public:
    /// `candidates` are file names for the loader's search or paths. library_missing names the
    /// library and lists where it was sought.
    static Result<DynamicLibrary> open(std::string_view name,
                                       const std::vector<std::string>& candidates,
                                       std::string_view next_step);

    /// Null if the library has no such symbol.
    void* symbol(const char* name) const;
    /// Fills every slot; library_missing names the first that the library lacks.
    Result<void> bind(std::span<const EntryPoint> entries, std::string_view next_step) const;
    /// The candidate that opened.
    const std::string& opened() const { return opened_; }

private:
    void* handle_ = nullptr;
    std::string opened_;
};

/// `variable`'s value split at ':', each a file or a folder in which `names` are looked for;
/// empty where the variable is not set.
std::vector<std::string> candidates_from_environment(const char* variable,
                                                     const std::vector<std::string>& names);

}  // namespace attune
