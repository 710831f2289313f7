#include "runtime/emu/banks.h"

#include <algorithm>

namespace attune::emu {
namespace {

/// The orders in which CDNA 3 and 4 serve the lanes of a 16-byte read, 8 and 16 at a time, as
/// measured on them (CDNA 3: AMD, "AMDGPU kernel optimization guide" of shark-ai; CDNA 4:
/// HipKittens).
using Order = std::array<int, 64>;
constexpr Order cdna3_order = {0,  1,  2,  3,  20, 21, 22, 23, 32, 33, 34, 35, 52, 53, 54, 55,
                               4,  5,  6,  7,  16, 17, 18, 19, 36, 37, 38, 39, 48, 49, 50, 51,
                               8,  9,  10, 11, 28, 29, 30, 31, 40, 41, 42, 43, 60, 61, 62, 63,
                               12, 13, 14, 15, 24, 25, 26, 27, 44, 45, 46, 47, 56, 57, 58, 59};
constexpr Order cdna4_order = {0,  1,  2,  3,  12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27,
                               32, 33, 34, 35, 44, 45, 46, 47, 52, 53, 54, 55, 56, 57, 58, 59,
                               4,  5,  6,  7,  8,  9,  10, 11, 16, 17, 18, 19, 28, 29, 30, 31,
                               36, 37, 38, 39, 40, 41, 42, 43, 48, 49, 50, 51, 60, 61, 62, 63};

/// Wavefronts beyond the first that the lanes at places first .. first + count - 1 of `order`
/// (null: their own) need.
int extra_in_phase(const WarpAccess& access, int first, int count, const Order* order, int banks) {
    std::array<std::uint32_t, 64> words;
    int used = 0;
    for (int place = first; place < first + count; ++place) {
        const int lane = order ? (*order)[place] : place;
        if (!(access.lanes >> lane & 1)) continue;
        for (int i = 0; i < access.bytes / 4; ++i) words[used++] = access.at[lane] / 4 + i;
    }
    std::sort(words.begin(), words.begin() + used);
    used = static_cast<int>(std::unique(words.begin(), words.begin() + used) - words.begin());
    std::array<int, 64> in_bank{};
    int most = 1;
    for (int i = 0; i < used; ++i) most = std::max(most, ++in_bank[words[i] % banks]);
    return most - 1;
}

}  // namespace

Banks banks_of(const Target& target) {
    if (target.wave_size == 32) return Banks::in_order;
    return target.arch == "gfx950" ? Banks::cdna4 : Banks::cdna3;
}

int extra_wavefronts(const WarpAccess& access, Banks banks) {
    const bool reads_64 = banks == Banks::cdna4 && !access.writes;
    const int count = reads_64 ? 64 : 32;
    const int phase_lanes = 4 * count / access.bytes;
    const Order* order = nullptr;
    if (access.bytes == 16 && !access.writes && banks != Banks::in_order)
        order = banks == Banks::cdna4 ? &cdna4_order : &cdna3_order;
    int extra = 0;
    for (int first = 0; first < (banks == Banks::in_order ? 32 : 64); first += phase_lanes)
        extra += extra_in_phase(access, first, phase_lanes, order, count);
    return extra;
}

void AccessLog::note(int lane, const void* site, SharedAddress at, int bytes, bool writes) {
    const std::uint64_t bit = std::uint64_t(1) << lane;
    const std::size_t count = entries_.size();
    std::size_t i = cursor_[lane], tried = 0;
    for (; tried < count; ++tried, ++i) {
        if (i >= count) i = 0;
        if (entries_[i].site == site && !(entries_[i].access.lanes & bit)) break;
    }
    if (tried == count) {
        i = count;
        entries_.push_back({site, {0, bytes, writes, {}}});
    }
    cursor_[lane] = static_cast<std::uint32_t>(i) + 1;
    entries_[i].access.lanes |= bit;
    entries_[i].access.at[lane] = at;
}

std::uint64_t AccessLog::flush(Banks banks) {
    if (entries_.empty()) return 0;
    std::uint64_t extra = 0;
    for (const Entry& entry : entries_) extra += extra_wavefronts(entry.access, banks);
    entries_.clear();
    cursor_.fill(0);
    return extra;
}

}  // namespace attune::emu
