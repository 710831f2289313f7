// NVRTC as a Compiler: emitted source to cubin, for any arch it knows, without a GPU.
#include "tuner/nvrtc.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <regex>

#include "generator/formatted.h"
#include "tuner/compiler.h"

namespace attune {
namespace {

using namespace nvrtc;

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

class NvrtcCompiler final : public Compiler {
public:
    NvrtcCompiler(Library library, std::string toolchain, std::vector<int> archs,
                  const std::vector<TemplateFile>& templates)
        : nvrtc_(std::move(library)), toolchain_(std::move(toolchain)), archs_(std::move(archs)) {
        for (const TemplateFile& file : templates) {
            headers_.push_back(file);
            if (file.name == "templates/target/cuda.h") headers_.push_back({"target.h", file.text});
        }
    }

    std::string toolchain() const override { return toolchain_; }
    Result<Binary> compile(const Source& source, const std::string& arch) override;

private:
    Result<void> knows(const std::string& arch) const;
    Result<nvrtcProgram> create(const Source& source) const;
    Result<void> run(nvrtcProgram program, const Source& source, const std::string& arch,
                     Binary& binary) const;
    std::string log_of(nvrtcProgram program) const;

    Library nvrtc_;
    std::string toolchain_;
    std::vector<int> archs_;
    std::vector<TemplateFile> headers_;
};

Result<void> NvrtcCompiler::knows(const std::string& arch) const {
    const int asked = arch.starts_with("sm_") ? std::atoi(arch.c_str() + 3) : 0;
    if (std::find(archs_.begin(), archs_.end(), asked) != archs_.end()) return {};
    const bool newer = !archs_.empty() && asked > archs_.back();
    return Error{
        Code::unsupported,
        formatted("{} does not know {}{}; it knows sm_{}", toolchain_, arch,
                  newer ? ", which is newer than this NVRTC" : "", fmt::join(archs_, ", sm_")),
        newer ? "install a newer NVRTC and point ATTUNE_NVRTC at it" : "ask for one of these"};
}

Result<nvrtcProgram> NvrtcCompiler::create(const Source& source) const {
    std::vector<const char*> texts, names;
    for (const TemplateFile& header : headers_) {
        texts.push_back(header.text.c_str());
        names.push_back(header.name.c_str());
    }
    nvrtcProgram program = nullptr;
    const nvrtcResult made =
        nvrtc_.nvrtcCreateProgram(&program, source.text.c_str(), "attune_kernel.cu",
                                  static_cast<int>(texts.size()), texts.data(), names.data());
    if (made == success) return program;
    return Error{Code::compile_failed, formatted("nvrtcCreateProgram failed ({})", made),
                 "check memory, and the NVRTC that `attune doctor` names"};
}

std::string NvrtcCompiler::log_of(nvrtcProgram program) const {
    std::size_t bytes = 0;
    if (nvrtc_.nvrtcGetProgramLogSize(program, &bytes) != success || bytes == 0) return {};
    std::string log(bytes, '\0');
    if (nvrtc_.nvrtcGetProgramLog(program, log.data()) != success) return {};
    log.resize(log.find('\0') == std::string::npos ? bytes : log.find('\0'));
    return log;
}

Result<void> NvrtcCompiler::run(nvrtcProgram program, const Source& source, const std::string& arch,
                                Binary& binary) const {
    std::vector<std::string> options = {"--gpu-architecture=" + arch, "--std=c++20",
                                        "-default-device", "--ptxas-options=-v"};
    options.insert(options.end(), source.options.begin(), source.options.end());
    std::vector<const char*> arguments;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    const nvrtcResult compiled =
        nvrtc_.nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
    binary.log = log_of(program);
    if (compiled != success)
        return Error{Code::compile_failed,
                     formatted("{} could not compile for {} (result {}):\n{}", toolchain_, arch,
                               compiled, binary.log),
                     compiled == error_invalid_option ? "check the options"
                                                      : "`attune emit` shows the source"};
    std::size_t bytes = 0;
    const nvrtcResult sized = nvrtc_.nvrtcGetCUBINSize(program, &bytes);
    binary.bytes.resize(bytes);
    if (sized == success && bytes > 0 &&
        nvrtc_.nvrtcGetCUBIN(program, reinterpret_cast<char*>(binary.bytes.data())) == success)
        return {};
    return Error{Code::compile_failed, formatted("{} gave no cubin for {}", toolchain_, arch),
                 "ask for a real arch (sm_86), not a virtual one"};
}

Result<Binary> NvrtcCompiler::compile(const Source& source, const std::string& arch) {
    auto known = knows(arch);
    if (!known) return known.error();
    const auto start = std::chrono::steady_clock::now();
    auto program = create(source);
    if (!program) return program.error();
    Binary binary;
    binary.entry = source.entry;
    binary.toolchain = toolchain_;
    auto done = run(*program, source, arch, binary);
    nvrtc_.nvrtcDestroyProgram(&*program);
    if (!done) return done.error();
    binary.resources = resources_in(binary.log, source.entry);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    binary.compile_ms = spent.count();
    return binary;
}

}  // namespace

Result<std::unique_ptr<Compiler>> open_nvrtc(const std::vector<TemplateFile>& templates) {
    auto library = Library::open();
    if (!library) return library.error();
    int major = 0, minor = 0, count = 0;
    std::vector<int> archs;
    bool answered = library->nvrtcVersion(&major, &minor) == success &&
                    library->nvrtcGetNumSupportedArchs(&count) == success;
    if (answered) {
        archs.resize(count);
        answered = library->nvrtcGetSupportedArchs(archs.data()) == success;
    }
    if (!answered)
        return Error{Code::library_missing,
                     formatted("{} does not answer", library->library.opened()),
                     "set ATTUNE_NVRTC to a working libnvrtc"};
    std::sort(archs.begin(), archs.end());
    return std::unique_ptr<Compiler>(std::make_unique<NvrtcCompiler>(
        *std::move(library), formatted("nvrtc {}.{}", major, minor), archs, templates));
}

}  // namespace attune
