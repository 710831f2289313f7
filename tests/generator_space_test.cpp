#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "generator/families/mma.h"
#include "generator/presets.h"
#include "generator/space.h"

namespace attune {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Pair = std::array<int, 4>;

const Family& mma_family() {
    return *find_family("mma");
}
Signature signature(const char* text) {
    return *Signature::parse(text);
}
Target gpu(const char* id) {
    return *find_target(id);
}

std::vector<Config> legal_configs(const Signature& s, const Target& t) {
    std::vector<Config> out;
    for_each_legal(mma_family(), s, t, [&](const Config& config) {
        out.push_back(config);
        return true;
    });
    return out;
}

std::set<Pair> pairs_of(const std::vector<Config>& configs) {
    std::set<Pair> pairs;
    for (const Config& c : configs)
        for (int i = 0; i < int(c.values.size()); ++i)
            for (int j = i + 1; j < int(c.values.size()); ++j)
                pairs.insert({i, c.values[std::size_t(i)], j, c.values[std::size_t(j)]});
    return pairs;
}

bool is_constrained(const Axis& axis) {
    for (const Constraint& constraint : mma_family().constraints)
        for (const char* key : constraint.axes)
            if (std::string_view(key) == axis.key) return true;
    return false;
}

/// Every combination of axis values, legal or not, without the enumeration's cuts; axes that no
/// constraint names multiply the count.
std::size_t count_legal_by_brute_force(const Signature& s, const Target& t) {
    Config config = *Config::parse("mma/");
    std::vector<std::vector<int>> values;
    std::size_t legal = 0, free = 1;
    for (const Axis& axis : mma_family().axes) {
        values.push_back(is_constrained(axis) ? axis.values : std::vector{axis.default_value});
        free *= axis.values.size() / values.back().size();
    }
    std::vector<std::size_t> at(values.size(), 0);
    for (std::size_t axis = 0; axis < at.size();) {
        for (std::size_t i = 0; i < at.size(); ++i) config.values[i] = values[i][at[i]];
        legal += broken_constraint(s, config, t) == nullptr;
        for (axis = 0; axis < at.size() && ++at[axis] == values[axis].size();) at[axis++] = 0;
    }
    return legal * free;
}

/// A constraint that looks at an axis it does not name is checked before that axis is set.
TEST(Space, ConstraintsNameEveryAxisTheyLookAt) {
    std::mt19937 random(1);
    const auto one_of = [&](const auto& all) { return all[random() % all.size()]; };
    const auto& targets = known_targets();
    const std::vector<const char*> signatures{"f16.d64.causal", "f16.d128.full", "bf16.d128.causal",
                                              "bf16.d256.causal", "f16.d40.full"};
    std::map<std::string_view, int> looked;
    for (int trial = 0; trial < 2000; ++trial) {
        const Signature s = signature(one_of(signatures));
        const Target t = one_of(targets);
        const auto able = applicable_families(s, t);
        if (!able) continue;
        const Family& family = *one_of(*able);
        ++looked[family.name];
        Config config{std::string(family.name), {}};
        for (const Axis& axis : family.axes) config.values.push_back(one_of(axis.values));
        for (const Constraint& constraint : family.constraints) {
            const bool holds = constraint.holds(s, config, t);
            const auto& named = constraint.axes;
            for (const Axis& axis : family.axes)
                for (int value : axis.values)
                    if (std::find(named.begin(), named.end(), axis.key) == named.end() &&
                        constraint.holds(s, config.with(axis.key, value), t) != holds)
                        ADD_FAILURE() << constraint.name << " looks at " << axis.name << ": "
                                      << config.text() << " on " << t.id;
        }
    }
    EXPECT_EQ(looked.size(), families().size());
}

TEST(Space, HeadDim128OnAmpereIsLarge) {
    EXPECT_GE(legal_configs(signature("bf16.d128.full"), gpu("a100-sxm4-80gb")).size(), 200u);
    EXPECT_GE(legal_configs(signature("f16.d128.causal"), gpu("a10")).size(), 200u);
}

TEST(Space, EnumerationIsLegalDistinctStableAndStops) {
    const Signature s = signature("f16.d256.full.lse");
    const Target t = gpu("a10");
    const auto all = legal_configs(s, t);
    std::set<std::vector<int>> distinct;
    for (const Config& config : all) {
        EXPECT_EQ(broken_constraint(s, config, t), nullptr) << config.text();
        distinct.insert(config.values);
    }
    EXPECT_EQ(distinct.size(), all.size());
    EXPECT_EQ(legal_configs(s, t), all);
    int visits = 0;
    for_each_legal(mma_family(), s, t, [&](const Config&) { return ++visits < 7; });
    EXPECT_EQ(visits, 7);
}

TEST(Space, EarlyCutsLoseNothing) {
    const Signature s = signature("bf16.d256.causal");
    const Target t = gpu("a10");
    EXPECT_EQ(legal_configs(s, t).size(), count_legal_by_brute_force(s, t));
}

TEST(Space, TablePointsOfTheHandMadeKernels) {
    struct Point {
        int head_dim;
        const char* gpu;
        const char* config;
    };
    // FlashAttention-2's (tile_q x tile_kv, warps), then FlashAttention-3's for sm_8x.
    const Point points[] = {
        {64, "a100-sxm4-80gb", "mma/q128.kv128.w4"},
        {96, "a100-sxm4-80gb", "mma/q128.kv64.w4"},
        {96, "a10", "mma/q64.kv64.w4"},
        {128, "a100-sxm4-80gb", "mma/q128.kv64.w4"},
        {128, "a10", "mma/q128.kv32.w4"},
        {128, "rtx-4090", "mma/q64.kv64.w4"},
        {192, "a100-sxm4-80gb", "mma/q128.kv64.w8"},
        {256, "a100-sxm4-80gb", "mma/q128.kv64.w8"},
        {256, "h200", "mma/q64.kv64.w4"},
        {256, "a10", "mma/q64.kv64.w4"},
        {64, "a100-sxm4-80gb", "mma/q128.kv112.w4"},
        {128, "rtx-4090", "mma/q128.kv128.w8.qop=reg"},
        {192, "a100-sxm4-80gb", "mma/q128.kv96.w8.s2.qop=reg"},
        {256, "a100-sxm4-80gb", "mma/q128.kv96.w8"},
    };
    for (const auto& [head_dim, id, text] : points) {
        const Signature s{DType::bf16, head_dim, Mask::causal, false};
        const Config config = *Config::parse(text);
        const Constraint* broken = broken_constraint(s, config, gpu(id));
        EXPECT_EQ(broken, nullptr) << text << " on " << id << ": " << (broken ? broken->name : "");
        EXPECT_THAT(mma_family().table_points(s, gpu(id)), Contains(config))
            << head_dim << " " << text;
    }
}

TEST(Space, FirstGenerationFormsStaySelectable) {
    const Signature s = signature("bf16.d128.full");
    std::set<std::pair<int, int>> values;
    for (const Config& config : legal_configs(s, gpu("a100-sxm4-80gb")))
        for (std::size_t i = 0; i < config.values.size(); ++i)
            values.insert({int(i), config.values[i]});
    for (const char* key : {"part", "grid", "rescale", "qop", "ring", "dir", "u", "c", "s"}) {
        const int at = int(mma_family().axis(key) - mma_family().axes.data());
        for (int value : mma_family().axis(key)->values)
            EXPECT_TRUE(values.contains({at, value})) << key << " " << value;
    }
}

TEST(Space, DefaultIsLegalForEverySignatureAndTarget) {
    for (const Target& target : known_targets())
        for (int dim = 8; dim <= 256; dim += 8)
            for (const char* rest : {".full", ".causal.lse"}) {
                const auto text = "f16.d" + std::to_string(dim) + rest;
                const Signature s = signature(text.c_str());
                if (!applicable_families(s, target)) continue;
                const Config config = mma_family().default_config(s, target);
                EXPECT_EQ(broken_constraint(s, config, target), nullptr) << text << target.id;
            }
}

TEST(PairwiseCover, HoldsEveryLegalPairAndOnlyLegalConfigs) {
    for (const auto& [text, id] : {std::pair{"f16.d256.full", "a10"}, {"bf16.d192.causal", "l4"}}) {
        const Signature s = signature(text);
        const auto all = legal_configs(s, gpu(id));
        const auto cover = pairwise_cover(mma_family(), s, gpu(id), 5);
        EXPECT_EQ(pairs_of(cover), pairs_of(all));
        for (const Config& config : cover)
            EXPECT_EQ(broken_constraint(s, config, gpu(id)), nullptr) << config.text();
        EXPECT_LT(cover.size(), 200u);
        EXPECT_EQ(pairwise_cover(mma_family(), s, gpu(id), 5), cover);
        EXPECT_NE(pairwise_cover(mma_family(), s, gpu(id), 6), cover);
    }
}

TEST(Neighbours, AreLegalOneStepAwayAndMutual) {
    const Signature s = signature("bf16.d128.causal");
    const Target t = gpu("h200");
    const Config start = mma_family().default_config(s, t);
    const auto near = neighbours(start, {s, Shape{}}, t);
    EXPECT_GT(near.size(), 5u);
    for (const Config& config : near) {
        EXPECT_EQ(broken_constraint(s, config, t), nullptr) << config.text();
        int changed = 0;
        for (std::size_t i = 0; i < config.values.size(); ++i) {
            if (config.values[i] == start.values[i]) continue;
            ++changed;
            const Axis& axis = mma_family().axes[i];
            const auto index = [&](int value) {
                return std::find(axis.values.begin(), axis.values.end(), value) -
                       axis.values.begin();
            };
            if (axis.words.empty()) {
                EXPECT_EQ(std::abs(index(config.values[i]) - index(start.values[i])), 1)
                    << axis.key;
            }
        }
        EXPECT_EQ(changed, 1) << config.text();
        EXPECT_THAT(neighbours(config, {s, Shape{}}, t), Contains(start)) << config.text();
    }
    EXPECT_THAT(near, Contains(start.with("rescale", 2)));  // words: any other value
    EXPECT_THAT(near, Contains(start.with("kv", 48)));
}

TEST(Applicable, RefusalsNameTheReason) {
    const auto turing = applicable_families(signature("bf16.d64.full"), gpu("t4"));
    ASSERT_FALSE(turing);
    EXPECT_EQ(turing.error().code, Code::unsupported);
    EXPECT_THAT(turing.error().message, HasSubstr("no bf16"));
    EXPECT_THAT(turing.error().message, HasSubstr("sm_75"));
    EXPECT_TRUE(applicable_families(signature("f16.d128.full"), gpu("t4")));
    EXPECT_FALSE(applicable_families(signature("f16.d136.full"), gpu("t4")));
    const auto amd = applicable_families(signature("bf16.d64.full"), gpu("mi300x"), "mma");
    ASSERT_FALSE(amd);
    EXPECT_THAT(amd.error().message, HasSubstr("NVIDIA"));
    EXPECT_EQ((*applicable_families(signature("bf16.d64.full"), gpu("mi300x")))[0]->name, "mfma");
    const auto cdna = applicable_families(signature("bf16.d64.full"), gpu("rx-7900-xtx"), "mfma");
    ASSERT_FALSE(cdna);
    EXPECT_THAT(cdna.error().message, HasSubstr("CDNA"));
    const auto dim = applicable_families(signature("bf16.d20.full"), gpu("h200"));
    ASSERT_FALSE(dim);
    EXPECT_THAT(dim.error().message, HasSubstr("head_dim 20"));
    const auto unknown = applicable_families(signature("bf16.d64.full"), gpu("h200"), "nope");
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, HasSubstr("nope"));
    EXPECT_EQ(applicable_families(signature("bf16.d64.full"), gpu("h200"), "mma")->size(), 1u);
}

