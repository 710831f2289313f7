#include "runtime/emu/kernel_object.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "generator/formatted.h"
#include "runtime/emu/operations.h"

namespace attune::emu {
namespace {

Error io_error(const std::string& path) {
    return {Code::io_error, formatted("cannot write {}: {}", path, std::strerror(errno)),
            "set TMPDIR to a folder with space"};
}

/// A file that is gone when the object is: the loader opens files only.
class TemporaryFile {
public:
    TemporaryFile() {
        std::error_code ignored;
        path_ = (std::filesystem::temp_directory_path(ignored) / "attune-kernel-XXXXXX").string();
        file_ = mkstemp(path_.data());
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() {
        if (file_ < 0) return;
        close(file_);
        unlink(path_.c_str());
    }

    Result<void> write(std::span<const std::byte> bytes) {
        if (file_ < 0) return io_error(path_);
        while (!bytes.empty()) {
            const ssize_t written = ::write(file_, bytes.data(), bytes.size());
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return io_error(path_);
            bytes = bytes.subspan(written);
        }
        return {};
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
    int file_;
};

}  // namespace

void LoadedObject::Close::operator()(void* handle) const {
    dlclose(handle);
}

Result<LoadedObject> LoadedObject::load(std::span<const std::byte> binary, const std::string& entry,
                                        int wave_size) {
    const char* next_step = "compile it again with this version of Attune";
    TemporaryFile file;
    if (const Result<void> written = file.write(binary); !written) return written.error();
    LoadedObject object;
    object.entry_ = entry;
    object.handle_.reset(dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!object.handle_)
        return Error{Code::corrupt, formatted("not an emulator kernel: {}", dlerror()), next_step};
    object.kernel_ = static_cast<const KernelObject*>(dlsym(object.handle_.get(), entry.c_str()));
    if (!object.kernel_)
        return Error{Code::corrupt, formatted("the binary has no kernel {}", entry), next_step};
    if (object.kernel_->abi_version != abi_version)
        return Error{Code::version_mismatch,
                     formatted("{} was compiled for version {} of the emulator, this is {}", entry,
                               object.kernel_->abi_version, abi_version),
                     next_step};
    object.kernel_->bind(&operations(), wave_size);
    return object;
}

}  // namespace attune::emu
