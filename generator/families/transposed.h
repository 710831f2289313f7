// Families mfma (CDNA) and wmma (RDNA): AMD's matrix cores, S^T = K Q^T and O^T = V^T P^T.
#pragma once

#include "generator/family.h"

namespace attune {

Family mfma_family();
Family wmma_family();

/// The matrix instruction of a step, as templates/transposed/atom.h numbers it.
enum class Atom { mfma_32 = 0, mfma_16 = 1, wmma_11 = 2, wmma_12 = 3 };
Atom atom_of(const Config& config, const Target& target);

/// What a config of these families needs, by arithmetic alone (the compiler's report is the truth);
/// templates/transposed/layout.h computes the same sizes.
struct TransposedNeeds {
    int rows, depth;  // of the matrix instruction's step: rows x rows x depth
    int threads;
    int columns;        // head_dim padded for Q K^T
    int value_columns;  // and for O
    int accumulators;   // registers of a lane for S, O, Q, P and the tile on its way
    int shared_bytes;
    int direct_bytes;  // of K that a lane copies to shared memory in one instruction; 0: none
};
TransposedNeeds transposed_needs(const Signature& signature, const Config& config,
                                 const Target& target);

/// Registers per lane that the compiler may use: what keeps min_ctas CTAs on a CU.
int transposed_register_cap(const Config& config, const Target& target);
/// SIMDs of a CU: LLVM keeps 8 waves of 64 lanes or 16 of 32 on each.
int simds_per_cu(const Target& target);

double transposed_estimate_us(const Problem& problem, const Config& config, const Target& target);

}  // namespace attune
