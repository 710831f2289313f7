#include "tuner/program_compiler.h"

#include <chrono>
#include <utility>

#include "generator/formatted.h"

namespace attune {
namespace {

constexpr int error_invalid_option = 5;  // NVRTC_ERROR_INVALID_OPTION, HIPRTC_ERROR_INVALID_OPTION

}  // namespace

ProgramCompiler::ProgramCompiler(const ProgramCalls& calls, Info info,
                                 const std::vector<TemplateFile>& templates,
                                 const std::string& target_header)
    : calls_(calls), info_(std::move(info)), headers_(templates) {
    for (const TemplateFile& file : templates)
        if (file.name == target_header) headers_.push_back({"target.h", file.text});
}

Result<void*> ProgramCompiler::create(const Source& source) const {
    std::vector<const char*> texts, names;
    for (const TemplateFile& header : headers_) {
        texts.push_back(header.text.c_str());
        names.push_back(header.name.c_str());
    }
    void* program = nullptr;
    const int result = calls_.create(&program, source.text.c_str(), "attune_kernel.cu",
                                     int(texts.size()), texts.data(), names.data());
    if (result == 0) return program;
    return Error{Code::compile_failed,
                 formatted("{} could not make a program (result {})", toolchain(), result),
                 "check memory, and the library that `attune doctor` names"};
}

std::string ProgramCompiler::log_of(void* program) const {
    std::size_t bytes = 0;
    if (calls_.log_bytes(program, &bytes) != 0 || bytes == 0) return {};
    std::string log(bytes, '\0');
    if (calls_.log(program, log.data()) != 0) return {};
    log.resize(log.find('\0') == std::string::npos ? bytes : log.find('\0'));
    return log;
}

Result<void> ProgramCompiler::run(void* program, const Source& source, const std::string& arch,
                                  Binary& binary) const {
    std::vector<std::string> all = options(arch);
    all.insert(all.end(), source.options.begin(), source.options.end());
    std::vector<const char*> arguments;
    for (const std::string& option : all) arguments.push_back(option.c_str());
    const int compiled = calls_.compile(program, int(arguments.size()), arguments.data());
    binary.log = log_of(program);
    if (compiled != 0)
        return Error{Code::compile_failed,
                     formatted("{} could not compile for {} (result {}):\n{}", toolchain(), arch,
                               compiled, binary.log),
                     compiled == error_invalid_option ? "check the options"
                                                      : "`attune emit` shows the source"};
    std::size_t bytes = 0;
    const int sized = calls_.code_bytes(program, &bytes);
    binary.bytes.resize(bytes);
    if (sized == 0 && bytes > 0 &&
        calls_.code(program, reinterpret_cast<char*>(binary.bytes.data())) == 0)
        return {};
    return Error{Code::compile_failed, formatted("{} gave no code for {}", toolchain(), arch),
                 "ask for a real arch (sm_86, gfx942), not a virtual one"};
}

Result<Binary> ProgramCompiler::compile(const Source& source, const std::string& arch) {
    auto known = knows(arch);
    if (!known) return known.error();
    const auto start = std::chrono::steady_clock::now();
    auto program = create(source);
    if (!program) return program.error();
    Binary binary;
    binary.entry = source.entry;
    binary.toolchain = toolchain();
    auto done = run(*program, source, arch, binary);
    calls_.destroy(&*program);
    if (!done) return done.error();
    auto used = resources(binary);
    if (!used) return used.error();
    binary.resources = *used;
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    binary.compile_ms = spent.count();
    return binary;
}

}  // namespace attune
