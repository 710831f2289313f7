#include "tuner/compiler_process.h"

#include "tuner/worker_json.h"
#include "tuner/worker_pool.h"

namespace attune {

CompilerProcess::CompilerProcess(const WorkerOptions& options, const std::string& compiler)
    : command_(worker_command(options, "compile", compiler)),
      timeout_s_(options.compile_timeout_s) {}

Result<std::unique_ptr<CompilerProcess>> CompilerProcess::open(const WorkerOptions& options,
                                                               const std::string& compiler) {
    auto process = std::make_unique<CompilerProcess>(options, compiler);
    const auto answer = process->call({{{"toolchain", ""}}, {}});
    if (!answer) return answer.error();
    const auto toolchain = field<std::string>(answer->head, "toolchain");
    const auto opened = field<std::string>(answer->head, "opened");
    const auto archs = field<std::vector<std::string>>(answer->head, "archs");
    if (!toolchain || !opened || !archs)
        return Error{Code::corrupt, "a compiler does not say what it is", ""};
    process->toolchain_ = *toolchain;
    process->opened_ = *opened;
    process->archs_ = *archs;
    return process;
}

Result<Message> CompilerProcess::call(const Message& request) {
    if (!worker_) {
        auto started = Worker::start(command_);
        if (!started) return Error{Code::device_error, started.error().message, ""};
        worker_.emplace(std::move(*started));
    }
    auto answer = worker_->call(request, timeout_s_);
    if (!answer) {
        worker_.reset();
        return Error{answer.error().code, "compiler: " + answer.error().message, ""};
    }
    if (const auto done = error_of(*answer); !done) return done.error();
    return answer;
}

Result<Binary> CompilerProcess::compile(const Source& source, const std::string& arch) {
    auto answer = call({{{"source", source}, {"arch", arch}}, {}});
    if (!answer) return answer.error();
    auto binary = field<Binary>(answer->head, "binary");
    if (binary) binary->bytes = std::move(answer->blob);
    return binary;
}

}  // namespace attune
