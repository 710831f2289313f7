// CompilerProcess = a compiler in a worker process: what ends the process is an error here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/compiler.h"
#include "tuner/worker.h"

namespace attune {

struct WorkerOptions;  // tuner/tune.h

class CompilerProcess final : public Compiler {
public:
    /// Starts nothing yet. `compiler` is a name of open_compiler.
    CompilerProcess(const WorkerOptions& options, const std::string& compiler);
    /// Starts the process and asks it what it is; library_missing where the compiler does not open.
    static Result<std::unique_ptr<CompilerProcess>> open(const WorkerOptions& options,
                                                         const std::string& compiler);

    /// Of an opened one.
    std::string toolchain() const override { return toolchain_; }
    std::string opened() const override { return opened_; }
    std::vector<std::string> archs() const override { return archs_; }
    /// timed_out, device_error or corrupt: the process is lost, and the next source gets a new one.
    /// Any other error is the compiler's own.
    Result<Binary> compile(const Source& source, const std::string& arch) override;

private:
    Result<Message> call(const Message& request);

    std::vector<std::string> command_;
    double timeout_s_;
    std::optional<Worker> worker_;
    std::string toolchain_, opened_;
    std::vector<std::string> archs_;
};

}  // namespace attune
