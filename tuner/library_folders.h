// Where compilers' libraries may lie, and what must be open before them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune {

/// Folders of `parent` whose name starts with `prefix`, the last (newest) first.
std::vector<std::string> folders(const std::string& parent, std::string_view prefix);

/// Opens the files beside `library` whose names start with `prefix`. A library that asks the loader
/// for its builtins by name finds them then, wherever it was itself.
void open_beside(const std::string& library, std::string_view prefix);

}  // namespace attune
