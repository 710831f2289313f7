// Family mma: mma.sync, FlashAttention-2 class, sm_80 and later; a part of it on sm_75.
#pragma once

#include "generator/family.h"

namespace attune {

Family mma_family();

/// What a config of this family needs, by arithmetic alone (the compiler's report is the truth).
struct MmaNeeds {
    int threads;
    int head_dim_padded;  // to the next multiple of 16
    int rows_per_warp;    // query rows whose O a warp holds
    int keys_per_warp;    // keys of a kv tile a warp multiplies
    int accumulators;     // registers for S, O and, where it stays there, Q
    int shared_bytes;
};
MmaNeeds mma_needs(const Signature& signature, const Config& config);

/// Registers per thread that `min_ctas` launch bounds leave.
int mma_register_cap(const Config& config, const Target& target);

double mma_estimate_us(const Problem& problem, const Config& config, const Target& target);

}  // namespace attune
