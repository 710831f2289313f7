// Inputs that have broken attention kernels elsewhere, tried on every softmax policy, against fp64.
// Bar: the baseline's own error twice, plus one more rounding of P and of O (a policy's reference
// need not be the row's maximum, so that even the largest P is rounded), times the largest |V|.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/attention_case.h"
#include "tuner/float16.h"

namespace attune {
namespace {

struct AttackCase {
    std::string signature;
    std::string config;
};
void PrintTo(const AttackCase& attack_case, std::ostream* out) {
    *out << attack_case.signature << " " << attack_case.config;
}

std::vector<AttackCase> attack_cases() {
    std::vector<AttackCase> cases;
    for (const char* dtype : {"f16", "bf16", "e4m3"})
        for (const std::string& config : policy_configs(*parse_dtype(dtype), test_bed().target()))
            for (const char* mask : {"full", "causal"})
                cases.push_back({std::string(dtype) + ".d64." + mask + ".lse", config});
    return cases;
}

/// Row r of the contiguous values of `rows` rows a head becomes value(r, column, what it is).
template <class Value>
void rewrite(std::vector<std::uint16_t>& values, const Signature& signature, int rows,
             Value value) {
    const int d = signature.head_dim;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float before = to_float(values[i], signature.dtype);
        values[i] = from_float(value(int(i / d) % rows, int(i % d), before), signature.dtype);
    }
}

float linspace(float first, float last, int i, int count) {
    return first + (last - first) * static_cast<float>(i) / static_cast<float>(count - 1);
}

class Attack : public testing::TestWithParam<AttackCase> {
protected:
    Signature signature = *Signature::parse(GetParam().signature);
    Config config = *Config::parse(GetParam().config);
    Problem problem{signature, {1, 2, 1, 150, 203}};
    HostTensors tensors = normal_tensors(problem, 21);

    int keys() const { return problem.shape.seqlen_kv; }
    int queries() const { return problem.shape.seqlen_q; }
    bool causal() const { return signature.mask == Mask::causal; }
    int key_end(int query) const {
        return causal() ? std::clamp(query + 1 + keys() - queries(), 0, keys()) : keys();
    }
    template <class Value>
    void rewrite_q(Value value) {
        rewrite(tensors.q, signature, queries(), value);
    }
    template <class Value>
    void rewrite_k(Value value) {
        rewrite(tensors.k, signature, keys(), value);
    }
    template <class Value>
    void rewrite_v(Value value) {
        rewrite(tensors.v, signature, keys(), value);
    }
    /// Every logit of key j becomes `logit(j)`, exactly: 8 q k / 8 in column 0, nothing elsewhere.
    /// In e4m3 k is rounded, and at most 448.
    template <class Logit>
    void set_logits(float q, Logit logit) {
        rewrite_q([&](int, int column, float) { return column == 0 ? q : 0.0f; });
        rewrite_k([&](int j, int column, float) { return column == 0 ? logit(j) / q * 8 : 0.0f; });
    }

