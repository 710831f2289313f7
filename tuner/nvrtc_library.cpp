// Finding and opening libnvrtc.
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "generator/formatted.h"
#include "tuner/library_folders.h"
#include "tuner/nvrtc.h"

namespace attune::nvrtc {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::vector<std::string> toolkit_folders() {
    std::vector<std::string> toolkits;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const char* value = std::getenv(variable)) toolkits.push_back(value);
    for (const std::string& folder : folders("/usr/local", "cuda")) toolkits.push_back(folder);
    toolkits.push_back("/opt/cuda");
    std::vector<std::string> out;
    for (const std::string& toolkit : toolkits)
        for (const char* below : {"lib64", "lib", "targets/x86_64-linux/lib"})
            out.push_back(toolkit + "/" + below);
    out.push_back("/usr/lib/x86_64-linux-gnu");
    return out;
}

/// lib/python3.x/site-packages beside every python3 of PATH (which finds virtual environments), and
/// the usual places.
std::vector<std::string> wheel_folders() {
    std::vector<std::string> prefixes;
    const char* path = std::getenv("PATH");
    std::istringstream entries(path == nullptr ? "" : path);
    for (std::string entry; std::getline(entries, entry, ':');) {
        std::error_code ignored;
        if (fs::exists(entry + "/python3", ignored))
            prefixes.push_back(fs::path(entry).parent_path());
    }
    if (const char* home = std::getenv("HOME")) prefixes.push_back(fs::path(home) / ".local");
    std::vector<std::string> out;
    for (const std::string& prefix : prefixes)
        for (const std::string& python : folders(prefix + "/lib", "python3"))
            for (const char* packages : {"site-packages", "dist-packages"})
                for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
                    out.push_back(formatted("{}/{}/{}", python, packages, wheel));
    return out;
}

}  // namespace

std::vector<std::string> candidates() {
    std::vector<std::string> list = candidates_from_environment("ATTUNE_NVRTC", names);
    if (!list.empty()) return list;  // who names one means it
    list = names;
    std::vector<std::string> places = toolkit_folders();
    const std::vector<std::string> wheels = wheel_folders();
    places.insert(places.end(), wheels.begin(), wheels.end());
    for (const std::string& place : places)
        for (const std::string& name : names) list.push_back(place + "/" + name);
    return list;
}

Result<Library> Library::open() {
    auto opened = DynamicLibrary::open(
        "NVRTC", candidates(),
        "set ATTUNE_NVRTC to libnvrtc.so.13 or its folder, or `pip install nvidia-cuda-nvrtc`");
    if (!opened) return opened.error();
    Library nvrtc;
    nvrtc.library = *std::move(opened);
    open_beside(nvrtc.library.opened(), "libnvrtc-builtins.so.");
    const EntryPoint entries[] = {
#define ATTUNE_ENTRY(member, name, parameters) {#name, reinterpret_cast<void**>(&nvrtc.member)},
        ATTUNE_PROGRAM_CALLS(ATTUNE_ENTRY, nvrtc, CUBIN) ATTUNE_NVRTC_CALLS(ATTUNE_ENTRY)
#undef ATTUNE_ENTRY
    };
    auto bound = nvrtc.library.bind(entries, "use NVRTC 12.0 or later");
    if (!bound) return bound.error();
    return nvrtc;
}

}  // namespace attune::nvrtc
