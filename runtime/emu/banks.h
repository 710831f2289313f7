// Bank conflicts: 32 banks of 4 bytes; a wavefront serves one word of each bank.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "templates/target/emu_abi.h"

namespace attune::emu {

/// What the lanes of `lanes` (a bit each) access in one instruction, `bytes` each (4, 8 or 16).
struct WarpAccess {
    std::uint64_t lanes = 0;
    int bytes = 0;
    std::array<SharedAddress, 64> at;  // of the lanes in `lanes`
};

/// Wavefronts beyond the least possible. As many neighbouring lanes as 128 bytes serve go together,
/// but 16-byte accesses of 64 lanes in CDNA 3's groups; lanes that read the same word share it.
int extra_wavefronts(const WarpAccess& access);

/// Lanes run one after the other, but a GPU would run a load or store for all of them at once. The
/// n-th time since the warp last met that a lane comes by an instruction is the same warp-wide
/// access as the n-th time of any other lane.
class AccessLog {
public:
    /// `site` tells instructions apart.
    void note(int lane, const void* site, SharedAddress at, int bytes);
    /// The warp has met: the extra wavefronts of what was noted, which is forgotten.
    std::uint64_t flush();

private:
    struct Entry {
        const void* site;
        WarpAccess access;
    };
    std::vector<Entry> entries_;
    std::array<std::uint32_t, 64> cursor_{};  // where each lane stands in entries_
};

}  // namespace attune::emu
