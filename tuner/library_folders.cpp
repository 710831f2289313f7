#include "tuner/library_folders.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

namespace attune {

namespace fs = std::filesystem;

std::vector<std::string> folders(const std::string& parent, std::string_view prefix) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
        if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
    std::sort(found.rbegin(), found.rend());
    return found;
}

void open_beside(const std::string& library, std::string_view prefix) {
    const fs::path folder = fs::path(library).parent_path();
    if (folder.empty()) return;
    for (const std::string& file : folders(folder, prefix))
        dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

}  // namespace attune