    double bar(const Reference& reference) const {
        float top = 0;
        for (std::uint16_t bits : tensors.v) {
            const float size = std::fabs(to_float(bits, signature.dtype));
            if (size > top) top = size;
        }
        return bar_of(reference) + 2 * unit_roundoff(signature.dtype) * top;
    }
    void expect_right() {
        const auto got = test_bed().run(problem, config, tensors);
        ASSERT_TRUE(got) << got.error().text();
        const Reference reference = reference_of(problem, tensors);
        EXPECT_EQ(difference(problem, reference, *got, bar(reference)), "");
    }
    /// As if the NaN was not there, except on rows for which may(head, query) holds.
    template <class May>
    void expect_nan_only(std::vector<std::uint16_t>& where, std::size_t element, May may) {
        const Reference reference = reference_of(problem, tensors);
        const double limit = bar(reference);
        where[element] = nan_bits(signature.dtype);
        const auto got = test_bed().run(problem, config, tensors);
        ASSERT_TRUE(got) << got.error().text();
        std::vector<bool> skip(reference.lse.size());
        for (std::size_t row = 0; row < skip.size(); ++row)
            skip[row] = may(int(row) / queries(), int(row) % queries());
        EXPECT_EQ(difference(problem, reference, *got, limit, skip), "");
    }
    bool walks_forward() const {
        return find_family(config.family)->axis("dir") && config["dir"] == 1;
    }
    /// Whether the q-tile of a row loads the kv tile of a key.
    bool loads(int query, int key) const {
        const int last = std::min((query / config["q"] + 1) * config["q"], queries()) - 1;
        return key / config["kv"] * config["kv"] < key_end(last);
    }
};

/// The reference of a policy that does not take maxima is overrun, tile after tile.
TEST_P(Attack, ScoresGrowAlongTheWalk) {
    const bool forward = walks_forward();
    rewrite_q([&](int i, int, float x) { return x * linspace(0.5f, 12, i, queries()); });
    rewrite_k([&](int j, int, float x) {
        return x * (forward ? linspace(0.5f, 6, j, keys()) : linspace(6, 0.5f, j, keys()));
    });
    expect_right();
}

TEST_P(Attack, ScoresRiseSteadilyAlongTheWalk) {
    const bool forward = walks_forward();
    for (float slope : {0.25f, 2.0f, 16.0f}) {
        SCOPED_TRACE(slope);
        set_logits(8,
                   [&](int j) { return std::round(slope * float(forward ? j : 202 - j) / 8) * 8; });
        expect_right();
    }
}

TEST_P(Attack, OneHugeLogit) {
    for (int where : {0, 1, 97, 130, 201, 202}) {
        SCOPED_TRACE(where);
        for (float logit : {20.0f, 88.0f, 320.0f, 20000.0f}) {
            set_logits(16, [&](int j) { return j == where ? logit : 0.0f; });
            expect_right();
        }
    }
}

TEST_P(Attack, LogitsOfSixtyThousand) {
    set_logits(800, [](int j) { return j % 3 == 1 ? 6e4f : -6e4f; });
    expect_right();
}

/// The padded tail of the last tile must weigh less than logits however low.
TEST_P(Attack, AllLogitsVeryLow) {
    set_logits(800, [](int) { return -6e4f; });
    expect_right();
}

TEST_P(Attack, AllScoresEqual) {
    set_logits(8, [](int) { return 0.0f; });
    expect_right();
}

TEST_P(Attack, LowRowsBesideHighRows) {
    rewrite_q([](int i, int column, float) {
        return column > 0 ? 0.0f : i % 2 ? 800.0f : -800.0f;
    });
    rewrite_k([](int j, int column, float) { return column > 0 ? 0.0f : j % 5 ? 600.0f : 599.0f; });
    expect_right();
}

/// Causal with more queries than keys: rows that attend nothing, tiles that no row of a warp needs.
TEST_P(Attack, FullyMaskedRowsAndTiles) {
    for (const Shape& shape :
         {Shape{1, 2, 1, 203, 70}, Shape{1, 1, 1, 150, 1}, Shape{2, 2, 2, 65, 64}}) {
        SCOPED_TRACE(shape.text());
        problem.shape = shape;
        tensors = normal_tensors(problem, 22);
        rewrite_q([](int, int, float x) { return 8 * x; });
        expect_right();
    }
}

/// Values near the end of the type's range (e4m3: at it): sums of P V must not pass it.
TEST_P(Attack, LargeV) {
    rewrite_v([](int j, int, float) { return j % 2 ? 6e4f : 5.6e4f; });
    expect_right();
}

TEST_P(Attack, NanInQStaysInItsRow) {
    constexpr int bad = 77;
    expect_nan_only(tensors.q, bad * 64 + 5,
                    [](int head, int query) { return head == 0 && query == bad; });
    const auto got = test_bed().run(problem, config, tensors);
    ASSERT_TRUE(got) << got.error().text();
    for (int c = 0; c < 64; ++c)
        EXPECT_TRUE(std::isnan(to_float(got->o[bad * 64 + c], output_of(signature.dtype)))) << c;
}

TEST_P(Attack, NanInKReachesOnlyRowsThatLoadIt) {
    problem.shape = {1, 2, 2, 150, 203};
    tensors = normal_tensors(problem, 23);
    constexpr int bad = 190;
    expect_nan_only(tensors.k, bad * 64 + 3,
                    [&](int head, int query) { return head == 0 && loads(query, bad); });
}

TEST_P(Attack, NanInVReachesOnlyRowsThatLoadIt) {
    problem.shape = {1, 2, 2, 150, 203};
    tensors = normal_tensors(problem, 24);
    constexpr int bad = 190;
    expect_nan_only(tensors.v, bad * 64 + 3,
                    [&](int head, int query) { return head == 0 && loads(query, bad); });
}

INSTANTIATE_TEST_SUITE_P(Policies, Attack, testing::ValuesIn(attack_cases()));

}  // namespace
}  // namespace attune
