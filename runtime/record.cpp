#include "runtime/record.h"

#include <fmt/format.h>

#include <cstddef>

namespace attune {
namespace {

constexpr const char* verdict_names[] = {"ok",    "pruned",    "compile_failed", "launch_failed",
                                         "wrong", "timed_out", "crashed",        "slow"};
constexpr const char* evidence_names[] = {"estimated", "measured"};
constexpr const char* effort_names[] = {"estimate", "measure", "patient", "exhaustive"};

template <class Enum, std::size_t N>
Result<Enum> parse(std::string_view text, const char* const (&names)[N], const char* what) {
    std::string choices;
    for (std::size_t i = 0; i < N; ++i) {
        if (text == names[i]) return static_cast<Enum>(i);
        choices += (i == 0 ? "" : ", ") + std::string(names[i]);
    }
    return Error{Code::invalid_argument, fmt::format("'{}' is not a {}", text, what),
                 "choose one of " + choices};
}

}  // namespace

const char* name_of(Verdict verdict) {
    return verdict_names[static_cast<int>(verdict)];
}
const char* name_of(Evidence evidence) {
    return evidence_names[static_cast<int>(evidence)];
}
const char* name_of(Effort effort) {
    return effort_names[static_cast<int>(effort)];
}
Result<Verdict> parse_verdict(std::string_view text) {
    return parse<Verdict>(text, verdict_names, "verdict");
}
Result<Evidence> parse_evidence(std::string_view text) {
    return parse<Evidence>(text, evidence_names, "kind of evidence");
}
Result<Effort> parse_effort(std::string_view text) {
    return parse<Effort>(text, effort_names, "effort");
}

}  // namespace attune
