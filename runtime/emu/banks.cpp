#include "runtime/emu/banks.h"

#include <algorithm>

namespace attune::emu {
namespace {

/// Wavefronts beyond the first that lanes first .. first + count - 1 need.
int extra_in_phase(const WarpAccess& access, int first, int count) {
    std::array<std::uint32_t, 64> words;
    int used = 0;
    for (int lane = first; lane < first + count; ++lane) {
        if (!(access.lanes >> lane & 1)) continue;
        for (int i = 0; i < access.bytes / 4; ++i) words[used++] = access.at[lane] / 4 + i;
    }
    std::sort(words.begin(), words.begin() + used);
    used = static_cast<int>(std::unique(words.begin(), words.begin() + used) - words.begin());
    std::array<int, 32> in_bank{};
    int most = 1;
    for (int i = 0; i < used; ++i) most = std::max(most, ++in_bank[words[i] % 32]);
    return most - 1;
}

}  // namespace

int extra_wavefronts(const WarpAccess& access) {
    const int phase_lanes = 128 / access.bytes;
    int extra = 0;
    for (int first = 0; first < 32; first += phase_lanes)
        extra += extra_in_phase(access, first, phase_lanes);
    return extra;
}

void AccessLog::note(int lane, const void* site, SharedAddress at, int bytes) {
    const std::uint32_t bit = 1u << lane;
    const std::size_t count = entries_.size();
    std::size_t i = cursor_[lane], tried = 0;
    for (; tried < count; ++tried, ++i) {
        if (i >= count) i = 0;
        if (entries_[i].site == site && !(entries_[i].access.lanes & bit)) break;
    }
    if (tried == count) {
        i = count;
        entries_.push_back({site, {0, bytes, {}}});
    }
    cursor_[lane] = static_cast<std::uint32_t>(i) + 1;
    entries_[i].access.lanes |= bit;
    entries_[i].access.at[lane] = at;
}

std::uint64_t AccessLog::flush() {
    if (entries_.empty()) return 0;
    std::uint64_t extra = 0;
    for (const Entry& entry : entries_) extra += extra_wavefronts(entry.access);
    entries_.clear();
    cursor_.fill(0);
    return extra;
}

}  // namespace attune::emu
