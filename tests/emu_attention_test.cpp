// Emitted kernels on the emulator, against the fp64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "generator/emit.h"
#include "runtime/emu/emu.h"
#include "runtime/launch_attention.h"
#include "tuner/compiler.h"
#include "tuner/float16.h"
#include "tuner/reference.h"

namespace attune {
namespace {

using Tensor = std::vector<std::uint16_t>;

struct Case {
    const char* problem;
    const char* config;
    unsigned ctas = 0;  // fewer than the family asks for; 0: as many
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.problem << " " << c.config;
}

class EmuAttention : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        auto opened = open_emulator("h200");
        ASSERT_TRUE(opened) << opened.error().text();
        device = std::move(*opened);
        problem = *Problem::parse(GetParam().problem);
        const auto parsed = Config::parse(GetParam().config);
        ASSERT_TRUE(parsed) << parsed.error().text();
        config = *parsed;
        const Constraint* broken =
            broken_constraint(problem.signature, config, device->info().target);
        ASSERT_EQ(broken, nullptr) << broken->name;
    }

    Tensor random_tensor(int heads, int rows, int columns) {
        std::normal_distribution<float> normal;
        Tensor tensor(std::size_t(problem.shape.batch) * heads * rows * columns);
        for (std::uint16_t& x : tensor) x = from_float(normal(engine), problem.signature.dtype);
        return tensor;
    }

    void* upload(const Tensor& data) {
        const DevicePtr ptr = *device->allocate(2 * data.size());
        EXPECT_TRUE(device->copy_to_device(ptr, data.data(), 2 * data.size()));
        return reinterpret_cast<void*>(ptr);
    }

    AttentionParams params_of(const Tensor& q, const Tensor& k, const Tensor& v, DevicePtr o,
                              DevicePtr lse) {
        AttentionParams params{};
        params.q = upload(q);
        params.k = upload(k);
        params.v = upload(v);
        params.o = reinterpret_cast<void*>(o);
        params.lse = reinterpret_cast<float*>(lse);
        describe_problem(params, problem, contiguous_bhsd(problem.signature, problem.shape),
                         default_scale(problem.signature));
        return params;
    }

    Result<void> run(const AttentionParams& params) {
        const Target& target = device->info().target;
        const auto compiler = open_host_compiler();
        if (!compiler) return compiler.error();
        const auto binary =
            (*compiler)->compile(emit({problem.signature, config, target}), target.arch);
        if (!binary) return binary.error();
        Launch launch =
            find_family(config.family)->launch(problem.signature, config, problem.shape, target);
        if (GetParam().ctas > 0) launch.ctas = GetParam().ctas;
        const auto kernel = device->load(binary->bytes, binary->entry, launch.shared_bytes);
        if (!kernel) return kernel.error();
        return launch_attention(*device, *kernel, launch, problem.signature, params);
    }

    std::unique_ptr<EmuDevice> device;
    Problem problem;
    Config config;
    std::mt19937 engine{1};
};

TEST_P(EmuAttention, IsRight) {
    const Shape& s = problem.shape;
    const int d = problem.signature.head_dim, value_dim = problem.signature.value_dim();
    const Tensor q = random_tensor(s.heads_q, s.seqlen_q, d);
    const Tensor k = random_tensor(s.heads_kv, s.seqlen_kv, d);
    const Tensor v = random_tensor(s.heads_kv, s.seqlen_kv, value_dim);
    const std::size_t rows = q.size() / d;
    const DevicePtr o = *device->allocate(2 * rows * value_dim);
    const DevicePtr lse = *device->allocate(4 * rows);
    const Result<void> ran = run(params_of(q, k, v, o, lse));
    ASSERT_TRUE(ran) << ran.error().text();

    Tensor out(rows * value_dim);
    std::vector<float> out_lse(rows);
    ASSERT_TRUE(device->copy_to_host(out.data(), o, 2 * out.size()));
    ASSERT_TRUE(device->copy_to_host(out_lse.data(), lse, 4 * rows));
    const Reference want = compute_reference(problem, default_scale(problem.signature), q, k, v);
    double baseline_error = 0;
    for (std::size_t i = 0; i < out.size(); ++i)
        baseline_error = std::max(baseline_error, std::fabs(want.baseline[i] - want.o[i]));
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(to_float(out[i], problem.signature.dtype), want.o[i], error_bar(baseline_error))
            << "element " << i;
    for (std::size_t row = 0; problem.signature.lse && row < rows; ++row) {
        if (std::isinf(want.lse[row]))
            ASSERT_EQ(out_lse[row], want.lse[row]) << "row " << row;
        else
            ASSERT_NEAR(out_lse[row], want.lse[row],
                        lse_bar(problem.signature.dtype, want.lse[row]))
                << "row " << row;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Mma, EmuAttention,
    testing::Values(Case{"bf16.d64.full.lse/b1.h2.kv2.q80.k80", "mma/q64.kv32.w4"},
                    Case{"bf16.d64.causal.lse/b1.h2.kv2.q80.k80", "mma/q64.kv32.w4"},
                    Case{"f16.d64.causal.lse/b1.h2.kv1.q80.k113", "mma/q64.kv32.w4.s2"},
                    Case{"f16.d64.causal.lse/b1.h2.kv1.q113.k80", "mma/q64.kv32.w4.s3.ring=mbar"},
                    Case{"f16.d64.full.lse/b1.h2.kv1.q80.k80", "mma/q32.kv64.w4.part=kv"},
                    Case{"bf16.d64.full.lse/b1.h2.kv1.q80.k80",
                         "mma/q64.kv32.w4.grid=head.qop=reg"},
                    Case{"f16.d72.causal.lse/b2.h2.kv1.q40.k50", "mma/q64.kv32.w4"}));

INSTANTIATE_TEST_SUITE_P(
    Wgmma, EmuAttention,
    testing::Values(
        Case{"bf16.d64.full.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv64.rescale=each.overlap=no"},
        Case{"bf16.d64.causal.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv64.rescale=each.odd=overlap"},
        Case{"f16.d128.full.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv48.rescale=moved.s3"},
        Case{"f16.d128.causal.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv48.rescale=moved.overlap=no"},
        Case{"bf16.d64.full.lse/b1.h2.kv1.q130.k200", "wgmma/q192.kv48.rescale=stale.pp=yes"},
        Case{"f16.d64.causal.lse/b1.h2.kv1.q130.k200",
             "wgmma/q128.kv48.s3.rescale=stale.pp=yes.sched=persist.sec8", 3},
        Case{"bf16.d64.causal.lse/b1.h3.kv1.q300.k330",
             "wgmma/q128.kv64.s3.qs2.rescale=stale.sched=persist", 2},
        Case{"f16.d80.causal.lse/b2.h2.kv1.q200.k130", "wgmma/q64.kv80.s1.rescale=stale"},
        Case{"bf16.d80v40.causal.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv64.rescale=moved"},
        Case{"f16.d40v136.full.lse/b2.h2.kv2.q100.k90",
             "wgmma/q128.kv48.s3.qs2.rescale=stale.sched=persist", 1},
        Case{"bf16.d72.full.lse/b1.h2.kv1.q130.k200", "wgmma/q128.kv112.rescale=moved.pp=yes"}));

}  // namespace
}  // namespace attune
