// The C API on a device that only writes down what it is asked for.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <new>
#include <thread>

#include "runtime/attune.h"
#include "runtime/backend.h"
#include "tests/fake_device.h"
#include "tests/store_fixtures.h"

namespace {
thread_local long allocations = 0;
}

// Counted, to show that a launch allocates nothing.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace attune {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* q64 = "bf16.d64.full/b1.h2.kv2.q64.k64";
constexpr const char* q256 = "bf16.d64.full/b1.h2.kv2.q256.k64";

attune_problem c_problem(const char* text) {
    const Problem p = *Problem::parse(text);
    return {sizeof(attune_problem),
            p.signature.dtype == DType::f16 ? ATTUNE_F16 : ATTUNE_BF16,
            p.signature.mask == Mask::full ? ATTUNE_MASK_FULL : ATTUNE_MASK_CAUSAL,
            p.signature.head_dim,
            p.shape.batch,
            p.shape.heads_q,
            p.shape.heads_kv,
            p.shape.seqlen_q,
            p.shape.seqlen_kv,
            p.signature.lse ? 1 : 0};
}

class LoaderTest : public ::testing::Test {
protected:
    LoaderTest() : target(*find_target("a100-sxm4-80gb")), store(open_store(path())) {}
    ~LoaderTest() override { attune_close(context); }

    std::string path() const { return folder.file("store.sqlite"); }

    void add(
        const char* problem, std::string_view binary = "a kernel",
        const std::function<void(Record&)>& change = [](Record&) {}) {
        Record record = some_record(problem, binary);
        record.device = {"nvidia", target.name, target.arch, target.multiprocessors, ""};
        change(record);
        const auto stored = store.put(record, bytes_of(binary), {});
        ASSERT_TRUE(stored && *stored);
    }

    attune_status try_open(int strict = 0) {
        auto* backend = new attune_backend{std::make_unique<FakeDevice>(target, log)};
        const std::string file = path();
        const attune_options options{sizeof options, nullptr, file.c_str(), backend, strict};
        const attune_status status = attune_open(&options, &context);
        if (status != ATTUNE_OK) delete backend;
        return status;
    }
    void open(int strict = 0) {
        ASSERT_EQ(try_open(strict), ATTUNE_OK) << attune_last_error(nullptr);
    }

    attune_answer find(const char* text) {
        attune_answer answer{};
        answer.struct_bytes = sizeof answer;
        const attune_problem problem = c_problem(text);
        EXPECT_EQ(attune_find(context, &problem, &answer), ATTUNE_OK) << attune_last_error(context);
        return answer;
    }
    attune_status find_status(const attune_problem& problem) {
        attune_answer answer{};
        answer.struct_bytes = sizeof answer;
        return attune_find(context, &problem, &answer);
    }

    /// Contiguous tensors somewhere, for a device that touches none.
    static attune_tensors tensors(const char* text, bool lse = false) {
        const Problem p = *Problem::parse(text);
        const Strides s = contiguous_bhsd(p.signature, p.shape);
        const auto c = [](const TensorStrides& t) {
            return attune_tensor_strides{t.batch, t.head, t.row};
        };
        const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
        return {sizeof(attune_tensors),
                at(0x1000),
                at(0x2000),
                at(0x3000),
                at(0x4000),
                lse ? static_cast<float*>(at(0x5000)) : nullptr,
                c(s.q),
                c(s.k),
                c(s.v),
                c(s.o),
                0};
    }
    attune_status launch(attune_kernel* kernel, const char* text, const attune_tensors& t) {
        const attune_problem problem = c_problem(text);
        return attune_launch(kernel, &problem, &t, nullptr, nullptr);
    }

    TempFolder folder;
    Target target;
    Store store;
    std::shared_ptr<FakeLog> log = std::make_shared<FakeLog>();
    attune_context* context = nullptr;
};

