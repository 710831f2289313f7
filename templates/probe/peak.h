// How fast this GPU multiplies and reads, with nothing in the way.
#pragma once

#include "target.h"
#include "templates/probe/params.h"

namespace attune {

constexpr int peak_mma_per_step = 8;  // independent accumulators of a warp

/// Register-only m16n8k16: `steps` times peak_mma_per_step instructions of every warp.
template <class Element, int threads>
ATTUNE_DEVICE void peak_mma(const PeakParams& p) {
    float d[peak_mma_per_step][4] = {};
    unsigned a[4], b[2];
    ATTUNE_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = pack2(0.001f * (lane_index() - 15), 0.002f * i, Element{});
    ATTUNE_UNROLL
    for (int i = 0; i < 2; ++i) b[i] = pack2(0.003f * (16 - lane_index()), 0.001f * i, Element{});
    for (int step = 0; step < p.steps; ++step) {
        ATTUNE_UNROLL
        for (int i = 0; i < peak_mma_per_step; ++i) mma_m16n8k16(d[i], a, b[0], b[1], Element{});
    }
    float sum = 0;
    ATTUNE_UNROLL
    for (int i = 0; i < peak_mma_per_step; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    store_global_f32(p.sink + static_cast<long long>(cta_index()) * threads + thread_index(), sum);
}

template <int threads>
ATTUNE_DEVICE void peak_read(const PeakParams& p) {
    constexpr int in_flight = 8;
    const long long all = static_cast<long long>(cta_count()) * threads;
    const long long self = static_cast<long long>(cta_index()) * threads + thread_index();
    unsigned mixed = 0;
    for (long long i = self; i < p.chunks; i += all * in_flight) {
        U128 chunk[in_flight];
        ATTUNE_UNROLL
        for (int j = 0; j < in_flight; ++j) {
            const long long at = i + j * all;
            chunk[j] = load_global_128(static_cast<const char*>(p.data) +
                                       16 * (at < p.chunks ? at : self));
        }
        ATTUNE_UNROLL
        for (int j = 0; j < in_flight; ++j)
            mixed ^= chunk[j].x ^ chunk[j].y ^ chunk[j].z ^ chunk[j].w;
    }
    store_global_f32(p.sink + self, static_cast<float>(mixed));
}

}  // namespace attune
