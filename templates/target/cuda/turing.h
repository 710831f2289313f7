// sm_75 in place of target/cuda/ampere.h: copies are made at once, f16 alone, MMAs half as deep.
#pragma once

namespace attune {

ATTUNE_DEVICE void cp_async_16(SharedAddress to, const void* from, bool valid) {
    U128 v = {};
    if (valid) v = load_global_128(from);
    store_shared_128(to, v);
}
ATTUNE_DEVICE void cp_async_commit() {}
template <int pending>
ATTUNE_DEVICE void cp_async_wait() {}

// No mbarriers: declared for the templates that name them, and never called.
void mbarrier_init(SharedAddress at, int count);
void mbarrier_arrive(SharedAddress at);
void mbarrier_arrive_cp_async(SharedAddress at);
void mbarrier_wait(SharedAddress at, int parity);

ATTUNE_DEVICE void mma_m16n8k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6},"
        " {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}
ATTUNE_DEVICE void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                F16) {
    mma_m16n8k8(d, a[0], a[1], b0);
    mma_m16n8k8(d, a[2], a[3], b1);
}
ATTUNE_DEVICE unsigned pack2(float lo, float hi, F16) {
    unsigned packed;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
        : "=r"(packed)
        : "f"(lo), "f"(hi));
    return packed;
}

}  // namespace attune