TEST(LoaderOpen, NamesWhatIsWrong) {
    const TempFolder folder;
    open_store(folder.file("s"));
    const std::string store = folder.file("s"), none = folder.file("none");
    const struct {
        attune_options options;
        attune_status status;
        const char* named;
    } cases[] = {
        {{0, nullptr, nullptr, nullptr, 0}, ATTUNE_INVALID_ARGUMENT, "struct_bytes is 0"},
        {{8, nullptr, nullptr, nullptr, 0}, ATTUNE_INVALID_ARGUMENT, "struct_bytes is 8"},
        {{sizeof(attune_options), "cuda", store.c_str(), nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "'cuda'"},
        {{sizeof(attune_options), "cuda:x", store.c_str(), nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "cuda:0"},
        {{sizeof(attune_options), "cuda:-1", store.c_str(), nullptr, 0},
         ATTUNE_INVALID_ARGUMENT,
         "cuda:0"},
        {{sizeof(attune_options), "emu:h200", store.c_str(), nullptr, 0},
         ATTUNE_UNSUPPORTED,
         "attune_emu_backend"},
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
    const attune_options options{sizeof options, nullptr, none.c_str(), backend, 0};
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
              fmt::format("attune tune --device cuda:7 --store {} --shapes {}", path(), q256));
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

TEST_F(LoaderTest, LaunchHandsOverEverything) {
    const char* problem = "f16.d64.causal.lse/b3.h4.kv2.q100.k70";
    add(problem);
    open();
    attune_tensors t = tensors(problem, true);
    t.scale = 0.5f;
    t.k_strides = {9000, 800, 72};
    const attune_problem c = c_problem(problem);
    attune_kernel* kernel = find(problem).kernel;
    void* stream = reinterpret_cast<void*>(0x99);
    const long before = allocations;
    const attune_status status = attune_launch(kernel, &c, &t, nullptr, stream);
    EXPECT_EQ(allocations, before) << "a launch allocates nothing";
    ASSERT_EQ(status, ATTUNE_OK) << attune_last_error(context);
    const AttentionParams& p = log->last.params;
    EXPECT_EQ(p.q, t.q);
    EXPECT_EQ(p.k, t.k);
    EXPECT_EQ(p.v, t.v);
    EXPECT_EQ(p.o, t.o);
    EXPECT_EQ(p.lse, t.lse);
    EXPECT_EQ(p.q_strides.batch, 4 * 100 * 64);
    EXPECT_EQ(p.k_strides.head, 800);
    EXPECT_EQ(p.v_strides.row, 64);
    EXPECT_EQ(p.o_strides.head, 100 * 64);
    EXPECT_EQ(p.batch, 3);
    EXPECT_EQ(p.heads_q, 4);
    EXPECT_EQ(p.heads_kv, 2);
    EXPECT_EQ(p.seqlen_q, 100);
    EXPECT_EQ(p.seqlen_kv, 70);
    EXPECT_FLOAT_EQ(p.scale_log2, 0.5f * std::log2(std::exp(1.0f)));
    EXPECT_EQ(log->last.stream, 0x99u);
    EXPECT_EQ(log->last.launch.ctas, 3u * 4 * 2);
    EXPECT_EQ(log->last.launch.threads_per_cta, 128u);
    EXPECT_EQ(log->last.launch.shared_bytes, log->shared[0]);

    t.scale = 0;
    ASSERT_EQ(attune_launch(kernel, &c, &t, nullptr, stream), ATTUNE_OK);
    EXPECT_FLOAT_EQ(log->last.params.scale_log2, 0.125f * std::log2(std::exp(1.0f)));
}

TEST_F(LoaderTest, LaunchRefusesWhatTheKernelCannotDo) {
    add(q64);
    open();
    attune_kernel* kernel = find(q64).kernel;
    const auto refused = [&](auto change) {
        attune_tensors t = tensors(q64);
        change(t);
        EXPECT_EQ(launch(kernel, q64, t), ATTUNE_INVALID_ARGUMENT);
        return std::string(attune_last_error(context));
    };
    float row = 0;
    EXPECT_THAT(refused([](auto& t) { t.q = nullptr; }), HasSubstr("q is NULL"));
    EXPECT_THAT(refused([](auto& t) { t.v = nullptr; }), HasSubstr("v is NULL"));
    EXPECT_THAT(refused([](auto& t) { t.k = static_cast<const char*>(t.k) + 8; }),
                HasSubstr("k does not start on 16 bytes"));
    EXPECT_THAT(refused([&](auto& t) { t.lse = &row; }), HasSubstr("want_lse"));
    EXPECT_THAT(refused([](auto& t) { t.o_strides.row = 12; }), HasSubstr("16 bytes"));
    EXPECT_THAT(refused([](auto& t) { t.o_strides.row = 56; }), HasSubstr("overlap"));
    EXPECT_THAT(refused([](auto& t) { t.k_strides.batch = -64; }), HasSubstr("-64"));
    EXPECT_THAT(refused([](auto& t) { t.scale = -1; }), HasSubstr("scale is -1"));
    EXPECT_THAT(refused([](auto& t) { t.scale = std::nanf(""); }), HasSubstr("scale is nan"));
    EXPECT_THAT(refused([](auto& t) { t.struct_bytes = 16; }), HasSubstr("struct_bytes is 16"));
    EXPECT_EQ(launch(kernel, "bf16.d64.causal/b1.h2.kv2.q64.k64", tensors(q64)),
              ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("bf16.d64.causal"));
    EXPECT_EQ(launch(kernel, "bf16.d64.full/b1.h3.kv2.q64.k64", tensors(q64)),
              ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(launch(nullptr, q64, tensors(q64)), ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(log->launches, 0);
    log->fail_launch = "sticky";
    EXPECT_EQ(launch(kernel, q64, tensors(q64)), ATTUNE_DEVICE_ERROR);
    EXPECT_STREQ(attune_last_error(context), "sticky; look");
}

TEST_F(LoaderTest, LseIsNeededWhereWanted) {
    const char* problem = "bf16.d64.full.lse/b1.h2.kv2.q64.k64";
    add(problem);
    open();
    EXPECT_EQ(launch(find(problem).kernel, problem, tensors(problem)), ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("lse is NULL"));
}

TEST_F(LoaderTest, EmptyProblems) {
    add(q64);
    open();
    attune_kernel* kernel = find(q64).kernel;
    attune_tensors nothing{};
    nothing.struct_bytes = sizeof nothing;
    for (const char* no_query :
         {"bf16.d64.full/b0.h2.kv2.q64.k64", "bf16.d64.full/b1.h0.kv0.q64.k64",
          "bf16.d64.full/b1.h2.kv2.q0.k64"}) {
        EXPECT_EQ(find(no_query).kernel, kernel);
        EXPECT_EQ(launch(kernel, no_query, nothing), ATTUNE_OK) << no_query;
    }
    EXPECT_EQ(log->launches, 0);
    const char* no_key = "bf16.d64.full/b1.h2.kv2.q64.k0";
    attune_tensors t = tensors(no_key);
    t.k = t.v = nullptr;
    EXPECT_EQ(launch(kernel, no_key, t), ATTUNE_OK) << "the kernel writes the zeros";
    EXPECT_EQ(log->last.params.seqlen_kv, 0);
    EXPECT_GT(log->last.launch.ctas, 0u);
}

TEST_F(LoaderTest, ThreadsFindAtOnceAndHaveErrorsOfTheirOwn) {
    add(q64);
    open();
    std::vector<std::thread> threads;
    std::vector<attune_kernel*> kernels(8);
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            for (int q = 1; q < 100; ++q) {
                const auto text = fmt::format("bf16.d64.full/b1.h2.kv2.q{}.k64", q);
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

TEST_F(LoaderTest, DeviceMemory) {
    open();
    void* memory = nullptr;
    ASSERT_EQ(attune_alloc(context, 16, &memory), ATTUNE_OK);
    char back[16] = {};
    EXPECT_EQ(attune_copy_to_device(context, memory, "fifteen letters", 16), ATTUNE_OK);
    EXPECT_EQ(attune_copy_to_host(context, back, memory, 16), ATTUNE_OK);
    EXPECT_STREQ(back, "fifteen letters");
    EXPECT_EQ(attune_synchronize(context), ATTUNE_OK);
    EXPECT_EQ(attune_free(context, memory), ATTUNE_OK);
    EXPECT_EQ(attune_free(context, nullptr), ATTUNE_OK);
    EXPECT_EQ(log->allocations, 0);
    EXPECT_EQ(attune_alloc(context, std::size_t(1) << 40, &memory), ATTUNE_OUT_OF_MEMORY);
    EXPECT_EQ(memory, nullptr);
    EXPECT_THAT(attune_last_error(context), HasSubstr("no room"));
    EXPECT_EQ(attune_alloc(context, 16, nullptr), ATTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(attune_alloc(nullptr, 16, &memory), ATTUNE_INVALID_ARGUMENT);
}

TEST(LoaderNames, AreThoseOfTheClosedList) {
    for (int code = 0; code <= ATTUNE_INTERNAL; ++code)
        EXPECT_STREQ(attune_status_name(static_cast<attune_status>(code)),
                     code_name(static_cast<Code>(code)));
    EXPECT_STREQ(attune_status_name(static_cast<attune_status>(99)), "unknown");
}

}  // namespace
}  // namespace attune
