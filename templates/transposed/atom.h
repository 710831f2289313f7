// The matrix instructions of AMD's GPUs as one step of this family: a product of 16 or 32 in depth
// whose operands a lane reads in whole 16-byte chunks. Which depths an element of an operand stands
// for does not matter as long as both operands agree. Layouts of D: AMD, "Matrix Instruction
// Calculator".
#pragma once

#include "target.h"

namespace attune {

/// D (rows x rows) += A (rows x depth) B (depth x rows), of a wave.
///   chunks      16-byte chunks of each operand a lane brings; it is lane % rows's row or column
///   registers   floats of D in a lane: column lane % rows, row row(r) + row_step (lane / rows)
///   row_lanes   lanes that hold the same column (see fragments.h)
template <int atom>
struct MatrixAtom;

enum Atom { mfma_32 = 0, mfma_16 = 1, wmma_11 = 2, wmma_12 = 3 };

/// CDNA: v_mfma_f32_32x32x8 twice, or gfx950's 32x32x16.
template <>
struct MatrixAtom<mfma_32> {
    static constexpr int rows = 32, depth = 16, chunks = 1, registers = 16;
    static constexpr int row_step = 4, row_lanes = 32;
    ATTUNE_DEVICE static constexpr int row(int r) { return r / 4 * 8 + r % 4; }
    template <class Element>
    ATTUNE_DEVICE static void multiply(float* d, const unsigned* a, const unsigned* b, Element e) {
        mfma_32x32x16(d, a, b, e);
    }
};

/// CDNA: v_mfma_f32_16x16x16 twice, or gfx950's 16x16x32.
template <>
struct MatrixAtom<mfma_16> {
    static constexpr int rows = 16, depth = 32, chunks = 1, registers = 4;
    static constexpr int row_step = 4, row_lanes = 16 + 32;
    ATTUNE_DEVICE static constexpr int row(int r) { return r; }
    template <class Element>
    ATTUNE_DEVICE static void multiply(float* d, const unsigned* a, const unsigned* b, Element e) {
        mfma_16x16x32(d, a, b, e);
    }
};

/// RDNA 3: v_wmma_f32_16x16x16, operands whole in both halves of the wave.
template <>
struct MatrixAtom<wmma_11> {
    static constexpr int rows = 16, depth = 16, chunks = 2, registers = 8;
    static constexpr int row_step = 1, row_lanes = 16;
    ATTUNE_DEVICE static constexpr int row(int r) { return 2 * r; }
    template <class Element>
    ATTUNE_DEVICE static void multiply(float* d, const unsigned* a, const unsigned* b, Element e) {
        wmma_gfx11(d, a, b, e);
    }
};

/// RDNA 4: v_wmma_f32_16x16x16.
template <>
struct MatrixAtom<wmma_12> {
    static constexpr int rows = 16, depth = 16, chunks = 1, registers = 8;
    static constexpr int row_step = 8, row_lanes = 16;
    ATTUNE_DEVICE static constexpr int row(int r) { return r; }
    template <class Element>
    ATTUNE_DEVICE static void multiply(float* d, const unsigned* a, const unsigned* b, Element e) {
        wmma_gfx12(d, a, b, e);
    }
};

}  // namespace attune
