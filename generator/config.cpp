#include "generator/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "generator/family.h"
#include "generator/formatted.h"

namespace attune {
namespace {

std::string axis_text(const Axis& axis, int value) {
    if (axis.words.empty()) return formatted("{}{}", axis.key, value);
    const auto at = std::find(axis.values.begin(), axis.values.end(), value) - axis.values.begin();
    return formatted("{}={}", axis.key, axis.words[static_cast<std::size_t>(at)]);
}

/// The value `part` gives to `axis`, if it speaks of this axis and the value is one of the axis's.
bool parse_axis(const Axis& axis, std::string_view part, int& value) {
    for (int candidate : axis.values) {
        if (part == axis_text(axis, candidate)) {
            value = candidate;
            return true;
        }
    }
    return false;
}

std::string axis_values(const Axis& axis) {
    std::string text;
    for (int value : axis.values) text += (text.empty() ? "" : " ") + axis_text(axis, value);
    return text;
}

/// "kv" of "kv64", "part" of "part=kv".
std::string_view key_of(std::string_view part) {
    return part.substr(0, part.find_first_of("=-0123456789"));
}

Error unknown_part(const Family& family, std::string_view part) {
    if (const Axis* axis = family.axis(key_of(part)))
        return {Code::invalid_argument, formatted("'{}' is not a value of {}", part, axis->name),
                "it takes " + axis_values(*axis)};
    std::string known;
    for (const Axis& axis : family.axes)
        known += (known.empty() ? "" : " ") + std::string(axis.key);
    return {Code::invalid_argument,
            formatted("'{}' is not an axis of family {}", part, family.name), "axes are " + known};
}

}  // namespace

std::string Config::text() const {
    const Family* family = find_family(this->family);
    std::string text = this->family + "/";
    for (std::size_t i = 0; family != nullptr && i < family->axes.size(); ++i)
        text += (i == 0 ? "" : ".") + axis_text(family->axes[i], values[i]);
    return text;
}

Result<Config> Config::parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    const Family* family = find_family(text.substr(0, slash));
    if (family == nullptr || slash == std::string_view::npos)
        return Error{Code::invalid_argument, formatted("'{}' is not a config", text),
                     "write it like mma/q128.kv64.w4.s2"};
    Config config{std::string(family->name), {}};
    for (const Axis& axis : family->axes) config.values.push_back(axis.default_value);
    std::vector<bool> given(family->axes.size(), false);
    std::string_view rest = text.substr(slash + 1);
    while (!rest.empty()) {
        const std::string_view part = rest.substr(0, rest.find('.'));
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
        std::size_t i = 0;
        while (i < given.size() && !parse_axis(family->axes[i], part, config.values[i])) ++i;
        if (i == given.size()) return unknown_part(*family, part);
        if (given[i])
            return Error{
                Code::invalid_argument,
                formatted("'{}' is not the first {} of '{}'", part, family->axes[i].name, text),
                "give each axis once"};
        given[i] = true;
    }
    return config;
}

int Config::operator[](std::string_view key) const {
    const Family* family = find_family(this->family);
    for (std::size_t i = 0; family != nullptr && i < family->axes.size(); ++i)
        if (key == family->axes[i].key) return values[i];
    std::abort();  // a key that no axis has is a bug of the caller
}

Config Config::with(std::string_view key, int value) const {
    Config changed = *this;
    const Family* family = find_family(this->family);
    for (std::size_t i = 0; i < family->axes.size(); ++i)
        if (key == family->axes[i].key) changed.values[i] = value;
    return changed;
}

}  // namespace attune
