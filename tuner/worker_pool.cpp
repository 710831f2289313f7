#include "tuner/worker_pool.h"

#include <algorithm>
#include <optional>

#include "tuner/worker.h"
#include "tuner/worker_json.h"

namespace attune {
namespace {

Verdict verdict_of(Code code) {
    return code == Code::timed_out ? Verdict::timed_out : Verdict::crashed;
}

}  // namespace

std::vector<std::string> worker_command(const WorkerOptions& options, const std::string& role,
                                        const std::string& what) {
    std::vector<std::string> command = options.command;
    if (command.empty()) command = {"/proc/self/exe", "worker"};
    command.push_back(role);
    command.push_back(what);
    return command;
}

CompilePool::CompilePool(const WorkerOptions& options, const std::string& compiler)
    : command_(worker_command(options, "compile", compiler)),
      timeout_s_(options.compile_timeout_s) {}

Result<std::unique_ptr<CompilePool>> CompilePool::open(const WorkerOptions& options,
                                                       const std::string& compiler) {
    std::unique_ptr<CompilePool> pool(new CompilePool(options, compiler));
    auto worker = Worker::start(pool->command_);
    if (!worker) return worker.error();
    const auto answer = worker->call({{{"toolchain", ""}}, {}}, pool->timeout_s_);
    if (!answer) return answer.error();
    if (const auto opened = error_of(*answer); !opened) return opened.error();
    const auto toolchain = field<std::string>(answer->head, "toolchain");
    if (!toolchain) return toolchain.error();
    pool->toolchain_ = *toolchain;
    const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
    const int processes = options.compile_processes > 0 ? options.compile_processes : cores;
    for (int i = 0; i < processes; ++i)
        pool->threads_.emplace_back([p = pool.get()] { p->work(); });
    return pool;
}

CompilePool::~CompilePool() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        jobs_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

CompilePool::Future CompilePool::compile(const Source& source, const std::string& arch) {
    const std::lock_guard lock(mutex_);
    const std::string key = source.hash + arch;
    if (const auto known = compiled_.find(key); known != compiled_.end()) return known->second;
    Job job{source, arch, {}};
    const Future future = job.promise.get_future().share();
    compiled_.emplace(key, future);
    jobs_.push_back(std::move(job));
    wake_.notify_one();
    return future;
}

void CompilePool::forget(const Source& source, const std::string& arch) {
    const std::lock_guard lock(mutex_);
    compiled_.erase(source.hash + arch);
}

void CompilePool::drop_waiting() {
    const std::lock_guard lock(mutex_);
    for (const Job& job : jobs_) compiled_.erase(job.source.hash + job.arch);
    jobs_.clear();
}

void CompilePool::work() {
    std::optional<Worker> worker;
    for (;;) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
        if (closing_) return;
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job.promise.set_value(std::make_shared<const Compiled>(run(job, worker)));
    }
}

Compiled CompilePool::run(const Job& job, std::optional<Worker>& worker) const {
    Compiled compiled;
    if (!worker) {
        auto started = Worker::start(command_);
        if (!started) return {Verdict::crashed, started.error().message, {}};
        worker.emplace(std::move(*started));
    }
    auto answer = worker->call({{{"source", job.source}, {"arch", job.arch}}, {}}, timeout_s_);
    if (!answer) {
        worker.reset();  // the next job gets a new process
        return {verdict_of(answer.error().code), "compiler: " + answer.error().message, {}};
    }
    if (const auto done = error_of(*answer); !done)
        return {Verdict::compile_failed, done.error().message, {}};
    auto binary = field<Binary>(answer->head, "binary");
    if (!binary) return {Verdict::crashed, binary.error().message, {}};
    compiled.binary = std::move(*binary);
    compiled.binary.bytes = std::move(answer->blob);
    return compiled;
}

}  // namespace attune
