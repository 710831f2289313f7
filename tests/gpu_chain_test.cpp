// tune, store, export, import, build, look-up and launch on hip:0 and cuda:0, whose drivers are
// fakes over the emulator (tests/fake_gpu.h), in processes of their own as always; and what is left
// of a tune of which one driver call fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include "generator/formatted.h"
#include "tests/store_fixtures.h"
#include "tuner/build.h"
#include "tuner/exchange.h"
#include "tuner/tune.h"

namespace attune {
namespace {

using testing::HasSubstr;

constexpr const char* first = "f16.d64.full/b1.h1.kv1.q16.k512";
constexpr const char* second = "f16.d64.full/b1.h1.kv1.q16.k256";

struct Gpu {
    const char* device;
    const char* fake;  // id of known_targets()
    const char* result_name;
    /// Calls that give something back: one that fails has nobody to tell where a destructor makes
    /// it.
    std::vector<std::string> releases;
};
const Gpu mi300x{"hip:0", "mi300x", "hipErrorLaunchFailure", {}};
const Gpu rx7900{"hip:0",
                 "rx-7900-xtx",  // the least L2
                 "hipErrorLaunchFailure",
                 {"hipFree", "hipModuleUnload", "hipGetDevice"}};
const Gpu h200{"cuda:0",
               "h200",
               "CUDA_ERROR_FAKE",
               {"cuMemFree", "cuModuleUnload", "cuCtxPushCurrent", "cuCtxPopCurrent",
                "cuDevicePrimaryCtxRelease"}};

/// A call's name as messages have it: without the suffix of its version.
std::string spoken(std::string name) {
    for (const char* suffix : {"_v2", "R0600"})
        if (name.ends_with(suffix)) name.resize(name.size() - std::strlen(suffix));
    return name;
}

class GpuChain : public testing::Test {
protected:
    void SetUp() override {
        static const TempFolder twins;  // kernels compiled once in this process
        setenv("FAKE_TWINS", twins.file("").c_str(), 1);
        setenv("ATTUNE_LIBAMDHIP64", ATTUNE_FAKE_LIBAMDHIP64, 1);
        setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_LIBCUDA, 1);
    }
    void TearDown() override {
        for (const char* name : {"FAKE_TWINS", "ATTUNE_LIBAMDHIP64", "ATTUNE_LIBCUDA", "FAKE_CALLS",
                                 "FAKE_FAIL", "FAKE_GPU", "FAKE_L2"})
            unsetenv(name);
    }
    std::string calls_file() const { return folder_.file("calls"); }

    static WorkerOptions workers() {
        WorkerOptions options;
        options.command = {ATTUNE_FAKE_WORKER};
        options.compile_processes = 1;
        return options;
    }
    TuneRequest request(const Gpu& gpu, const std::string& store) const {
        setenv("FAKE_GPU", gpu.fake, 1);
        TuneRequest request;
        request.device = gpu.device;
        request.problems = {*Problem::parse(first), *Problem::parse(second)};
        request.effort = Effort::estimate;
        request.store_path = store;
        request.workers = workers();
        return request;
    }
    std::vector<std::string> calls() const {
        std::istringstream lines(read_file(calls_file()));
        std::vector<std::string> names;
        for (std::string line; std::getline(lines, line);) names.push_back(line);
        return names;
    }

    void whole_chain(const Gpu& gpu);
    void fail_calls(const Gpu& gpu);
    void fail_call(const Gpu& gpu, int nth, const std::string& name);

