#include "generator/target.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "generator/embedded.h"
#include "generator/formatted.h"

namespace attune {
namespace {

using nlohmann::json;

struct IntField {
    const char* key;
    int Target::*member;
};
constexpr IntField int_fields[] = {
    {"multiprocessors", &Target::multiprocessors},
    {"shared_bytes_per_cta", &Target::shared_bytes_per_cta},
    {"shared_bytes_per_multiprocessor", &Target::shared_bytes_per_multiprocessor},
    {"shared_bytes_reserved_per_cta", &Target::shared_bytes_reserved_per_cta},
    {"registers_per_multiprocessor", &Target::registers_per_multiprocessor},
    {"max_registers_per_thread", &Target::max_registers_per_thread},
    {"max_threads_per_multiprocessor", &Target::max_threads_per_multiprocessor},
    {"max_ctas_per_multiprocessor", &Target::max_ctas_per_multiprocessor},
    {"wave_size", &Target::wave_size},
};

struct NumberField {
    const char* key;
    double Target::*member;
};
constexpr NumberField number_fields[] = {
    {"memory_gb_per_s", &Target::memory_gb_per_s},
    {"dense_f16_tflops", &Target::dense_f16_tflops},
    {"boost_clock_mhz", &Target::boost_clock_mhz},
};

struct TextField {
    const char* key;
    std::string Target::*member;
};
constexpr TextField text_fields[] = {
    {"id", &Target::id}, {"name", &Target::name}, {"arch", &Target::arch}};

Error bad_key(std::string_view key, const char* expected) {
    return {Code::corrupt, formatted("GPU description: '{}' is missing or not {}", key, expected),
            "compare it with the files in configs/gpus"};
}

/// A whole number from 0 to 2^53 (what JSON carries exactly).
std::optional<std::int64_t> whole_number(const json& object, const char* key) {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_number_integer()) return std::nullopt;
    const auto value = it->get<std::int64_t>();
    if (value < 0 || value > (std::int64_t{1} << 53)) return std::nullopt;
    return value;
}

Result<void> read_numbers(const json& object, Target& target) {
    for (const auto& [key, member] : int_fields) {
        const auto value = whole_number(object, key);
        if (!value || *value > 1 << 30) return bad_key(key, "a whole number");
        target.*member = static_cast<int>(*value);
    }
    for (const auto& [key, member] : number_fields) {
        const auto it = object.find(key);
        if (it == object.end() || !it->is_number() || it->get<double>() < 0)
            return bad_key(key, "a number");
        target.*member = it->get<double>();
    }
    const auto l2_bytes = whole_number(object, "l2_bytes");
    if (!l2_bytes) return bad_key("l2_bytes", "a whole number");
    target.l2_bytes = *l2_bytes;
    return {};
}

std::vector<Target> parse_embedded() {
    std::vector<Target> targets;
    for (const EmbeddedFile& file : embedded_gpu_files())
        if (auto target = Target::from_json(file.text)) targets.push_back(*target);
    return targets;
}

}  // namespace

const char* name_of(Vendor vendor) {
    return vendor == Vendor::nvidia ? "nvidia" : "amd";
}

Result<Target> Target::from_json(std::string_view text) {
    const json object = json::parse(text, nullptr, false);
    if (!object.is_object())
        return Error{Code::corrupt, "a GPU description is not a JSON object",
                     "compare it with the files in configs/gpus"};
    Target target;
    for (const auto& [key, member] : text_fields) {
        const auto it = object.find(key);
        if (it == object.end() || !it->is_string()) return bad_key(key, "a text");
        target.*member = it->get<std::string>();
    }
    const auto vendor = object.find("vendor");
    if (vendor == object.end() || (*vendor != "nvidia" && *vendor != "amd"))
        return bad_key("vendor", "\"nvidia\" or \"amd\"");
    target.vendor = *vendor == "nvidia" ? Vendor::nvidia : Vendor::amd;
    if (auto read = read_numbers(object, target); !read) return read.error();
    return target;
}

std::string Target::to_json() const {
    json object;
    for (const auto& [key, member] : text_fields) object[key] = this->*member;
    object["vendor"] = name_of(vendor);
    for (const auto& [key, member] : int_fields) object[key] = this->*member;
    for (const auto& [key, member] : number_fields) object[key] = this->*member;
    object["l2_bytes"] = l2_bytes;
    return object.dump(2) + "\n";
}

int Target::compute_capability() const {
    return arch.starts_with("sm_") ? std::atoi(arch.c_str() + 3) : 0;
}

const std::vector<Target>& known_targets() {
    static const std::vector<Target> targets = parse_embedded();
    return targets;
}

Result<Target> find_target(std::string_view id) {
    std::string ids;
    for (const Target& target : known_targets()) {
        if (target.id == id) return target;
        ids += (ids.empty() ? "" : ", ") + target.id;
    }
    return Error{Code::not_found, formatted("no GPU is described as '{}'", id),
                 "choose one of " + ids};
}

}  // namespace attune
