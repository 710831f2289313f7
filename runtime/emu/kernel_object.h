// A kernel compiled for the emulator, loaded into this process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "generator/status.h"
#include "templates/target/emu_abi.h"

namespace attune::emu {

class LoadedObject {
public:
    /// corrupt if `binary` is not a shared object with such an entry. Its warps will have
    /// `wave_size` lanes.
    static Result<LoadedObject> load(std::span<const std::byte> binary, const std::string& entry,
                                     int wave_size);

    const KernelObject& kernel() const { return *kernel_; }
    const std::string& entry() const { return entry_; }

private:
    struct Close {
        void operator()(void* handle) const;
    };
    std::unique_ptr<void, Close> handle_;
    const KernelObject* kernel_ = nullptr;
    std::string entry_;
};

}  // namespace attune::emu
