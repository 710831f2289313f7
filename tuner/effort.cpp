#include "tuner/tune.h"

namespace attune {
namespace {

// Ascending by effort. Rounds end earlier once they bring nothing.
constexpr EffortPlan plans[] = {
    {Effort::estimate,
     "the best by the model that compiles and gives right answers; nothing is timed", 8, 0, 0, 0,
     false},
    {Effort::measure, "tables and the model's best, then the neighbourhood of the fastest", 24, 2,
     16, 4, false},
    {Effort::patient, "more first candidates, and local search until it stops gaining", 64, 8, 32,
     8, false},
    {Effort::exhaustive, "every legal config", 0, 0, 0, 12, true},
};

}  // namespace

std::span<const EffortPlan> effort_plans() {
    return plans;
}

const EffortPlan& plan_of(Effort effort) {
    return plans[static_cast<std::size_t>(effort)];
}

}  // namespace attune
