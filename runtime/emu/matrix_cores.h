// AMD's matrix instructions: which element of A, B and D each lane's registers hold.
#pragma once

#include <span>

#include "templates/target/emu_abi.h"

namespace attune::emu {

/// D = A B + D with A rows x depth, B depth x rows, D rows x rows. Operands are `elements` 16-bit
/// values per lane, two to a word; D is `registers` floats per lane. B's element e of lane l lies
/// at depth and column where A's lies at depth and row.
struct MatrixShape {
    const char* name;
    int wave_size;
    int rows;
    int depth;
    int elements;
    int registers;
    int (*depth_of)(int lane, int e);        // of A's and B's element
    int (*row_of)(int lane, int register_);  // of D; its column is lane % rows
};

const MatrixShape& matrix_shape(Matrix which);

/// Sums in double over ascending depth, rounded once; lanes[l] is lane l's part.
void multiply(const MatrixShape& shape, std::span<const MatrixCall> lanes);

}  // namespace attune::emu
