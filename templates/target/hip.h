// Target functions for hiprtc, wave64 (gfx90a, gfx942, gfx950) and wave32 (gfx11, gfx12): see
// contract.md for what each name means. Built-ins and their layouts: LLVM, "User Guide for AMDGPU
// Backend" and clang's AMDGPU built-ins; AMD, "Matrix Instruction Calculator". No header: hiprtc
// has few, and finds others than it should.
#pragma once

#include "templates/abi.h"

#define ATTUNE_DEVICE __device__ inline __attribute__((always_inline))
#define ATTUNE_KERNEL(name, threads, min_ctas, Params, params)                                    \
    extern "C" __global__                                                                         \
        __attribute__((amdgpu_flat_work_group_size(threads, threads),                             \
                       amdgpu_waves_per_eu(attune::waves_per_simd((min_ctas) * (threads))))) void \
        name(const Params params)
#define ATTUNE_PRAGMA(text) _Pragma(#text)
#define ATTUNE_UNROLL ATTUNE_PRAGMA(unroll)
#define ATTUNE_UNROLL_N(n) ATTUNE_PRAGMA(unroll n)

// What the binary was made from, for who has only the binary.
#ifdef ATTUNE_VARIANT
extern "C" __device__ __attribute__((used)) const char attune_source[] =
    "attune source " ATTUNE_SOURCE_HASH " " ATTUNE_VARIANT;
#endif

namespace attune {

#if __GFX9__
constexpr int wave_size = 64, simds_per_cu = 4;
#else
constexpr int wave_size = 32, simds_per_cu = 2;
#endif
/// That so many threads on a CU make: what bounds a lane's registers.
constexpr int waves_per_simd(int threads) {
    return (threads / wave_size + simds_per_cu - 1) / simds_per_cu;
}

using SharedAddress = unsigned;

struct alignas(16) U128 {
    unsigned x, y, z, w;
};
struct F16 {
    unsigned short bits;
};
struct BF16 {
    unsigned short bits;
};

// ---- where am I -------------------------------------------------------------------------------

ATTUNE_DEVICE int thread_index() {
    return __builtin_amdgcn_workitem_id_x();
}
ATTUNE_DEVICE int lane_index() {
    return thread_index() % wave_size;
}
ATTUNE_DEVICE int warp_index() {
    return __builtin_amdgcn_readfirstlane(thread_index() / wave_size);
}
ATTUNE_DEVICE int cta_index() {
    return __builtin_amdgcn_workgroup_id_x();
}
ATTUNE_DEVICE int cta_count() {
    return gridDim.x;
}

// ---- threads meet -----------------------------------------------------------------------------

ATTUNE_DEVICE void cta_sync() {
    __syncthreads();
}
ATTUNE_DEVICE bool cta_any(bool vote) {
    return __syncthreads_or(vote);
}
ATTUNE_DEVICE void warp_sync() {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}
ATTUNE_DEVICE bool warp_any(bool vote) {
    return __builtin_amdgcn_ballot_w64(vote) != 0;
}
ATTUNE_DEVICE bool warp_all(bool vote) {
    return !warp_any(!vote);
}
template <class T>
ATTUNE_DEVICE T shuffle(T value, int lane) {
    const int bits = __builtin_bit_cast(int, value);
    return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(4 * lane, bits));
}
template <class T>
ATTUNE_DEVICE T shuffle_xor(T value, int mask) {
#if !__GFX9__
    if (mask == 16) {  // the other half's lane of the same number
        const int bits = __builtin_bit_cast(int, value);
        return __builtin_bit_cast(
            T, __builtin_amdgcn_permlanex16(bits, bits, 0x76543210, 0xfedcba98, true, false));
    }
#endif
    return shuffle(value, lane_index() ^ mask);
}

// ---- shared memory ----------------------------------------------------------------------------

namespace hip {
template <class T>
using Shared = __attribute__((address_space(3))) T;
template <class T>
ATTUNE_DEVICE T load_shared(SharedAddress at) {
    return *reinterpret_cast<Shared<const T>*>(at);
}
template <class T>
ATTUNE_DEVICE void store_shared(SharedAddress at, T v) {
    *reinterpret_cast<Shared<T>*>(at) = v;
}
using Words = __attribute__((ext_vector_type(4))) unsigned;
}  // namespace hip

ATTUNE_DEVICE SharedAddress shared_base() {
    extern __shared__ __attribute__((aligned(1024))) unsigned char attune_shared[];
    return reinterpret_cast<SharedAddress>(
        (hip::Shared<unsigned char>*)(unsigned char*)attune_shared);
}
ATTUNE_DEVICE SharedAddress anew(SharedAddress at) {
    asm volatile("" : "+v"(at));
    return at;
}
ATTUNE_DEVICE U128 load_shared_128(SharedAddress at) {
    const hip::Words v = hip::load_shared<hip::Words>(at);
    return {v.x, v.y, v.z, v.w};
}
ATTUNE_DEVICE void store_shared_128(SharedAddress at, U128 v) {
    hip::store_shared(at, hip::Words{v.x, v.y, v.z, v.w});
}
ATTUNE_DEVICE float load_shared_f32(SharedAddress at) {
    return hip::load_shared<float>(at);
}
ATTUNE_DEVICE void store_shared_f32(SharedAddress at, float v) {
    hip::store_shared(at, v);
}

// ---- global memory ----------------------------------------------------------------------------

