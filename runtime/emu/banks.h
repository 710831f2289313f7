// Bank conflicts: 32 or 64 banks of 4 bytes; a wavefront serves one word of each bank.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "generator/target.h"
#include "templates/target/emu_abi.h"

namespace attune::emu {

/// Banks, and which lanes of an access go together. in_order: 32, as many neighbouring lanes as 128
/// bytes serve. CDNA reads 16 bytes in an order of its own, gfx950 (cdna4) from 64 banks.
enum class Banks { in_order, cdna3, cdna4 };
Banks banks_of(const Target& target);

/// What the lanes of `lanes` (a bit each) access in one instruction, `bytes` each (4, 8 or 16).
struct WarpAccess {
    std::uint64_t lanes = 0;
    int bytes = 0;
    bool writes = false;
    std::array<SharedAddress, 64> at;  // of the lanes in `lanes`
};

/// Wavefronts beyond the least possible; lanes that read the same word share it.
int extra_wavefronts(const WarpAccess& access, Banks banks);

/// Lanes run one after the other, but a GPU would run a load or store for all of them at once. The
/// n-th time since the warp last met that a lane comes by an instruction is the same warp-wide
/// access as the n-th time of any other lane.
class AccessLog {
public:
    /// `site` tells instructions apart.
    void note(int lane, const void* site, SharedAddress at, int bytes, bool writes);
    /// The warp has met: the extra wavefronts of what was noted, which is forgotten.
    std::uint64_t flush(Banks banks);

private:
    struct Entry {
        const void* site;
        WarpAccess access;
    };
    std::vector<Entry> entries_;
    std::array<std::uint32_t, 64> cursor_{};  // where each lane stands in entries_
};

}  // namespace attune::emu
