// Space = the legal configs of a signature on a target.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/family.h"

namespace attune {

/// Families that can run this signature here; `family` restricts to one by name ("" = all).
/// unsupported with every family's reason when none can.
Result<std::vector<const Family*>> applicable_families(const Signature& signature,
                                                       const Target& target,
                                                       std::string_view family = "");

/// Calls `visit` for every legal config in a fixed order, until it returns false.
void for_each_legal(const Family& family, const Signature& signature, const Target& target,
                    const std::function<bool(const Config&)>& visit);

/// Those of them that are fit for the problem (why_unfit).
void for_each_fit(const Family& family, const Problem& problem, const Target& target,
                  const std::function<bool(const Config&)>& visit);

/// Fit configs that differ from `config` in one axis by one step (numbers) or any value (words).
std::vector<Config> neighbours(const Config& config, const Problem& problem, const Target& target);

/// Legal configs so that every legal pair of axis values appears at least once; the seed picks
/// among covers.
std::vector<Config> pairwise_cover(const Family& family, const Signature& signature,
                                   const Target& target, unsigned seed);

/// `count` best fit configs by the family's estimate for one problem, best first.
std::vector<Config> best_by_estimate(const Family& family, const Problem& problem,
                                     const Target& target, std::size_t count);

}  // namespace attune
