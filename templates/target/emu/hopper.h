// What sm_90a brought, as calls to the emulator. Included by target/emu.h.
#pragma once

#include "templates/target/matrix_descriptor.h"

namespace attune {

struct E4M3 {
    unsigned char bits;
};

ATTUNE_DEVICE unsigned char load_global_8(const void* ptr) {
    return emu::load<unsigned char>(ptr);
}
ATTUNE_DEVICE void stmatrix_x4(SharedAddress at, const unsigned (&r)[4]) {
    emu::operations->stmatrix_x4(at, r);
}
ATTUNE_DEVICE unsigned byte_permute(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned picked = 0;
    for (int i = 0; i < 4; ++i)
        picked |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xffu) << 8 * i;
    return picked;
}

namespace emu {
ATTUNE_DEVICE constexpr Element element_of(F16) {
    return Element::f16;
}
ATTUNE_DEVICE constexpr Element element_of(BF16) {
    return Element::bf16;
}
ATTUNE_DEVICE constexpr Element element_of(E4M3) {
    return Element::e4m3;
}
/// 448 and what is above become 448: satfinite.
ATTUNE_DEVICE unsigned to_e4m3(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    const unsigned sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fu;          // as cvt does: one NaN
    if (magnitude >= 0x43e80000u) return sign | 0x7eu;  // 464: halfway to the next, 480
    if (magnitude >= 0x3c800000u) return sign | (round_off(magnitude, 20) - (120u << 3));
    // Subnormal, in steps of 2^-9: adding 2^14 leaves them, rounded, at the end of the fraction.
    const float shifted = __builtin_bit_cast(float, magnitude) + 0x1p14f;
    return sign | (__builtin_bit_cast(unsigned, shifted) - 0x46800000u);
}
}  // namespace emu

ATTUNE_DEVICE float to_float(unsigned char bits, E4M3) {
    // As from f16: the exponent comes out 120 too small. 0x7f and 0xff are NaN.
    const unsigned magnitude = (bits & 0x7fu) << 20;
    if (magnitude == 0x7fu << 20) return __builtin_nanf("");
    const float value = __builtin_bit_cast(float, magnitude) * 0x1p120f;
    return bits & 0x80u ? -value : value;
}
ATTUNE_DEVICE unsigned pack4(float a, float b, float c, float d, E4M3) {
    return emu::to_e4m3(a) | emu::to_e4m3(b) << 8 | emu::to_e4m3(c) << 16 | emu::to_e4m3(d) << 24;
}

template <int n, class Element>
struct Wgmma {
    static_assert(n >= 8 && n <= 256 && n % 8 == 0, "columns of a wgmma");

    ATTUNE_DEVICE static void ss(float* d, MatrixDescriptor a, MatrixDescriptor b,
                                 bool accumulate) {
        call({d, nullptr, a, b, n, element, false, accumulate});
    }
    ATTUNE_DEVICE static void ss_across(float* d, MatrixDescriptor a, MatrixDescriptor b,
                                        bool accumulate) {
        static_assert(sizeof(Element) == 2, "operands of one byte lie along the depth alone");
        call({d, nullptr, a, b, n, element, true, accumulate});
    }
    ATTUNE_DEVICE static void rs(float* d, const unsigned (&a)[4], MatrixDescriptor b,
                                 bool accumulate) {
        call({d, a, 0, b, n, element, sizeof(Element) == 2, accumulate});
    }

private:
    static constexpr emu::Element element = emu::element_of(Element{});
    ATTUNE_DEVICE static void call(const emu::WgmmaCall& made) { emu::operations->wgmma(&made); }
};

ATTUNE_DEVICE void wgmma_fence() {
    emu::operations->wgmma_fence();
}
ATTUNE_DEVICE void wgmma_commit() {
    emu::operations->wgmma_commit();
}
template <int pending>
ATTUNE_DEVICE void wgmma_wait() {
    emu::operations->wgmma_wait(pending);
}
/// Nothing to do: the emulator's calls are not moved about.
template <int n>
ATTUNE_DEVICE void pin(float*) {}

ATTUNE_DEVICE void mbarrier_fence_init() {
    emu::operations->mbarrier_fence_init();
}
ATTUNE_DEVICE void fence_async() {
    emu::operations->fence_async();
}
ATTUNE_DEVICE void mbarrier_arrive_expect(SharedAddress at, int bytes) {
    emu::operations->mbarrier_arrive_expect(at, bytes);
}
ATTUNE_DEVICE void tensor_load(SharedAddress to, const TensorMap& map, SharedAddress barrier,
                               int column, int row, int head, int batch) {
    const emu::TensorPoint from{column, row, head, batch};
    emu::operations->tensor_load(to, &map, barrier, &from);
}

template <int registers>
ATTUNE_DEVICE void registers_grow() {
    emu::operations->registers_grow(registers);
}
template <int registers>
ATTUNE_DEVICE void registers_shrink() {
    emu::operations->registers_shrink(registers);
}

ATTUNE_DEVICE void named_sync(int barrier, int threads) {
    emu::operations->named_sync(barrier, threads);
}
ATTUNE_DEVICE void named_arrive(int barrier, int threads) {
    emu::operations->named_arrive(barrier, threads);
}

}  // namespace attune
