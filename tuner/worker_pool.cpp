#include "tuner/worker_pool.h"

#include <algorithm>

#include "tuner/compiler_process.h"
#include "tuner/hiprtc.h"

namespace attune {
namespace {

Verdict verdict_of(Code code) {
    switch (code) {
        case Code::timed_out:
            return Verdict::timed_out;
        case Code::device_error:
        case Code::corrupt:
            return Verdict::crashed;
        default:
            return Verdict::compile_failed;
    }
}

Compiled compiled_by(Compiler& compiler, const Source& source, const std::string& arch) {
    auto binary = compiler.compile(source, arch);
    if (!binary) return {verdict_of(binary.error().code), binary.error().message, {}};
    return {Verdict::ok, "", std::move(*binary)};
}

}  // namespace

std::vector<std::string> worker_command(const WorkerOptions& options, const std::string& role,
                                        const std::string& what) {
    std::vector<std::string> command = options.command;
    if (command.empty()) command = {"/proc/self/exe", "worker"};
    command.push_back(role);
    command.push_back(what);
    return what == "hiprtc" ? hiprtc::command_for(std::move(command)) : command;
}

Result<std::unique_ptr<CompilePool>> CompilePool::open(const WorkerOptions& options,
                                                       const std::string& compiler) {
    auto first = CompilerProcess::open(options, compiler);
    if (!first) return first.error();
    std::unique_ptr<CompilePool> pool(new CompilePool((*first)->toolchain()));
    const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
    const int processes = options.compile_processes > 0 ? options.compile_processes : cores;
    for (int i = 0; i < processes; ++i) {
        std::shared_ptr<Compiler> process = std::move(*first);
        if (!process) process = std::make_shared<CompilerProcess>(options, compiler);
        pool->threads_.emplace_back([p = pool.get(), process] { p->work(*process); });
    }
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

void CompilePool::work(Compiler& compiler) {
    for (;;) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
        if (closing_) return;
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job.promise.set_value(
            std::make_shared<const Compiled>(compiled_by(compiler, job.source, job.arch)));
    }
}

}  // namespace attune
