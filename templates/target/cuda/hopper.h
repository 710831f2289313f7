// What sm_90a brought: wgmma, TMA, registers handed over, named barriers. Included by
// target/cuda.h.
#pragma once

#include "templates/target/matrix_descriptor.h"

namespace attune {

struct E4M3 {
    unsigned char bits;
};

ATTUNE_DEVICE unsigned char load_global_8(const void* ptr) {
    return *static_cast<const unsigned char*>(ptr);
}
ATTUNE_DEVICE void stmatrix_x4(SharedAddress at, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
ATTUNE_DEVICE unsigned byte_permute(unsigned a, unsigned b, unsigned selector) {
    return __byte_perm(a, b, selector);
}
ATTUNE_DEVICE float to_float(unsigned char bits, E4M3) {
    unsigned halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(bits)));
    return to_float(static_cast<unsigned short>(halves & 0xffffu), F16{});
}
ATTUNE_DEVICE unsigned pack4(float a, float b, float c, float d, E4M3) {
    unsigned packed;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;"
        " cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
        : "=r"(packed)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return packed;
}

ATTUNE_DEVICE void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
ATTUNE_DEVICE void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
ATTUNE_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
template <int n>
ATTUNE_DEVICE void pin(float* x) {
    ATTUNE_UNROLL
    for (int i = 0; i < n; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

ATTUNE_DEVICE void fence_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
ATTUNE_DEVICE void mbarrier_fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_async();
}
ATTUNE_DEVICE void mbarrier_arrive_expect(SharedAddress at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}
ATTUNE_DEVICE void tensor_load(SharedAddress to, const TensorMap& map, SharedAddress barrier,
                               int column, int row, int head, int batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],"
        " [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
        : "memory");
}

template <int registers>
ATTUNE_DEVICE void registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
ATTUNE_DEVICE void registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

ATTUNE_DEVICE void named_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
ATTUNE_DEVICE void named_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace attune

#include "templates/target/cuda/wgmma.h"
