// Statistics, 16-bit floats and the CPU reference: numbers in, numbers out.
#include "tuner/measure.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tuner/bench.h"
#include "tuner/float16.h"
#include "tuner/reference.h"

namespace attune {
namespace {

TEST(Statistics, median_and_spread) {
    EXPECT_EQ(median({}), 0);
    EXPECT_EQ(median({3}), 3);
    EXPECT_EQ(median({9, 1, 5}), 5);
    EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
    EXPECT_EQ(relative_spread({7}), 0);
    EXPECT_EQ(relative_spread({5, 5, 5}), 0);
    EXPECT_DOUBLE_EQ(relative_spread({1, 2, 3, 4, 5}), 2.0 / 3);
    EXPECT_LT(relative_spread({10, 10, 10, 10, 10, 10, 10, 1000}), 0.01);  // one outlier
}

TEST(SlowBlock, is_the_one_whose_clock_fell) {
    EXPECT_EQ(slow_block({1800, 1700, 1800}), 1u);
    EXPECT_EQ(slow_block({1800, 1750, 1800}), std::nullopt);  // inside 3 %
    EXPECT_EQ(slow_block({1500, 1500}), std::nullopt);        // all slow: the kernel's own clock
    EXPECT_EQ(slow_block({1500}), std::nullopt);
    EXPECT_EQ(slow_block({}), std::nullopt);
    EXPECT_EQ(slow_block({0, 1800}), std::nullopt);  // no clock to compare
}

TEST(MeasurePolicy, id_tells_policies_apart) {
    MeasurePolicy other;
    EXPECT_EQ(other.id(), MeasurePolicy{}.id());
    for (auto change : {+[](MeasurePolicy& p) { p.launches_per_burst = 9; },
                        +[](MeasurePolicy& p) { p.max_bursts = 99; },
                        +[](MeasurePolicy& p) { p.idle_gap_ms = 0; },
                        +[](MeasurePolicy& p) { p.cold_l2_factor = 0; }}) {
        MeasurePolicy changed;
        change(changed);
        EXPECT_NE(changed.id(), MeasurePolicy{}.id());
    }
}

TEST(Float16, every_value_survives_the_round_trip) {
    for (const DType dtype : {DType::f16, DType::bf16})
        for (unsigned bits = 0; bits < 0x10000; ++bits) {
            const float value = to_float(static_cast<std::uint16_t>(bits), dtype);
            const bool nan = (bits & 0x7fff) > infinity_bits(dtype);
            ASSERT_EQ(std::isnan(value), nan) << bits;
            if (!nan) {
                ASSERT_EQ(from_float(value, dtype), bits) << name_of(dtype);
            }
        }
}

TEST(Float16, rounds_to_nearest_even) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
        std::mt19937 engine(1);
        for (int i = 0; i < 20000; ++i) {
            const auto low = static_cast<std::uint16_t>(engine() % infinity_bits(dtype));
            const auto high = static_cast<std::uint16_t>(low + 1);
            if (high == infinity_bits(dtype)) continue;
            const float a = to_float(low, dtype), b = to_float(high, dtype);
            const float middle = a + (b - a) / 2;  // exact in fp32
            EXPECT_EQ(from_float(middle, dtype), low % 2 == 0 ? low : high);
            EXPECT_EQ(from_float(std::nextafter(middle, a), dtype), low);
            EXPECT_EQ(from_float(std::nextafter(middle, b), dtype), high);
        }
    }
    EXPECT_EQ(from_float(65519.0f, DType::f16), 0x7bff);
    EXPECT_EQ(from_float(65520.0f, DType::f16), 0x7c00);
    EXPECT_EQ(from_float(-0.0f, DType::f16), 0x8000);
}

TEST(E4m3, every_code_survives_and_middles_round_to_even) {
    for (unsigned bits = 0; bits < 256; ++bits) {
        const float value = to_float(std::uint16_t(bits), DType::e4m3);
        ASSERT_EQ(std::isnan(value), (bits & 0x7f) == 0x7f) << bits;
        if (std::isnan(value)) continue;
        ASSERT_EQ(from_float(value, DType::e4m3), bits);
        if ((bits & 0x7f) == 0x7e) continue;
        const float next = to_float(std::uint16_t(bits + 1), DType::e4m3);
        const float middle = (value + next) / 2;
        EXPECT_EQ(from_float(middle, DType::e4m3), bits % 2 == 0 ? bits : bits + 1);
        EXPECT_EQ(from_float(std::nextafter(middle, value), DType::e4m3), bits);
        EXPECT_EQ(from_float(std::nextafter(middle, next), DType::e4m3), bits + 1);
    }
    EXPECT_EQ(to_float(0x01, DType::e4m3), 0x1p-9f);
    EXPECT_EQ(to_float(0x08, DType::e4m3), 0x1p-6f);
    EXPECT_EQ(to_float(0xb8, DType::e4m3), -1.0f);
    EXPECT_EQ(to_float(0x7e, DType::e4m3), 448.0f);
    for (const float large : {448.0f, 464.0f, 1e9f, INFINITY}) {
        EXPECT_EQ(from_float(large, DType::e4m3), 0x7e);
        EXPECT_EQ(from_float(-large, DType::e4m3), 0xfe);
    }
    EXPECT_EQ(from_float(NAN, DType::e4m3), 0x7f);
}

