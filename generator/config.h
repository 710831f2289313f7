// Config = the tunables of a family, named fields with one text form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/status.h"

namespace attune {

/// One tunable of a family. `key` is its spelling in a config's text form: "q" in "q128".
/// Axes whose values are words (grid, rescale, ...) list them in `words`, in the order of `values`.
struct Axis {
    std::string_view key;
    const char* name;                // the field's name in generated source: "tile_q"
    std::vector<int> values;         // ascending
    std::vector<const char*> words;  // empty for numbers
    int default_value;               // what a text form that leaves the axis out means
    const char* meaning;             // one sentence
};

/// Values of all axes of a family, in the family's axis order.
/// Text form: family, then key and value of each axis: "mma/q128.kv64.w4.s2.qop=smem....".
struct Config {
    std::string family;
    std::vector<int> values;

    std::string text() const;
    /// Accepts any order of axes and missing ones (they take the family's default value).
    static Result<Config> parse(std::string_view text);
    int operator[](std::string_view key) const;  // key must be an axis of the family
    Config with(std::string_view key, int value) const;
    bool operator==(const Config&) const = default;
};

}  // namespace attune
