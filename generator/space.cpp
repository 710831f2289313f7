#include "generator/space.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "generator/formatted.h"

namespace attune {
namespace {

/// Walks the axes in order and cuts as soon as a constraint's last axis is set.
class Walk {
public:
    Walk(const Family& family, const Signature& signature, const Target& target,
         const std::function<bool(const Config&)>& visit)
        : family_(family),
          signature_(signature),
          target_(target),
          visit_(visit),
          checks_(family.axes.size()),
          config_{std::string(family.name), {}} {
        for (const Axis& axis : family.axes) config_.values.push_back(axis.values.front());
        for (const Constraint& constraint : family.constraints) {
            std::size_t last = 0;
            for (std::size_t i = 0; i < family.axes.size(); ++i)
                for (const char* key : constraint.axes)
                    if (key == family.axes[i].key) last = i;
            checks_[last].push_back(&constraint);
        }
    }

    bool from(std::size_t depth) {
        if (depth == family_.axes.size()) return visit_(config_);
        for (int value : family_.axes[depth].values) {
            config_.values[depth] = value;
            const bool legal = std::all_of(
                checks_[depth].begin(), checks_[depth].end(),
                [&](const Constraint* c) { return c->holds(signature_, config_, target_); });
            if (legal && !from(depth + 1)) return false;
        }
        return true;
    }

private:
    const Family& family_;
    const Signature& signature_;
    const Target& target_;
    const std::function<bool(const Config&)>& visit_;
    std::vector<std::vector<const Constraint*>> checks_;
    Config config_;
};

using Pair = std::array<int, 4>;  // axis, value, later axis, value

void for_each_pair(const Config& config, const std::function<void(const Pair&)>& visit) {
    const int n = static_cast<int>(config.values.size());
    for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j)
            visit({i, config.values[std::size_t(i)], j, config.values[std::size_t(j)]});
}

bool has_pair(const Config& config, const Pair& pair) {
    return config.values[std::size_t(pair[0])] == pair[1] &&
           config.values[std::size_t(pair[2])] == pair[3];
}

}  // namespace

Result<std::vector<const Family*>> applicable_families(const Signature& signature,
                                                       const Target& target,
                                                       std::string_view family) {
    std::vector<const Family*> able;
    std::string reasons;
    if (!family.empty() && find_family(family) == nullptr)
        return Error{Code::invalid_argument, formatted("there is no family '{}'", family),
                     "see attune explain for the families there are"};
    for (const Family& candidate : families()) {
        if (!family.empty() && family != candidate.name) continue;
        const auto can = candidate.applicable(signature, target);
        if (can) {
            able.push_back(&candidate);
        } else {
            reasons += (reasons.empty() ? "" : "; ") + can.error().message;
        }
    }
    if (able.empty())
        return Error{
            Code::unsupported,
            formatted("no family runs {} on {}: {}", signature.text(), target.arch, reasons),
            "choose a target or a problem that a family covers"};
    return able;
}

void for_each_legal(const Family& family, const Signature& signature, const Target& target,
                    const std::function<bool(const Config&)>& visit) {
    Walk(family, signature, target, visit).from(0);
}

std::vector<Config> neighbours(const Config& config, const Signature& signature,
                               const Target& target) {
    const Family& family = *find_family(config.family);
    std::vector<Config> out;
    for (std::size_t i = 0; i < family.axes.size(); ++i) {
        const std::vector<int>& values = family.axes[i].values;
        const auto at = std::find(values.begin(), values.end(), config.values[i]) - values.begin();
        for (std::ptrdiff_t j = 0; j < std::ptrdiff_t(values.size()); ++j) {
            const bool step = !family.axes[i].words.empty() || std::abs(j - at) == 1;
            if (j == at || !step) continue;
            Config near = config;
            near.values[i] = values[std::size_t(j)];
            if (broken_constraint(signature, near, target) == nullptr) out.push_back(near);
        }
    }
    return out;
}

std::vector<Config> pairwise_cover(const Family& family, const Signature& signature,
                                   const Target& target, unsigned seed) {
    std::vector<Config> legal;
    std::set<Pair> uncovered;
    for_each_legal(family, signature, target, [&](const Config& config) {
        legal.push_back(config);
        for_each_pair(config, [&](const Pair& pair) { uncovered.insert(pair); });
        return true;
    });
    std::mt19937 random(seed);
    std::shuffle(legal.begin(), legal.end(), random);
    std::vector<Config> cover;
    while (!uncovered.empty()) {
        // Of the first configs with a pair that is still missing, the one with the most missing
        // pairs.
        const Pair wanted = *uncovered.begin();
        const Config* best = nullptr;
        int best_gain = 0, seen = 0;
        for (const Config& config : legal) {
            if (!has_pair(config, wanted)) continue;
            int gain = 0;
            for_each_pair(config, [&](const Pair& pair) { gain += int(uncovered.count(pair)); });
            if (gain > best_gain) best = &config, best_gain = gain;
            if (++seen == 64) break;
        }
        for_each_pair(*best, [&](const Pair& pair) { uncovered.erase(pair); });
        cover.push_back(*best);
    }
    return cover;
}

std::vector<Config> best_by_estimate(const Family& family, const Problem& problem,
                                     const Target& target, std::size_t count) {
    using Ranked = std::pair<double, Config>;
    const auto better = [](const Ranked& a, const Ranked& b) {
        return a.first != b.first ? a.first < b.first : a.second.values < b.second.values;
    };
    std::vector<Ranked> kept;  // a heap, the worst of them on top
    for_each_legal(family, problem.signature, target, [&](const Config& config) {
        const double us = family.estimate_us(problem, config, target);
        if (!kept.empty() && kept.size() == count && us > kept.front().first) return true;
        kept.emplace_back(us, config);
        std::push_heap(kept.begin(), kept.end(), better);
        if (kept.size() <= count) return true;
        std::pop_heap(kept.begin(), kept.end(), better);
        kept.pop_back();
        return true;
    });
    std::sort_heap(kept.begin(), kept.end(), better);
    std::vector<Config> best;
    for (Ranked& one : kept) best.push_back(std::move(one.second));
    return best;
}

}  // namespace attune
