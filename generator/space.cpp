#include "generator/space.h"

#include <algorithm>
#include <random>

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

/// Which pairs of values of two axes are still missing. Each value of each axis has a number, by
/// axis first; a pair is a place in the square of them, the earlier axis first.
class MissingPairs {
public:
    explicit MissingPairs(const Family& family) : family_(family) {
        for (const Axis& axis : family.axes) {
            first_.push_back(values_);
            values_ += axis.values.size();
        }
        missing_.resize(values_ * values_);
    }

    using Numbers = std::vector<std::size_t>;  // a config's values
    Numbers numbers(const Config& config) const {
        Numbers numbers;
        for (std::size_t i = 0; i < first_.size(); ++i) {
            const std::vector<int>& values = family_.axes[i].values;
            const auto at = std::find(values.begin(), values.end(), config.values[i]);
            numbers.push_back(first_[i] + std::size_t(at - values.begin()));
        }
        return numbers;
    }

    Config config(const Numbers& numbers) const {
        Config config{std::string(family_.name), {}};
        for (std::size_t i = 0; i < first_.size(); ++i)
            config.values.push_back(family_.axes[i].values[numbers[i] - first_[i]]);
        return config;
    }

    void set(const Numbers& numbers, bool missing) {
        for_each(numbers, [&](std::size_t pair) { missing_[pair] = missing; });
    }
    int count(const Numbers& numbers) const {
        int found = 0;
        for_each(numbers, [&](std::size_t pair) { found += missing_[pair]; });
        return found;
    }
    /// The first missing pair from `from` on; none: `size`.
    std::size_t next(std::size_t from) const {
        return std::size_t(std::find(missing_.begin() + std::ptrdiff_t(from), missing_.end(), 1) -
                           missing_.begin());
    }
    std::size_t size() const { return missing_.size(); }
    bool holds(const Numbers& numbers, std::size_t pair) const {
        const auto has = [&](std::size_t number) {
            return std::binary_search(numbers.begin(), numbers.end(), number);
        };
        return has(pair / values_) && has(pair % values_);
    }

private:
    template <class Visit>
    void for_each(const Numbers& numbers, Visit visit) const {
        for (std::size_t i = 0; i < numbers.size(); ++i)
            for (std::size_t j = i + 1; j < numbers.size(); ++j)
                visit(numbers[i] * values_ + numbers[j]);
    }

    const Family& family_;
    std::vector<std::size_t> first_;  // the number of each axis's first value
    std::size_t values_ = 0;
    std::vector<char> missing_;
};

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

void for_each_fit(const Family& family, const Problem& problem, const Target& target,
                  const std::function<bool(const Config&)>& visit) {
    for_each_legal(family, problem.signature, target, [&](const Config& config) {
        return why_unfit(config, problem) != nullptr || visit(config);
    });
}

std::vector<Config> neighbours(const Config& config, const Problem& problem, const Target& target) {
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
            if (broken_constraint(problem.signature, near, target) == nullptr &&
                why_unfit(near, problem) == nullptr)
                out.push_back(near);
        }
    }
    return out;
}

std::vector<Config> pairwise_cover(const Family& family, const Signature& signature,
                                   const Target& target, unsigned seed) {
    MissingPairs missing(family);
    std::vector<MissingPairs::Numbers> legal;
    for_each_legal(family, signature, target, [&](const Config& config) {
        legal.push_back(missing.numbers(config));
        missing.set(legal.back(), true);
        return true;
    });
    std::mt19937 random(seed);
    std::shuffle(legal.begin(), legal.end(), random);
    std::vector<Config> cover;
    for (std::size_t wanted = missing.next(0); wanted < missing.size();
         wanted = missing.next(wanted)) {
        // Of the first configs with a pair that is still missing, the one with the most missing
        // pairs.
        const MissingPairs::Numbers* best = nullptr;
        int best_gain = 0, seen = 0;
        for (const MissingPairs::Numbers& config : legal) {
            if (!missing.holds(config, wanted)) continue;
            const int gain = missing.count(config);
            if (gain > best_gain) best = &config, best_gain = gain;
            if (++seen == 64) break;
        }
        missing.set(*best, false);
        cover.push_back(missing.config(*best));
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
    for_each_fit(family, problem, target, [&](const Config& config) {
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
