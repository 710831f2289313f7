// Search policies on made-up cost functions: no device, no clock.
#include "tuner/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "generator/space.h"

namespace attune {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::SizeIs;

const Problem& problem() {
    static const Problem causal = *Problem::parse("bf16.d128.causal/b2.h16.kv16.q4096.k4096");
    return causal;
}
const Target& target() {
    static const Target a100 = *find_target("a100-sxm4-80gb");
    return a100;
}
const Family& family() {
    return *find_family("mma");
}

/// A smooth valley over the tile axes with its floor at `best`, plus small steps in the others.
double valley_us(const Config& config, const Config& best) {
    double us = 100;
    const Family& f = *find_family(config.family);
    for (std::size_t i = 0; i < f.axes.size(); ++i) {
        if (!f.axes[i].words.empty()) {
            us += config.values[i] == best.values[i] ? 0 : 3;
        } else {
            us += 10 * std::abs(std::log2((config.values[i] + 1.0) / (best.values[i] + 1.0)));
        }
    }
    return us;
}

struct Outcome {
    Config best;
    double best_us = 0;
    int evaluations = 0;
};

Outcome search(const EffortPlan& plan, const std::function<double(const Config&)>& cost,
               const std::function<double(const Config&)>& estimate) {
    const std::vector<const Family*> able{&family()};
    Search search(plan,
                  {[](const Config& c) { return neighbours(c, problem(), target()); }, estimate},
                  first_candidates(plan, problem(), target(), able, {}));
    Outcome outcome;
    std::set<std::string> seen;
    for (auto batch = search.next(); !batch.empty(); batch = search.next()) {
        for (const Config& config : batch) {
            EXPECT_TRUE(seen.insert(config.text()).second) << config.text() << " given twice";
            EXPECT_EQ(broken_constraint(problem().signature, config, target()), nullptr);
            search.report(config, cost(config));
            ++outcome.evaluations;
        }
    }
    outcome.best_us = search.best_us();
    outcome.best = search.fastest(1).front();
    return outcome;
}

TEST(Search, FindsTheFloorOfAValleyWithinItsPlan) {
    const Config floor = family().default_config(problem().signature, target()).with("kv", 32);
    ASSERT_EQ(broken_constraint(problem().signature, floor, target()), nullptr);
    const auto cost = [&](const Config& c) { return valley_us(c, floor); };
    const EffortPlan& plan = plan_of(Effort::patient);
    const Outcome found = search(plan, cost, cost);
    EXPECT_EQ(found.best.text(), floor.text());
    EXPECT_LE(found.evaluations,
              plan.first_candidates + plan.neighbour_rounds * plan.round_candidates);
}

TEST(Search, AWrongModelStillLeadsCloser) {
    const Config floor = *Config::parse("mma/q64.kv64.w4.s2.qop=reg");
    ASSERT_EQ(broken_constraint(problem().signature, floor, target()), nullptr);
    const auto cost = [&](const Config& c) { return valley_us(c, floor); };
    const Outcome found = search(plan_of(Effort::patient), cost, [](const Config&) { return 1.0; });
    const double start_us = cost(family().default_config(problem().signature, target()));
    EXPECT_LT(found.best_us, start_us);
    EXPECT_LT(found.best_us, 110);
}

TEST(Search, StopsAfterTwoRoundsWithoutGain) {
    EffortPlan plan = plan_of(Effort::patient);
    plan.neighbour_rounds = 100;
    const auto flat = [](const Config&) { return 50.0; };
    const Outcome found = search(plan, flat, flat);
    EXPECT_LE(found.evaluations, plan.first_candidates + 2 * plan.round_candidates);
    EXPECT_GT(found.evaluations, plan.first_candidates);
}

TEST(Search, IsOverWhereNothingGotATime) {
    const auto none = [](const Config&) { return 0.0; };
    const std::vector<const Family*> able{&family()};
    const EffortPlan& plan = plan_of(Effort::measure);
    Search search(plan, {[](const Config&) { return std::vector<Config>{}; }, none},
                  first_candidates(plan, problem(), target(), able, {}));
    EXPECT_FALSE(search.next().empty());
    EXPECT_TRUE(search.next().empty());
    EXPECT_EQ(search.best_us(), 0);
    EXPECT_TRUE(search.fastest(3).empty());
}

TEST(Search, EqualTimesAreOrderedByText) {
    const Config a = *Config::parse("mma/q128.kv64.w4"), b = *Config::parse("mma/q64.kv64.w4");
    for (const bool swapped : {false, true}) {
        Search search(plan_of(Effort::measure), {}, {a, b});
        search.report(swapped ? b : a, 7);
        search.report(swapped ? a : b, 7);
        EXPECT_EQ(search.fastest(1).front().text(), std::min(a.text(), b.text()));
    }
}

TEST(FirstCandidates, HoldKnownDefaultAndTablesAndSpreadOverGeometries) {
    const std::vector<const Family*> able{&family()};
    const EffortPlan& plan = plan_of(Effort::measure);
    const Config known = *Config::parse("mma/q64.kv32.w4.s3.ring=mbar");
    const auto list = first_candidates(plan, problem(), target(), able, std::vector{known});
    EXPECT_THAT(list, SizeIs(plan.first_candidates));
    EXPECT_EQ(list.front(), known);
    EXPECT_THAT(list, Contains(family().default_config(problem().signature, target())));
    for (const Config& point : family().table_points(problem().signature, target()))
        if (broken_constraint(problem().signature, point, target()) == nullptr) {
            EXPECT_THAT(list, Contains(point));
        }
    std::set<int> tiles;
    for (const Config& config : list) tiles.insert(config["q"]);
    EXPECT_GE(tiles.size(), 4u);
    EXPECT_EQ(list, first_candidates(plan, problem(), target(), able, std::vector{known}));
}

TEST(FirstCandidates, KnownConfigsThatAreNotLegalHereAreLeftOut) {
    const std::vector<const Family*> able{&family()};
    const Config wide = *Config::parse("mma/q384.kv256.w12.s4");
    ASSERT_NE(broken_constraint(problem().signature, wide, target()), nullptr);
    const auto list =
        first_candidates(plan_of(Effort::measure), problem(), target(), able, std::vector{wide});
    EXPECT_THAT(list, ::testing::Not(Contains(wide)));
}

TEST(FirstCandidates, PackHeadsOnlyWhereSomeShareKeys) {
    const std::vector<const Family*> able{find_family("wgmma")};
    const Config known = *Config::parse("wgmma/q64.kv64.pack=yes");
    for (const auto& [shape, packs] :
         {std::pair("b4.h8.kv8.q16.k4096", false), {"b4.h32.kv4.q16.k4096", true}}) {
        const Problem here{*Signature::parse("bf16.d128.causal"), *Shape::parse(shape)};
        const auto list = first_candidates(plan_of(Effort::measure), here, *find_target("h200"),
                                           able, std::vector{known});
        EXPECT_EQ(std::any_of(list.begin(), list.end(),
                              [](const Config& config) { return config["pack"] == 1; }),
                  packs);
    }
}

TEST(FirstCandidates, AWholeSpacePlanGetsAllOfIt) {
    const std::vector<const Family*> able{&family()};
    Target small = target();
    small.shared_bytes_per_cta = 24 << 10;
    std::size_t legal = 0;
    for_each_legal(family(), problem().signature, small,
                   [&](const Config&) { return ++legal > 0; });
    const auto list = first_candidates(plan_of(Effort::exhaustive), problem(), small, able, {});
    EXPECT_EQ(list.size(), legal);
}

TEST(PickWinner, TheFastestOutsideTheNoise) {
    const std::vector<Finalist> finalists{{"a", 100, 0.001}, {"b", 90, 0.001}, {"c", 95, 0.001}};
    EXPECT_EQ(pick_winner(finalists, std::vector<std::string>{"a", "c"}), 1u);
}

TEST(PickWinner, TiesGoToTheNeighbourThenTheDefaultThenTheText) {
    const std::vector<Finalist> tie{{"z", 100, 0.001}, {"y", 100.5, 0.001}, {"x", 100.9, 0.001}};
    EXPECT_EQ(pick_winner(tie, std::vector<std::string>{"y", "x"}), 1u);
    EXPECT_EQ(pick_winner(tie, std::vector<std::string>{"n", "x"}), 2u);
    EXPECT_EQ(pick_winner(tie, {}), 2u);
}

TEST(PickWinner, AWideSpreadWidensTheTieButNotBeyondTwoPercent) {
    const std::vector<Finalist> noisy{{"b", 100, 0.10}, {"a", 101.8, 0.001}};
    EXPECT_EQ(pick_winner(noisy, std::vector<std::string>{"a"}), 1u);
    const std::vector<Finalist> apart{{"b", 100, 0.10}, {"a", 103, 0.10}};
    EXPECT_EQ(pick_winner(apart, std::vector<std::string>{"a"}), 0u);
}

TEST(PickWinner, TwoNoisySweepsNameTheSameWinnerOrOneWithinOnePercent) {
    std::mt19937 random(7);
    std::normal_distribution<double> jitter(0, 0.001);
    const double truth[] = {100.0, 100.4, 101.5, 104.0};
    const char* names[] = {"d", "c", "b", "a"};
    for (int trial = 0; trial < 200; ++trial) {
        std::vector<Finalist> finalists;
        for (int i = 0; i < 4; ++i)
            finalists.push_back({names[i], truth[i] * (1 + jitter(random)), 0.003});
        const std::size_t winner = pick_winner(finalists, std::vector<std::string>{"c"});
        EXPECT_LE(truth[winner], 100.0 * 1.01);
        EXPECT_EQ(winner, 1u);
    }
}

TEST(Efforts, AscendAndEachTimesMoreThanTheOneBefore) {
    EXPECT_EQ(effort_plans().size(), 4u);
    for (std::size_t i = 0; i < effort_plans().size(); ++i)
        EXPECT_EQ(std::size_t(effort_plans()[i].effort), i);
    EXPECT_EQ(plan_of(Effort::estimate).finalists, 0);
    EXPECT_LT(plan_of(Effort::measure).first_candidates, plan_of(Effort::patient).first_candidates);
    EXPECT_TRUE(plan_of(Effort::exhaustive).whole_space);
}

}  // namespace
}  // namespace attune