TEST(Launch, Geometry) {
    const Signature s = signature("bf16.d128.causal");
    const Target t = gpu("h200");
    const Config c = *Config::parse("mma/q128.kv64.w4");
    const auto launch = [&](const Config& config, const char* shape) {
        return mma_family().launch(s, config, *Shape::parse(shape), t);
    };
    // Q 128 rows and one K and one V tile of 64 rows, 256 bytes each.
    EXPECT_EQ(launch(c, "b2.h16.kv4.q1000.k77"),
              (Launch{2 * 16 * 8, 128, (128 + 2 * 64) * 256, 0}));
    EXPECT_EQ(launch(c, "b2.h16.kv4.q1024.k77").ctas, 2u * 16 * 8);
    EXPECT_EQ(launch(c, "b2.h16.kv4.q1025.k77").ctas, 2u * 16 * 9);
    EXPECT_EQ(launch(c, "b1.h1.kv1.q1.k0").ctas, 1u);  // O still has to be zeroed
    for (const char* nothing : {"b0.h16.kv4.q9.k9", "b2.h0.kv0.q9.k9", "b2.h16.kv4.q0.k9"})
        EXPECT_EQ(launch(c, nothing).ctas, 0u) << nothing;
    EXPECT_EQ(launch(c.with("grid", 1), "b2.h16.kv4.q1000.k77").ctas, 32u);
    EXPECT_EQ(launch(c.with("qop", 1), "b1.h1.kv1.q1.k1").shared_bytes, 2u * 64 * 256);
    EXPECT_EQ(launch(c.with("s", 3), "b1.h1.kv1.q1.k1").shared_bytes, (128u + 6 * 64) * 256);
}

