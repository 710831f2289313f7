#include "runtime/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "generator/formatted.h"

namespace attune {
namespace {

/// Paths of files that are not there add nothing but noise to the loader's own message.
bool worth_trying(const std::string& candidate) {
    std::error_code ignored;
    return candidate.find('/') == std::string::npos || std::filesystem::exists(candidate, ignored);
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open(std::string_view name,
                                            const std::vector<std::string>& candidates,
                                            std::string_view next_step) {
    std::string broken;  // there, but it would not open
    for (const std::string& candidate : candidates) {
        if (!worth_trying(candidate)) continue;
        DynamicLibrary library;
        library.handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library.handle_ != nullptr) {
            library.opened_ = candidate;
            return library;
        }
        const char* why = dlerror();
        if (candidate.find('/') != std::string::npos && why != nullptr)
            broken += formatted(" ({})", why);
    }
    return Error{
        Code::library_missing,
        formatted("{} did not open{}; sought: {}", name, broken, fmt::join(candidates, ", ")),
        std::string(next_step)};
}

void* DynamicLibrary::symbol(const char* name) const {
    return dlsym(handle_, name);
}

Result<void> DynamicLibrary::bind(std::span<const EntryPoint> entries,
                                  std::string_view next_step) const {
    for (const EntryPoint& entry : entries) {
        *entry.slot = symbol(entry.name);
        if (*entry.slot == nullptr)
            return Error{Code::library_missing, formatted("{} has no {}", opened_, entry.name),
                         std::string(next_step)};
    }
    return {};
}

std::vector<std::string> candidates_from_environment(const char* variable,
                                                     const std::vector<std::string>& names) {
    std::vector<std::string> candidates;
    const char* value = std::getenv(variable);
    std::istringstream entries(value == nullptr ? "" : value);
    for (std::string entry; std::getline(entries, entry, ':');) {
        std::error_code ignored;
        if (entry.empty()) continue;
        if (!std::filesystem::is_directory(entry, ignored))
            candidates.push_back(entry);
        else
            for (const std::string& name : names) candidates.push_back(entry + "/" + name);
    }
    return candidates;
}

}  // namespace attune
