// Text files compiled into the library by tools/cmake/embed.cmake, sorted by name.
#pragma once

#include <span>
#include <string_view>

namespace attune {

struct EmbeddedFile {
    std::string_view name;  // relative to its root: "templates/abi.h", "h200.json"
    std::string_view text;
};

std::span<const EmbeddedFile> embedded_template_files();
std::span<const EmbeddedFile> embedded_gpu_files();
std::span<const EmbeddedFile> embedded_shape_files();

}  // namespace attune
