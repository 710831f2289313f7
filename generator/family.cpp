#include "generator/family.h"

#include "generator/families/mma.h"
#include "generator/families/transposed.h"
#include "generator/families/wgmma.h"

namespace attune {

const Axis* Family::axis(std::string_view key) const {
    for (const Axis& axis : axes)
        if (key == axis.key) return &axis;
    return nullptr;
}

const std::vector<Family>& families() {
    static const std::vector<Family> all{mma_family(), wgmma_family(), mfma_family(),
                                         wmma_family()};
    return all;
}

const Family* find_family(std::string_view name) {
    for (const Family& family : families())
        if (name == family.name) return &family;
    return nullptr;
}

const Constraint* broken_constraint(const Signature& signature, const Config& config,
                                    const Target& target) {
    const Family* family = find_family(config.family);
    for (const Constraint& constraint : family->constraints)
        if (!constraint.holds(signature, config, target)) return &constraint;
    return nullptr;
}

const char* why_unfit(const Config& config, const Problem& problem) {
    const Family* family = find_family(config.family);
    return family->unfit ? family->unfit(config, problem) : nullptr;
}

}  // namespace attune
