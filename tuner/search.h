// Search = which configs to try next, given the times so far. Pure: numbers in, configs out.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "generator/family.h"
#include "tuner/tune.h"

namespace attune {

/// What a search asks about configs.
struct SearchSpace {
    std::function<std::vector<Config>(const Config&)> neighbours;  // legal, one step away
    std::function<double(const Config&)> estimate_us;
};

/// First the given candidates, then rounds over one-step neighbours of the fastest three, those
/// first that the model, scaled to the parent's measured time, predicts to be fastest.
class Search {
public:
    Search(const EffortPlan& plan, SearchSpace space, std::vector<Config> first);

    /// Configs to try now, each for the first time; empty once the search is over: the plan's
    /// rounds are used up, two rounds in a row gained less than `noise`, or no neighbour is left.
    std::vector<Config> next();

    /// What came of a config that next() gave: its time, or 0 if it got none.
    void report(const Config& config, double us);

    /// Timed configs, fastest first; equal times by text.
    std::vector<Config> fastest(std::size_t count) const;
    double best_us() const { return times_.empty() ? 0 : times_.begin()->first.first; }

private:
    std::vector<Config> neighbour_round();
    std::vector<Config> untried_neighbours(double parent_us, const Config& parent) const;

    EffortPlan plan_;
    SearchSpace space_;
    std::vector<Config> first_;
    std::set<std::string> tried_;
    std::map<std::pair<double, std::string>, Config> times_;  // (us, text), fastest first
    int rounds_ = 0, idle_rounds_ = 0;
    double best_before_round_us_ = 0;
};

/// Two times closer than this share of the smaller are the same.
constexpr double noise = 0.01;

/// Where a search starts: `known` configs (winners of neighbouring problems), defaults, the legal
/// table points, then the model's best, each of another launch geometry. A plan for the whole space
/// gets all of it, best estimate first. All are fit for the problem.
std::vector<Config> first_candidates(const EffortPlan& plan, const Problem& problem,
                                     const Target& target, std::span<const Family* const> families,
                                     std::span<const Config> known);

/// A config of the final round.
struct Finalist {
    std::string config;
    double median_us = 0;
    double spread = 0;  // (p75 - p25) / median
};

/// Index of the winner. Finalists inside the noise of the fastest (1 %, or the wider of the two
/// spreads up to 2 %) tie; the first of them in `preferred` wins, else the lexically first.
std::size_t pick_winner(std::span<const Finalist> finalists,
                        std::span<const std::string> preferred);

}  // namespace attune
