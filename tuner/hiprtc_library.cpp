// Finding and opening hiprtc, and the comgr that it compiles with.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "generator/formatted.h"
#include "tuner/hiprtc.h"
#include "tuner/library_folders.h"

namespace attune::hiprtc {
namespace {

namespace fs = std::filesystem;

/// Since ROCm 6 hiprtc is a library of its own, since 7 only that.
const std::vector<std::string> names = {"libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so",
                                        "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
const std::vector<std::string> comgr_names = {"libamd_comgr.so.3", "libamd_comgr.so.2",
                                              "libamd_comgr.so"};
constexpr const char* next_step =
    "install ROCm, or run tools/rocm-prefix.sh, or set ATTUNE_HIPRTC to libhiprtc.so.7 or its "
    "folder";

constexpr const char* prefix_libraries = "/usr/lib/x86_64-linux-gnu";

std::string loader_of(const std::string& prefix) {
    return prefix + prefix_libraries + "/ld-linux-x86-64.so.2";
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_prefix(const std::string& folder) {
    std::error_code ignored;
    return fs::exists(loader_of(folder), ignored);
}

/// The prefix to be used, be it there or not; empty where $ATTUNE_HIPRTC names something else.
std::string prefix() {
    const std::string named = variable("ATTUNE_HIPRTC");
    if (!named.empty()) return is_prefix(named) ? named : "";
    const std::string cache = variable("XDG_CACHE_HOME");
    return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/attune/rocm";
}

/// The file that holds `symbol`, links followed.
std::string file_of(const void* symbol) {
    Dl_info where;
    if (dladdr(symbol, &where) == 0) return "";
    std::error_code ignored;
    const fs::path file = fs::canonical(where.dli_fname, ignored);
    return file.empty() ? where.dli_fname : file.string();
}

/// "7.2.53211" of "libhiprtc.so.7.2.53211".
std::string version_of(const std::string& path) {
    const std::size_t at = path.find(".so.");
    return at == std::string::npos ? "" : path.substr(at + 4);
}

/// comgr is linked to hiprtc, or opened by it when it first compiles: then the same file is taken
/// here.
Result<DynamicLibrary> open_comgr(const Library& hiprtc) {
    if (hiprtc.library.symbol("amd_comgr_get_isa_count") != nullptr) return hiprtc.library;
    std::vector<std::string> candidates;
    for (const std::string& name : comgr_names) {
        candidates.push_back((fs::path(hiprtc.path).parent_path() / name).string());
        candidates.push_back(name);
    }
    return DynamicLibrary::open("comgr, which hiprtc compiles with,", candidates, next_step);
}

/// Asking hiprtc for an arch that comgr does not know ends the process in many versions, so it is
/// never done. Both calls (amd_comgr.h) return 0 if they succeed.
Result<std::vector<std::string>> archs_of(const DynamicLibrary& comgr) {
    int (*isa_count)(std::size_t * count) = nullptr;
    int (*isa_name)(std::size_t index, const char** name) = nullptr;
    const EntryPoint entries[] = {{"amd_comgr_get_isa_count", reinterpret_cast<void**>(&isa_count)},
                                  {"amd_comgr_get_isa_name", reinterpret_cast<void**>(&isa_name)}};
    if (auto bound = comgr.bind(entries, next_step); !bound) return bound.error();
    std::vector<std::string> archs;
    std::size_t count = 0;
    isa_count(&count);
    for (std::size_t i = 0; i < count; ++i) {
        const char* text = nullptr;
        if (isa_name(i, &text) != 0 || text == nullptr) continue;
        const std::string name = text;  // "amdgcn-amd-amdhsa--gfx942"
        archs.push_back(name.substr(name.rfind("--") + 2));
    }
    return archs;
}

}  // namespace

std::vector<std::string> candidates() {
    std::vector<std::string> list;
    const auto add = [&](const std::string& folder) {
        for (const std::string& name : names) list.push_back(folder + name);
    };
    const std::string from = prefix();
    if (from.empty()) return candidates_from_environment("ATTUNE_HIPRTC", names);
    add(from + prefix_libraries + "/");
    if (!variable("ATTUNE_HIPRTC").empty()) return list;  // who names one means it
    add("");
    if (const std::string rocm = variable("ROCM_PATH"); !rocm.empty()) add(rocm + "/lib/");
    for (const std::string& rocm : folders("/opt", "rocm")) add(rocm + "/lib/");
    return list;
}

std::vector<std::string> command_for(std::vector<std::string> command) {
    const std::string from = prefix();
    if (from.empty() || !is_prefix(from)) return command;
    std::error_code ignored;
    // The loader would take /proc/self/exe for itself, and seeks no program on PATH.
    if (const fs::path program = fs::canonical(command[0], ignored); !program.empty())
        command[0] = program.string();
    std::string libraries = from + prefix_libraries;
    if (const std::string more = variable("LD_LIBRARY_PATH"); !more.empty())
        libraries += ":" + more;
    command.insert(command.begin(), {loader_of(from), "--library-path", libraries});
    return command;
}

Result<Library> Library::open() {
    auto opened = DynamicLibrary::open("hiprtc", hiprtc::candidates(), next_step);
    if (!opened) return opened.error();
    Library hiprtc;
    hiprtc.library = *std::move(opened);
    const EntryPoint entries[] = {
#define ATTUNE_ENTRY(member, name, parameters) {#name, reinterpret_cast<void**>(&hiprtc.member)},
        ATTUNE_PROGRAM_CALLS(ATTUNE_ENTRY, hiprtc, Code)
#undef ATTUNE_ENTRY
    };
    auto bound = hiprtc.library.bind(entries, next_step);
    if (!bound) return bound.error();
    hiprtc.path = file_of(reinterpret_cast<const void*>(hiprtc.create));
    hiprtc.version = version_of(hiprtc.path);
    open_beside(hiprtc.path, "libhiprtc-builtins.so.");
    auto comgr = open_comgr(hiprtc);
    if (!comgr) return comgr.error();
    hiprtc.comgr = *std::move(comgr);
    auto archs = archs_of(hiprtc.comgr);
    if (!archs) return archs.error();
    hiprtc.archs = *std::move(archs);
    return hiprtc;
}

}  // namespace attune::hiprtc
