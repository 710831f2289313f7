// Worker processes that crash, hang and answer nonsense, and the pool that outlives them.
#include "tuner/worker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string_view>
#include <thread>

#include "generator/emit.h"
#include "tuner/worker_bench.h"
#include "tuner/worker_json.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> child(const std::string& mode) {
    return {ATTUNE_WORKER_CHILD, mode, "compile", "host"};
}

WorkerOptions options(const std::string& mode) {
    WorkerOptions options;
    options.command = {ATTUNE_WORKER_CHILD, mode};
    options.compile_processes = 2;
    return options;
}

Message hello() {
    return {{{"question", "α"}}, {std::byte{0}, std::byte{255}, std::byte{10}}};
}

TEST(Worker, AnswersAndTellsItsStages) {
    auto worker = Worker::start(child("echo"));
    ASSERT_TRUE(worker);
    for (int i = 0; i < 3; ++i) {
        std::vector<std::string> stages;
        const auto answer =
            worker->call(hello(), 10, [&](const std::string& stage) { stages.push_back(stage); });
        ASSERT_TRUE(answer) << answer.error().text();
        EXPECT_EQ(answer->head, hello().head);
        EXPECT_EQ(answer->blob, hello().blob);
        EXPECT_THAT(stages, ElementsAre("thinking"));
    }
}

TEST(Worker, CarriesMessagesLargerThanASocketsBuffer) {
    auto worker = Worker::start(child("echo"));
    ASSERT_TRUE(worker);
    Message large{{{"text", std::string(1 << 20, 'x')}}, std::vector<std::byte>(8 << 20)};
    large.blob.back() = std::byte{42};
    const auto answer = worker->call(large, 30);
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->blob, large.blob);
    EXPECT_EQ(answer->head, large.head);
}

TEST(Worker, ACrashNamesTheSignalTheStageAndTheLastWords) {
    auto worker = Worker::start(child("crash"));
    ASSERT_TRUE(worker);
    const auto answer = worker->call(hello(), 10);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::device_error);
    EXPECT_THAT(answer.error().message, HasSubstr("SIGSEGV"));
    EXPECT_THAT(answer.error().message, HasSubstr("misbehaving"));
    EXPECT_THAT(answer.error().message, HasSubstr("last words of crash"));
}

TEST(Worker, AnEarlyEndNamesTheExitCode) {
    auto worker = Worker::start(child("exit"));
    ASSERT_TRUE(worker);
    const auto answer = worker->call(hello(), 10);
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message, HasSubstr("exit code 3"));
}

TEST(Worker, HalfAMessageIsAnEarlyEnd) {
    auto worker = Worker::start(child("half"));
    ASSERT_TRUE(worker);
    const auto answer = worker->call(hello(), 10);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::device_error);
}

TEST(Worker, AHangEndsWithTheTimeout) {
    auto worker = Worker::start(child("hang"));
    ASSERT_TRUE(worker);
    const auto start = std::chrono::steady_clock::now();
    const auto answer = worker->call(hello(), 0.3);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::timed_out);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Worker, GarbageIsCorrupt) {
    auto worker = Worker::start(child("garbage"));
    ASSERT_TRUE(worker);
    const auto answer = worker->call(hello(), 10);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::corrupt);
}

TEST(Worker, ACommandThatIsNotThereIsAnError) {
    auto worker = Worker::start({"/nowhere/attune", "worker"});
    ASSERT_TRUE(worker);
    const auto answer = worker->call(hello(), 10);
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message, HasSubstr("exit code 127"));
}

/// A tuner that dies leaves no busy worker behind: the worker holds this pipe open as long as it
/// lives.
TEST(Worker, ABusyWorkerDiesWithItsTuner) {
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    const pid_t tuner = fork();
    if (tuner == 0) {
        close(alive[0]);
        auto worker = Worker::start(child("hang"));
        (void)worker->call(hello(), 0.5, [](const std::string&) { raise(SIGKILL); });
        _exit(0);
    }
    close(alive[1]);
    int status = 0;
    waitpid(tuner, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    char byte;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(read(alive[0], &byte, 1), 0) << "ends when the last holder of the pipe has died";
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    close(alive[0]);
}

TEST(Worker, EndsAtOnceWhenItsTunerCloses) {
    struct Held {
        ~Held() { std::cerr << "given back"; }
    };
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[0]);
    EXPECT_EXIT(
        serve(ends[1], [held = std::make_shared<Held>()](
                           const Message&, const Stage&) { return Result<Message>(Message{}); }),
        testing::ExitedWithCode(0), "^$");
    close(ends[1]);
}

TEST(Message, NonsenseOnTheWireIsRefused) {
    using namespace std::string_view_literals;
    for (const std::string_view text : {"ATW1\xff\xff\xff\xff\xff\xff\xff\xff"sv,
                                        "nonsense nonsense"sv, "ATW1\x02\0\0\0\0\0\0\0[]"sv}) {
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ASSERT_EQ(write(pair[0], text.data(), text.size()), static_cast<ssize_t>(text.size()));
        const auto message = receive_message(pair[1], 1);
        ASSERT_FALSE(message);
        EXPECT_EQ(message.error().code, Code::corrupt);
        close(pair[0]);
        close(pair[1]);
    }
}

