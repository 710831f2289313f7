#include "runtime/emu/warp_ops.h"

#include <cstring>

#include "runtime/emu/float16.h"

namespace attune::emu {
namespace {

template <float (*convert)(std::uint32_t)>
void mma(const std::array<MmaLane, 32>& lanes) {
    double a[16][16], b[16][8], d[16][8];
    for (int l = 0; l < 32; ++l) {
        const int group = l / 4, pair = 2 * (l % 4);
        const unsigned b_words[2] = {lanes[l].b0, lanes[l].b1};
        for (int i = 0; i < 8; ++i) {  // element i of 4 words
            const int row = group + 8 * (i / 2 % 2), column = pair + i % 2 + 8 * (i / 4);
            a[row][column] = convert(lanes[l].a[i / 2] >> 16 * (i % 2) & 0xffffu);
        }
        for (int i = 0; i < 4; ++i) {
            b[pair + i % 2 + 8 * (i / 2)][group] =
                convert(b_words[i / 2] >> 16 * (i % 2) & 0xffffu);
            d[group + 8 * (i / 2)][pair + i % 2] = lanes[l].d[i];
        }
    }
    for (int row = 0; row < 16; ++row)
        for (int k = 0; k < 16; ++k)
            for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    for (int l = 0; l < 32; ++l)
        for (int i = 0; i < 4; ++i)
            lanes[l].d[i] = static_cast<float>(d[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2]);
}

}  // namespace

void mma_m16n8k16(const std::array<MmaLane, 32>& lanes, DType dtype) {
    if (dtype == DType::f16)
        mma<from_f16>(lanes);
    else
        mma<from_bf16>(lanes);
}

void ldmatrix_x4(const std::array<unsigned*, 32>& to, const std::array<const std::byte*, 32>& rows,
                 bool trans) {
    std::uint16_t matrix[4][8][8];
    for (int i = 0; i < 32; ++i) std::memcpy(matrix[i / 8][i % 8], rows[i], 16);
    for (int l = 0; l < 32; ++l) {
        const int row = l / 4, column = 2 * (l % 4);
        for (int i = 0; i < 4; ++i) {
            const unsigned low = trans ? matrix[i][column][row] : matrix[i][row][column];
            const unsigned high = trans ? matrix[i][column + 1][row] : matrix[i][row][column + 1];
            to[l][i] = low | high << 16;
        }
    }
}

void stmatrix_x4(const std::array<const unsigned*, 32>& from,
                 const std::array<std::byte*, 32>& rows) {
    for (int l = 0; l < 32; ++l)
        for (int i = 0; i < 4; ++i) std::memcpy(rows[8 * i + l / 4] + 4 * (l % 4), &from[l][i], 4);
}

}  // namespace attune::emu
