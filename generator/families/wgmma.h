// Family wgmma: Hopper (sm_90a), warp-specialised: TMA loads, warpgroup MMAs; e4m3 too.
#pragma once

#include "generator/family.h"

namespace attune {

Family wgmma_family();

/// What a config of this family needs, by arithmetic alone (the compiler's report is the truth).
struct WgmmaNeeds {
    int consumers;           // warpgroups of 64 query rows
    int threads;             // with the producer's warpgroup
    bool transposes;         // V, for operands of one byte
    int depth;               // head_dim, padded
    int value_columns;       // of V and O, padded
    int accumulators;        // registers of a consumer thread for S, O and both sets of P
    int producer_registers;  // per thread, after the hand-over
    int consumer_registers;
    int shared_bytes;
};
WgmmaNeeds wgmma_needs(const Signature& signature, const Config& config);

/// Query heads that share q-tiles where a config packs: the largest power of two that divides those
/// of a kv head, at most the 64 rows of a consumer. 1: packing changes nothing.
int packed_heads(const Shape& shape);

double wgmma_estimate_us(const Problem& problem, const Config& config, const Target& target);

}  // namespace attune
