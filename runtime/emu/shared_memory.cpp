#include "runtime/emu/shared_memory.h"

#include <algorithm>

namespace attune::emu {

void SharedMemory::configure(int bytes, int warps, const Clocks* clocks) {
    bytes_.resize(bytes);
    clocks_ = clocks;
    warps_ = warps;
    words_ = clocks ? (bytes + 3) / 4 : 0;
    writes_.assign(words_, {});
    reads_.assign(std::size_t(words_) * warps, {});
    stores_.assign((bytes + 3) / 4, {});
    fenced_.assign(std::size_t(warps) * 32, 0);
    store_count_ = 0;
}

void SharedMemory::poison() {
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xff});
}

bool SharedMemory::contains(SharedAddress at, int bytes) const {
    return at >= shared_base && std::size_t(at - shared_base) + bytes <= bytes_.size();
}

std::optional<Conflict> SharedMemory::read(int thread, SharedAddress at, int bytes, Epoch epoch) {
    if (!clocks_) return {};
    Epoch* reads = reads_.data() + std::size_t(thread / 32) * words_;
    for (int i = word(at); i < word(at) + bytes / 4; ++i) {
        if (!clocks_->knows(thread, writes_[i]))
            return Conflict{shared_base + 4 * i, Access::write, writes_[i]};
        reads[i] = epoch;
    }
    return {};
}

std::optional<Conflict> SharedMemory::write(int thread, SharedAddress at, int bytes, Epoch epoch) {
    if (!clocks_) return {};
    for (int i = word(at); i < word(at) + bytes / 4; ++i) {
        if (!clocks_->knows(thread, writes_[i]))
            return Conflict{shared_base + 4 * i, Access::write, writes_[i]};
        for (int w = 0; w < warps_; ++w) {
            const Epoch& read = reads_[std::size_t(w) * words_ + i];
            if (!clocks_->knows(thread, read))
                return Conflict{shared_base + 4 * i, Access::read, read};
        }
        writes_[i] = epoch;
    }
    return {};
}

void SharedMemory::land(SharedAddress at, int bytes, Epoch epoch) {
    std::fill_n(stores_.begin() + word(at), bytes / 4, Store{});
    if (clocks_) std::fill_n(writes_.begin() + word(at), bytes / 4, epoch);
}

void SharedMemory::set_read(int warp, SharedAddress at, int bytes, Epoch epoch) {
    if (!clocks_) return;
    std::fill_n(reads_.begin() + std::size_t(warp) * words_ + word(at), bytes / 4, epoch);
}

void SharedMemory::stored(int thread, SharedAddress at, int bytes) {
    std::fill_n(stores_.begin() + word(at), (bytes + 3) / 4, Store{++store_count_, thread});
}

void SharedMemory::fence(int thread) {
    fenced_[thread] = store_count_;
}

std::optional<Unfenced> SharedMemory::unfenced(SharedAddress at, int bytes) const {
    for (int i = word(at); i < word(at) + bytes / 4; ++i)
        if (stores_[i].number > 0 && stores_[i].number > fenced_[stores_[i].thread])
            return Unfenced{shared_base + 4 * i, stores_[i].thread};
    return {};
}

}  // namespace attune::emu
