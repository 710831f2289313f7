#include "runtime/emu/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define ATTUNE_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTUNE_ASAN_FIBERS 1
#endif
#endif
#ifdef ATTUNE_ASAN_FIBERS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include "generator/formatted.h"

namespace attune::emu {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t guard_bytes = 4096;
constexpr std::size_t usable_bytes = 128 * 1024;
constexpr std::size_t stride_bytes = guard_bytes + usable_bytes;

/// Travels with a jump; lives on the stack of the fiber that is left.
struct Switch {
    Fiber* from;
    Fiber* to;
};

#ifdef ATTUNE_ASAN_FIBERS
void announce_leaving(Fiber& from, const Fiber& to) {
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
}
void announce_arrival(Fiber& from, const Fiber& to) {
    __sanitizer_finish_switch_fiber(to.fake_stack, &from.stack_bottom, &from.stack_bytes);
}
void forget_frames(void* bottom) {
    ASAN_UNPOISON_MEMORY_REGION(bottom, usable_bytes);
}
#else
void announce_leaving(Fiber&, const Fiber&) {}
void announce_arrival(Fiber&, const Fiber&) {}
void forget_frames(void*) {}
#endif

Fiber& arrive(context::transfer_t transfer) {
    const Switch& way = *static_cast<Switch*>(transfer.data);
    way.from->context = transfer.fctx;
    announce_arrival(*way.from, *way.to);
    return *way.to;
}

void first_arrival(context::transfer_t transfer) {
    Fiber& self = arrive(transfer);
    self.entry(self.argument);
}

}  // namespace

void switch_to(Fiber& from, Fiber& to) {
    Switch way{&from, &to};
    announce_leaving(from, to);
    arrive(context::jump_fcontext(to.context, &way));
}

Stacks::~Stacks() {
    release();
}

void Stacks::release() {
    if (!memory_) return;
    for (int i = 0; i < count_; ++i) forget_frames(memory_ + i * stride_bytes + guard_bytes);
    munmap(memory_, count_ * stride_bytes);
    memory_ = nullptr;
    count_ = 0;
}

Result<void> Stacks::reserve(int count) {
    if (count <= count_) return {};
    release();
    void* memory = mmap(nullptr, count * stride_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const auto failure = [&] {
        return Error{Code::out_of_memory,
                     formatted("no memory for {} fiber stacks: {}", count, std::strerror(errno)),
                     "run with fewer host threads (EmuOptions.threads)"};
    };
    if (memory == MAP_FAILED) return failure();
    memory_ = static_cast<std::byte*>(memory);
    count_ = count;
    for (int i = 0; i < count; ++i) {
        if (mprotect(memory_ + i * stride_bytes, guard_bytes, PROT_NONE) == 0) continue;
        const Error error = failure();
        release();
        return error;
    }
    return {};
}

void Stacks::start(Fiber& fiber, int index, void (*entry)(void*), void* argument) const {
    std::byte* bottom = memory_ + index * stride_bytes + guard_bytes;
    forget_frames(bottom);
    fiber = {context::make_fcontext(bottom + usable_bytes, usable_bytes, first_arrival),
             entry,
             argument,
             bottom,
             usable_bytes,
             nullptr};
}

}  // namespace attune::emu