ATTUNE_DEVICE U128 load_global_128(const void* ptr) {
    const hip::Words v = *static_cast<const hip::Words*>(ptr);
    return {v.x, v.y, v.z, v.w};
}
ATTUNE_DEVICE void store_global_128(void* ptr, U128 v) {
    *static_cast<hip::Words*>(ptr) = hip::Words{v.x, v.y, v.z, v.w};
}
ATTUNE_DEVICE unsigned load_global_32(const void* ptr) {
    return *static_cast<const unsigned*>(ptr);
}
ATTUNE_DEVICE unsigned load_global_volatile_32(const void* ptr) {
    return *static_cast<const volatile unsigned*>(ptr);
}
ATTUNE_DEVICE void store_global_32(void* ptr, unsigned v) {
    *static_cast<unsigned*>(ptr) = v;
}
ATTUNE_DEVICE unsigned short load_global_16(const void* ptr) {
    return *static_cast<const unsigned short*>(ptr);
}
ATTUNE_DEVICE void store_global_16(void* ptr, unsigned short v) {
    *static_cast<unsigned short*>(ptr) = v;
}
ATTUNE_DEVICE float load_global_f32(const float* ptr) {
    return *ptr;
}
ATTUNE_DEVICE void store_global_f32(float* ptr, float v) {
    *ptr = v;
}
ATTUNE_DEVICE unsigned atomic_add_global(unsigned* ptr, unsigned v) {
    return __atomic_fetch_add(ptr, v, __ATOMIC_RELAXED);
}

/// A buffer resource without a stride. Its last word: LLVM's MLIR, AMDGPUToROCDL, "fat raw buffer";
/// RDNA's has the kind of bounds check too.
struct GlobalWindow {
    __amdgpu_buffer_rsrc_t resource;
};
constexpr unsigned outside_window = 1u << 31;
ATTUNE_DEVICE GlobalWindow global_window(const void* base) {
    constexpr int flags = wave_size == 64 ? 0x00027000 : 0x31027000;
    return {__builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(base), 0, outside_window, flags)};
}
ATTUNE_DEVICE U128 load_window_128(const GlobalWindow& from, unsigned at, unsigned uniform) {
    const hip::Words v = __builtin_amdgcn_raw_buffer_load_b128(from.resource, at, uniform, 0);
    return {v.x, v.y, v.z, v.w};
}
ATTUNE_DEVICE unsigned load_window_32(const GlobalWindow& from, unsigned at, unsigned uniform) {
    return __builtin_amdgcn_raw_buffer_load_b32(from.resource, at, uniform, 0);
}
#if __GFX9__
/// Where the wave's bytes go is in M0. The compiler knows no hazards inside asm: a load needs 5
/// wait states after the VALU wrote an SGPR it reads, 1 after M0 was written (AMD, CDNA 3 ISA
/// guide, "Manually inserted wait states"). Not the built-in: for it the compiler waits before each
/// read of shared memory.
template <int bytes>
ATTUNE_DEVICE void copy_window_to_shared(SharedAddress to, const GlobalWindow& from, unsigned at,
                                         unsigned uniform) {
    const int first = __builtin_amdgcn_readfirstlane(static_cast<int>(to));
    if constexpr (bytes == 4)
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 4\n\tbuffer_load_dword %1, %2, %3 offen lds"
                     :
                     : "s"(first), "v"(at), "s"(from.resource), "s"(uniform)
                     : "memory", "m0");
    else
        asm volatile("s_mov_b32 m0, %0\n\ts_nop 4\n\tbuffer_load_dwordx4 %1, %2, %3 offen lds"
                     :
                     : "s"(first), "v"(at), "s"(from.resource), "s"(uniform)
                     : "memory", "m0");
}
ATTUNE_DEVICE void wait_window_copies() {
    asm volatile("s_waitcnt vmcnt(0)" : : : "memory");
}
#else
ATTUNE_DEVICE void wait_window_copies() {}  // RDNA has none
#endif

// ---- arithmetic -------------------------------------------------------------------------------

ATTUNE_DEVICE unsigned pack2(float lo, float hi, F16) {
    using Pair = __attribute__((ext_vector_type(2))) _Float16;
    return __builtin_bit_cast(unsigned, Pair{static_cast<_Float16>(lo), static_cast<_Float16>(hi)});
}
ATTUNE_DEVICE unsigned pack2(float lo, float hi, BF16) {
    using Pair = __attribute__((ext_vector_type(2))) __bf16;
    return __builtin_bit_cast(unsigned, Pair{static_cast<__bf16>(lo), static_cast<__bf16>(hi)});
}
ATTUNE_DEVICE unsigned low_halves(unsigned a, unsigned b) {
    return __builtin_amdgcn_perm(b, a, 0x05040100);
}
ATTUNE_DEVICE unsigned high_halves(unsigned a, unsigned b) {
    return __builtin_amdgcn_perm(b, a, 0x07060302);
}
ATTUNE_DEVICE float to_float(unsigned short bits, F16) {
    return __builtin_bit_cast(_Float16, bits);
}
ATTUNE_DEVICE float to_float(unsigned short bits, BF16) {
    return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
}
ATTUNE_DEVICE float exp2_approx(float x) {
    return __builtin_amdgcn_exp2f(x);
}
ATTUNE_DEVICE float log2_approx(float x) {
    return __builtin_amdgcn_logf(x);
}
ATTUNE_DEVICE float fma_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
ATTUNE_DEVICE float max_f32(float a, float b) {
    return __builtin_fmaxf(a, b);
}
ATTUNE_DEVICE float infinity() {
    return __builtin_inff();
}

/// The counter of wall-clock time ticks at 100 MHz on CDNA and RDNA.
ATTUNE_DEVICE unsigned long long global_timer_ns() {
    return wall_clock64() * 10;
}
ATTUNE_DEVICE unsigned long long clock_cycles() {
    return __builtin_readcyclecounter();
}

}  // namespace attune

#include "templates/target/hip/matrix.h"
