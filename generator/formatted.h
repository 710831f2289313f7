#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

namespace attune {

/// `pattern` with `values` in place of its {}, in the syntax of fmt, checked when compiled.
template <class... Values>
std::string formatted(fmt::format_string<Values...> pattern, Values&&... values);

/// The one place where fmt's formatting is compiled: in every source file it would cost seconds.
std::string vformatted(fmt::string_view pattern, fmt::format_args values);

template <class... Values>
std::string formatted(fmt::format_string<Values...> pattern, Values&&... values) {
    return vformatted(pattern, fmt::make_format_args(values...));
}

}  // namespace attune