TEST(Message, ErrorsTravel) {
    const Error sent{Code::unsupported, "no such arch", "use another"};
    const auto received = error_of({error_head(sent), {}});
    ASSERT_FALSE(received);
    EXPECT_EQ(received.error().code, sent.code);
    EXPECT_EQ(received.error().text(), sent.text());
    EXPECT_TRUE(error_of({{{"answer", 1}}, {}}));
}

TEST(Message, AMissingFieldIsAnErrorNotAnException) {
    EXPECT_FALSE(field<int>({{"a", 1}}, "b"));
    EXPECT_FALSE(field<int>({{"a", "text"}}, "a"));
    EXPECT_FALSE(field<Binary>({{"binary", {{"entry", 5}}}}, "binary"));
    EXPECT_EQ(*field<int>({{"a", 1}}, "a"), 1);
}

Source source_of(const char* config) {
    return emit({*Signature::parse("f16.d32.full"), *Config::parse(config), *find_target("h200")});
}

TEST(CompilePool, CompilesAndSharesEqualSources) {
    auto pool = CompilePool::open(options("real"), "host");
    ASSERT_TRUE(pool) << pool.error().text();
    EXPECT_NE((*pool)->toolchain(), "");
    const Source source = source_of("mma/q16.kv16.w1");
    const auto first = (*pool)->compile(source, "sm_90a").get();
    const auto second = (*pool)->compile(source, "sm_90a").get();
    EXPECT_EQ(first->verdict, Verdict::ok) << first->reason;
    EXPECT_FALSE(first->binary.bytes.empty());
    EXPECT_EQ(first, second) << "compiled once";
    (*pool)->forget(source, "sm_90a");
    EXPECT_NE((*pool)->compile(source, "sm_90a").get(), first);
}

TEST(CompilePool, ACompilerThatAbortsIsOneVerdictAndTheNextSourceCompiles) {
    auto pool = CompilePool::open(options("crash:kv32"), "host");
    ASSERT_TRUE(pool) << pool.error().text();
    auto bad = (*pool)->compile(source_of("mma/q16.kv32.w1"), "sm_90a");
    auto good = (*pool)->compile(source_of("mma/q16.kv16.w1"), "sm_90a");
    EXPECT_EQ(bad.get()->verdict, Verdict::crashed);
    EXPECT_THAT(bad.get()->reason, HasSubstr("SIGSEGV"));
    EXPECT_EQ(good.get()->verdict, Verdict::ok) << good.get()->reason;
}

TEST(CompilePool, ACompilerThatHangsIsTimedOut) {
    WorkerOptions limited = options("hang:kv32");
    limited.compile_timeout_s = 1;
    auto pool = CompilePool::open(limited, "host");
    ASSERT_TRUE(pool) << pool.error().text();
    EXPECT_EQ((*pool)->compile(source_of("mma/q16.kv32.w1"), "sm_90a").get()->verdict,
              Verdict::timed_out);
}

TEST(CompilePool, ASourceThatDoesNotCompileSaysWhy) {
    auto pool = CompilePool::open(options("real"), "host");
    ASSERT_TRUE(pool) << pool.error().text();
    Source broken = source_of("mma/q16.kv16.w1");
    broken.text += "\nthis is no C++;\n";
    broken.hash += "x";
    const auto compiled = (*pool)->compile(broken, "sm_90a").get();
    EXPECT_EQ(compiled->verdict, Verdict::compile_failed);
    EXPECT_NE(compiled->reason, "");
}

TEST(CompilePool, WhatIsDroppedIsCompiledWhenAskedForAgain) {
    auto pool = CompilePool::open(options("real"), "host");
    ASSERT_TRUE(pool) << pool.error().text();
    for (const char* config : {"mma/q16.kv16.w1", "mma/q16.kv32.w1", "mma/q32.kv16.w1",
                               "mma/q32.kv32.w1", "mma/q32.kv16.w2", "mma/q64.kv16.w2"})
        (*pool)->compile(source_of(config), "sm_90a");
    (*pool)->drop_waiting();
    EXPECT_EQ((*pool)->compile(source_of("mma/q64.kv16.w2"), "sm_90a").get()->verdict, Verdict::ok);
}

TEST(CompilePool, AnUnknownCompilerAndADeadProcessFailToOpen) {
    EXPECT_FALSE(CompilePool::open(options("real"), "fortran"));
    EXPECT_FALSE(CompilePool::open(options("exit"), "host"));
}

TEST(WorkerBench, MeasuresTheMmaPeakAndOutlivesAProbeThatFails) {
    auto bench = WorkerBench::open(options("real"), "emu:a10", 0);
    ASSERT_TRUE(bench) << bench.error().text();
    const Config config = *Config::parse("mma/");
    const double tflops = bench->mma_peak_tflops(DType::f16, config);
    EXPECT_GT(tflops, 0);
    EXPECT_EQ(bench->mma_peak_tflops(DType::f16, config), tflops);

    auto crashing = WorkerBench::open(options("crash:bf16"), "emu:a10", 0);
    ASSERT_TRUE(crashing) << crashing.error().text();
    EXPECT_EQ(crashing->mma_peak_tflops(DType::bf16, config), 0) << "not measured";
    const auto ready = crashing->prepare(*Problem::parse("f16.d16.full/b1.h1.kv1.q16.k16"));
    EXPECT_TRUE(ready) << ready.error().text();
}

}  // namespace
}  // namespace attune
