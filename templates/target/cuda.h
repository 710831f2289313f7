// Target functions for NVRTC and nvcc, sm_75 and later (mbarriers and bf16 from sm_80 on): see
// contract.md for what each name means. Instruction semantics and fragment layouts: PTX ISA,
// "Warp-level matrix instructions", "Data movement: cp.async", "Parallel synchronization:
// mbarrier".
#pragma once

#include "templates/abi.h"

#define ATTUNE_DEVICE __device__ __forceinline__
#define ATTUNE_KERNEL(name, threads, min_ctas, Params, params)      \
    extern "C" __global__ void __launch_bounds__(threads, min_ctas) \
        name(const __grid_constant__ Params params)
#define ATTUNE_PRAGMA(text) _Pragma(#text)
#define ATTUNE_UNROLL ATTUNE_PRAGMA(unroll)
#define ATTUNE_UNROLL_N(n) ATTUNE_PRAGMA(unroll n)

// What the binary was made from, for who has only the binary.
#ifdef ATTUNE_VARIANT
extern "C" __device__ __constant__ const char attune_source[] =
    "attune source " ATTUNE_SOURCE_HASH " " ATTUNE_VARIANT;
#endif

namespace attune {

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
    return threadIdx.x;
}
ATTUNE_DEVICE int lane_index() {
    return threadIdx.x & 31;
}
ATTUNE_DEVICE int warp_index() {
    return __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0);
}
ATTUNE_DEVICE int cta_index() {
    return blockIdx.x;
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
    __syncwarp();
}
template <class T>
ATTUNE_DEVICE T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
ATTUNE_DEVICE T shuffle(T value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
ATTUNE_DEVICE bool warp_any(bool vote) {
    return __any_sync(0xffffffffu, vote);
}
ATTUNE_DEVICE bool warp_all(bool vote) {
    return __all_sync(0xffffffffu, vote);
}

// ---- shared memory ----------------------------------------------------------------------------

ATTUNE_DEVICE SharedAddress shared_base() {
    extern __shared__ __align__(1024) unsigned char attune_shared[];
    return static_cast<SharedAddress>(__cvta_generic_to_shared(attune_shared));
}
ATTUNE_DEVICE U128 load_shared_128(SharedAddress at) {
    U128 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}
ATTUNE_DEVICE void store_shared_128(SharedAddress at, U128 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}
ATTUNE_DEVICE float load_shared_f32(SharedAddress at) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
    return v;
}
ATTUNE_DEVICE void store_shared_f32(SharedAddress at, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
}
ATTUNE_DEVICE void ldmatrix_x4(unsigned (&r)[4], SharedAddress at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
ATTUNE_DEVICE void ldmatrix_x4_trans(unsigned (&r)[4], SharedAddress at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// ---- global memory ----------------------------------------------------------------------------

ATTUNE_DEVICE U128 load_global_128(const void* ptr) {
    return *static_cast<const U128*>(ptr);
}
ATTUNE_DEVICE void store_global_128(void* ptr, U128 v) {
    *static_cast<U128*>(ptr) = v;
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
    return atomicAdd(ptr, v);
}

// ---- arithmetic -------------------------------------------------------------------------------

ATTUNE_DEVICE float to_float(unsigned short bits, F16) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
ATTUNE_DEVICE float to_float(unsigned short bits, BF16) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
ATTUNE_DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
ATTUNE_DEVICE float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
ATTUNE_DEVICE float fma_rn(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
ATTUNE_DEVICE float max_f32(float a, float b) {
    return fmaxf(a, b);
}
ATTUNE_DEVICE float infinity() {
    return __uint_as_float(0x7f800000u);
}

ATTUNE_DEVICE unsigned long long global_timer_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
ATTUNE_DEVICE unsigned long long clock_cycles() {
    return clock64();
}

}  // namespace attune

#if __CUDA_ARCH__ >= 800
#include "templates/target/cuda/ampere.h"
#else
#include "templates/target/cuda/turing.h"
#endif
#if __CUDA_ARCH_FEAT_SM90_ALL
#include "templates/target/cuda/hopper.h"
#endif
