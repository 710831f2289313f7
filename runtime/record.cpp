#include "runtime/record.h"

#include <algorithm>
#include <array>

#include "generator/formatted.h"
#include "runtime/device.h"

namespace attune {
namespace {

constexpr std::array verdict_names{"ok",    "pruned",    "compile_failed", "launch_failed",
                                   "wrong", "timed_out", "crashed",        "slow"};
constexpr std::array evidence_names{"estimated", "measured"};
constexpr std::array effort_names{"estimate", "measure", "patient", "exhaustive"};

template <class Enum, class Names>
Result<Enum> parse_name(std::string_view text, const char* what, const Names& names) {
    std::string known;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (text == names[i]) return static_cast<Enum>(i);
        known += (i == 0 ? "" : " ") + std::string(names[i]);
    }
    return Error{Code::invalid_argument, formatted("'{}' is not {}", text, what),
                 "use one of " + known};
}

}  // namespace

std::string Restriction::text() const {
    std::string text;
    if (!family.empty()) text = "family=" + family;
    if (max_shared_bytes > 0)
        text += formatted("{}max_smem={}", text.empty() ? "" : ",", max_shared_bytes);
    return text;
}

Target Restriction::applied_to(Target target) const {
    if (max_shared_bytes > 0)
        target.shared_bytes_per_cta = std::min(target.shared_bytes_per_cta, max_shared_bytes);
    return target;
}

DeviceKey device_key(const DeviceInfo& info) {
    const Target& target = info.target;
    DeviceKey key{name_of(target.vendor), target.name, target.arch, target.multiprocessors, ""};
    constexpr std::string_view marker = " MIG ";
    if (const std::size_t at = key.name.find(marker); at != std::string::npos) {
        key.partition = key.name.substr(at + marker.size());
        key.name.resize(at);
    }
    return key;
}

const char* name_of(Verdict verdict) {
    return verdict_names[static_cast<std::size_t>(verdict)];
}
const char* name_of(Evidence evidence) {
    return evidence_names[static_cast<std::size_t>(evidence)];
}
const char* name_of(Effort effort) {
    return effort_names[static_cast<std::size_t>(effort)];
}

Result<Verdict> parse_verdict(std::string_view text) {
    return parse_name<Verdict>(text, "a verdict", verdict_names);
}
Result<Evidence> parse_evidence(std::string_view text) {
    return parse_name<Evidence>(text, "a kind of evidence", evidence_names);
}
Result<Effort> parse_effort(std::string_view text) {
    return parse_name<Effort>(text, "an effort", effort_names);
}

}  // namespace attune
