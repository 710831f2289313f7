// Global memory: host memory the emulator handed out, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "generator/status.h"

namespace attune::emu {

class GlobalMemory {
public:
    /// Aligned to 256 bytes and filled with 0xff (NaN). 0 bytes get an address of their own.
    Result<std::uint64_t> allocate(std::size_t bytes);
    Result<void> release(std::uint64_t address);

    struct Range {
        std::uint64_t begin = 0, end = 0;
        bool contains(std::uint64_t at, std::size_t bytes) const {
            return at >= begin && at <= end && bytes <= end - at;
        }
    };
    /// The allocation with the highest start at or below `at`; empty if there is none.
    Range below(std::uint64_t at) const;
    bool contains(std::uint64_t at, std::size_t bytes) const {
        return below(at).contains(at, bytes);
    }
    /// "16 bytes past the end of the 4096 bytes at 0x..."
    std::string nearest(std::uint64_t at) const;

private:
    struct Free {
        void operator()(std::byte* memory) const;
    };
    struct Block {
        std::unique_ptr<std::byte, Free> memory;
        std::size_t bytes;
    };
    std::map<std::uint64_t, Block> blocks_;  // by address
};

}  // namespace attune::emu
