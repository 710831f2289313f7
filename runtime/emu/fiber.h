// Fibers: the GPU threads of a CTA take turns on one host thread, each on a stack of its own.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "generator/status.h"

namespace attune::emu {

/// A point of execution. Default-made it can only be left (the host thread's own stack); started it
/// runs `entry(argument)` at the first switch_to. `entry` must not return: its last act is a
/// switch.
struct Fiber {
    boost::context::detail::fcontext_t context = nullptr;
    void (*entry)(void*) = nullptr;
    void* argument = nullptr;
    const void* stack_bottom = nullptr;
    std::size_t stack_bytes = 0;
    void* fake_stack = nullptr;  // AddressSanitizer's
};

/// Leaves `from`, which goes on when something switches to it, and runs `to`.
void switch_to(Fiber& from, Fiber& to);

/// Stacks for any number of fibers, a guard page below each. Memory is taken as it is touched.
class Stacks {
public:
    Stacks() = default;
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    ~Stacks();

    /// At least `count` stacks; no fiber may be alive.
    Result<void> reserve(int count);
    /// Makes `fiber` ready to run on stack `index`; what ran there before is forgotten.
    void start(Fiber& fiber, int index, void (*entry)(void*), void* argument) const;

private:
    void release();

    std::byte* memory_ = nullptr;
    int count_ = 0;
};

}  // namespace attune::emu
