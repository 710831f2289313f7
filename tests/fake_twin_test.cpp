// The fake drivers themselves: a code object's launches run its source on the emulator, and what a
// real driver would refuse is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "generator/space.h"
#include "tests/fake_code.h"
#include "tests/fake_fixture.h"
#include "tuner/bench.h"

namespace attune {
namespace {

using testing::HasSubstr;

constexpr const char* small = "bf16.d64.causal.lse/b1.h2.kv1.q40.k56";

/// Checks and times the default config of each family that can run the problem.
void check_and_time(Device& device) {
    FakeCompiler compiler;
    const Problem problem = *Problem::parse(small);
    const Target& target = device.info().target;
    auto bench = Bench::prepare(device, compiler, problem);
    ASSERT_TRUE(bench) << bench.error().text();
    MeasurePolicy policy;
    policy.idle_gap_ms = 0;
    policy.launches_per_burst = 2;
    const auto families = applicable_families(problem.signature, target);
    ASSERT_TRUE(families) << families.error().text();
    for (const Family* family : *families) {
        const Config config = family->default_config(problem.signature, target);
        SCOPED_TRACE(target.arch + " " + config.text());
        const Source source = emit({problem.signature, config, target});
        auto candidate = (*bench)->load(config.text(), *compiler.compile(source, target.arch));
        ASSERT_TRUE(candidate) << candidate.error().text();
        const auto check = (*bench)->check(*candidate);
        ASSERT_TRUE(check) << check.error().text();
        EXPECT_TRUE(check->ok) << check->reason;
        EXPECT_GT(check->max_error, 0) << "somebody computed";
        const auto timing = (*bench)->time(*candidate, policy, 0);
        ASSERT_TRUE(timing) << timing.error().text();
        EXPECT_GT(timing->median_us, 0);
        EXPECT_FALSE(timing->clocks_mhz.empty());
        EXPECT_TRUE((*bench)->unload(*candidate));
    }
}

class CudaTwin : public FakeCuda {};
class HipTwin : public FakeHip {
protected:
    std::unique_ptr<Device> open(const char* gpu) {
        std::strcpy(fake->gpu, gpu);
        auto device = open_hip_device(0);
        EXPECT_TRUE(device) << device.error().text();
        return device ? std::move(*device) : nullptr;
    }
    std::vector<std::byte> code(const char* gpu) {
        const Target target = *find_target(gpu);
        const Signature signature = Problem::parse(small)->signature;
        const auto families = applicable_families(signature, target);
        const Family* family = families->front();
        source = emit({signature, family->default_config(signature, target), target});
        return fake_code_object(source, target);
    }
    Error load_error(Device& device, const std::vector<std::byte>& bytes) {
        const auto kernel = device.load(bytes, "attune_kernel", 0);
        EXPECT_FALSE(kernel);
        return kernel ? Error{} : kernel.error();
    }
    Source source;
};

TEST_F(CudaTwin, kernels_compute_and_take_time) {
    auto device = open_cuda_device(0);
    ASSERT_TRUE(device);
    check_and_time(**device);
    device = Error{};
    EXPECT_EQ(fake->live, 0);
}

TEST_F(HipTwin, kernels_compute_and_take_time) {
    for (const char* gpu : {"mi250x", "mi300x", "mi355x", "rx-7900-xtx", "rx-9070-xt"}) {
        auto device = open(gpu);
        ASSERT_NE(device, nullptr);
        check_and_time(*device);
        device.reset();
        EXPECT_EQ(fake->live, 0);
    }
}

TEST_F(HipTwin, a_code_object_is_for_one_arch_and_says_what_it_is) {
    auto device = open("mi300x");
    Error error = load_error(*device, code("mi355x"));
    EXPECT_EQ(error.code, Code::unsupported);
    EXPECT_THAT(error.message, HasSubstr("hipErrorNoBinaryForGpu (209) on gfx942:sramecc+:xnack-"));

    const std::vector<std::byte> good = code("mi300x");
    std::string text(reinterpret_cast<const char*>(good.data()), good.size());
    const auto changed = [&](const std::string& what, const std::string& by) {
        std::string other = text;
        EXPECT_EQ(what.size(), by.size()) << "an ELF file's headers name places in it";
        other.replace(other.find(what), what.size(), by);
        const auto* first = reinterpret_cast<const std::byte*>(other.data());
        return std::vector<std::byte>(first, first + other.size());
    };
    error = load_error(*device, changed(source.hash, sha256_hex("another template")));
    EXPECT_EQ(error.code, Code::corrupt);
    EXPECT_THAT(fake->fault, HasSubstr("no source of this Attune has the hash"));
    error = load_error(*device, changed("bf16.d64", "bf16.d32"));
    EXPECT_EQ(error.code, Code::corrupt) << "the hash is another signature's";
    error = load_error(*device, changed("attune source", "attune sauce "));
    EXPECT_THAT(fake->fault, HasSubstr("does not say"));
    error = load_error(*device, changed("attune_kernel.kd", "attune_colone.kd"));
    EXPECT_EQ(error.code, Code::not_found);
    EXPECT_THAT(error.message, HasSubstr("hipModuleGetFunction"));
    EXPECT_EQ(load_error(*device, std::vector<std::byte>(64, std::byte{1})).code, Code::corrupt);
}

TEST_F(HipTwin, launches_wait_and_what_goes_wrong_is_what_every_later_call_returns) {
    auto device = open("mi300x");
    auto kernel = device->load(code("mi300x"), "attune_kernel", 0);
    ASSERT_TRUE(kernel) << kernel.error().text();
    const auto event = device->create_event();
    AttentionParams params{};  // no tensors
    params.seqlen_q = params.seqlen_kv = params.heads_q = params.heads_kv = params.batch = 1;
    EXPECT_TRUE(device->launch(*kernel, {1, 256, 65536, 0}, &params, sizeof params));
    EXPECT_TRUE(device->record(*event));
    EXPECT_THAT(device->elapsed_ms(*event, *event).error().message, HasSubstr("hipErrorNotReady"));
    const auto done = device->synchronize();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("hipErrorLaunchFailure"));
    EXPECT_STRNE(fake->fault, "");
    EXPECT_FALSE(device->allocate(16));
    EXPECT_FALSE(device->destroy_event(*event));
    EXPECT_FALSE(device->unload(*kernel));
    device.reset();
    EXPECT_EQ(fake->live, 0) << "given back all the same";
}

}  // namespace
}  // namespace attune
