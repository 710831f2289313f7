// What attention must do whatever the numbers: properties, which random data and a reference may
// hide. For every softmax policy, full and causal.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/attention_case.h"
#include "tuner/float16.h"

namespace attune {
namespace {

struct PropertyCase {
    std::string signature;
    std::string config;
};
void PrintTo(const PropertyCase& property_case, std::ostream* out) {
    *out << property_case.signature << " " << property_case.config;
}

std::vector<PropertyCase> property_cases() {
    std::vector<PropertyCase> cases;
    for (const char* dtype : {"f16", "bf16", "e4m3"})
        for (const std::string& config : policy_configs(*parse_dtype(dtype), test_bed().target()))
            for (const char* mask : {"full", "causal"})
                cases.push_back({std::string(dtype) + ".d64." + mask + ".lse", config});
    return cases;
}

class Property : public testing::TestWithParam<PropertyCase> {
protected:
    Signature signature = *Signature::parse(GetParam().signature);
    Config config = *Config::parse(GetParam().config);
    bool causal = signature.mask == Mask::causal;

    std::uint16_t bits(float value) const { return from_float(value, signature.dtype); }
    float value(std::uint16_t bits) const { return to_float(bits, output_of(signature.dtype)); }

    Outcome run(const Problem& problem, const HostTensors& tensors) {
        auto outcome = test_bed().run(problem, config, tensors);
        EXPECT_TRUE(outcome) << problem.text() << ": " << outcome.error().text();
        const Shape& s = problem.shape;
        const std::size_t rows = std::size_t(s.batch) * s.heads_q * s.seqlen_q;
        if (outcome) return *std::move(outcome);
        return {std::vector<std::uint16_t>(rows * signature.head_dim, 0x7fff),
                std::vector<float>(rows, NAN)};
    }
    int key_end(const Shape& s, int query) const {
        return causal ? std::clamp(query + 1 + s.seqlen_kv - s.seqlen_q, 0, s.seqlen_kv)
                      : s.seqlen_kv;
    }
    void expect_near(const Outcome& a, const Outcome& b, double bar) const {
        ASSERT_EQ(a.o.size(), b.o.size());
        for (std::size_t i = 0; i < a.o.size(); ++i)
            ASSERT_NEAR(value(a.o[i]), value(b.o[i]), bar) << "element " << i;
        for (std::size_t i = 0; i < a.lse.size(); ++i)
            ASSERT_TRUE(a.lse[i] == b.lse[i] || std::fabs(a.lse[i] - b.lse[i]) < 2e-3)
                << "row " << i << ": " << a.lse[i] << " and " << b.lse[i];
    }
};

TEST_P(Property, ConstantVComesOut) {
    const Problem problem{signature, {1, 2, 1, 90, 150}};
    HostTensors tensors = normal_tensors(problem, 11);
    std::fill(tensors.v.begin(), tensors.v.end(), bits(0.75f));
    const Outcome got = run(problem, tensors);
    // P is rounded, its sum is not; then O is rounded.
    for (std::uint16_t o : got.o)
        ASSERT_NEAR(value(o), 0.75, 0.75 * 2.2 * unit_roundoff(signature.dtype));
}

/// Many additions of one sign: what an MMA cuts off its sums adds up, what is rounded of P does
/// not.
TEST_P(Property, ConstantVComesOutOfLongRows) {
    if (test_bed().emulated() && signature.dtype != DType::e4m3)
        GTEST_SKIP() << "skipped: the emulator adds products of 16 bits exactly";
    const Problem problem{signature, {1, 1, 1, 64, 8192}};
    if (const char* unfit = why_unfit(config, problem)) GTEST_SKIP() << "skipped: " << unfit;
    HostTensors tensors = normal_tensors(problem, 18);
    std::fill(tensors.v.begin(), tensors.v.end(), bits(0.75f));
    for (std::uint16_t o : run(problem, tensors).o) ASSERT_NEAR(value(o), 0.75, 0.75 * 0.006);
}

/// Equal scores, and in batch b only row j of V in 64 b .. 64 b + 63 marked, in column j - 64 b: O
/// shows one by one which keys a row attended.
TEST_P(Property, OneHotVShowsTheMask) {
    constexpr int keys = 1003, queries = 70, d = 64;
    const Problem problem{signature, {(keys + d - 1) / d, 1, 1, queries, keys}};
    HostTensors tensors = normal_tensors(problem, 12);
    std::fill(tensors.q.begin(), tensors.q.end(), std::uint16_t{0});
    std::fill(tensors.v.begin(), tensors.v.end(), std::uint16_t{0});
    for (int j = 0; j < keys; ++j) tensors.v[(std::size_t(j / d) * keys + j) * d + j % d] = bits(1);
    const Outcome got = run(problem, tensors);
    for (int query = 0; query < queries; ++query) {
        const int end = key_end(problem.shape, query);
        for (int j = 0; j < problem.shape.batch * d; ++j) {
            const float o = value(got.o[(std::size_t(j / d) * queries + query) * d + j % d]);
            const double want = j < end ? 1.0 / end : 0.0;
            ASSERT_NEAR(o, want, 2 * want * unit_roundoff(signature.dtype))
                << "query " << query << ", key " << j;
        }
    }
}

TEST_P(Property, PermutedKeysGiveTheSame) {
    if (causal) GTEST_SKIP() << "a causal mask knows the keys' order";
    const Problem problem{signature, {1, 2, 2, 70, 203}};
    const HostTensors tensors = normal_tensors(problem, 13);
    HostTensors permuted = tensors;
    const int d = signature.head_dim, keys = problem.shape.seqlen_kv;
    for (int row = 0; row < 2 * keys; ++row) {
        const int from =
            row / keys * keys + (row % keys * 64 + 5) % keys;  // 64 and 203 are coprime
        std::copy_n(&tensors.k[std::size_t(from) * d], d, &permuted.k[std::size_t(row) * d]);
        std::copy_n(&tensors.v[std::size_t(from) * d], d, &permuted.v[std::size_t(row) * d]);
    }
    const double bar = bar_of(reference_of(problem, tensors));
    expect_near(run(problem, tensors), run(problem, permuted), 2 * bar);
}

TEST_P(Property, CausalRowIsFullAttentionOnItsKeys) {
    if (!causal) GTEST_SKIP() << "is about causal masks";
    const Problem problem{signature, {1, 1, 1, 120, 170}};
    const HostTensors tensors = normal_tensors(problem, 14);
    const Outcome got = run(problem, tensors);
    const int d = signature.head_dim;
    for (int query : {0, 1, 13, 14, 63, 64, 119}) {
        Problem one{signature, {1, 1, 1, 1, key_end(problem.shape, query)}};
        one.signature.mask = Mask::full;
        const auto row = [&](const auto& values, std::size_t first, std::size_t count) {
            return std::decay_t<decltype(values)>(values.begin() + first,
                                                  values.begin() + first + count);
        };
        const std::size_t keys = one.shape.seqlen_kv;
        const HostTensors cut{row(tensors.q, query * d, d), row(tensors.k, 0, keys * d),
                              row(tensors.v, 0, keys * d)};
        const double bar = bar_of(reference_of(one, cut));
        SCOPED_TRACE(query);
        expect_near({row(got.o, query * d, d), {got.lse[query]}}, run(one, cut), 2 * bar);
    }
}

/// A constant added to all scores of a row, by a column of ones in Q and a constant in K, leaves O
/// and moves the LSE.
TEST_P(Property, ShiftedScoresLeaveO) {
    const Problem problem{signature, {1, 2, 1, 70, 150}};
    HostTensors tensors = normal_tensors(problem, 15);
    const auto set_column = [&](std::vector<std::uint16_t>& values, float x) {
        for (std::size_t i = 0; i < values.size(); i += signature.head_dim) values[i] = bits(x);
    };
    set_column(tensors.q, 1);
    set_column(tensors.k, 0);
    // Scores in e4m3 are sums that keep 14 bits: small shifts, or they show in the LSE.
    const float unit = signature.dtype == DType::e4m3 ? 12 : 96;
    const Outcome base = run(problem, tensors);
    const double bar = bar_of(reference_of(problem, tensors));
    for (float shift : {unit, -4 * unit}) {
        set_column(tensors.k, shift);
        Outcome moved = run(problem, tensors);
        for (float& lse : moved.lse)
            if (!std::isinf(lse)) lse -= shift / 8;
        SCOPED_TRACE(shift);
        expect_near(base, moved, 2 * bar);
    }
}

/// Twice V is exactly twice O; the O of a sum is the sum of the Os.
TEST_P(Property, LinearInV) {
    const Problem problem{signature, {1, 2, 1, 70, 150}};
    HostTensors a = normal_tensors(problem, 16), b = a, sum = a, twice = a;
    std::mt19937 engine(17);
    const int most = signature.dtype == DType::e4m3 ? 4 : 32;
    std::uniform_int_distribution<int> steps(-most, most);
    for (std::size_t i = 0; i < a.v.size(); ++i) {
        const float x = float(steps(engine)) / most, y = float(steps(engine)) / most;  // exact sums
        a.v[i] = bits(x);
        b.v[i] = bits(y);
        sum.v[i] = bits(x + y);
        twice.v[i] = bits(2 * x);
    }
    const Outcome got_a = run(problem, a), got_b = run(problem, b), got_sum = run(problem, sum),
                  got_twice = run(problem, twice);
    const double bar = 2 * bar_of(reference_of(problem, sum));
    for (std::size_t i = 0; i < got_a.o.size(); ++i) {
        const float x = value(got_a.o[i]);
        if (std::fabs(x) > 1e-4f) {  // f16's subnormals lose bits
            ASSERT_EQ(value(got_twice.o[i]), 2 * x) << i;
        }
        ASSERT_NEAR(value(got_sum.o[i]), x + value(got_b.o[i]), bar) << i;
    }
}

/// Neither reads nor writes of shared memory wait for a bank, by the emulator's count.
TEST_P(Property, MeetsNoBankConflicts) {
    if (!test_bed().emulated()) GTEST_SKIP() << "skipped: only the emulator counts them";
    if (GetParam().config.find("part=kv") != std::string::npos)
        GTEST_SKIP() << "skipped: warps that share rows merge their O through plain rows";
    for (const int head_dim : {32, 64, 128, 256}) {
        const Problem problem{{signature.dtype, head_dim, signature.mask, true},
                              {1, 1, 1, 90, 250}};
        if (broken_constraint(problem.signature, config, test_bed().target())) continue;
        (void)run(problem, normal_tensors(problem, 3));
        EXPECT_EQ(test_bed().emulator()->last_counts().bank_conflicts, 0u) << head_dim;
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, Property, testing::ValuesIn(property_cases()));

}  // namespace
}  // namespace attune
