#include "runtime/emu/global_memory.h"

#include <cstring>
#include <iterator>
#include <new>

#include "generator/formatted.h"

namespace attune::emu {
namespace {

constexpr std::align_val_t alignment{256};

}  // namespace

void GlobalMemory::Free::operator()(std::byte* memory) const {
    ::operator delete(memory, alignment);
}

Result<std::uint64_t> GlobalMemory::allocate(std::size_t bytes) {
    auto* memory = static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow));
    if (!memory)
        return Error{Code::out_of_memory, formatted("no host memory for {} bytes", bytes),
                     "use a smaller problem"};
    std::memset(memory, 0xff, bytes);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    blocks_.emplace(address, Block{std::unique_ptr<std::byte, Free>(memory), bytes});
    return address;
}

Result<void> GlobalMemory::release(std::uint64_t address) {
    if (blocks_.erase(address) == 0)
        return Error{Code::invalid_argument,
                     formatted("{:#x} is not the start of an allocation", address),
                     "release what allocate returned, once"};
    return {};
}

GlobalMemory::Range GlobalMemory::below(std::uint64_t at) const {
    auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin()) return {};
    const auto& [begin, block] = *std::prev(next);
    return {begin, begin + block.bytes};
}

std::string GlobalMemory::nearest(std::uint64_t at) const {
    if (blocks_.empty()) return "nothing is allocated";
    const Range before = below(at);
    const auto after = blocks_.upper_bound(at);
    const auto size = [](const Range& range) { return range.end - range.begin; };
    if (before.end > at)
        return formatted("{} bytes before the end of the {} bytes at {:#x}", before.end - at,
                         size(before), before.begin);
    if (before.end != 0 && (after == blocks_.end() || at - before.end < after->first - at))
        return formatted("{} bytes past the end of the {} bytes at {:#x}", at - before.end,
                         size(before), before.begin);
    return formatted("{} bytes before the start of the {} bytes at {:#x}", after->first - at,
                     after->second.bytes, after->first);
}

}  // namespace attune::emu
