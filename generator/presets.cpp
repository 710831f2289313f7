#include "generator/presets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "generator/embedded.h"
#include "generator/formatted.h"

namespace attune {
namespace {

using nlohmann::json;

Error corrupt(std::string_view name, std::string_view what) {
    return {Code::corrupt, formatted("shapes '{}': {}", name, what),
            "compare it with the files in configs/shapes"};
}

std::vector<Preset> parse_embedded() {
    std::vector<Preset> presets;
    for (const EmbeddedFile& file : embedded_shape_files()) {
        const std::string_view stem = file.name.substr(0, file.name.find('.'));
        if (auto preset = Preset::from_json(stem, file.text)) presets.push_back(*preset);
    }
    std::ranges::sort(presets, {}, &Preset::name);  // "paper-fp16.json" sorts before "paper.json"
    return presets;
}

}  // namespace

Result<Preset> Preset::from_json(std::string_view name, std::string_view text) {
    const json object = json::parse(text, nullptr, false);
    if (!object.is_object()) return corrupt(name, "not a JSON object");
    if (object.value("schema", json()) != "attune-shapes/1")
        return corrupt(name, "its schema is not attune-shapes/1");
    const auto problems = object.find("problems");
    if (problems == object.end() || !problems->is_array() || problems->empty())
        return corrupt(name, "'problems' is missing or not a list of problems");
    const json description = object.value("description", json(""));
    if (!description.is_string()) return corrupt(name, "'description' is not a text");

    Preset preset{std::string(name), description.get<std::string>(), {}};
    for (const json& entry : *problems) {
        if (!entry.is_string()) return corrupt(name, entry.dump() + " is not a problem");
        auto problem = Problem::parse(entry.get_ref<const std::string&>());
        if (!problem) return corrupt(name, problem.error().message);
        if (auto valid = validate(*problem); !valid) return corrupt(name, valid.error().message);
        preset.problems.push_back(*problem);
    }
    return preset;
}

const std::vector<Preset>& known_presets() {
    static const std::vector<Preset> presets = parse_embedded();
    return presets;
}

Result<Preset> find_preset(std::string_view name) {
    std::string names;
    for (const Preset& preset : known_presets()) {
        if (preset.name == name) return preset;
        names += (names.empty() ? "" : ", ") + preset.name;
    }
    return Error{Code::not_found, formatted("there is no shapes preset '{}'", name),
                 formatted("choose one of {} or name a file", names)};
}

}  // namespace attune
