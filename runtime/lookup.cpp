#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "generator/family.h"
#include "runtime/store.h"

namespace attune {
namespace {

// Distances are sums of logarithms: equal ones may differ in the last bits.
constexpr double tie = 1e-9;

double log2_ratio(double a, double b) {
    return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0)));
}

/// For a problem that the record was not tuned for.
bool is_fit(const Record& record, const Problem& problem) {
    const auto config = Config::parse(record.config);
    return !config || why_unfit(*config, problem) == nullptr;
}

}  // namespace

double bucket_distance(const Shape& asked, const Shape& tuned) {
    const bool same_ratio = std::int64_t(asked.heads_q) * tuned.heads_kv ==
                            std::int64_t(tuned.heads_q) * asked.heads_kv;
    return log2_ratio(double(asked.batch) * asked.heads_q, double(tuned.batch) * tuned.heads_q) +
           log2_ratio(asked.seqlen_q, tuned.seqlen_q) +
           log2_ratio(asked.seqlen_kv, tuned.seqlen_kv) + (same_ratio ? 0 : 0.5);
}

Match best_match(const std::vector<Record>& records, const Problem& problem,
                 const std::string& restriction) {
    Match best;
    for (const Record& record : records) {
        if (record.problem.signature != problem.signature || record.restriction != restriction ||
            record.binary_sha256.empty())
            continue;
        if (record.problem.shape == problem.shape) return {&record, 0};
        const double distance = bucket_distance(problem.shape, record.problem.shape);
        const bool nearer = best.record == nullptr || distance < best.distance - tie ||
                            (distance < best.distance + tie &&
                             record.problem.shape.text() < best.record->problem.shape.text());
        if (nearer && is_fit(record, problem)) best = {&record, distance};
    }
    return best;
}

}  // namespace attune
