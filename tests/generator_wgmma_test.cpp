// Family wgmma: what is legal, what is launched, what the hand-made tables hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/families/wgmma.h"
#include "generator/space.h"

namespace attune {
namespace {

using testing::HasSubstr;

const Family& wgmma() {
    return *find_family("wgmma");
}
Target h200() {
    return *find_target("h200");
}

std::vector<Config> legal_configs(const Signature& s) {
    std::vector<Config> out;
    for_each_legal(wgmma(), s, h200(), [&](const Config& config) {
        out.push_back(config);
        return true;
    });
    return out;
}

/// Every combination of axis values, legal or not, without the enumeration's cuts.
std::size_t count_legal_by_brute_force(const Signature& s) {
    Config config = *Config::parse("wgmma/");
    const std::vector<Axis>& axes = wgmma().axes;
    std::vector<std::size_t> at(axes.size(), 0);
    std::size_t legal = 0;
    for (std::size_t axis = 0; axis < at.size();) {
        for (std::size_t i = 0; i < at.size(); ++i) config.values[i] = axes[i].values[at[i]];
        legal += broken_constraint(s, config, h200()) == nullptr;
        for (axis = 0; axis < at.size() && ++at[axis] == axes[axis].values.size();) at[axis++] = 0;
    }
    return legal;
}

TEST(Wgmma, RunsOnHopperAlone) {
    const Signature s = *Signature::parse("bf16.d128.causal");
    for (const Target& target : known_targets()) {
        const auto can = wgmma().applicable(s, target);
        EXPECT_EQ(bool(can), target.arch == "sm_90a") << target.id;
        if (!can) {
            EXPECT_THAT(can.error().message, HasSubstr("needs sm_90a"));
        }
    }
    EXPECT_EQ(applicable_families(s, h200())->size(), 2u);
    EXPECT_EQ(applicable_families(s, h200(), "wgmma")->size(), 1u);
}

TEST(Wgmma, AloneTakesE4m3) {
    const Signature s = *Signature::parse("e4m3.d128.causal");
    for (const Family& family : families()) {
        if (&family == &wgmma()) continue;
        for (const Target& target : known_targets()) EXPECT_FALSE(family.applicable(s, target));
    }
    const auto mma = find_family("mma")->applicable(s, h200());
    EXPECT_EQ(mma.error().code, Code::unsupported);
    EXPECT_THAT(mma.error().message, HasSubstr("mma multiplies f16 and bf16 alone, not e4m3"));
    EXPECT_EQ(*applicable_families(s, h200()), (std::vector<const Family*>{&wgmma()}));
    for (const Config& config : legal_configs(s)) ASSERT_EQ(config["kv"] % 32, 0) << config.text();
    EXPECT_STREQ(broken_constraint(s, *Config::parse("wgmma/q64.kv80"), h200())->name, "key steps");
}

TEST(Wgmma, EarlyCutsLoseNothing) {
    for (const char* text :
         {"bf16.d64.causal", "f16.d128.full", "bf16.d256.causal.lse", "e4m3.d128.full"}) {
        const Signature s = *Signature::parse(text);
        EXPECT_EQ(legal_configs(s).size(), count_legal_by_brute_force(s)) << text;
    }
}

TEST(Wgmma, DefaultsAreLegalForEveryHeadDim) {
    for (int dim = 8; dim <= 256; dim += 8)
        for (Mask mask : {Mask::full, Mask::causal}) {
            const Signature s{DType::bf16, dim, mask, true};
            const Config config = wgmma().default_config(s, h200());
            EXPECT_EQ(broken_constraint(s, config, h200()), nullptr) << s.text() << config.text();
            if (dim % 16 != 0) continue;
            const Signature bytes{DType::e4m3, dim, mask, true};
            const Config other = wgmma().default_config(bytes, h200());
            EXPECT_EQ(broken_constraint(bytes, other, h200()), nullptr) << bytes.text();
        }
}

TEST(Wgmma, TableOfE4m3IsLegal) {
    for (int dim : {64, 128, 256}) {
        const Signature s{DType::e4m3, dim, Mask::causal, false};
        const auto points = wgmma().table_points(s, h200());
        EXPECT_GE(points.size(), 2u);
        for (const Config& point : points)
            EXPECT_EQ(broken_constraint(s, point, h200()), nullptr) << s.text() << point.text();
    }
}

/// One-byte MMAs keep 14 bits of a sum: over more keys than a tile's they are not left to add
/// alone.
TEST(Wgmma, LongSumsOfE4m3AreTakenApart) {
    const Config alone = *Config::parse("wgmma/q64.kv64"), apart = alone.with("acc", 64);
    const Signature bytes = *Signature::parse("e4m3.d64.full");
    const Problem longer{bytes, {1, 1, 1, 64, 129}}, shorter{bytes, {1, 1, 1, 64, 128}};
    EXPECT_THAT(why_unfit(alone, longer), HasSubstr("keys"));
    EXPECT_EQ(why_unfit(alone, shorter), nullptr);
    EXPECT_EQ(why_unfit(apart, longer), nullptr);
    EXPECT_EQ(why_unfit(alone, *Problem::parse("bf16.d64.full/b1.h1.kv1.q64.k9999")), nullptr);
    EXPECT_EQ(wgmma().default_config(bytes, h200())["acc"], 64);
    for (const Config& best : best_by_estimate(wgmma(), longer, h200(), 20))
        EXPECT_NE(best["acc"], 0) << best.text();
    const auto broken = [&](const char* signature, const char* config) {
        const Constraint* constraint =
            broken_constraint(*Signature::parse(signature), *Config::parse(config), h200());
        return std::string(constraint == nullptr ? "" : constraint->name);
    };
    EXPECT_EQ(broken("bf16.d64.full", "wgmma/q64.kv64.acc64"), "sums apart");
    EXPECT_EQ(broken("e4m3.d64.full", "wgmma/q64.kv64.acc128"), "sums apart") << "as acc64";
    EXPECT_EQ(broken("e4m3.d80.full", "wgmma/q64.kv64.acc128"), "");
    EXPECT_EQ(broken("e4m3.d64.full", "wgmma/q64.kv160.acc64"), "sums apart") << "too many keys";
}

/// But for the two with P in shared memory: of d64 192 x 192 ptxas spills 536 bytes, and d96
/// 192 x 144, its rows padded to 128 columns, takes 264 KiB.
TEST(Wgmma, TilesOfFlashAttention3AreLegal) {
    const struct {
        const char *signature, *config;
    } table[] = {
        {"bf16.d64.causal", "wgmma/q192.kv128"},    {"bf16.d128.full", "wgmma/q128.kv176"},
        {"bf16.d128.causal", "wgmma/q128.kv128"},   {"bf16.d192.full", "wgmma/q128.kv112"},
        {"bf16.d192v128.full", "wgmma/q128.kv128"}, {"bf16.d256.causal", "wgmma/q128.kv80"},
    };
    for (const auto& [signature, config] : table)
        EXPECT_EQ(broken_constraint(*Signature::parse(signature), *Config::parse(config), h200()),
                  nullptr)
            << signature << " " << config;
}

TEST(Wgmma, RegistersHandedOutAreThoseOfTheMultiprocessor) {
    for (const char* text : {"bf16.d64.causal", "e4m3.d64.causal"}) {
        const Signature s = *Signature::parse(text);
        for (const Config& config : legal_configs(s)) {
            const WgmmaNeeds needs = wgmma_needs(s, config);
            ASSERT_LE(128 * (needs.producer_registers + needs.consumers * needs.consumer_registers),
                      h200().registers_per_multiprocessor)
                << config.text();
            ASSERT_EQ(needs.producer_registers % 8 + needs.consumer_registers % 8, 0);
        }
    }
}

TEST(Wgmma, LaunchGeometry) {
    const Signature s = *Signature::parse("bf16.d128.causal");
    const Config c = *Config::parse("wgmma/q128.kv64");
    const auto launch = [&](const Config& config, const char* shape) {
        return wgmma().launch(s, config, *Shape::parse(shape), h200());
    };
    // Q 128 rows, two K and two V tiles of 64 rows, 256 bytes each; 5 pairs of mbarriers.
    EXPECT_EQ(launch(c, "b2.h16.kv4.q1000.k77"),
              (Launch{2 * 16 * 8, 384, (128 + 4 * 64) * 256 + 5 * 16, 0, 64, 64}));
    // e4m3: 128 bytes each; two tiles of V transposed, 128 columns x 128 keys; 7 pairs of
    // mbarriers.
    EXPECT_EQ(wgmma()
                  .launch(*Signature::parse("e4m3.d128.causal"), c,
                          *Shape::parse("b1.h1.kv1.q9.k9"), h200())
                  .shared_bytes,
              128u * 128 + 4 * 64 * 128 + 2 * 128 * 128 + 7 * 16);
    EXPECT_EQ(launch(c.with("q", 64), "b2.h16.kv4.q1000.k77").ctas, 2u * 16 * 16);
    const Config persistent = c.with("sched", 1);
    EXPECT_EQ(launch(persistent, "b2.h16.kv4.q1000.k77").ctas, unsigned(h200().multiprocessors));
    EXPECT_EQ(launch(persistent, "b1.h4.kv4.q300.k77").ctas, 12u);
    for (const char* nothing : {"b0.h16.kv4.q9.k9", "b2.h0.kv0.q9.k9", "b2.h16.kv4.q0.k9"})
        for (const Config& config : {c, persistent})
            EXPECT_EQ(launch(config, nothing).ctas, 0u) << nothing;
}

TEST(Wgmma, ADynamicScheduleNeedsACounter) {
    const Signature s = *Signature::parse("bf16.d128.causal");
    const Config persistent = *Config::parse("wgmma/q128.kv64.qs2.sched=persist");
    const Shape shape = *Shape::parse("b2.h16.kv4.q1000.k77");
    Launch launch = wgmma().launch(s, persistent, shape, h200());
    EXPECT_EQ(launch.workspace_bytes, 0u);
    launch.workspace_bytes = 4;
    launch.shared_bytes += 2 * 16;
    const Config dynamic = *Config::parse("wgmma/q128.kv64.qs2.sched=dynamic");
    EXPECT_EQ(wgmma().launch(s, dynamic, shape, h200()), launch);
}

TEST(Wgmma, PacksAPowerOfTwoOfHeads) {
    const auto packed = [](int heads_q, int heads_kv) {
        return packed_heads({1, heads_q, heads_kv, 1, 1});
    };
    for (const auto& [ratio, heads] : {std::pair{1, 1},
                                       {2, 2},
                                       {3, 1},
                                       {4, 4},
                                       {6, 2},
                                       {8, 8},
                                       {12, 4},
                                       {64, 64},
                                       {71, 1},
                                       {96, 32},
                                       {128, 64},
                                       {192, 64}}) {
        EXPECT_EQ(packed(ratio, 1), heads) << ratio;
        EXPECT_EQ(packed(5 * ratio, 5), heads) << ratio;
    }
    EXPECT_EQ(packed(0, 0), 1);
    EXPECT_EQ(packed(0, 2), 1);
}

TEST(Wgmma, PackedTilesHoldRowsOfSeveralHeads) {
    const Signature s = *Signature::parse("bf16.d128.causal");
    const auto launch = [&](const char* config, const char* shape) {
        return wgmma().launch(s, *Config::parse(config), *Shape::parse(shape), h200());
    };
    const Launch one = launch("wgmma/q128.kv64.pack=yes", "b2.h16.kv4.q1000.k77");
    // 8 groups of 4 heads with 4000 rows each.
    EXPECT_EQ(one, (Launch{8 * 32, 384, (128 + 4 * 64) * 256 + 5 * 16, 0, 64, 64, 4}));
    EXPECT_EQ(launch("wgmma/q64.kv64.pack=yes", "b3.h64.kv8.q1.k99").ctas, 3u * 8);
    EXPECT_EQ(launch("wgmma/q64.kv64.pack=yes", "b3.h71.kv1.q1.k99").ctas, 3u * 71);
    EXPECT_EQ(launch("wgmma/q64.kv64.pack=yes", "b3.h71.kv1.q1.k99").tma_heads_q, 1);
    EXPECT_EQ(launch("wgmma/q64.kv64", "b3.h64.kv8.q1.k99").tma_heads_q, 0);
    EXPECT_EQ(launch("wgmma/q64.kv64.pack=yes", "b3.h0.kv0.q1.k99").ctas, 0u);
}

TEST(Wgmma, PackingIsTriedWhereHeadsShareKeys) {
    const Signature s = *Signature::parse("bf16.d128.full");
    const Problem grouped{s, *Shape::parse("b64.h64.kv8.q2.k8192")};
    const Problem apart{s, *Shape::parse("b64.h8.kv8.q2.k8192")};
    EXPECT_EQ((best_by_estimate(wgmma(), grouped, h200(), 1).front())["pack"], 1);
    const auto packed = [](const std::vector<Config>& configs) {
        return std::count_if(configs.begin(), configs.end(),
                             [](const Config& config) { return config["pack"] == 1; });
    };
    const std::size_t all = legal_configs(s).size();
    EXPECT_EQ(best_by_estimate(wgmma(), apart, h200(), all).size(), all / 2);
    EXPECT_EQ(packed(best_by_estimate(wgmma(), apart, h200(), all)), 0);
    const Config config = *Config::parse("wgmma/q128.kv64");
    EXPECT_EQ(packed(neighbours(config, grouped, h200())), 1);
    EXPECT_EQ(packed(neighbours(config, apart, h200())), 0);
}

}  // namespace
}  // namespace attune
