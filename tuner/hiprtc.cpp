// hiprtc as a Compiler: emitted source to code object, for any arch it knows, without a GPU.
#include "tuner/hiprtc.h"

#include <algorithm>
#include <cstdlib>

#include "generator/formatted.h"
#include "tuner/code_object.h"

namespace attune {
namespace {

/// ROCm 5 lacks built-ins that the templates use, its first versions bf16 altogether.
constexpr int oldest_major = 6;

class HiprtcCompiler final : public ProgramCompiler {
public:
    HiprtcCompiler(const hiprtc::Library& library, const std::vector<TemplateFile>& templates)
        : ProgramCompiler(library,
                          {formatted("hiprtc {}", library.version), library.path, library.archs},
                          templates, "templates/target/hip.h") {}

private:
    /// An arch may carry features: gfx942:sramecc+:xnack-.
    Result<void> knows(const std::string& arch) const override {
        const std::vector<std::string> known = archs();
        const std::string plain = arch.substr(0, arch.find(':'));
        if (std::find(known.begin(), known.end(), plain) != known.end()) return {};
        return Error{Code::unsupported,
                     formatted("{} does not know {}; it knows {}", toolchain(), arch,
                               fmt::join(known, ", ")),
                     "ask for one of these, or point ATTUNE_HIPRTC at a newer one"};
    }
    std::vector<std::string> options(const std::string& arch) const override {
        return {"--offload-arch=" + arch, "-std=c++20", "-O3"};
    }
    Result<Resources> resources(const Binary& binary) const override {
        return code_object_resources(binary.bytes, binary.entry);
    }
};

}  // namespace

Result<std::unique_ptr<Compiler>> open_hiprtc(const std::vector<TemplateFile>& templates) {
    setenv("AMD_COMGR_CACHE", "0", 1);  // or it keeps what it compiled in the user's cache folder
    auto library = hiprtc::Library::open();
    if (!library) return library.error();
    if (!library->version.empty() && std::atoi(library->version.c_str()) < oldest_major)
        return Error{Code::unsupported,
                     formatted("hiprtc {} ({}) is too old for Attune's kernels", library->version,
                               library->path),
                     formatted("install ROCm {} or later, or run tools/rocm-prefix.sh, or point "
                               "ATTUNE_HIPRTC at a newer one",
                               oldest_major)};
    return std::unique_ptr<Compiler>(new HiprtcCompiler(*library, templates));
}

}  // namespace attune
