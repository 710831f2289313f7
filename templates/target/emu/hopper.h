// What sm_90a brought, as calls to the emulator. Included by target/emu.h.
#pragma once

#include "templates/target/matrix_descriptor.h"

namespace attune {

namespace emu {
ATTUNE_DEVICE constexpr bool is_bf16(F16) {
    return false;
}
ATTUNE_DEVICE constexpr bool is_bf16(BF16) {
    return true;
}
}  // namespace emu

template <int n, class Element>
struct Wgmma {
    static_assert(n >= 8 && n <= 256 && n % 8 == 0, "columns of a wgmma");

    ATTUNE_DEVICE static void ss(float* d, MatrixDescriptor a, MatrixDescriptor b,
                                 bool accumulate) {
        const emu::WgmmaCall call{d, nullptr, a, b, n, emu::is_bf16(Element{}), accumulate};
        emu::operations->wgmma(&call);
    }
    ATTUNE_DEVICE static void rs(float* d, const unsigned (&a)[4], MatrixDescriptor b) {
        const emu::WgmmaCall call{d, a, 0, b, n, emu::is_bf16(Element{}), true};
        emu::operations->wgmma(&call);
    }
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
