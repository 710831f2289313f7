#include "runtime/emu/operations.h"

#include <cmath>
#include <cstring>

#include "runtime/emu/cta.h"

namespace attune::emu {
namespace {

CtaRunner& cta() {
    return CtaRunner::current();
}

int thread_index() {
    return cta().thread_index();
}
int cta_index() {
    return cta().cta_index();
}
int cta_count() {
    return cta().cta_count();
}

void cta_sync() {
    cta().cta_sync();
}
bool cta_any(bool vote) {
    return cta().cta_any(vote);
}
void warp_sync() {
    cta().collective(Collective::warp_sync, {});
}
unsigned shuffle(unsigned value, int lane) {
    unsigned result;
    cta().collective(Collective::shuffle, {&result, nullptr, value, static_cast<unsigned>(lane)});
    return result;
}
template <Collective which>
bool vote(bool vote) {
    unsigned result;
    cta().collective(which, {&result, nullptr, vote});
    return result != 0;
}

// The return address tells one load or store of a kernel from another: see AccessLog.
void load_shared(void* to, SharedAddress at, int bytes) {
    cta().load_shared(to, at, bytes, __builtin_return_address(0));
}
void store_shared(SharedAddress at, const void* from, int bytes) {
    cta().store_shared(at, from, bytes, __builtin_return_address(0));
}
void cp_async_16(SharedAddress to, const void* global, bool valid) {
    cta().cp_async_16(to, global, valid, __builtin_return_address(0));
}
void copy_to_shared(SharedAddress to, const void* global, int bytes) {
    cta().copy_to_shared(to, global, bytes, __builtin_return_address(0));
}
template <Collective which>
void ldmatrix(unsigned* to, SharedAddress at) {
    cta().collective(which, {to, nullptr, at});
}

void stmatrix_x4(SharedAddress at, const unsigned* from) {
    cta().collective(Collective::stmatrix_x4, {nullptr, from, at});
}

void load_global(void* to, const void* global, int bytes) {
    cta().check_global(global, bytes, "load_global");
    std::memcpy(to, global, bytes);
}
void store_global(void* global, const void* from, int bytes) {
    cta().check_global(global, bytes, "store_global");
    std::memcpy(global, from, bytes);
}
unsigned atomic_add_global(unsigned* global, unsigned value) {
    cta().check_global(global, sizeof(unsigned), "atomic_add_global");
    return __atomic_fetch_add(global, value, __ATOMIC_RELAXED);
}

void cp_async_commit() {
    cta().cp_async_commit();
}
void cp_async_wait(int pending_groups) {
    cta().cp_async_wait(pending_groups);
}
void mbarrier_init(SharedAddress at, int count) {
    cta().mbarrier_init(at, count);
}
void mbarrier_arrive(SharedAddress at) {
    cta().mbarrier_arrive(at);
}
void mbarrier_arrive_cp_async(SharedAddress at) {
    cta().mbarrier_arrive_cp_async(at);
}
void mbarrier_wait(SharedAddress at, int parity) {
    cta().mbarrier_wait(at, parity);
}

void mbarrier_arrive_expect(SharedAddress at, int bytes) {
    cta().mbarrier_arrive_expect(at, bytes);
}
void mbarrier_fence_init() {
    cta().mbarrier_fence_init();
}
void fence_async() {
    cta().fence_async();
}
void tensor_load(SharedAddress to, const TensorMap* map, SharedAddress barrier,
                 const TensorPoint* from) {
    cta().tensor_load(to, *map, barrier, *from);
}
template <bool wait>
void named_barrier(int barrier, int threads) {
    cta().named_barrier(barrier, threads, wait);
}

void wgmma(const WgmmaCall* call) {
    cta().warpgroup(WarpgroupStep::wgmma, 0, call);
}
template <WarpgroupStep step>
void warpgroup() {
    cta().warpgroup(step, 0, nullptr);
}
template <WarpgroupStep step>
void warpgroup(int number) {
    cta().warpgroup(step, number, nullptr);
}

template <Collective which>
void mma(float* d, const unsigned* a, unsigned b0, unsigned b1) {
    cta().collective(which, {d, a, b0, b1});
}
void matrix(const MatrixCall* call) {
    cta().collective(Collective::matrix, {.call = call});
}
float exp2(float x) {
    cta().count_exp2();
    return std::exp2(x);
}
float log2(float x) {
    return std::log2(x);
}
float fma(float a, float b, float c) {
    return std::fma(a, b, c);
}
unsigned long long ticks() {
    return cta().tick();
}

constexpr Operations table{
    .thread_index = thread_index,
    .cta_index = cta_index,
    .cta_count = cta_count,
    .cta_sync = cta_sync,
    .cta_any = cta_any,
    .warp_sync = warp_sync,
    .shuffle = shuffle,
    .vote_any = vote<Collective::vote_any>,
    .vote_all = vote<Collective::vote_all>,
    .load_shared = load_shared,
    .store_shared = store_shared,
    .ldmatrix_x4 = ldmatrix<Collective::ldmatrix_x4>,
    .ldmatrix_x4_trans = ldmatrix<Collective::ldmatrix_x4_trans>,
    .stmatrix_x4 = stmatrix_x4,
    .load_global = load_global,
    .store_global = store_global,
    .atomic_add_global = atomic_add_global,
    .cp_async_16 = cp_async_16,
    .copy_to_shared = copy_to_shared,
    .cp_async_commit = cp_async_commit,
    .cp_async_wait = cp_async_wait,
    .mbarrier_init = mbarrier_init,
    .mbarrier_arrive = mbarrier_arrive,
    .mbarrier_arrive_cp_async = mbarrier_arrive_cp_async,
    .mbarrier_wait = mbarrier_wait,
    .mbarrier_arrive_expect = mbarrier_arrive_expect,
    .mbarrier_fence_init = mbarrier_fence_init,
    .fence_async = fence_async,
    .tensor_load = tensor_load,
    .named_sync = named_barrier<true>,
    .named_arrive = named_barrier<false>,
    .wgmma = wgmma,
    .wgmma_fence = warpgroup<WarpgroupStep::fence>,
    .wgmma_commit = warpgroup<WarpgroupStep::commit>,
    .wgmma_wait = warpgroup<WarpgroupStep::wait>,
    .registers_grow = warpgroup<WarpgroupStep::grow>,
    .registers_shrink = warpgroup<WarpgroupStep::shrink>,
    .mma_f16 = mma<Collective::mma_f16>,
    .mma_bf16 = mma<Collective::mma_bf16>,
    .matrix = matrix,
    .exp2 = exp2,
    .log2 = log2,
    .fma = fma,
    .ticks = ticks,
};

}  // namespace

const Operations& operations() {
    return table;
}

}  // namespace attune::emu
