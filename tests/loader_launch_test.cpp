// Launching through the C API: what reaches the device, and what is refused.
#include <cmath>
#include <limits>
#include <new>

#include "tests/loader_fixture.h"

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

TEST_F(LoaderTest, BytesHaveHeadScales) {
    const char* problem = "e4m3.d64.causal/b3.h4.kv2.q100.k70";
    target = *find_target("h200");
    add(problem, "a kernel", [&](Record& record) {
        record.config =
            find_family("wgmma")->default_config(record.problem.signature, target).text();
    });
    open();
    attune_kernel* kernel = find(problem).kernel;
    ASSERT_NE(kernel, nullptr);
    attune_tensors t = tensors(problem);
    ASSERT_EQ(launch(kernel, problem, t), ATTUNE_OK) << attune_last_error(context);
    EXPECT_EQ(log->last.params.q_scale, nullptr);
    t.q_scale = reinterpret_cast<const float*>(0x6004);
    t.k_scale = reinterpret_cast<const float*>(0x7000);
    t.v_scale = reinterpret_cast<const float*>(0x8000);
    ASSERT_EQ(launch(kernel, problem, t), ATTUNE_OK) << attune_last_error(context);
    EXPECT_EQ(log->last.params.q_scale, t.q_scale);
    EXPECT_EQ(log->last.params.k_scale, t.k_scale);
    EXPECT_EQ(log->last.params.v_scale, t.v_scale);
    t.k_strides.row = 72;
    EXPECT_EQ(launch(kernel, problem, t), ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("multiples of 16 elements"));
    t.k_strides.row = 64;
    t.v_scale = reinterpret_cast<const float*>(0x8002);
    EXPECT_EQ(launch(kernel, problem, t), ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("v_scale does not start on 4 bytes"));
}

TEST_F(LoaderTest, HeadScalesAreForBytesAlone) {
    add(q64);
    open();
    attune_kernel* kernel = find(q64).kernel;
    attune_tensors t = tensors(q64);
    t.k_scale = reinterpret_cast<const float*>(0x7000);
    EXPECT_EQ(launch(kernel, q64, t), ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("not e4m3"));
}

TEST_F(LoaderTest, AWorkspaceIsAskedForWhereOneIsNeeded) {
    target = *find_target("h200");
    const char* problem = "f16.d64.causal/b3.h4.kv2.q100.k70";
    add(problem, "a kernel",
        [](Record& record) { record.config = "wgmma/q64.kv64.sched=dynamic"; });
    open();
    const attune_answer answer = find(problem);
    EXPECT_EQ(answer.workspace_bytes, 4u);
    EXPECT_EQ(launch(answer.kernel, problem, tensors(problem)), ATTUNE_INVALID_ARGUMENT);
    EXPECT_THAT(attune_last_error(context), HasSubstr("workspace is NULL"));
}

TEST_F(LoaderTest, AmdRowsMayLieSoFarApart) {
    target = *find_target("mi300x");
    add(q64, "a kernel", [&](Record& record) {
        record.device.vendor = "amd";
        record.config =
            find_family("mfma")->default_config(record.problem.signature, target).text();
    });
    open();
    attune_kernel* kernel = find(q64).kernel;
    for (attune_tensor_strides attune_tensors::*which :
         {&attune_tensors::q_strides, &attune_tensors::k_strides, &attune_tensors::v_strides}) {
        attune_tensors t = tensors(q64);
        (t.*which).row = 1 << 21;
        EXPECT_EQ(launch(kernel, q64, t), ATTUNE_OK) << attune_last_error(context);
        (t.*which).row += 8;
        EXPECT_EQ(launch(kernel, q64, t), ATTUNE_UNSUPPORTED);
        EXPECT_THAT(attune_last_error(context), HasSubstr("2097160"));
    }
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

}  // namespace
}  // namespace attune
