// hiprtc, opened at run time: where it is sought, and how a process that may open it is started.
#pragma once

#include <string>
#include <vector>

#include "generator/status.h"
#include "runtime/dynamic_library.h"
#include "tuner/program_compiler.h"

namespace attune::hiprtc {

/// The library that carries hiprtc, opened, and comgr, which it compiles with.
struct Library : ProgramCalls {
    static Result<Library> open();

    DynamicLibrary library, comgr;
    std::string path;                // of the file, links followed
    std::string version;             // "7.2.53211", from the file's name; "" where it has none
    std::vector<std::string> archs;  // as comgr lists them: "gfx90a", "gfx942", ...
};

/// Where hiprtc is sought, in order: $ATTUNE_HIPRTC alone where it is set (a library, a folder of
/// libraries, or a prefix), else the prefix in its usual place, the loader's path, ROCm's folders.
std::vector<std::string> candidates();

/// `command` as it has to be started for hiprtc to open in it: where a prefix is to be used, under
/// the prefix's own loader, for its libraries need a newer C library than the system may have. A
/// prefix is what tools/rocm-prefix.sh makes; its usual place is
/// ${XDG_CACHE_HOME:-~/.cache}/attune/rocm.
std::vector<std::string> command_for(std::vector<std::string> command);

}  // namespace attune::hiprtc
