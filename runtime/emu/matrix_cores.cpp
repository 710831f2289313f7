#include "runtime/emu/matrix_cores.h"

#include "runtime/emu/float16.h"

namespace attune::emu {
namespace {

// Layouts as AMD's "Matrix Instruction Calculator" gives them; tests/matrix_layouts.json holds its
// output.
int depth_4_of_2(int lane, int e) {
    return 4 * (lane / 32) + e;
}
int depth_4_of_4(int lane, int e) {
    return 4 * (lane / 16) + e;
}
int depth_replicated(int, int e) {
    return e;
}
int depth_gfx12(int lane, int e) {
    return 8 * (e / 4) + 4 * (lane / 16) + e % 4;
}
int row_32(int lane, int r) {
    return 8 * (r / 4) + 4 * (lane / 32) + r % 4;
}
int row_16(int lane, int r) {
    return 4 * (lane / 16) + r;
}
int row_gfx11(int lane, int r) {
    return 2 * r + lane / 16;
}
int row_gfx12(int lane, int r) {
    return 8 * (lane / 16) + r;
}

constexpr MatrixShape shapes[] = {
    {"v_mfma_f32_32x32x8", 64, 32, 8, 4, 16, depth_4_of_2, row_32},
    {"v_mfma_f32_16x16x16", 64, 16, 16, 4, 4, depth_4_of_4, row_16},
    {"v_wmma_f32_16x16x16 (gfx11)", 32, 16, 16, 16, 8, depth_replicated, row_gfx11},
    {"v_wmma_f32_16x16x16 (gfx12)", 32, 16, 16, 8, 8, depth_gfx12, row_gfx12},
};

float element(const unsigned* words, int e, bool bf16) {
    const unsigned bits = words[e / 2] >> 16 * (e % 2) & 0xffffu;
    return bf16 ? from_bf16(bits) : from_f16(bits);
}

}  // namespace

const MatrixShape& matrix_shape(Matrix which) {
    return shapes[static_cast<int>(which)];
}

void multiply(const MatrixShape& shape, std::span<const MatrixCall> lanes) {
    const int rows = shape.rows;
    double a[16][32], b[16][32];  // [depth][row], [depth][column]
    for (int l = 0; l < shape.wave_size; ++l)
        for (int e = 0; e < shape.elements; ++e) {
            const int depth = shape.depth_of(l, e);
            a[depth][l % rows] = element(lanes[l].a, e, lanes[l].bf16);
            b[depth][l % rows] = element(lanes[l].b, e, lanes[l].bf16);
        }
    for (int l = 0; l < shape.wave_size; ++l)
        for (int r = 0; r < shape.registers; ++r) {
            const int row = shape.row_of(l, r);
            double sum = lanes[l].d[r];
            for (int k = 0; k < shape.depth; ++k) sum += a[k][row] * b[k][l % rows];
            lanes[l].d[r] = static_cast<float>(sum);
        }
}

}  // namespace attune::emu
