// CompilePool = compiler processes, one per core, that run ahead of measuring.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/record.h"
#include "tuner/compiler.h"
#include "tuner/tune.h"

namespace attune {

/// What became of a source. `binary` is valid if the verdict is ok.
struct Compiled {
    Verdict verdict = Verdict::ok;  // or compile_failed, crashed, timed_out
    std::string reason;
    Binary binary;
};

class CompilePool {
public:
    using Future = std::shared_future<std::shared_ptr<const Compiled>>;

    /// Starts the first process and asks for the compiler's version; library_missing where it does
    /// not open. `compiler` is a name of open_compiler; `arch` what it compiles for.
    static Result<std::unique_ptr<CompilePool>> open(const WorkerOptions& options,
                                                     const std::string& compiler);
    ~CompilePool();  // drops what waits, finishes what is being compiled

    const std::string& toolchain() const { return toolchain_; }
    int processes() const { return int(threads_.size()); }

    /// Sources of one hash and arch are compiled once, until they are forgotten.
    Future compile(const Source& source, const std::string& arch);
    void forget(const Source& source, const std::string& arch);
    /// Takes back what no process has begun: futures of it never become ready.
    void drop_waiting();

private:
    struct Job {
        Source source;
        std::string arch;
        std::promise<std::shared_ptr<const Compiled>> promise;
    };
    explicit CompilePool(std::string toolchain) : toolchain_(std::move(toolchain)) {}
    void work(Compiler& compiler);

    std::string toolchain_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool closing_ = false;
    std::deque<Job> jobs_;
    std::map<std::string, Future> compiled_;  // by hash and arch
    std::vector<std::thread> threads_;
};

/// options.command, or this executable's, and the words of one role; under the loader that `what`
/// needs (tuner/hiprtc.h).
std::vector<std::string> worker_command(const WorkerOptions& options, const std::string& role,
                                        const std::string& what);

}  // namespace attune
