// Presets = named lists of problems from configs/shapes/*.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/problem.h"
#include "generator/status.h"

namespace attune {

struct Preset {
    std::string name;  // "paper": the file's stem
    std::string description;
    std::vector<Problem> problems;

    /// {"schema": "attune-shapes/1", "description": "...", "problems":
    /// ["bf16.d128.causal/b2.h16.kv16.q8192.k8192", ...]}. corrupt names the offending entry.
    static Result<Preset> from_json(std::string_view name, std::string_view text);
};

/// configs/shapes, embedded, sorted by name.
const std::vector<Preset>& known_presets();
/// not_found lists the names there are.
Result<Preset> find_preset(std::string_view name);

}  // namespace attune