TEST(Launch, NeverAsksForMoreThanTheTargetHas) {
    for (const char* id : {"a10", "a100-sxm4-80gb", "h200", "rtx-5090"})
        for (const Config& config : legal_configs(signature("bf16.d256.full"), gpu(id))) {
            const Launch launch =
                mma_family().launch(signature("bf16.d256.full"), config, Shape{}, gpu(id));
            ASSERT_LE(launch.shared_bytes, unsigned(gpu(id).shared_bytes_per_cta)) << config.text();
            ASSERT_LE(launch.threads_per_cta, 1024u) << config.text();
        }
}

TEST(Registers, CapIsWhatTheCompilerGives) {
    // Registers that ptxas 13.0 used for a kernel that wants more, by its launch bounds.
    const std::tuple<int, int, int> caps[] = {{3, 3, 168},  {6, 3, 96},  {3, 2, 255},
                                              {12, 1, 168}, {6, 2, 168}, {3, 4, 168},
                                              {8, 2, 128},  {2, 4, 255}, {6, 4, 80}};
    for (const auto& [warps, ctas, registers] : caps) {
        const Config config = Config::parse("mma/")->with("w", warps).with("c", ctas);
        EXPECT_EQ(mma_register_cap(config, gpu("h200")), registers) << warps << " x " << ctas;
    }
}

