// Counts NaN and fingerprints an output where it lies, so that big outputs need not travel.
#pragma once

#include "target.h"
#include "templates/probe/params.h"

namespace attune {

/// Every bit of value and position reaches every bit of the result.
ATTUNE_DEVICE unsigned scramble(unsigned value, unsigned position) {
    unsigned h = value ^ (position * 0x9e3779b1u);
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    h = (h ^ (h >> 12)) * 0x297a2d39u;
    return h ^ (h >> 15);
}

ATTUNE_DEVICE unsigned nan_count(unsigned word, unsigned infinity_bits) {
    return ((word & 0x7fffu) > infinity_bits ? 1u : 0u) +
           ((word >> 16 & 0x7fffu) > infinity_bits ? 1u : 0u);
}

template <int lanes>
ATTUNE_DEVICE unsigned warp_sum(unsigned value) {
    ATTUNE_UNROLL
    for (int mask = 1; mask < lanes; mask *= 2) value += shuffle_xor(value, mask);
    return value;
}

/// `lanes` of a warp.
template <int threads, int lanes>
ATTUNE_DEVICE void scan_output(const ScanParams& p) {
    const long long stride = static_cast<long long>(cta_count()) * threads;
    unsigned nans = 0, first = 0, second = 0;
    for (long long i = static_cast<long long>(cta_index()) * threads + thread_index(); i < p.chunks;
         i += stride) {
        const U128 chunk = load_global_128(static_cast<const char*>(p.data) + 16 * i);
        const unsigned words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
        ATTUNE_UNROLL
        for (int w = 0; w < 4; ++w) {
            const unsigned position = static_cast<unsigned>(4 * i + w);
            nans += nan_count(words[w], p.infinity_bits);
            first += scramble(words[w], position);
            second += scramble(words[w] ^ 0x5bd1e995u, ~position);
        }
    }
    nans = warp_sum<lanes>(nans);
    first = warp_sum<lanes>(first);
    second = warp_sum<lanes>(second);
    if (lane_index() != 0) return;
    atomic_add_global(p.result, nans);
    atomic_add_global(p.result + 1, first);
    atomic_add_global(p.result + 2, second);
}

}  // namespace attune
