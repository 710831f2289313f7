// Emit = variant to source text. Pure: the same input gives the same text on every machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/family.h"

namespace attune {

/// Signature x Config x Target: one kernel.
struct Variant {
    Signature signature;
    Config config;
    Target target;
};

/// A template by the name kernels include it under: "templates/mma/kernel.h".
struct TemplateFile {
    std::string name;
    std::string text;
};

/// The templates built into this library, sorted by name.
const std::vector<TemplateFile>& embedded_templates();

/// Generated text only instantiates: one struct of named constexpr fields and one extern "C" entry.
struct Source {
    std::string text;   // header: tool version and hash, and the hash again as a macro
    std::string entry;  // name of the extern "C" kernel
    std::string hash;   // SHA-256 hex over the text below its header, the templates it includes and
                        // the options
    std::vector<std::string> options;  // compile options that change code, in order
};

Source emit(const Variant& variant,
            const std::vector<TemplateFile>& templates = embedded_templates());

/// What templates call an element type: "BF16".
const char* element_name(DType dtype);

/// SHA-256 as 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace attune