TEST(Estimate, IsPositiveAndGrowsWithTheLengths) {
    const Target t = gpu("h200");
    for (const char* text : {"bf16.d192.causal", "f16.d256.full"})
        for (const Config& config : pairwise_cover(mma_family(), signature(text), t, 1)) {
            double last = 0, first = 0;
            for (int length : {16, 64, 256, 1024, 4096, 16384}) {
                const Problem p{signature(text), {2, 16, 16, length, length}};
                const double us = mma_family().estimate_us(p, config, t);
                ASSERT_TRUE(std::isfinite(us) && us > 0) << config.text() << " " << length;
                EXPECT_GE(us, last) << config.text() << " " << length;
                if (first == 0) first = us;
                last = us;
            }
            EXPECT_GT(last, 2 * first) << config.text();
        }
}

TEST(Estimate, EmptyProblemsAreFinite) {
    const Target t = gpu("h200");
    for (const char* shape :
         {"b0.h1.kv1.q1.k1", "b1.h1.kv1.q0.k1", "b1.h1.kv1.q1.k0", "b1.h0.kv0.q1.k1"})
        for (const char* text : {"bf16.d64.full", "bf16.d64.causal"}) {
            const Problem p{signature(text), *Shape::parse(shape)};
            EXPECT_TRUE(std::isfinite(mma_family().estimate_us(p, *Config::parse("mma/"), t)))
                << shape;
        }
}

TEST(BestByEstimate, LeavesWhatSiliconHasNotProvenToMeasurements) {
    for (const char* id : {"mi210", "mi300x", "mi355x"})
        for (const char* text :
             {"bf16.d64.full/b2.h32.kv32.q4096.k4096", "f16.d128.causal/b1.h32.kv8.q1.k8192",
              "bf16.d256.full/b4.h8.kv8.q512.k512"}) {
            const Problem problem = *Problem::parse(text);
            for (const Config& config :
                 best_by_estimate(*find_family("mfma"), problem, gpu(id), 24))
                EXPECT_EQ(config["k"], 0) << config.text();
        }
}

TEST(BestByEstimate, IsSortedLegalAndTheMinimum) {
    const Problem p = *Problem::parse("bf16.d256.causal/b2.h8.kv8.q4096.k4096");
    const Target t = gpu("a10");
    const auto best = best_by_estimate(mma_family(), p, t, 20);
    ASSERT_EQ(best.size(), 20u);
    double least = mma_family().estimate_us(p, best[0], t);
    for (const Config& config : legal_configs(p.signature, t))
        least = std::min(least, mma_family().estimate_us(p, config, t));
    EXPECT_EQ(mma_family().estimate_us(p, best[0], t), least);
    for (std::size_t i = 1; i < best.size(); ++i)
        EXPECT_LE(mma_family().estimate_us(p, best[i - 1], t),
                  mma_family().estimate_us(p, best[i], t));
    EXPECT_EQ(best_by_estimate(mma_family(), p, t, 1u << 20).size(),
              legal_configs(p.signature, t).size());
}

}  // namespace
}  // namespace attune
