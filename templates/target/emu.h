// Target functions for the emulator: see contract.md for what each name means. Everything that has
// to do with other threads or with memory is a call to the emulator (runtime/emu).
#pragma once

#include "templates/abi.h"
#include "templates/target/emu_abi.h"

#define ATTUNE_DEVICE inline __attribute__((always_inline))
#define ATTUNE_KERNEL(name, threads, min_ctas, Params, params)                              \
    static void name##_thread(const Params& params);                                        \
    extern "C" __attribute__((visibility("default"))) const attune::emu::KernelObject name; \
    const attune::emu::KernelObject name = {                                                \
        attune::emu::abi_version, threads, sizeof(Params), attune::emu::bind,               \
        [](const void* p) { name##_thread(*static_cast<const Params*>(p)); }};              \
    static void name##_thread(const Params& params)
#define ATTUNE_UNROLL
#define ATTUNE_UNROLL_N(n)

namespace attune {

namespace emu {
// Set when the object is loaded, before any thread runs.
static const Operations* operations;
static int wave_size;
static void bind(const Operations* given, int lanes) {
    operations = given;
    wave_size = lanes;
}
}  // namespace emu

using SharedAddress = emu::SharedAddress;

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
    return emu::operations->thread_index();
}
ATTUNE_DEVICE int lane_index() {
    return thread_index() % emu::wave_size;
}
ATTUNE_DEVICE int warp_index() {
    return thread_index() / emu::wave_size;
}
ATTUNE_DEVICE int cta_index() {
    return emu::operations->cta_index();
}
ATTUNE_DEVICE int cta_count() {
    return emu::operations->cta_count();
}

// ---- threads meet -----------------------------------------------------------------------------

ATTUNE_DEVICE void cta_sync() {
    emu::operations->cta_sync();
}
ATTUNE_DEVICE bool cta_any(bool vote) {
    return emu::operations->cta_any(vote);
}
ATTUNE_DEVICE void warp_sync() {
    emu::operations->warp_sync();
}
template <class T>
ATTUNE_DEVICE T shuffle(T value, int lane) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    return __builtin_bit_cast(T, emu::operations->shuffle(bits, lane));
}
template <class T>
ATTUNE_DEVICE T shuffle_xor(T value, int mask) {
    return shuffle(value, lane_index() ^ mask);
}
ATTUNE_DEVICE bool warp_any(bool vote) {
    return emu::operations->vote_any(vote);
}
ATTUNE_DEVICE bool warp_all(bool vote) {
    return emu::operations->vote_all(vote);
}

// ---- shared memory ----------------------------------------------------------------------------

ATTUNE_DEVICE SharedAddress shared_base() {
    return emu::shared_base;
}
ATTUNE_DEVICE SharedAddress anew(SharedAddress at) {
    return at;
}
ATTUNE_DEVICE U128 load_shared_128(SharedAddress at) {
    U128 v;
    emu::operations->load_shared(&v, at, 16);
    return v;
}
ATTUNE_DEVICE void store_shared_128(SharedAddress at, U128 v) {
    emu::operations->store_shared(at, &v, 16);
}
ATTUNE_DEVICE float load_shared_f32(SharedAddress at) {
    float v;
    emu::operations->load_shared(&v, at, 4);
    return v;
}
ATTUNE_DEVICE void store_shared_f32(SharedAddress at, float v) {
    emu::operations->store_shared(at, &v, 4);
}
ATTUNE_DEVICE void ldmatrix_x4(unsigned (&r)[4], SharedAddress at) {
    emu::operations->ldmatrix_x4(r, at);
}
ATTUNE_DEVICE void ldmatrix_x4_trans(unsigned (&r)[4], SharedAddress at) {
    emu::operations->ldmatrix_x4_trans(r, at);
}

// ---- global memory ----------------------------------------------------------------------------

namespace emu {
template <class T>
ATTUNE_DEVICE T load(const void* ptr) {
    T v;
    operations->load_global(&v, ptr, sizeof(T));
    return v;
}
template <class T>
ATTUNE_DEVICE void store(void* ptr, T v) {
    operations->store_global(ptr, &v, sizeof(T));
}
}  // namespace emu

ATTUNE_DEVICE U128 load_global_128(const void* ptr) {
    return emu::load<U128>(ptr);
}
ATTUNE_DEVICE void store_global_128(void* ptr, U128 v) {
    emu::store(ptr, v);
}
ATTUNE_DEVICE unsigned load_global_32(const void* ptr) {
    return emu::load<unsigned>(ptr);
}
ATTUNE_DEVICE unsigned load_global_volatile_32(const void* ptr) {
    return emu::load<unsigned>(ptr);
}
ATTUNE_DEVICE void store_global_32(void* ptr, unsigned v) {
    emu::store(ptr, v);
}
ATTUNE_DEVICE unsigned short load_global_16(const void* ptr) {
    return emu::load<unsigned short>(ptr);
}
ATTUNE_DEVICE void store_global_16(void* ptr, unsigned short v) {
    emu::store(ptr, v);
}
ATTUNE_DEVICE float load_global_f32(const float* ptr) {
    return emu::load<float>(ptr);
}
ATTUNE_DEVICE void store_global_f32(float* ptr, float v) {
    emu::store(ptr, v);
}
ATTUNE_DEVICE unsigned atomic_add_global(unsigned* ptr, unsigned v) {
    return emu::operations->atomic_add_global(ptr, v);
}

struct GlobalWindow {
    const unsigned char* base;
};
constexpr unsigned outside_window = 1u << 31;
ATTUNE_DEVICE GlobalWindow global_window(const void* base) {
    return {static_cast<const unsigned char*>(base)};
}
ATTUNE_DEVICE U128 load_window_128(const GlobalWindow& from, unsigned at, unsigned uniform) {
    return at < outside_window ? load_global_128(from.base + at + uniform) : U128{};
}
ATTUNE_DEVICE unsigned load_window_32(const GlobalWindow& from, unsigned at, unsigned uniform) {
    return at < outside_window ? load_global_32(from.base + at + uniform) : 0u;
}
template <int bytes>
ATTUNE_DEVICE void copy_window_to_shared(SharedAddress to, const GlobalWindow& from, unsigned at,
                                         unsigned uniform) {
    const auto* first = from.base + shuffle(uniform, 0);  // as the scalar registers give them
    to = shuffle(to, 0) + bytes * lane_index();
    emu::operations->copy_to_shared(to, at < outside_window ? first + at : nullptr, bytes);
}
ATTUNE_DEVICE void wait_window_copies() {
    emu::operations->cp_async_commit();
    emu::operations->cp_async_wait(0);
}

// ---- asynchronous copies ----------------------------------------------------------------------

ATTUNE_DEVICE void cp_async_16(SharedAddress to, const void* from, bool valid) {
    emu::operations->cp_async_16(to, from, valid);
}
ATTUNE_DEVICE void cp_async_commit() {
    emu::operations->cp_async_commit();
}
template <int pending>
ATTUNE_DEVICE void cp_async_wait() {
    emu::operations->cp_async_wait(pending);
}
ATTUNE_DEVICE void mbarrier_init(SharedAddress at, int count) {
    emu::operations->mbarrier_init(at, count);
}
ATTUNE_DEVICE void mbarrier_arrive(SharedAddress at) {
    emu::operations->mbarrier_arrive(at);
}
ATTUNE_DEVICE void mbarrier_arrive_cp_async(SharedAddress at) {
    emu::operations->mbarrier_arrive_cp_async(at);
}
ATTUNE_DEVICE void mbarrier_wait(SharedAddress at, int parity) {
    emu::operations->mbarrier_wait(at, parity);
}

// ---- arithmetic -------------------------------------------------------------------------------

ATTUNE_DEVICE float infinity() {
    return __builtin_inff();
}
ATTUNE_DEVICE void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                F16) {
    emu::operations->mma_f16(d, a, b0, b1);
}
ATTUNE_DEVICE void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                BF16) {
    emu::operations->mma_bf16(d, a, b0, b1);
}

