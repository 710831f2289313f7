// Opening and looking up through the C API.
#include <thread>

#include "generator/formatted.h"
#include "tests/loader_fixture.h"

namespace attune {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LoaderOpen, NamesWhatIsWrong) {
    const TempFolder folder;
    open_store(folder.file("s"));
    const std::string store = folder.file("s"), none = folder.file("none");
    const struct {
        attune_options options;
        attune_status status;
        const char* named;
    } cases[] = {
        {{0, nullptr, nullptr, nullptr, 0, nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "struct_bytes is 0"},
        {{8, nullptr, nullptr, nullptr, 0, nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "struct_bytes is 8"},
        {{sizeof(attune_options), "cuda", store.c_str(), nullptr, 0, nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "'cuda'"},
        {{sizeof(attune_options), "cuda:x", store.c_str(), nullptr, 0, nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "cuda:0"},
        {{sizeof(attune_options), "cuda:-1", store.c_str(), nullptr, 0, nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "cuda:0"},
        {{sizeof(attune_options), "emu:h200", store.c_str(), nullptr, 0, nullptr, 0},
         ATTUNE_UNSUPPORTED,
         "attune_emu_backend"},
        {{sizeof(attune_options), "cuda", store.c_str(), nullptr, 0, "none", 0},
         ATTUNE_INVALID_ARGUMENT,
         "no kernel family 'none'"},
        {{sizeof(attune_options), "cuda", store.c_str(), nullptr, 0, nullptr, -1},
         ATTUNE_INVALID_ARGUMENT,
         "max_shared_bytes is -1"},
    };
    for (const auto& [options, status, named] : cases) {
        auto* context = reinterpret_cast<attune_context*>(1);
        EXPECT_EQ(attune_open(&options, &context), status) << named;
        EXPECT_EQ(context, nullptr);
        EXPECT_THAT(attune_last_error(nullptr), HasSubstr(named));
    }
    EXPECT_EQ(attune_open(nullptr, nullptr), ATTUNE_INVALID_ARGUMENT);
    std::thread([] { EXPECT_STREQ(attune_last_error(nullptr), ""); }).join();
    attune_close(nullptr);
}

TEST_F(LoaderTest, AMissingStoreLeavesTheBackendToItsOwner) {
    auto* backend = new attune_backend{std::make_unique<FakeDevice>(target, log)};
    const std::string none = folder.file("none");
    const attune_options options{sizeof options, nullptr, none.c_str(), backend, 0, nullptr, 0};
    EXPECT_EQ(attune_open(&options, &context), ATTUNE_NOT_FOUND);
    EXPECT_THAT(attune_last_error(nullptr), HasSubstr("attune tune"));
    EXPECT_NE(backend->device, nullptr);
    EXPECT_FALSE(log->closed);
    delete backend;
}

TEST_F(LoaderTest, StructsOfOtherSizes) {
    open();
    struct Newer {
        attune_problem known;
        int unknown;
    } newer{c_problem(q64), 0};
    newer.known.struct_bytes = sizeof newer;
    EXPECT_EQ(find_status(newer.known), ATTUNE_OK) << "its unknown rest is zero";
    newer.unknown = 1;
    EXPECT_EQ(find_status(newer.known), ATTUNE_VERSION_MISMATCH);
    attune_problem problem = c_problem(q64);
    for (const std::size_t bytes : {std::size_t(0), sizeof problem - 1, ~std::size_t(0)}) {
        problem.struct_bytes = bytes;
        EXPECT_EQ(find_status(problem), ATTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(attune_last_error(context), HasSubstr("attune_problem.struct_bytes"));
    }
    problem = c_problem(q64);
    attune_answer answer{};
    EXPECT_EQ(attune_find(context, &problem, &answer), ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(attune_find(context, &problem, nullptr), ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(attune_find(context, nullptr, &answer), ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(attune_find(nullptr, &problem, &answer), ATTUNE_INVALID_ARGUMENT);
}

TEST_F(LoaderTest, FindsExactBucketAndEstimate) {
    add(q64);
    open();
    const attune_answer exact = find(q64);
    EXPECT_EQ(exact.match, ATTUNE_MATCH_EXACT);
    EXPECT_EQ(exact.distance, 0);
    EXPECT_STREQ(exact.advice, "");
    EXPECT_EQ(exact.expected_us, 12.25);
    EXPECT_EQ(exact.measured, 1);
    EXPECT_STREQ(exact.record_shape, "b1.h2.kv2.q64.k64");
    EXPECT_THAT(exact.config, StartsWith("mma/q64.kv32.w4"));
    EXPECT_EQ(log->loads, std::vector<std::string>{"a kernel"});
    EXPECT_EQ(log->entries[0], "attune_kernel");

    const attune_answer bucket = find(q256);
    EXPECT_EQ(bucket.match, ATTUNE_MATCH_BUCKET);
    EXPECT_EQ(bucket.distance, 2);
    EXPECT_EQ(bucket.kernel, exact.kernel) << "one binary, loaded once";
    EXPECT_EQ(bucket.advice,
              formatted("attune tune --device cuda:7 --store {} --shapes {}", path(), q256));
    EXPECT_EQ(log->loads.size(), 1u);

    const attune_answer estimate = find("f16.d128.causal/b1.h2.kv2.q64.k64");
    EXPECT_EQ(estimate.match, ATTUNE_MATCH_ESTIMATE);
    EXPECT_EQ(estimate.kernel, nullptr);
    EXPECT_EQ(estimate.measured, 0);
    EXPECT_GT(estimate.expected_us, 0);
    EXPECT_TRUE(Config::parse(estimate.config)) << estimate.config;
    EXPECT_THAT(estimate.advice, HasSubstr("--shapes f16.d128.causal/"));

    const attune_answer again = find(q64);
    EXPECT_EQ(again.kernel, exact.kernel);
    EXPECT_EQ(again.config, exact.config) << "the same string, not an equal one";
    attune_close(context);
    context = nullptr;
    EXPECT_EQ(log->unloads, 1);
    EXPECT_TRUE(log->closed);
}

TEST_F(LoaderTest, ARestrictedContextHasItsOwnRecords) {
    add(q64);
    add(q64, "a small kernel", [](Record& record) { record.restriction = "max_smem=65536"; });
    restriction.max_shared_bytes = 65536;
    open();
    const attune_answer small = find(q64);
    EXPECT_EQ(small.match, ATTUNE_MATCH_EXACT);
    ASSERT_EQ(log->loads.size(), 1u);
    EXPECT_EQ(log->loads[0], "a small kernel");
    const attune_answer bucket = find(q256);
    EXPECT_EQ(bucket.match, ATTUNE_MATCH_BUCKET);
    EXPECT_EQ(bucket.kernel, small.kernel);
    EXPECT_THAT(bucket.advice, HasSubstr(" --max-smem 65536 --shapes "));
}

TEST_F(LoaderTest, ARestrictedContextWithoutARecordSaysHowToMakeOne) {
    add(q64);
    restriction.family = "mma";
    open();
    const attune_answer none = find(q64);
    EXPECT_EQ(none.match, ATTUNE_MATCH_ESTIMATE);
    EXPECT_THAT(none.config, StartsWith("mma/"));
    EXPECT_THAT(none.advice, HasSubstr(" --family mma --shapes "));
}

TEST_F(LoaderTest, NoneSaysWhyWhereNoFamilyFits) {
    target.arch = "sm_75";
    open();
    const attune_answer none = find(q64);
    EXPECT_EQ(none.match, ATTUNE_MATCH_NONE);
    EXPECT_EQ(none.kernel, nullptr);
    EXPECT_THAT(none.advice, HasSubstr("sm_75"));
}

TEST_F(LoaderTest, AnotherGpusRecordsAreNotUsed) {
    add(q64, "theirs", [](Record& record) { record.device.multiprocessors = 1; });
    add(q64, "theirs", [](Record& record) { record.device.name = "emu " + record.device.name; });
    open();
    EXPECT_EQ(find(q64).match, ATTUNE_MATCH_ESTIMATE);
}

TEST_F(LoaderTest, StrictPassesOverAnotherDriversRecords) {
    add(q64, "old", [](Record& record) { record.driver = "470.1"; });
    add(q256, "new");
    open(1);
    EXPECT_EQ(find(q64).match, ATTUNE_MATCH_BUCKET);
    EXPECT_EQ(log->loads, std::vector<std::string>{"new"});
    attune_close(context);
    open(0);
    EXPECT_EQ(find(q64).match, ATTUNE_MATCH_EXACT);
}

TEST_F(LoaderTest, AnImportedRecordAsksForBuild) {
    add(q64, "");
    open();
    const attune_answer answer = find(q64);
    EXPECT_EQ(answer.match, ATTUNE_MATCH_ESTIMATE);
    EXPECT_EQ(answer.advice, "attune build --device cuda:7 --store " + path());
}

TEST_F(LoaderTest, BadRecordsAreErrorsNotCrashes) {
    add(q64, "unloadable");
    add("bf16.d128.full/b1.h2.kv2.q64.k64", "a kernel",
        [](Record& record) { record.config = "next/q64"; });
    open();
    log->fail_load = "not for this GPU";
    EXPECT_EQ(find_status(c_problem(q64)), ATTUNE_DEVICE_ERROR);
    EXPECT_THAT(attune_last_error(context), HasSubstr("not for this GPU"));
    log->fail_load.clear();
    EXPECT_EQ(find(q64).match, ATTUNE_MATCH_EXACT) << "failures are not kept";
    EXPECT_EQ(find_status(c_problem("bf16.d128.full/b1.h2.kv2.q64.k64")), ATTUNE_VERSION_MISMATCH);
    EXPECT_THAT(attune_last_error(context), HasSubstr("next/q64"));
}

TEST_F(LoaderTest, BadProblemsAreRefused) {
    open();
    const auto refused = [&](auto change) {
        attune_problem problem = c_problem(q64);
        change(problem);
        EXPECT_EQ(find_status(problem), ATTUNE_INVALID_ARGUMENT);
        return std::string(attune_last_error(context));
    };
    EXPECT_THAT(refused([](auto& p) { p.heads_kv = 3; }), HasSubstr("multiple"));
    EXPECT_THAT(refused([](auto& p) { p.head_dim = 20; }), HasSubstr("head_dim 20"));
    EXPECT_THAT(refused([](auto& p) { p.head_dim = 264; }), HasSubstr("head_dim 264"));
    EXPECT_THAT(refused([](auto& p) { p.seqlen_q = -1; }), HasSubstr("seqlen_q"));
    EXPECT_THAT(refused([](auto& p) { p.dtype = static_cast<attune_dtype>(9); }), HasSubstr("9"));
    EXPECT_THAT(refused([](auto& p) { p.mask = static_cast<attune_mask>(9); }), HasSubstr("9"));
}

TEST_F(LoaderTest, ReadsAgainWhenATunerReplacedTheRecord) {
    add(q64, "first");
    open();
    add(q64, "second");
    EXPECT_EQ(find(q64).match, ATTUNE_MATCH_EXACT);
    EXPECT_EQ(log->loads, std::vector<std::string>{"second"});
}

TEST_F(LoaderTest, ThreadsFindAtOnceAndHaveErrorsOfTheirOwn) {
    add(q64);
    open();
    std::vector<std::thread> threads;
    std::vector<attune_kernel*> kernels(8);
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            for (int q = 1; q < 100; ++q) {
                const auto text = formatted("bf16.d64.full/b1.h2.kv2.q{}.k64", q);
                kernels[std::size_t(i)] = find(text.c_str()).kernel;
                EXPECT_EQ(
                    launch(kernels[std::size_t(i)], "bf16.d64.full/b1.h2.kv2.q0.k64", tensors(q64)),
                    ATTUNE_OK);
            }
            attune_problem bad = c_problem(q64);
            bad.head_dim = 20 + 8 * i + 1;
            EXPECT_EQ(find_status(bad), ATTUNE_INVALID_ARGUMENT);
            EXPECT_THAT(attune_last_error(context), HasSubstr(std::to_string(bad.head_dim)));
        });
    for (std::thread& thread : threads) thread.join();
    for (attune_kernel* kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
    EXPECT_EQ(log->loads.size(), 1u);
    EXPECT_STREQ(attune_last_error(context), "") << "this thread failed at nothing";
}

TEST_F(LoaderTest, LogsAFirstLookUpOnlyAndOnlyOnRequest) {
    add(q64);
    const auto lines = [&] {
        ::testing::internal::CaptureStderr();
        open();
        find(q64);
        find(q64);
        attune_close(context);
        context = nullptr;
        return ::testing::internal::GetCapturedStderr();
    };
    unsetenv("ATTUNE_LOG");
    EXPECT_EQ(lines(), "");
    setenv("ATTUNE_LOG", "1", 1);
    const std::string logged = lines();
    unsetenv("ATTUNE_LOG");
    EXPECT_THAT(logged, StartsWith("attune: " + std::string(q64) + " on cuda:7: exact"));
    EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1);
}

TEST(LoaderNames, AreThoseOfTheClosedList) {
    for (int code = 0; code <= ATTUNE_INTERNAL; ++code)
        EXPECT_STREQ(attune_status_name(static_cast<attune_status>(code)),
                     code_name(static_cast<Code>(code)));
    EXPECT_STREQ(attune_status_name(static_cast<attune_status>(99)), "unknown");
}

}  // namespace
}  // namespace attune
