// What a warp computes together, once all 32 lanes have come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "generator/problem.h"

namespace attune::emu {

/// One lane's part of mma.m16n8k16.
struct MmaLane {
    float* d;
    const unsigned* a;
    unsigned b0, b1;
};

/// d += a * b with the fragment layouts of the PTX ISA ("Matrix fragments for mma.m16n8k16").
/// NVIDIA does not document how the hardware adds up. Here the products, exact in fp32, are added
/// to d in ascending k in double, and the sum is rounded to fp32 once: the best answer there is, so
/// that a difference to the hardware is the hardware's own rounding, at most a few units of the
/// last place of the largest term.
void mma_m16n8k16(const std::array<MmaLane, 32>& lanes, DType dtype);

/// ldmatrix .x4: rows[8 i + r] is row r of matrix i, 16 bytes. Lane l gets in to[l][i] the elements
/// of row l / 4 and columns 2 (l % 4), + 1 of matrix i; of its transpose where `trans`.
void ldmatrix_x4(const std::array<unsigned*, 32>& to, const std::array<const std::byte*, 32>& rows,
                 bool trans);

/// stmatrix .x4: its inverse without `trans`: lane l's from[l][i] goes to row l / 4 of matrix i.
void stmatrix_x4(const std::array<const unsigned*, 32>& from,
                 const std::array<std::byte*, 32>& rows);

}  // namespace attune::emu
