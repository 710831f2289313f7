#include "tuner/tune.h"

namespace attune {
namespace {

constexpr EffortPlan plans[] = {
    {Effort::estimate, "the model's best that compiles and checks; nothing is timed", 4, 0, 0,
     false},
    {Effort::measure, "tables, the model's best and two rounds of neighbours", 24, 2, 4, false},
    {Effort::patient, "more of the model's best, neighbours until nothing gains", 96, 8, 8, false},
    {Effort::exhaustive, "every legal config", 0, 0, 16, true},
};

}  // namespace

const EffortPlan& plan_of(Effort effort) {
    return plans[static_cast<int>(effort)];
}

}  // namespace attune
