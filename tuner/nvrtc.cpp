// NVRTC as a Compiler: emitted source to cubin, for any arch it knows, without a GPU.
#include "tuner/nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "generator/formatted.h"

namespace attune {
namespace {

/// What ptxas says about `entry` in a log made with -v; -1 where it says nothing.
Resources resources_in(const std::string& log, const std::string& entry) {
    const auto number_in = [](const std::string& text, const char* pattern) {
        std::smatch match;
        return std::regex_search(text, match, std::regex(pattern)) ? std::stoi(match[1]) : -1;
    };
    const std::size_t found_at = log.find(formatted("Compiling entry function '{}'", entry));
    const std::size_t start = found_at == std::string::npos ? 0 : found_at;
    const std::size_t next = log.find("Compiling entry function", start + 1);
    const std::string part = log.substr(start, next - start);
    const auto number = [&](const char* pattern) { return number_in(part, pattern); };
    Resources found;
    found.registers = number("Used ([0-9]+) registers");
    found.stack_bytes = number("([0-9]+) bytes stack frame");
    const int stores = number("([0-9]+) bytes spill stores");
    const int loads = number("([0-9]+) bytes spill loads");
    if (stores >= 0 && loads >= 0) found.spill_bytes = stores + loads;
    found.serialised_note = number_in(log, "C([0-9]+)\\)[^\n]*wgmma[^\n]* serialized");
    if (found.registers >= 0)
        found.shared_static_bytes = std::max(number("([0-9]+) bytes smem"), 0);
    return found;
}

class NvrtcCompiler final : public ProgramCompiler {
public:
    NvrtcCompiler(const nvrtc::Library& library, Info info, int major,
                  const std::vector<TemplateFile>& templates)
        : ProgramCompiler(library, std::move(info), templates, "templates/target/cuda.h"),
          major_(major) {}

private:
    Result<void> knows(const std::string& arch) const override;
    std::vector<std::string> options(const std::string& arch) const override {
        std::vector<std::string> options = {"--gpu-architecture=" + arch, "--std=c++20",
                                            "-default-device", "--ptxas-options=-v"};
        // A cubin from the driver's cache comes without ptxas's report. Older ones keep none.
        if (major_ >= 13) options.push_back("--no-cache");
        return options;
    }
    Result<Resources> resources(const Binary& binary) const override {
        return resources_in(binary.log, binary.entry);
    }

    int major_;  // version of NVRTC
};

int number_of(const std::string& arch) {
    return arch.starts_with("sm_") ? std::atoi(arch.c_str() + 3) : 0;
}

Result<void> NvrtcCompiler::knows(const std::string& arch) const {
    const int asked = number_of(arch);
    const std::vector<std::string> known = archs();
    if (std::find(known.begin(), known.end(), formatted("sm_{}", asked)) != known.end()) return {};
    const bool newer = !known.empty() && asked > number_of(known.back());
    return Error{
        Code::unsupported,
        formatted("{} does not know {}{}; it knows {}", toolchain(), arch,
                  newer ? ", which is newer than this NVRTC" : "", fmt::join(known, ", ")),
        newer ? "install a newer NVRTC and point ATTUNE_NVRTC at it" : "ask for one of these"};
}

}  // namespace

Result<std::unique_ptr<Compiler>> open_nvrtc(const std::vector<TemplateFile>& templates) {
    auto nvrtc = nvrtc::Library::open();
    if (!nvrtc) return nvrtc.error();
    int major = 0, minor = 0, count = 0;
    std::vector<int> numbers;
    bool answered = nvrtc->version(&major, &minor) == 0 && nvrtc->arch_count(&count) == 0;
    if (answered) {
        numbers.resize(std::size_t(count));
        answered = nvrtc->supported_archs(numbers.data()) == 0;
    }
    const std::string& opened = nvrtc->library.opened();
    if (!answered)
        return Error{Code::library_missing, formatted("{} does not answer", opened),
                     "set ATTUNE_NVRTC to a working libnvrtc"};
    std::sort(numbers.begin(), numbers.end());
    std::vector<std::string> archs;
    for (const int number : numbers) archs.push_back(formatted("sm_{}", number));
    return std::unique_ptr<Compiler>(new NvrtcCompiler(
        *nvrtc, {formatted("nvrtc {}.{}", major, minor), opened, archs}, major, templates));
}

}  // namespace attune
