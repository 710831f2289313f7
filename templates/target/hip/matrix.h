// AMD's matrix instructions, as far as the arch has them.
#pragma once

namespace attune {

namespace hip {
/// A lane's operand or accumulator, as the built-ins want it.
template <class T, int n>
using Vector = __attribute__((ext_vector_type(n))) T;
template <class To, class From>
ATTUNE_DEVICE To read(const From* from) {
    To v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
template <class To, class From>
ATTUNE_DEVICE void write(To* to, const From& v) {
    __builtin_memcpy(to, &v, sizeof v);
}
}  // namespace hip

template <int n>
ATTUNE_DEVICE void pin(float* registers) {
    auto v = hip::read<hip::Vector<float, n>>(registers);
    asm volatile("" : "+v"(v));
    hip::write(registers, v);
}

#if __gfx950__
#define ATTUNE_MFMA(name, Accumulator, f16, bf16, f16_deep, bf16_deep)              \
    ATTUNE_DEVICE void name(float* d, const unsigned* a, const unsigned* b, F16) {  \
        using Operand = hip::Vector<_Float16, 8>;                                   \
        hip::write(d, f16_deep(hip::read<Operand>(a), hip::read<Operand>(b),        \
                               hip::read<Accumulator>(d), 0, 0, 0));                \
    }                                                                               \
    ATTUNE_DEVICE void name(float* d, const unsigned* a, const unsigned* b, BF16) { \
        using Operand = hip::Vector<__bf16, 8>;                                     \
        hip::write(d, bf16_deep(hip::read<Operand>(a), hip::read<Operand>(b),       \
                                hip::read<Accumulator>(d), 0, 0, 0));               \
    }
#elif __GFX9__
#define ATTUNE_MFMA(name, Accumulator, f16, bf16, f16_deep, bf16_deep)                  \
    ATTUNE_DEVICE void name(float* d, const unsigned* a, const unsigned* b, F16) {      \
        using Operand = hip::Vector<_Float16, 4>;                                       \
        Accumulator sum = hip::read<Accumulator>(d);                                    \
        sum = f16(hip::read<Operand>(a), hip::read<Operand>(b), sum, 0, 0, 0);          \
        sum = f16(hip::read<Operand>(a + 2), hip::read<Operand>(b + 2), sum, 0, 0, 0);  \
        hip::write(d, sum);                                                             \
    }                                                                                   \
    ATTUNE_DEVICE void name(float* d, const unsigned* a, const unsigned* b, BF16) {     \
        using Operand = hip::Vector<short, 4>;                                          \
        Accumulator sum = hip::read<Accumulator>(d);                                    \
        sum = bf16(hip::read<Operand>(a), hip::read<Operand>(b), sum, 0, 0, 0);         \
        sum = bf16(hip::read<Operand>(a + 2), hip::read<Operand>(b + 2), sum, 0, 0, 0); \
        hip::write(d, sum);                                                             \
    }
#endif

#if __GFX9__
using Accumulator32 = hip::Vector<float, 16>;
using Accumulator16 = hip::Vector<float, 4>;
ATTUNE_MFMA(mfma_32x32x16, Accumulator32, __builtin_amdgcn_mfma_f32_32x32x8f16,
            __builtin_amdgcn_mfma_f32_32x32x8bf16_1k, __builtin_amdgcn_mfma_f32_32x32x16_f16,
            __builtin_amdgcn_mfma_f32_32x32x16_bf16)
ATTUNE_MFMA(mfma_16x16x32, Accumulator16, __builtin_amdgcn_mfma_f32_16x16x16f16,
            __builtin_amdgcn_mfma_f32_16x16x16bf16_1k, __builtin_amdgcn_mfma_f32_16x16x32_f16,
            __builtin_amdgcn_mfma_f32_16x16x32_bf16)
#undef ATTUNE_MFMA
#endif

#if __GFX11__
#define ATTUNE_WMMA_NAME wmma_gfx11
#define ATTUNE_WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32
#define ATTUNE_WMMA_ELEMENTS 16
#elif __GFX12__
#define ATTUNE_WMMA_NAME wmma_gfx12
#define ATTUNE_WMMA(type) __builtin_amdgcn_wmma_f32_16x16x16_##type##_w32_gfx12
#define ATTUNE_WMMA_ELEMENTS 8
#endif

#ifdef ATTUNE_WMMA
ATTUNE_DEVICE void ATTUNE_WMMA_NAME(float* d, const unsigned* a, const unsigned* b, F16) {
    using Operand = hip::Vector<_Float16, ATTUNE_WMMA_ELEMENTS>;
    hip::write(d, ATTUNE_WMMA(f16)(hip::read<Operand>(a), hip::read<Operand>(b),
                                   hip::read<hip::Vector<float, 8>>(d)));
}
ATTUNE_DEVICE void ATTUNE_WMMA_NAME(float* d, const unsigned* a, const unsigned* b, BF16) {
    using Operand = hip::Vector<short, ATTUNE_WMMA_ELEMENTS>;
    hip::write(d, ATTUNE_WMMA(bf16)(hip::read<Operand>(a), hip::read<Operand>(b),
                                    hip::read<hip::Vector<float, 8>>(d)));
}
#endif

}  // namespace attune
