#include "generator/emit.h"

#include <fmt/format.h>

namespace attune {
namespace {

constexpr const char* entry_name = "attune_kernel";
constexpr const char* tool_version = ATTUNE_VERSION;

std::string body(const Variant& variant, const Family& family) {
    std::string text = fmt::format("// {} {} for {}\n#include \"{}\"\n\n", variant.signature.text(),
                                   variant.config.text(), variant.target.arch, family.entry_header);
    text += "namespace attune {\n\nstruct Variant {\n";
    text += fmt::format("    using Element = {};\n",
                        variant.signature.dtype == DType::f16 ? "F16" : "BF16");
    for (const auto& [name, value] : family.fields(variant.signature, variant.config)) {
        const bool flag = value == "true" || value == "false";
        text +=
            fmt::format("    static constexpr {} {} = {};\n", flag ? "bool" : "int", name, value);
    }
    const Launch launch = family.launch(variant.signature, variant.config, Shape{}, variant.target);
    text += fmt::format(
        "}};\n\n}}  // namespace attune\n\n"
        "ATTUNE_KERNEL({}, {}, attune::Variant::min_ctas, attune::AttentionParams, params) {{\n"
        "    attune::attention_forward<attune::Variant>(params);\n}}\n",
        entry_name, launch.threads_per_cta);
    return text;
}

}  // namespace

Source emit(const Variant& variant, const std::vector<TemplateFile>& templates) {
    const Family& family = *find_family(variant.config.family);
    Source source;
    source.entry = entry_name;
    const std::string text = body(variant, family);
    std::string hashed = text;
    for (const TemplateFile& file : templates) hashed += file.name + '\0' + file.text + '\0';
    for (const std::string& option : source.options) hashed += option + '\0';
    source.hash = sha256_hex(hashed);
    source.text = fmt::format("// attune {} {}\n", tool_version, source.hash) + text;
    return source;
}

}  // namespace attune
