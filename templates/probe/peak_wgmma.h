// How fast Hopper's warpgroup MMAs multiply.
#pragma once

#include "templates/probe/peak.h"

namespace attune {

constexpr int peak_wgmma_batch = 16;  // instructions between two waits

/// `steps` batches of 64 x 256 x 16 (32 in e4m3), both operands in shared memory: 64 rows of A for
/// each warpgroup, then 256 rows of B, 128 bytes each.
template <class Element, int threads>
ATTUNE_DEVICE void peak_wgmma(const PeakParams& p) {
    constexpr int warpgroups = threads / 128, n = 256;
    constexpr int bytes = (64 * warpgroups + n) * 128;
    const SharedAddress shared = shared_base();
    for (int at = 16 * thread_index(); at < bytes; at += 16 * threads) {
        unsigned x[4];
        fill_operand<Element>(x);
        store_shared_128(shared + at, U128{x[0], x[1], x[2], x[3]});
    }
    fence_async();
    cta_sync();
    const MatrixDescriptor a = matrix_descriptor(shared + warp_index() / 4 * 64 * 128, 16);
    const MatrixDescriptor b = matrix_descriptor(shared + warpgroups * 64 * 128, 16);
    float d[n / 2];
    ATTUNE_UNROLL
    for (int i = 0; i < n / 2; ++i) d[i] = 0;
    for (int step = 0; step < p.steps; ++step) {
        wgmma_fence();
        ATTUNE_UNROLL
        for (int i = 0; i < peak_wgmma_batch; ++i)
            Wgmma<n, Element>::ss(d, advance(a, 32 * (i % 4)), advance(b, 32 * (i % 4)), true);
        wgmma_commit();
        wgmma_wait<0>();
    }
    pin<n / 2>(d);
    float sum = 0;
    ATTUNE_UNROLL
    for (int i = 0; i < n / 2; ++i) sum += d[i];
    store_global_f32(p.sink + static_cast<long long>(cta_index()) * threads + thread_index(), sum);
}

}  // namespace attune