    TempFolder folder_;
};

void GpuChain::whole_chain(const Gpu& gpu) {
    const std::string tuned_path = folder_.file("tuned.sqlite");
    const auto outcomes = tune(request(gpu, tuned_path), {});
    ASSERT_TRUE(outcomes) << outcomes.error().text();
    for (const TuneOutcome& outcome : *outcomes) {
        ASSERT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
        EXPECT_TRUE(outcome.stored);
        EXPECT_GT(outcome.record.max_error, 0) << "somebody computed";
    }
    std::string text;
    {
        const auto store = Store::open(tuned_path, Store::Access::read);
        ASSERT_TRUE(store) << store.error().text();
        const auto json = export_json(*store, outcomes->front().record.device);
        ASSERT_TRUE(json) << json.error().text();
        text = *json;
    }
    const std::string path = folder_.file("imported.sqlite");
    {
        auto store = Store::open(path, Store::Access::write);
        ASSERT_TRUE(store) << store.error().text();
        const auto report = import_json(*store, text);
        ASSERT_TRUE(report) << report.error().text();
        EXPECT_EQ(report->count(ImportRow::Outcome::added), 2);
    }
    const std::string launch = formatted("ATTUNE_STORE='{}' '{}' {} {} 2>&1", path,
                                         ATTUNE_LAUNCH_EXAMPLE, gpu.device, first);
    EXPECT_NE(std::system((launch + " >/dev/null").c_str()), 0) << "there is no binary yet";
    BuildRequest build_request;
    build_request.store_path = path;
    build_request.workers = workers();
    const auto built = build(build_request, [](const BuildOutcome&, std::size_t, std::size_t) {});
    ASSERT_TRUE(built) << built.error().text();
    for (const BuildOutcome& outcome : *built)
        EXPECT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
    // The example asks the C API, launches and compares with attention in fp64.
    EXPECT_EQ(std::system(formatted("{} >'{}'", launch, folder_.file("out")).c_str()), 0);
    const std::string said = read_file(folder_.file("out"));
    EXPECT_THAT(said, HasSubstr("match exact"));
    EXPECT_THAT(said, HasSubstr(": good"));
}

/// The nth call of a tune of two problems fails. Whatever it was: it is told by its name, what was
/// done before is stored, and a resumed tune does the rest.
void GpuChain::fail_call(const Gpu& gpu, int nth, const std::string& name) {
    SCOPED_TRACE(formatted("call {} of {}: {}", nth, gpu.fake, name));
    const std::string store_path = folder_.file(formatted("{}.{}.sqlite", gpu.fake, nth));
    std::filesystem::remove(calls_file());
    TuneRequest sweep = request(gpu, store_path);
    setenv("FAKE_FAIL", formatted("{}:719", nth).c_str(), 1);
    const auto outcomes = tune(sweep, {});
    unsetenv("FAKE_FAIL");

    std::string told = outcomes ? "" : outcomes.error().text();
    std::size_t stored = 0;
    const Code code = outcomes ? Code::device_error : outcomes.error().code;
    EXPECT_EQ(code, Code::device_error);
    for (const TuneOutcome& outcome : outcomes ? *outcomes : std::vector<TuneOutcome>{}) {
        stored += outcome.stored;
        for (const Measurement& row : outcome.measurements) told += row.reason;
        if (outcome.error.code == Code::ok) continue;
        EXPECT_EQ(outcome.error.code, Code::device_error);
        told += outcome.error.text();
    }
    if (told.empty()) {
        EXPECT_THAT(gpu.releases, testing::Contains(spoken(name)));
        EXPECT_EQ(stored, 2u);
    } else {
        EXPECT_THAT(told,
                    HasSubstr(formatted("{} failed: {} (719)", spoken(name), gpu.result_name)));
    }

    sweep.resume = true;
    const auto rest = tune(sweep, {});
    ASSERT_TRUE(rest) << rest.error().text();
    std::size_t kept = 0;
    for (const TuneOutcome& outcome : *rest) {
        EXPECT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
        EXPECT_TRUE(outcome.stored || outcome.skipped);
        kept += outcome.skipped;
    }
    EXPECT_EQ(kept, stored) << "nothing is lost, nothing is done twice";
    EXPECT_EQ(rest->size(), 2u);
}

void GpuChain::fail_calls(const Gpu& gpu) {
    setenv("FAKE_CALLS", calls_file().c_str(), 1);
    setenv("FAKE_L2", "1048576", 1);
    const auto whole = tune(request(gpu, folder_.file("whole.sqlite")), {});
    ASSERT_TRUE(whole) << whole.error().text();
    // Each call by name, at its first and last time.
    std::map<std::string, std::vector<int>> times;
    const std::vector<std::string> names = calls();
    for (std::size_t i = 0; i < names.size(); ++i) times[names[i]].push_back(int(i) + 1);
    EXPECT_GT(times.size(), 12u);
    int failed = 0;
    for (const auto& [name, at] : times) {
        fail_call(gpu, at.front(), name);
        ++failed;
        if (at.size() == 1) continue;
        fail_call(gpu, at.back(), name);
        ++failed;
    }
    std::cout << gpu.fake << ": " << names.size() << " calls of " << times.size() << " kinds, "
              << failed << " made to fail\n";
}

TEST_F(GpuChain, runs_whole_on_cdna) {
    whole_chain(mi300x);
}
TEST_F(GpuChain, runs_whole_on_rdna) {
    whole_chain(rx7900);
}
TEST_F(GpuChain, runs_whole_on_cuda) {
    whole_chain(h200);
}
TEST_F(GpuChain, a_hip_call_that_fails_is_told_and_loses_nothing) {
    fail_calls(rx7900);
}

}  // namespace
}  // namespace attune
