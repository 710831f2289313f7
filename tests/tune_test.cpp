// Tuning end to end on the emulator, with workers that misbehave, resume, budget and efforts.
#include "tuner/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "generator/emit.h"
#include "tuner/build.h"
#include "tuner/tune_bench.h"

namespace attune {
namespace {

using ::testing::HasSubstr;

constexpr const char* tiny = "f16.d16.full/b1.h1.kv1.q16.k16";
constexpr const char* other = "f16.d16.full/b1.h1.kv1.q16.k32";

class TuneTest : public ::testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/attune-tune-test-XXXXXX";
        folder_ = mkdtemp(pattern);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    TuneRequest request(Effort effort, const std::string& mode = "real") const {
        TuneRequest request;
        request.device = "emu:a10";
        request.problems = {*Problem::parse(tiny)};
        request.effort = effort;
        request.store_path = folder_ + "/store.sqlite";
        request.workers.command = {ATTUNE_WORKER_CHILD, mode};
        request.workers.compile_processes = 2;
        return request;
    }

    TuneOutcome tune_one(const TuneRequest& request) {
        auto outcomes = tune(request, [this](const TuneProgress& at) { progress_.push_back(at); });
        if (!outcomes) {
            ADD_FAILURE() << outcomes.error().text();
            return {};
        }
        EXPECT_EQ(outcomes->size(), 1u);
        return outcomes->front();
    }

    std::optional<Record> stored(const char* problem = tiny) const {
        const auto store = Store::open(folder_ + "/store.sqlite", Store::Access::read);
        if (!store) return {};
        const auto devices = store->devices();
        EXPECT_EQ(devices->size(), 1u);
        return *store->find(devices->front(), *Problem::parse(problem));
    }

    std::string folder_;
    std::vector<TuneProgress> progress_;
};

const Measurement* row_of(const TuneOutcome& outcome, const std::string& part) {
    for (const Measurement& row : outcome.measurements)
        if (row.config.find(part) != std::string::npos) return &row;
    return nullptr;
}

TEST_F(TuneTest, EstimateStoresACheckedKernelThatNobodyTimed) {
    const TuneOutcome outcome = tune_one(request(Effort::estimate));
    ASSERT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
    EXPECT_TRUE(outcome.stored);
    const auto record = stored();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->evidence, Evidence::estimated);
    EXPECT_EQ(record->effort, Effort::estimate);
    EXPECT_EQ(record->candidates_timed, 0);
    EXPECT_GT(record->candidates_checked, 0);
    EXPECT_GT(record->time_us, 0);
    EXPECT_GT(record->error_bar, record->max_error);
    EXPECT_EQ(record->device.name, "emu NVIDIA A10");
    EXPECT_FALSE(is_outdated(*record));
    const auto store = Store::open(folder_ + "/store.sqlite", Store::Access::read);
    EXPECT_FALSE(store->binary(record->binary_sha256)->empty());
    ASSERT_FALSE(progress_.empty());
    EXPECT_EQ(progress_.back().stage, "done");
}

TEST_F(TuneTest, MeasureSurvivesAKernelThatCrashesAndACompilerThatHangsAndResumes) {
    // Kernels of 32-row tiles bring the measuring process down.
    TuneRequest sweep = request(Effort::measure, "crash:q32.");
    sweep.problems.push_back(*Problem::parse(other));
    auto outcomes = tune(sweep, {});
    ASSERT_TRUE(outcomes) << outcomes.error().text();
    ASSERT_EQ(outcomes->size(), 2u);
    const TuneOutcome& outcome = outcomes->front();
    ASSERT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
    const Measurement* crashed = row_of(outcome, "q32.");
    ASSERT_NE(crashed, nullptr);
    EXPECT_EQ(crashed->verdict, Verdict::crashed);
    EXPECT_THAT(crashed->reason, HasSubstr("SIGSEGV"));
    EXPECT_NE(outcome.measurements.back().config, crashed->config) << "the sweep went on";
    const Record& record = outcome.record;
    EXPECT_EQ(record.evidence, Evidence::estimated) << "an emulated time is no measurement";
    EXPECT_GT(record.candidates_timed, 10);
    EXPECT_GT(record.default_time_us, 0);
    EXPECT_LE(record.time_us, record.default_time_us * 1.02);
    EXPECT_NE(record.runner_up_config, record.config);
    int finals = 0;
    for (const Measurement& row : outcome.measurements) finals += row.final_round;
    EXPECT_GE(finals, 2);

    // Everything done is skipped; what is not is tuned.
    sweep.resume = true;
    sweep.problems.push_back(*Problem::parse("f16.d16.full/b1.h1.kv1.q0.k16"));
    outcomes = tune(sweep, {});
    ASSERT_TRUE(outcomes);
    ASSERT_EQ(outcomes->size(), 3u);
    EXPECT_TRUE((*outcomes)[0].skipped);
    EXPECT_TRUE((*outcomes)[1].skipped);
    EXPECT_FALSE((*outcomes)[2].skipped);
    EXPECT_EQ((*outcomes)[2].error.code, Code::invalid_argument) << "nothing to tune";

    // A lower effort looks, and leaves the record alone.
    const std::string config = stored()->config;
    const TuneOutcome lower = tune_one(request(Effort::estimate));
    EXPECT_EQ(lower.error.code, Code::ok);
    EXPECT_FALSE(lower.stored);
    EXPECT_EQ(stored()->effort, Effort::measure);
    EXPECT_EQ(stored()->config, config);
}

