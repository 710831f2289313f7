// Emitted mma kernels on the emulator, against a double reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "generator/emit.h"
#include "runtime/emu/emu.h"
#include "tuner/compiler.h"

namespace attune {
namespace {

float from_bits(std::uint16_t bits, DType dtype) {
    if (dtype == DType::bf16) return std::bit_cast<float>(std::uint32_t(bits) << 16);
    const int exponent = bits >> 10 & 31;
    const float fraction = static_cast<float>(bits & 0x3ff);
    const float value = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent == 31 ? std::numeric_limits<float>::quiet_NaN()
                                         : std::ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/// Values both types hold: multiples of 1/64 below 4 in magnitude.
std::uint16_t to_bits(float value, DType dtype) {
    if (dtype == DType::bf16) return std::uint16_t(std::bit_cast<std::uint32_t>(value) >> 16);
    if (value == 0) return 0;
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(value), &exponent);
    const int mantissa = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
    return std::uint16_t((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | mantissa);
}

struct Inputs {
    std::vector<std::uint16_t> q, k, v;
};

Inputs random_inputs(const Problem& problem, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    const Shape& s = problem.shape;
    const auto fill = [&](int heads, int rows) {
        std::vector<std::uint16_t> out(std::size_t(s.batch) * heads * rows *
                                       problem.signature.head_dim);
        for (std::uint16_t& x : out)
            x = to_bits(std::round(std::clamp(normal(engine), -3.f, 3.f) * 32) / 32,
                        problem.signature.dtype);
        return out;
    };
    return {fill(s.heads_q, s.seqlen_q), fill(s.heads_kv, s.seqlen_kv),
            fill(s.heads_kv, s.seqlen_kv)};
}

struct Row {
    std::vector<double> o;
    double lse;
};

Row reference_row(const Problem& problem, const Inputs& in, int batch, int head, int query) {
    const Shape& s = problem.shape;
    const int d = problem.signature.head_dim;
    const int kv_head = head / (s.heads_q / s.heads_kv);
    const DType dtype = problem.signature.dtype;
    const auto at = [&](const std::vector<std::uint16_t>& x, int heads, int rows, int h, int row,
                        int column) {
        return double(
            from_bits(x[((std::size_t(batch) * heads + h) * rows + row) * d + column], dtype));
    };
    int end = s.seqlen_kv;
    if (problem.signature.mask == Mask::causal)
        end = std::min(end, query + s.seqlen_kv - s.seqlen_q + 1);
    Row row{std::vector<double>(d, 0.0), -std::numeric_limits<double>::infinity()};
    if (end <= 0) return row;
    std::vector<double> scores(end);
    double top = -std::numeric_limits<double>::infinity();
    for (int j = 0; j < end; ++j) {
        for (int c = 0; c < d; ++c)
            scores[j] += at(in.q, s.heads_q, s.seqlen_q, head, query, c) *
                         at(in.k, s.heads_kv, s.seqlen_kv, kv_head, j, c);
        scores[j] /= std::sqrt(double(d));
        top = std::max(top, scores[j]);
    }
    double sum = 0;
    for (double& x : scores) sum += x = std::exp(x - top);
    for (int j = 0; j < end; ++j)
        for (int c = 0; c < d; ++c)
            row.o[c] += scores[j] / sum * at(in.v, s.heads_kv, s.seqlen_kv, kv_head, j, c);
    row.lse = top + std::log(sum);
    return row;
}

struct Case {
    const char* problem;
    const char* config;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.problem << " " << c.config;
}

class EmuAttention : public testing::TestWithParam<Case> {};

DevicePtr upload(Device& device, const std::vector<std::uint16_t>& data) {
    const DevicePtr ptr = *device.allocate(2 * data.size());
    EXPECT_TRUE(device.copy_to_device(ptr, data.data(), 2 * data.size()));
    return ptr;
}

TEST_P(EmuAttention, IsRight) {
    const Problem problem = *Problem::parse(GetParam().problem);
    const auto config = Config::parse(GetParam().config);
    ASSERT_TRUE(config) << config.error().text();
    auto device = open_emulator("h200");
    ASSERT_TRUE(device) << device.error().text();
    const Target& target = (*device)->info().target;
    const Constraint* broken = broken_constraint(problem.signature, *config, target);
    ASSERT_EQ(broken, nullptr) << broken->name;
    auto compiler = open_host_compiler();
    ASSERT_TRUE(compiler) << compiler.error().text();
    const auto binary =
        (*compiler)->compile(emit({problem.signature, *config, target}), target.arch);
    ASSERT_TRUE(binary) << binary.error().text();
    const Launch launch =
        find_family("mma")->launch(problem.signature, *config, problem.shape, target);
    const auto kernel = (*device)->load(binary->bytes, binary->entry, launch.shared_bytes);
    ASSERT_TRUE(kernel) << kernel.error().text();

    const Inputs in = random_inputs(problem, 1);
    const Shape& s = problem.shape;
    const std::size_t rows = std::size_t(s.batch) * s.heads_q * s.seqlen_q;
    const int d = problem.signature.head_dim;
    AttentionParams params{};
    params.q = reinterpret_cast<void*>(upload(**device, in.q));
    params.k = reinterpret_cast<void*>(upload(**device, in.k));
    params.v = reinterpret_cast<void*>(upload(**device, in.v));
    const DevicePtr o = *(*device)->allocate(2 * rows * d), lse = *(*device)->allocate(4 * rows);
    params.o = reinterpret_cast<void*>(o);
    params.lse = reinterpret_cast<float*>(lse);
    const Strides strides = contiguous_bhsd(problem.signature, s);
    params.q_strides = strides.q;
    params.k_strides = strides.k;
    params.v_strides = strides.v;
    params.o_strides = strides.o;
    params.batch = s.batch;
    params.heads_q = s.heads_q;
    params.heads_kv = s.heads_kv;
    params.seqlen_q = s.seqlen_q;
    params.seqlen_kv = s.seqlen_kv;
    params.scale_log2 = float(default_scale(problem.signature) * 1.4426950408889634);
    const auto ran = (*device)->launch(*kernel, launch, &params, sizeof params);
    ASSERT_TRUE(ran) << ran.error().text();

    std::vector<std::uint16_t> out(rows * d);
    std::vector<float> out_lse(rows);
    ASSERT_TRUE((*device)->copy_to_host(out.data(), o, 2 * out.size()));
    ASSERT_TRUE((*device)->copy_to_host(out_lse.data(), lse, 4 * rows));
    const double bar = problem.signature.dtype == DType::bf16 ? 2e-2 : 4e-3;
    for (std::size_t row = 0; row < rows; ++row) {
        const int query = row % s.seqlen_q, head = row / s.seqlen_q % s.heads_q;
        const Row want = reference_row(problem, in, row / s.seqlen_q / s.heads_q, head, query);
        for (int c = 0; c < d; ++c)
            ASSERT_NEAR(from_bits(out[row * d + c], problem.signature.dtype), want.o[c], bar)
                << "head " << head << " row " << query << " column " << c;
        if (!problem.signature.lse) continue;
        if (std::isinf(want.lse))
            ASSERT_EQ(out_lse[row], want.lse);
        else
            ASSERT_NEAR(out_lse[row], want.lse, 1e-3) << "head " << head << " row " << query;
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

}  // namespace
}  // namespace attune
