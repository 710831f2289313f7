// Runs the CTAs of a launch, one after the other, on one host thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "generator/formatted.h"
#include "runtime/emu/banks.h"
#include "runtime/emu/barriers.h"
#include "runtime/emu/clocks.h"
#include "runtime/emu/emu.h"
#include "runtime/emu/fiber.h"
#include "runtime/emu/global_memory.h"
#include "runtime/emu/shared_memory.h"
#include "runtime/emu/warpgroup.h"

namespace attune::emu {

/// What a launch runs; outlives the run.
struct Grid {
    const KernelObject* kernel;
    const void* params;
    const GlobalMemory* memory;
    int ctas;
    int threads;    // per CTA, whole warps
    int wave_size;  // lanes of a warp, 32 or 64
    Banks banks;
    int shared_bytes;
    EmuOptions options;
};

enum class Collective {
    warp_sync,
    shuffle,
    vote_any,
    vote_all,
    ldmatrix_x4,
    ldmatrix_x4_trans,
    stmatrix_x4,
    mma_f16,
    mma_bf16,
    matrix
};

/// What a lane brings to a collective operation, and where it takes the result.
struct LaneArguments {
    void* out = nullptr;
    const unsigned* in = nullptr;
    unsigned x = 0, y = 0;
    const MatrixCall* call = nullptr;
};

class CtaRunner {
public:
    /// Stacks and records for such CTAs.
    Result<void> prepare(const Grid& grid);
    /// Runs one CTA; what went wrong, if anything did.
    std::optional<std::string> run(int cta);

    const EmuCounts& counts() const { return counts_; }

    /// The runner of the CTA that this host thread is in.
    static CtaRunner& current();

    // What a GPU thread can ask for (operations.cpp); called on its fiber.
    int thread_index() const { return self_; }
    int cta_index() const { return cta_; }
    int cta_count() const { return grid_.ctas; }
    std::uint64_t tick() { return ++ticks_; }
    void count_exp2() { ++counts_.exp2; }

    void cta_sync();
    bool cta_any(bool vote);
    void collective(Collective what, const LaneArguments& arguments);

    void load_shared(void* to, SharedAddress at, int bytes, const void* site);
    void store_shared(SharedAddress at, const void* from, int bytes, const void* site);
    /// Checked: `bytes` at `global`, aligned to their size.
    void check_global(const void* global, int bytes, const char* what);

    void cp_async_16(SharedAddress to, const void* global, bool valid, const void* site);
    /// `global` null: what lands is unspecified.
    void copy_to_shared(SharedAddress to, const void* global, int bytes, const void* site);
    void cp_async_commit() { ++threads_[self_].open_group; }
    void cp_async_wait(int pending_groups);
    void mbarrier_init(SharedAddress at, int count);
    void mbarrier_arrive(SharedAddress at);
    void mbarrier_arrive_cp_async(SharedAddress at);
    void mbarrier_arrive_expect(SharedAddress at, int bytes);
    void mbarrier_fence_init();
    void fence_async() { shared_.fence(self_); }
    void mbarrier_wait(SharedAddress at, int parity);
    void tensor_load(SharedAddress to, const TensorMap& map, SharedAddress barrier,
                     const TensorPoint& first);
    void named_barrier(int id, int threads, bool wait);
    void warpgroup(WarpgroupStep step, int number, const WgmmaCall* call);

private:
    enum class State { ready, warp, warpgroup, cta, mbarrier, named, exited };

    struct Thread {
        Fiber fiber;
        State state = State::ready;
        unsigned barrier = 0;  // where it waits: an mbarrier's address, a named barrier's number
        int parity = 0;
        int open_group = 0;  // of cp.async
        std::vector<Copy> copies;
    };
    struct Warp {
        std::uint64_t ready = 0;    // lanes that can run
        std::uint64_t arrived = 0;  // lanes that wait at `at`
        Collective at = Collective::warp_sync;
        std::array<LaneArguments, 64> arguments;
        AccessLog log;
    };

    void begin();
    static void thread_main(void* runner);
    /// Ends the CTA: its fibers are abandoned where they stand, so nothing that owns memory may be
    /// alive on them. That is why `what` is a function that makes the text.
    template <class Text>
    [[noreturn]] void fail(int thread, const Text& what) {
        fault_ = formatted("CTA {}, thread {}: {}", cta_, thread, what());
        leave();
        std::abort();  // not reached: nothing switches back
    }
    void forget_records();

