// The bench on a real GPU: skipped, with the reason, where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include "tuner/bench.h"
#include "tuner/bench_judge.h"
#include "tuner/float16.h"
#include "tuner/peak.h"
#include "tuner/reference.h"

namespace attune {
namespace {

using testing::HasSubstr;

class Gpu : public testing::Test {
protected:
    void SetUp() override {
        auto opened = open_cuda_device(0);
        if (!opened) GTEST_SKIP() << opened.error().text();
        device = *std::move(opened);
        auto nvrtc = open_nvrtc();
        if (!nvrtc) GTEST_SKIP() << nvrtc.error().text();
        compiler = *std::move(nvrtc);
    }
    Binary build(const Problem& problem, const Config& config) {
        const Target& target = device->info().target;
        auto binary = compiler->compile(emit({problem.signature, config, target}), target.arch);
        EXPECT_TRUE(binary) << binary.error().text();
        return *std::move(binary);
    }
    std::unique_ptr<Device> device;
    std::unique_ptr<Compiler> compiler;
};

/// The reference kernel of big problems against fp64, through the errors both see in one output.
TEST_F(Gpu, the_device_judge_agrees_with_the_cpu) {
    for (const char* text :
         {"bf16.d128.causal.lse/b2.h8.kv2.q700.k900", "f16.d72.full.lse/b3.h10.kv5.q300.k513"}) {
        const Problem problem = *Problem::parse(text);
        const Signature& signature = problem.signature;
        const Target& target = device->info().target;
        const Config config = find_family("mma")->default_config(signature, target);
        const Launch launch = find_family("mma")->launch(signature, config, problem.shape, target);
        const BenchCase bench_case = *BenchCase::make(*device, problem, 3, 0);
        const Binary binary = build(problem, config);
        const Kernel kernel = *device->load(binary.bytes, binary.entry, launch.shared_bytes);
        const AttentionParams params = bench_case.params(0);
        ASSERT_TRUE(bench_case.poison(*device));
        ASSERT_TRUE(device->launch(kernel, launch, &params, sizeof params));
        auto judge = Judge::make(*device, *compiler, bench_case, 3);
        ASSERT_TRUE(judge) << judge.error().text();
        const Findings found = *judge->examine(*device, bench_case);
        EXPECT_EQ(judge->fault(found), "") << text;

        const auto inputs = *bench_case.read_inputs(*device);
        const Reference wanted =
            compute_reference(problem, default_scale(signature), inputs.q, inputs.k, inputs.v);
        const auto o =
            *read_back<std::uint16_t>(*device, bench_case.o().ptr(), bench_case.elements());
        double error = 0, baseline_error = 0;
        for (std::size_t i = 0; i < o.size(); ++i) {
            error = std::max(error, std::fabs(to_float(o[i], signature.dtype) - wanted.o[i]));
            baseline_error = std::max(baseline_error, std::fabs(wanted.baseline[i] - wanted.o[i]));
        }
        EXPECT_LE(error, error_bar(baseline_error)) << text;
        EXPECT_LE(found.max_error, error + 2e-6);  // rows sampled, out of all
        EXPECT_GE(found.max_error, error / 3);
        EXPECT_NEAR(judge->error_bar() / error_bar(baseline_error), 1, 0.4);
    }
}

TEST_F(Gpu, wrong_kernels_of_a_big_problem_are_caught) {
    const Problem problem = *Problem::parse("bf16.d64.causal.lse/b1.h16.kv16.q4096.k4096");
    const Config config =
        find_family("mma")->default_config(problem.signature, device->info().target);
    const std::pair<const char*, std::pair<const char*, const char*>> mutants[] = {
        {"over the bar", {"softmax(p_.scale_log2)", "softmax(p_.scale_log2 * 1.05f)"}},
        {"not written", {"row < out.rows", "row < out.rows && row != 5"}},
        {"LSE",
         {"Softmax::lse(softmax.reference[i], sum)",
          "Softmax::lse(softmax.reference[i], sum) + 0.01f"}},
    };
    auto bench = Bench::prepare(*device, *compiler, problem, 3);
    ASSERT_TRUE(bench) << bench.error().text();
    for (const auto& [reason, change] : mutants) {
        std::vector<TemplateFile> templates = embedded_templates();
        int changed = 0;
        for (TemplateFile& file : templates) {
            const std::size_t at = file.text.find(change.first);
            if (at == std::string::npos) continue;
            file.text.replace(at, std::string(change.first).size(), change.second);
            ++changed;
        }
        ASSERT_GT(changed, 0) << change.first;
        auto mutant_compiler = open_nvrtc(templates);
        const Target& target = device->info().target;
        auto binary =
            (*mutant_compiler)
                ->compile(emit({problem.signature, config, target}, templates), target.arch);
        ASSERT_TRUE(binary) << binary.error().text();
        auto candidate = (*bench)->load(config.text(), *binary);
        ASSERT_TRUE(candidate);
        auto result = (*bench)->check(*candidate);
        ASSERT_TRUE(result) << result.error().text();
        EXPECT_FALSE(result->ok);
        EXPECT_THAT(result->reason, HasSubstr(reason));
    }
}

TEST_F(Gpu, times_are_steady_and_carry_a_clock) {
    const Problem problem = *Problem::parse("bf16.d128.full/b2.h16.kv16.q4096.k4096");
    const Config config =
        find_family("mma")->default_config(problem.signature, device->info().target);
    auto bench = Bench::prepare(*device, *compiler, problem, 3);
    ASSERT_TRUE(bench) << bench.error().text();
    auto candidate = (*bench)->load(config.text(), build(problem, config));
    ASSERT_TRUE(candidate);
    const auto start = std::chrono::steady_clock::now();
    auto timing = (*bench)->time(*candidate, MeasurePolicy{}, 0);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(timing) << timing.error().text();
    EXPECT_LT(timing->spread, 0.05);
    EXPECT_LT(spent.count(), 1.5);
    ASSERT_FALSE(timing->clocks_mhz.empty());
    const double boost = device->info().target.boost_clock_mhz;
    for (const double clock : timing->clocks_mhz) {
        EXPECT_GT(clock, 0.3 * boost);
        EXPECT_LT(clock, 1.05 * boost);
    }
    const double tflops = flops(problem) / timing->median_us / 1e6;
    EXPECT_LT(tflops, device->info().target.dense_f16_tflops);
    RecordProperty("tflops", static_cast<int>(tflops));
    auto slow = (*bench)->time(*candidate, MeasurePolicy{}, timing->median_us / 2);
    ASSERT_TRUE(slow);
    EXPECT_TRUE(slow->rejected);
    const std::vector<Candidate> twice{*candidate, *candidate};
    auto both = (*bench)->time_interleaved(twice, MeasurePolicy{});
    ASSERT_TRUE(both) << both.error().text();
    EXPECT_NEAR((*both)[0].median_us / (*both)[1].median_us, 1, 0.02);
}

TEST_F(Gpu, peaks_lie_between_half_and_all_of_the_datasheet) {
    const Target& target = device->info().target;
    for (const char* family : {"mma/", "wgmma/"}) {
        const auto probe = mma_probe(*Config::parse(family), DType::bf16, target);
        if (!probe) {
            std::cout << "skipped: " << probe.error().text() << "\n";
            continue;
        }
        const auto mma = measure_mma(*device, *compiler, *probe);
        ASSERT_TRUE(mma) << mma.error().text();
        std::cout << probe->text.call << ": " << mma->rate << " TFLOP/s at " << mma->clock_mhz
                  << " MHz\n";
        EXPECT_GT(mma->rate, 0.5 * target.dense_f16_tflops);
        EXPECT_LT(mma->rate, 1.05 * target.dense_f16_tflops);
    }
    const auto read = measure_read(*device, *compiler);
    ASSERT_TRUE(read) << read.error().text();
    std::cout << "read " << read->rate << " GB/s at " << read->clock_mhz << " MHz\n";
    EXPECT_GT(read->rate, 0.5 * target.memory_gb_per_s);
    EXPECT_LT(read->rate, 1.05 * target.memory_gb_per_s);
}

}  // namespace
}  // namespace attune
