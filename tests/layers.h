// The rules of the tree, as a function from one tracked file to what it breaks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::layers {

/// One sentence per broken rule, each with the line it stands on; empty for a file that is fine.
/// `path` is relative to the repository's root.
std::vector<std::string> violations(std::string_view path, std::string_view text);

/// `text` with comments and the inside of string and character literals blanked, line breaks kept.
std::string without_comments_and_literals(std::string_view text);

}  // namespace attune::layers
