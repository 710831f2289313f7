// How fast this GPU multiplies and reads, with nothing in the way.
#pragma once

#include "templates/common/element.h"
#include "templates/probe/params.h"

namespace attune {

/// Operands that are neither zero nor all alike: what a multiplication costs depends on its bits.
template <class Element, int n>
ATTUNE_DEVICE void fill_operand(unsigned (&operand)[n]) {
    ATTUNE_UNROLL
    for (int i = 0; i < n; ++i)
        operand[i] = ElementTraits<Element>::word(0.001f * (lane_index() - 15), 0.002f * (i + 1));
}

/// What a warp multiplies in one step: `registers` floats of D in a thread, operands in registers.
template <class E>
struct MmaSync {
    using Element = E;
    static constexpr int registers = 4, a_words = 4, b_words = 2;
    ATTUNE_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4],
                                       const unsigned (&b)[2]) {
        mma_m16n8k16(d, a, b[0], b[1], Element{});
    }
};

constexpr int peak_independent = 8;  // accumulators of a warp that do not wait for each other

/// `steps` times peak_independent instructions of every warp.
template <class Product, int threads>
ATTUNE_DEVICE void peak_products(const PeakParams& p) {
    float d[peak_independent][Product::registers] = {};
    unsigned a[Product::a_words], b[Product::b_words];
    fill_operand<typename Product::Element>(a);
    fill_operand<typename Product::Element>(b);
    for (int step = 0; step < p.steps; ++step) {
        ATTUNE_UNROLL
        for (int i = 0; i < peak_independent; ++i) Product::multiply(d[i], a, b);
    }
    float sum = 0;
    ATTUNE_UNROLL
    for (int i = 0; i < peak_independent * Product::registers; ++i)
        sum += d[i / Product::registers][i % Product::registers];
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
