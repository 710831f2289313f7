#include "tuner/search.h"

#include <algorithm>
#include <tuple>

#include "generator/space.h"

namespace attune {
namespace {

constexpr std::size_t parents = 3;
constexpr double widest_tie = 0.02;

void add_once(std::vector<Config>& list, const Config& config) {
    if (std::find(list.begin(), list.end(), config) == list.end()) list.push_back(config);
}

struct Ranked {
    double us;
    Config config;
};

void sort_by_estimate(std::vector<Ranked>& list) {
    std::sort(list.begin(), list.end(), [](const Ranked& a, const Ranked& b) {
        return std::tie(a.us, a.config.family, a.config.values) <
               std::tie(b.us, b.config.family, b.config.values);
    });
}

std::vector<Ranked> whole_space(const Problem& problem, const Target& target,
                                std::span<const Family* const> families) {
    std::vector<Ranked> all;
    for (const Family* family : families) {
        for_each_fit(*family, problem, target, [&](const Config& config) {
            all.push_back({family->estimate_us(problem, config, target), config});
            return true;
        });
    }
    sort_by_estimate(all);
    return all;
}

/// The model's best config of every launch geometry (CTAs, threads, KiB of shared memory), best
/// first, but those beyond the first `per_grid` with the same number of CTAs last: configs that
/// share a geometry differ in what a neighbour round finds, and the model's opinion of one tile
/// shape should not fill the list.
std::vector<Ranked> best_by_geometry(const Problem& problem, const Target& target,
                                     std::span<const Family* const> families, int per_grid) {
    std::map<std::tuple<const Family*, std::uint32_t, std::uint32_t, std::uint32_t>, Ranked> best;
    for (const Family* family : families) {
        for_each_fit(*family, problem, target, [&](const Config& config) {
            const Launch launch = family->launch(problem.signature, config, problem.shape, target);
            const double us = family->estimate_us(problem, config, target);
            Ranked& held = best.try_emplace({family, launch.ctas, launch.threads_per_cta,
                                             launch.shared_bytes / 1024},
                                            Ranked{us, config})
                               .first->second;
            if (us < held.us) held = {us, config};
            return true;
        });
    }
    std::vector<Ranked> list;
    for (auto& [geometry, ranked] : best) list.push_back(ranked);
    sort_by_estimate(list);
    std::map<std::uint32_t, int> used;
    std::vector<Ranked> front, back;
    for (Ranked& ranked : list) {
        const Family& family = *find_family(ranked.config.family);
        const Launch launch =
            family.launch(problem.signature, ranked.config, problem.shape, target);
        (++used[launch.ctas] <= per_grid ? front : back).push_back(std::move(ranked));
    }
    front.insert(front.end(), back.begin(), back.end());
    return front;
}

}  // namespace

Search::Search(const EffortPlan& plan, SearchSpace space, std::vector<Config> first)
    : plan_(plan), space_(std::move(space)), first_(std::move(first)) {}

std::vector<Config> Search::next() {
    std::vector<Config> batch;
    if (!first_.empty()) {
        batch.swap(first_);
    } else {
        if (rounds_ > 0)
            idle_rounds_ = best_us() < best_before_round_us_ * (1 - noise) ? 0 : idle_rounds_ + 1;
        if (rounds_ == plan_.neighbour_rounds || idle_rounds_ == 2) return {};
        ++rounds_;
        best_before_round_us_ = best_us();
        batch = neighbour_round();
    }
    for (const Config& config : batch) tried_.insert(config.text());
    return batch;
}

void Search::report(const Config& config, double us) {
    if (us > 0) times_.emplace(std::pair(us, config.text()), config);
}

std::vector<Config> Search::fastest(std::size_t count) const {
    std::vector<Config> configs;
    for (const auto& [key, config] : times_)
        if (configs.size() < count) configs.push_back(config);
    return configs;
}

std::vector<Config> Search::untried_neighbours(double parent_us, const Config& parent) const {
    const double scale = parent_us / space_.estimate_us(parent);
    std::map<std::pair<double, std::string>, Config> order;
    for (Config& config : space_.neighbours(parent)) {
        const std::string text = config.text();
        if (tried_.count(text) == 0)
            order.emplace(std::pair(scale * space_.estimate_us(config), text), std::move(config));
    }
    std::vector<Config> configs;
    for (auto& [key, config] : order) configs.push_back(std::move(config));
    return configs;
}

/// The parents' neighbours in turn, so that no parent takes the whole round.
std::vector<Config> Search::neighbour_round() {
    std::vector<std::vector<Config>> near;
    for (const auto& [key, config] : times_)
        if (near.size() < parents) near.push_back(untried_neighbours(key.first, config));
    std::vector<Config> round;
    bool left = true;
    for (std::size_t i = 0; left; ++i) {
        left = false;
        for (const std::vector<Config>& list : near) {
            if (i >= list.size() || int(round.size()) >= plan_.round_candidates) continue;
            add_once(round, list[i]);
            left = true;
        }
    }
    return round;
}

std::vector<Config> first_candidates(const EffortPlan& plan, const Problem& problem,
                                     const Target& target, std::span<const Family* const> families,
                                     std::span<const Config> known) {
    const Signature& signature = problem.signature;
    std::vector<Config> list;
    const auto add_legal = [&](const Config& config) {
        if (broken_constraint(signature, config, target) == nullptr &&
            why_unfit(config, problem) == nullptr)
            add_once(list, config);
    };
    for (const Config& config : known) add_legal(config);
    for (const Family* family : families) add_legal(family->default_config(signature, target));
    for (const Family* family : families)
        for (const Config& point : family->table_points(signature, target)) add_legal(point);
    std::set<std::string> have;
    for (const Config& config : list) have.insert(config.text());
    const std::size_t wanted =
        plan.whole_space ? std::size_t(-1) : std::size_t(plan.first_candidates);
    const int per_grid = std::max(1, plan.first_candidates / 6);
    for (Ranked& ranked : plan.whole_space ? whole_space(problem, target, families)
                                           : best_by_geometry(problem, target, families, per_grid))
        if (list.size() < wanted && have.insert(ranked.config.text()).second)
            list.push_back(std::move(ranked.config));
    return list;
}

std::size_t pick_winner(std::span<const Finalist> finalists,
                        std::span<const std::string> preferred) {
    const auto fastest = std::min_element(
        finalists.begin(), finalists.end(),
        [](const Finalist& a, const Finalist& b) { return a.median_us < b.median_us; });
    const auto rank = [&](const Finalist& f) {
        return std::pair(std::find(preferred.begin(), preferred.end(), f.config), f.config);
    };
    auto winner = fastest;
    for (auto f = finalists.begin(); f != finalists.end(); ++f) {
        const double tie = std::clamp(std::max(f->spread, fastest->spread), noise, widest_tie);
        if (f->median_us <= fastest->median_us * (1 + tie) && rank(*f) < rank(*winner)) winner = f;
    }
    return std::size_t(winner - finalists.begin());
}

}  // namespace attune
