#include "generator/emit.h"

#include <algorithm>

#include "generator/embedded.h"
#include "generator/formatted.h"

namespace attune {
namespace {

constexpr const char* entry_name = "attune_kernel";
constexpr const char* tool_version = ATTUNE_VERSION;

std::string body(const Variant& variant, const Family& family) {
    std::string text = formatted("#define ATTUNE_VARIANT \"{} {} for {}\"\n#include \"{}\"\n\n",
                                 variant.signature.text(), variant.config.text(),
                                 variant.target.arch, family.entry_header);
    text += "namespace attune {\n\nstruct Variant {\n";
    text += formatted("    using Element = {};\n", element_name(variant.signature.dtype));
    for (const auto& [name, value] :
         family.fields(variant.signature, variant.config, variant.target)) {
        const bool flag = value == "true" || value == "false";
        text += formatted("    static constexpr {} {} = {};\n", flag ? "bool" : "int", name, value);
    }
    const Launch launch = family.launch(variant.signature, variant.config, Shape{}, variant.target);
    text += formatted(
        "}};\n\n}}  // namespace attune\n\n"
        "ATTUNE_KERNEL({}, {}, attune::Variant::min_ctas, attune::{}, params) {{\n"
        "    attune::attention_forward<attune::Variant>(params);\n}}\n",
        entry_name, launch.threads_per_cta,
        launch.tma_rows_q > 0 ? "TmaAttentionParams" : "AttentionParams");
    return text;
}

/// The templates a kernel includes, itself first, each once. "target.h" is the vendor's.
void add_included(const std::string& name, const std::vector<TemplateFile>& templates,
                  std::vector<const TemplateFile*>& included) {
    const auto file = std::find_if(templates.begin(), templates.end(),
                                   [&](const TemplateFile& each) { return each.name == name; });
    if (file == templates.end()) return;
    if (std::find(included.begin(), included.end(), &*file) != included.end()) return;
    included.push_back(&*file);
    constexpr std::string_view directive = "#include \"";
    for (std::size_t at = 0; (at = file->text.find(directive, at)) != std::string::npos;) {
        at += directive.size();
        add_included(file->text.substr(at, file->text.find('"', at) - at), templates, included);
    }
}

}  // namespace

const char* element_name(DType dtype) {
    static constexpr const char* names[] = {"F16", "BF16", "E4M3"};  // in DType's order
    return names[static_cast<int>(dtype)];
}

const std::vector<TemplateFile>& embedded_templates() {
    static const std::vector<TemplateFile> templates = [] {
        std::vector<TemplateFile> files;
        for (const EmbeddedFile& file : embedded_template_files())
            files.push_back({std::string(file.name), std::string(file.text)});
        return files;
    }();
    return templates;
}

Source emit(const Variant& variant, const std::vector<TemplateFile>& templates) {
    const Family& family = *find_family(variant.config.family);
    Source source;
    source.entry = entry_name;
    const std::string text = body(variant, family);
    std::string hashed = text;
    std::vector<const TemplateFile*> included;
    add_included(family.entry_header, templates, included);
    add_included(variant.target.vendor == Vendor::nvidia ? "templates/target/cuda.h"
                                                         : "templates/target/hip.h",
                 templates, included);
    for (const TemplateFile* file : included) hashed += file->name + '\0' + file->text + '\0';
    for (const std::string& option : source.options) hashed += option + '\0';
    source.hash = sha256_hex(hashed);
    source.text = formatted("// attune {} {}\n#define ATTUNE_SOURCE_HASH \"{}\"\n", tool_version,
                            source.hash, source.hash) +
                  text;
    return source;
}

}  // namespace attune