    // Scheduling (cta.cpp).
    int warp_of(int thread) const { return thread / grid_.wave_size; }
    int lane_of(int thread) const { return thread % grid_.wave_size; }
    int first_lane() const { return self_ - lane_of(self_); }  // thread that is lane 0 of this warp
    std::uint64_t all_lanes() const { return ~std::uint64_t(0) >> (64 - grid_.wave_size); }
    Warp& my_warp() { return warps_[warp_of(self_)]; }
    std::uint64_t my_bit() const { return std::uint64_t(1) << lane_of(self_); }
    void block(State state);
    void make_ready(int thread);
    void go_to(int thread);
    void leave();
    int any_ready_thread();
    std::uint32_t random();
    void check_divergence(const Warp& warp);
    std::string waits_for(int thread) const;
    std::string waits_for_mbarrier(const Thread& thread) const;
    std::string deadlock() const;

    // Collectives (cta_collectives.cpp).
    void execute(Warp& warp);
    void execute_mma(Warp& warp, DType dtype);
    void execute_ldmatrix(Warp& warp, bool trans);
    void execute_stmatrix(Warp& warp);
    void execute_shuffle(Warp& warp);
    void execute_vote(Warp& warp, bool all);
    void execute_matrix(Warp& warp);

    // Warpgroups (cta_warpgroup.cpp).
    void begin_warpgroups();
    void check_same_step(const Warpgroup& group, WarpgroupStep step, int number,
                         const WgmmaCall* call);
    void execute(Warpgroup& group);
    void go_on(Warpgroup& group);
    void issue_wgmma(Warpgroup& group);
    Accumulators& open_accumulators(Warpgroup& group);
    void finish_wgmmas(Warpgroup& group);
    void finish(Warpgroup& group, const PendingWgmma& wgmma);
    void read_operands(Warpgroup& group, const std::vector<SharedAddress>& pieces);
    void set_reads(const Warpgroup& group, const PendingWgmma& wgmma, std::uint32_t clock);
    void shrink_registers(Warpgroup& group);
    void grant_registers();
    int first_thread(const Warpgroup& group) const;

    // Memory (cta_memory.cpp).
    void check_shared(int thread, SharedAddress at, int bytes, const char* what);
    /// Now, as an epoch of the running thread.
    Epoch clocks_now() const { return clocks_now(self_); }
    Epoch clocks_now(int thread) const {
        return grid_.options.detect_races ? clocks_.now(thread) : Epoch{};
    }
    void note_read(int thread, SharedAddress at, int bytes);
    void note_write(int thread, SharedAddress at, int bytes, Epoch epoch);
    [[noreturn]] void fail_race(const Conflict& conflict, int thread, Access now);
    void start_copy(Copy copy, const char* what, const void* site);
    void land(const Copy& copy, Epoch epoch);
    void check_global_range(std::uint64_t at, int bytes, const char* what);

    // Barriers (cta_barriers.cpp).
    Barrier& barrier_at(SharedAddress at, const char* what);
    void check_fenced(const Barrier& barrier, const char* what);
    void arrived(Barrier& barrier);
    bool is_waited_for(const Barrier& barrier) const;
    void settle(Barrier& barrier, bool waited_for);
    void land(const TensorLoad& load, Epoch epoch);

    Grid grid_{};
    Stacks stacks_;
    Fiber host_;
    Clocks clocks_;
    SharedMemory shared_;
    Barriers barriers_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<Warpgroup> warpgroups_;
    std::array<NamedBarrier, 16> named_barriers_;
    EmuCounts counts_;
    GlobalMemory::Range last_range_;

    int cta_ = 0;
    int self_ = 0;  // the thread that runs
    int at_cta_sync_ = 0;
    bool votes_ = false;     // of the cta_any that gathers
    bool vote_any_ = false;  // of the last one that has gathered
    int exited_ = 0;
    std::uint64_t random_ = 0;
    std::uint64_t ticks_ = 0;
    int registers_free_ = 0;  // of those the CTA was launched with, threads x registers
    // Phases that brought copies and waits for wgmmas, over all CTAs: clocks never go back.
    std::uint32_t landings_ = 0;
    std::optional<std::string> fault_;
};

}  // namespace attune::emu
