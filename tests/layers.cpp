#include "tests/layers.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "generator/formatted.h"

namespace attune::layers {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr std::size_t max_lines = 400;

const Names top_level{".ci",     ".clang-format", ".clang-tidy", ".gitignore", "CMakeLists.txt",
                      "LICENSE", "README.md",     "configs",     "docs",       "CMakePresets.json",
                      "runtime", "templates",     "tests",       "tools",      "generator",
                      "tuner"};

/// A folder and the folders its files may include from. The longest folder that matches counts.
struct Layer {
    std::string_view folder;
    std::vector<std::string_view> below;
};
const Layer layers[] = {
    {"templates", {"templates"}},
    {"generator", {"generator", "templates"}},
    {"runtime", {"runtime", "generator", "templates"}},
    {"tuner", {"tuner", "runtime", "generator", "templates"}},
    {"tools", {"tools", "tuner", "runtime", "generator", "templates"}},
    {"tools/examples", {}},  // like a user's program: only installed headers
    {"tests", {"tests", "tools", "tuner", "runtime", "generator", "templates"}},
};

/// Includes that are not written from the root, and why.
struct Exception {
    std::string_view folder, include;
};
const Exception exceptions[] = {
    {"templates/", "target.h"},              // the seam: each compiler is handed its own
    {"tests/", "target.h"},                  // kernels of tests stand behind the same seam
    {"runtime/attune_emu.h", "attune.h"},    // installed side by side
    {"tools/examples/", "attune/attune.h"},  // installed names
    {"tools/examples/", "attune/attune_emu.h"},
};

/// The generator is pure: no files, no clock, no threads, no processes.
const Names impure{"fstream", "filesystem", "iostream", "cstdio",   "chrono",
                   "ctime",   "thread",     "future",   "unistd.h", "dlfcn.h"};

bool inside(std::string_view path, std::string_view folder) {
    return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

const Layer* layer_of(std::string_view path) {
    const Layer* found = nullptr;
    for (const Layer& layer : layers)
        if (inside(path, layer.folder) && (!found || layer.folder.size() > found->folder.size()))
            found = &layer;
    return found;
}

bool is_code(std::string_view path) {
    return path.ends_with(".h") || path.ends_with(".cpp") || path.ends_with(".c");
}

std::string check_quoted(std::string_view path, std::string_view include) {
    for (const Exception& exception : exceptions)
        if (path.starts_with(exception.folder) && include == exception.include) return "";
    const Layer* layer = layer_of(path);
    if (!layer) return formatted("{} is in no layer", path);
    const bool below =
        std::any_of(layer->below.begin(), layer->below.end(),
                    [&](std::string_view folder) { return inside(include, folder); });
    if (!below) return formatted("{} may not include \"{}\"", layer->folder, include);
    if (inside(include, "runtime/emu") && inside(path, "runtime") && !inside(path, "runtime/emu"))
        return formatted("the loader may not include the emulator's \"{}\"", include);
    return "";
}

std::string check_angled(std::string_view path, const std::string& include) {
    if (inside(path, "templates") && !inside(path, "templates/target"))
        return formatted("a kernel may not include <{}>", include);
    if (inside(path, "generator") && impure.contains(include))
        return formatted("the generator is pure and may not include <{}>", include);
    return "";
}

/// Vendor spellings, asm and conditional compilation on them, outside templates/target.
std::string check_spelling(std::string_view path, const std::string& code) {
    static const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b)");
    static const std::regex vendor(R"(__CUDA|__NVCC|__HIP|__AMDGCN|__gfx|__SPIRV)");
    static const std::regex assembly(R"(\b(asm|__asm__|__asm)\b)");
    static const std::regex builtin(R"(\b(__[a-z]\w*|threadIdx|blockIdx|blockDim|gridDim)\b)");
    if (inside(path, "templates/target") || inside(path, "tests")) return "";
    if (std::regex_search(code, assembly)) return "asm stands in templates/target only";
    if (std::regex_search(code, condition) && std::regex_search(code, vendor))
        return "conditions on vendor or arch stand in templates/target only";
    if (!inside(path, "templates")) return "";
    if (std::regex_search(code, condition)) return "a kernel has no #if";
    if (std::regex_search(code, builtin)) return "vendor built-ins stand in templates/target only";
    return "";
}

/// `line` is the source's line, `code` the same line without comments and literals.
std::string check_line(std::string_view path, const std::string& line, const std::string& code) {
    static const std::regex directive(R"(^\s*#\s*include\b)");
    static const std::regex quoted(R"(^\s*#\s*include\s*"([^"]+)\")");
    static const std::regex angled(R"(^\s*#\s*include\s*<([^>]+)>)");
    std::smatch match;
    if (std::regex_search(code, directive)) {
        if (std::regex_search(line, match, quoted)) return check_quoted(path, match[1].str());
        if (std::regex_search(line, match, angled)) return check_angled(path, match[1].str());
    }
    return check_spelling(path, code);
}

}  // namespace

std::string without_comments_and_literals(std::string_view text) {
    enum { code, line_comment, block_comment, literal } state = code;
    std::string out(text);
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
        const bool digit_separator = c == '\'' && i > 0 && std::isalnum((unsigned char)text[i - 1]);
        const auto blank = [&](std::size_t at) {
            if (at < out.size() && out[at] != '\n') out[at] = ' ';
        };
        if (state == code) {
            if (c == '/' && next == '/') state = line_comment;
            if (c == '/' && next == '*') state = block_comment, blank(i), blank(++i);
            if ((c == '"' || c == '\'') && !digit_separator) state = literal, quote = c;
            if (state == line_comment) blank(i);
            continue;
        }
        if (state == literal && c != quote && c != '\n') {
            blank(i);
            if (c == '\\') blank(++i);
            continue;
        }
        if (state != literal) blank(i);
        if (state == block_comment && c == '*' && next == '/') blank(++i), state = code;
        if (state == literal || (state == line_comment && c == '\n')) state = code;
    }
    return out;
}

std::vector<std::string> violations(std::string_view path, std::string_view text) {
    std::vector<std::string> out;
    const std::string top(path.substr(0, path.find('/')));
    if (!top_level.contains(top))
        out.push_back(formatted("{}: '{}' is no top-level name of the tree", path, top));
    if (!is_code(path)) return out;
    std::istringstream lines{std::string(text)};
    std::istringstream codes{without_comments_and_literals(text)};
    std::size_t number = 0;
    for (std::string line, code; std::getline(lines, line) && std::getline(codes, code);) {
        ++number;
        const std::string broken = check_line(path, line, code);
        if (!broken.empty()) out.push_back(formatted("{}:{}: {}", path, number, broken));
    }
    if (number > max_lines)
        out.push_back(formatted("{}: {} lines, at most {}", path, number, max_lines));
    return out;
}

}  // namespace attune::layers
