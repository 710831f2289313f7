#include "runtime/emu/clocks.h"

#include <algorithm>

namespace attune::emu {
namespace {

void raise(std::uint32_t* to, const std::uint32_t* from, int count) {
    for (int i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

void Clocks::reset(int threads) {
    threads_ = threads;
    width_ = threads + max_barriers + threads / 32;
    known_.assign(std::size_t(threads) * width_, 0);
    for (int t = 0; t < threads; ++t) row(t)[t] = 1;
}

void Clocks::join(int first, int count) {
    Known all(row(first), row(first) + width_);
    for (int t = first + 1; t < first + count; ++t) raise(all.data(), row(t), width_);
    for (int t = first; t < first + count; ++t) {
        std::copy(all.begin(), all.end(), row(t));
        ++row(t)[t];
    }
}

void Clocks::release(int thread, Known& into) {
    raise(into.data(), row(thread), width_);
    ++row(thread)[thread];
}

void Clocks::acquire(int thread, const Known& from) {
    raise(row(thread), from.data(), width_);
}

}  // namespace attune::emu
