// A CTA's shared memory: its bytes, and who touched them last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/emu/clocks.h"
#include "templates/target/emu_abi.h"

namespace attune::emu {

enum class Access { read, write };

/// Two accesses of a 4-byte word with no order between them, at least one of them a write.
struct Conflict {
    SharedAddress address;
    Access earlier;
    Epoch epoch;  // of the earlier one; clock == in_flight: not finished
};

struct Unfenced {
    SharedAddress address;
    int thread;  // that stored there
};

class SharedMemory {
public:
    /// Forgets everything. `clocks` null: accesses are not recorded.
    void configure(int bytes, int warps, const Clocks* clocks);
    /// Every byte becomes 0xff: NaN, whichever type reads it. Records stay.
    void poison();

    bool contains(SharedAddress at, int bytes) const;
    std::byte* bytes(SharedAddress at) { return bytes_.data() + (at - shared_base); }

    /// Records an access of whole words by `thread`, as made at `epoch`, and finds what it
    /// conflicts with.
    std::optional<Conflict> read(int thread, SharedAddress at, int bytes, Epoch epoch);
    std::optional<Conflict> write(int thread, SharedAddress at, int bytes, Epoch epoch);
    /// A copy recorded as in flight has landed, at `epoch`.
    void land(SharedAddress at, int bytes, Epoch epoch);
    /// A read recorded as in flight is over, at `epoch`; or another one of the warp's is not.
    void set_read(int warp, SharedAddress at, int bytes, Epoch epoch);

    // What threads stored is not seen by wgmma and tensor loads until the storing thread fences.
    void stored(int thread, SharedAddress at, int bytes);
    void fence(int thread);
    /// The first word of these whose store no fence followed.
    std::optional<Unfenced> unfenced(SharedAddress at, int bytes) const;

private:
    int word(SharedAddress at) const { return static_cast<int>(at - shared_base) / 4; }

    std::vector<std::byte> bytes_;
    const Clocks* clocks_ = nullptr;
    int warps_ = 0;
    int words_ = 0;
    std::vector<Epoch> writes_;  // [words]
    std::vector<Epoch> reads_;   // [warps][words]: the latest of each warp

    struct Store {
        std::uint32_t number;  // 0: none
        int thread;
    };
    std::vector<Store> stores_;          // [words]: the latest
    std::vector<std::uint32_t> fenced_;  // [threads]: stores up to this number
    std::uint32_t store_count_ = 0;
};

}  // namespace attune::emu