TEST_F(TuneTest, WhereEveryKernelCrashesTheProblemFailsAndSaysHow) {
    const TuneOutcome outcome = tune_one(request(Effort::estimate, "crash:mma/"));
    EXPECT_EQ(outcome.error.code, Code::wrong_result);
    EXPECT_THAT(outcome.error.message, HasSubstr("crashed"));
    EXPECT_FALSE(outcome.stored);
}

TEST_F(TuneTest, AHangingCandidateIsTimedOut) {
    TuneRequest sweep = request(Effort::estimate, "hang:mma/q16.");
    sweep.workers.compile_timeout_s = 2;
    const TuneOutcome outcome = tune_one(sweep);
    ASSERT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
    const Measurement* hung = row_of(outcome, "q16.");
    ASSERT_NE(hung, nullptr);
    EXPECT_EQ(hung->verdict, Verdict::timed_out);
}

TEST_F(TuneTest, ABudgetThatIsUsedUpLeavesTheRest) {
    TuneRequest sweep = request(Effort::estimate);
    sweep.problems.push_back(*Problem::parse(other));
    sweep.budget_s = 1e-6;
    const auto outcomes = tune(sweep, {});
    ASSERT_TRUE(outcomes);
    EXPECT_LT(outcomes->size(), sweep.problems.size());
}

TEST_F(TuneTest, ARestrictedRequestIsAnotherKey) {
    TuneRequest sweep = request(Effort::estimate);
    tune_one(sweep);
    sweep.restriction.max_shared_bytes = 2048;
    const TuneOutcome outcome = tune_one(sweep);
    ASSERT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
    EXPECT_EQ(outcome.record.restriction, "max_smem=2048");
    EXPECT_LE(outcome.record.shared_bytes, 2048);
    EXPECT_TRUE(stored()->restriction.empty());
}

TEST_F(TuneTest, NothingCanBeTunedWithoutDeviceProblemOrStore) {
    TuneRequest sweep = request(Effort::estimate);
    sweep.device = "emu:nothing";
    EXPECT_FALSE(tune(sweep, {}));
    sweep = request(Effort::estimate);
    sweep.problems.clear();
    EXPECT_EQ(tune(sweep, {}).error().code, Code::invalid_argument);
    sweep = request(Effort::estimate);
    sweep.store_path = "/proc/no/store.sqlite";
    EXPECT_FALSE(tune(sweep, {}));
    sweep = request(Effort::estimate, "exit");
    EXPECT_FALSE(tune(sweep, {})) << "a worker that does not start";
}

TEST_F(TuneTest, BuildCompilesWhatCameWithoutAKernelAndMarksWhatIsOutdated) {
    Record record = tune_one(request(Effort::estimate)).record;
    const std::string path = folder_ + "/imported.sqlite";
    {
        auto store = Store::open(path, Store::Access::write);
        ASSERT_TRUE(store);
        record.binary_sha256.clear();
        ASSERT_TRUE(store->put(record, {}, {}));
        record.problem = *Problem::parse(other);
        record.source_hash = sha256_hex("another template");
        ASSERT_TRUE(store->put(record, {}, {}));
    }
    BuildRequest request;
    request.store_path = path;
    request.workers.command = {ATTUNE_WORKER_CHILD, "real"};
    const auto built = build(request, {});
    ASSERT_TRUE(built) << built.error().text();
    ASSERT_EQ(built->size(), 2u);
    for (const BuildOutcome& outcome : *built) {
        EXPECT_EQ(outcome.error.code, Code::ok) << outcome.error.text();
        EXPECT_EQ(outcome.outdated, outcome.record.problem == record.problem);
        EXPECT_EQ(is_outdated(outcome.record), outcome.outdated);
    }
    EXPECT_TRUE(build(request, {})->empty()) << "everything has a kernel now";
}

TEST_F(TuneTest, BenchGivesARowPerConfig) {
    BenchRequest request;
    request.device = "emu:a10";
    request.problem = *Problem::parse(tiny);
    request.configs = {*Config::parse("mma/q16.kv16.w1"), *Config::parse("mma/q32.kv16.w1")};
    request.workers.command = {ATTUNE_WORKER_CHILD, "crash:q32."};
    const auto report = bench_configs(request);
    ASSERT_TRUE(report) << report.error().text();
    ASSERT_EQ(report->rows.size(), 2u);
    EXPECT_EQ(report->rows[0].verdict, Verdict::ok);
    EXPECT_GT(report->rows[0].median_us, 0);
    EXPECT_EQ(report->rows[1].verdict, Verdict::crashed);
    request.configs = {*Config::parse("mma/q384.kv256.w12.s4")};
    EXPECT_EQ(bench_configs(request).error().code, Code::invalid_argument);
}

TEST(Restriction, NamesWhatItIsLimitedTo) {
    EXPECT_EQ((Restriction{"", 0}.text()), "");
    EXPECT_EQ((Restriction{"mma", 0}.text()), "family=mma");
    EXPECT_EQ((Restriction{"mma", 101376}.text()), "family=mma,max_smem=101376");
}

}  // namespace
}  // namespace attune