namespace emu {
/// Adds half a unit of the 13 or 16 bits that go, ties to even.
ATTUNE_DEVICE unsigned round_off(unsigned bits, int dropped) {
    return (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
}
ATTUNE_DEVICE unsigned to_f16(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    const unsigned sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fffu;          // as cvt does: one NaN
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more
    if (magnitude >= 0x38800000u) return sign | (round_off(magnitude, 13) - (112u << 10));
    // Subnormal: adding 0.5 leaves the wanted bits, rounded, at the end of the sum's fraction.
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    return sign | (__builtin_bit_cast(unsigned, shifted) - 0x3f000000u);
}
ATTUNE_DEVICE unsigned to_bf16(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : round_off(bits, 16);
}
}  // namespace emu

ATTUNE_DEVICE unsigned pack2(float lo, float hi, F16) {
    return emu::to_f16(lo) | emu::to_f16(hi) << 16;
}
ATTUNE_DEVICE unsigned pack2(float lo, float hi, BF16) {
    return emu::to_bf16(lo) | emu::to_bf16(hi) << 16;
}
ATTUNE_DEVICE unsigned low_halves(unsigned a, unsigned b) {
    return (a & 0xffffu) | b << 16;
}
ATTUNE_DEVICE unsigned high_halves(unsigned a, unsigned b) {
    return a >> 16 | (b & 0xffff0000u);
}
ATTUNE_DEVICE float to_float(unsigned short bits, F16) {
    // Moving exponent and fraction into place leaves the exponent 112 too small; a product with
    // 2^112 is right for subnormals too. Infinity and NaN get the highest exponent.
    const unsigned magnitude = (bits & 0x7fffu) << 13;
    const float value = __builtin_bit_cast(float, magnitude) * 0x1p112f;
    const unsigned top = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
    return __builtin_bit_cast(float,
                              __builtin_bit_cast(unsigned, value) | top | (bits & 0x8000u) << 16);
}
ATTUNE_DEVICE float to_float(unsigned short bits, BF16) {
    return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
}
ATTUNE_DEVICE float exp2_approx(float x) {
    return emu::operations->exp2(x);
}
ATTUNE_DEVICE float log2_approx(float x) {
    return emu::operations->log2(x);
}
ATTUNE_DEVICE float fma_rn(float a, float b, float c) {
    return emu::operations->fma(a, b, c);
}
ATTUNE_DEVICE float max_f32(float a, float b) {
    if (a != a) return b;
    return b > a ? b : a;
}

ATTUNE_DEVICE unsigned long long global_timer_ns() {
    return emu::operations->ticks();
}
ATTUNE_DEVICE unsigned long long clock_cycles() {
    return emu::operations->ticks();
}

}  // namespace attune

#include "templates/target/emu/hopper.h"
#include "templates/target/emu/matrix.h"