/// P of a hundredth of the maximum keeps its bits; heads are scaled.
TEST(E4m3, baseline_rounds_256_times_p_and_scales_apply) {
    const Problem p = *Problem::parse("e4m3.d16.full/b1.h2.kv1.q1.k2");
    const auto code = [](float x) { return from_float(x, DType::e4m3); };
    std::vector<std::uint16_t> q(32), k(32), v(32);
    q[0] = q[16] = code(1);
    k[0] = code(8);
    v[0] = code(0);
    v[16] = code(448);
    const Reference r = compute_reference(p, 1, q, k, v, {{0.5f, 1}, {2}, {0.25f}});
    const double weights[] = {std::exp(-8.0), std::exp(-16.0)};  // of key 1, in heads 0 and 1
    for (int head = 0; head < 2; ++head) {
        const double share = weights[head] / (1 + weights[head]);
        EXPECT_NEAR(r.o[16 * head], 112 * share, 1e-12);
        EXPECT_NEAR(r.lse[head], (head == 0 ? 8 : 16) + std::log1p(weights[head]), 1e-12);
    }
    EXPECT_NEAR(r.baseline[0] / r.o[0], 1, 0.04) << "256 exp(-8) is in e4m3's range";
    EXPECT_EQ(r.baseline[16], 0) << "256 exp(-16) is not";
}

std::vector<std::uint16_t> normals(std::size_t count, unsigned seed, DType dtype) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> out(count);
    for (auto& value : out) value = from_float(normal(engine), dtype);
    return out;
}

/// Row by row as the formula says, without any of the reference's arrangements.
double naive(const Problem& p, float scale, const std::vector<std::uint16_t>& q,
             const std::vector<std::uint16_t>& k, const std::vector<std::uint16_t>& v, int head,
             int query, int column, double& lse) {
    const Shape& s = p.shape;
    const int d = p.signature.head_dim, kv = head / (s.heads_q / s.heads_kv);
    const DType dtype = p.signature.dtype;
    double sum = 0, weighted = 0;
    for (int j = 0; j < s.seqlen_kv; ++j) {
        if (p.signature.mask == Mask::causal && j > query + s.seqlen_kv - s.seqlen_q) break;
        double dot = 0;
        for (int c = 0; c < d; ++c)
            dot += double{to_float(q[(head * s.seqlen_q + query) * d + c], dtype)} *
                   to_float(k[(kv * s.seqlen_kv + j) * d + c], dtype);
        const double e = std::exp(dot * scale);
        sum += e;
        weighted += e * to_float(v[(kv * s.seqlen_kv + j) * d + column], dtype);
    }
    lse = std::log(sum);
    return sum > 0 ? weighted / sum : 0;
}

TEST(Reference, agrees_with_the_formula) {
    for (const char* text : {"bf16.d16.full/b1.h4.kv2.q5.k9", "f16.d8.causal/b1.h3.kv1.q7.k4",
                             "f16.d24.causal/b1.h2.kv2.q3.k8"}) {
        const Problem p = *Problem::parse(text);
        const Shape& s = p.shape;
        const int d = p.signature.head_dim;
        const auto q = normals(s.heads_q * s.seqlen_q * d, 1, p.signature.dtype);
        const auto k = normals(s.heads_kv * s.seqlen_kv * d, 2, p.signature.dtype);
        const auto v = normals(s.heads_kv * s.seqlen_kv * d, 3, p.signature.dtype);
        std::vector<double> o, lse;
        reference_attention(p, 0.3f, q, k, v, o, lse);
        for (int row = 0; row < s.heads_q * s.seqlen_q; ++row)
            for (int c = 0; c < d; ++c) {
                double wanted_lse = 0;
                const double wanted =
                    naive(p, 0.3f, q, k, v, row / s.seqlen_q, row % s.seqlen_q, c, wanted_lse);
                ASSERT_NEAR(o[row * d + c], wanted, 1e-12) << text << " row " << row;
                if (std::isinf(wanted_lse))
                    ASSERT_EQ(lse[row], wanted_lse);
                else
                    ASSERT_NEAR(lse[row], wanted_lse, 1e-12);
            }
    }
}

TEST(Reference, no_keys_give_zero_and_minus_infinity) {
    const Problem p = *Problem::parse("bf16.d8.full/b1.h1.kv1.q2.k0");
    const auto q = normals(16, 1, DType::bf16);
    std::vector<double> o, lse;
    reference_attention(p, 1, q, {}, {}, o, lse);
    EXPECT_EQ(o, std::vector<double>(16));
    EXPECT_EQ(lse, std::vector<double>(2, -std::numeric_limits<double>::infinity()));
}

TEST(Reference, the_baselines_error_is_that_of_the_element_type) {
    Problem p = *Problem::parse("bf16.d64.full/b1.h1.kv1.q64.k256");
    double errors[2] = {};
    for (const DType dtype : {DType::f16, DType::bf16}) {
        p.signature.dtype = dtype;
        const Reference r =
            compute_reference(p, 0.125f, normals(64 * 64, 1, dtype), normals(256 * 64, 2, dtype),
                              normals(256 * 64, 3, dtype));
        for (std::size_t i = 0; i < r.o.size(); ++i)
            errors[dtype == DType::bf16] =
                std::max(errors[dtype == DType::bf16], std::fabs(r.o[i] - r.baseline[i]));
    }
    EXPECT_GT(errors[0], 1e-6);
    EXPECT_GT(errors[1], 3 * errors[0]);  // 8 bits against 11
    EXPECT_LT(errors[1], 0.01);
    EXPECT_DOUBLE_EQ(error_bar(errors[1]), 2 * errors[1] + 1e-5);
}

}  // namespace
}  // namespace attune
