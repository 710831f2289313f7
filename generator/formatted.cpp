#include "generator/formatted.h"

namespace attune {

std::string vformatted(fmt::string_view pattern, fmt::format_args values) {
    return fmt::vformat(pattern, values);
}

}  // namespace attune
