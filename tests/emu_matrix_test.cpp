// The emulator's matrix instructions against tests/matrix_layouts.json, which AMD's Matrix
// Instruction Calculator made: where the elements of A, B and D lie, and a product by them.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/emu/matrix_cores.h"
#include "tests/emu_fixture.h"
#include "tuner/float16.h"

namespace attune {
namespace {

/// [lane][element] -> row and column.
using Places = std::vector<std::vector<std::array<int, 2>>>;

struct MatrixCase {
    emu::Matrix which;
    const char* instruction;  // that the table must have, first of those of its layout
};

class EmuMatrix : public testing::TestWithParam<MatrixCase> {
protected:
    void SetUp() override {
        std::ifstream file(ATTUNE_MATRIX_LAYOUTS);
        const nlohmann::json table = nlohmann::json::parse(file);
        for (const nlohmann::json& entry : table.at("layouts")) {
            if (entry.at("instructions").at(0) != GetParam().instruction) continue;
            a = entry.at("A").get<Places>();
            b = entry.at("B").get<Places>();
            d = entry.at("D").get<Places>();
        }
        ASSERT_EQ(int(a.size()), shape.wave_size) << "the table has no such instruction";
    }
    const emu::MatrixShape& shape = emu::matrix_shape(GetParam().which);
    Places a, b, d;
};

TEST_P(EmuMatrix, elements_lie_where_the_table_says) {
    for (int lane = 0; lane < shape.wave_size; ++lane) {
        ASSERT_EQ(int(a[lane].size()), shape.elements);
        ASSERT_EQ(int(d[lane].size()), shape.registers);
        for (int e = 0; e < shape.elements; ++e) {
            const int depth = shape.depth_of(lane, e);
            EXPECT_EQ(a[lane][e], (std::array{lane % shape.rows, depth}));
            EXPECT_EQ(b[lane][e], (std::array{depth, lane % shape.rows}));
        }
        for (int r = 0; r < shape.registers; ++r)
            EXPECT_EQ(d[lane][r], (std::array{shape.row_of(lane, r), lane % shape.rows}));
    }
}

TEST_P(EmuMatrix, multiplies) {
    const int n = shape.rows, depth = shape.depth;
    std::mt19937 engine(1);
    std::uniform_int_distribution<int> small(-8, 8);  // products and sums are exact
    const auto random = [&](int count) {
        std::vector<float> values(count);
        for (float& x : values) x = float(small(engine));
        return values;
    };
    const std::vector<float> left = random(n * depth), right = random(depth * n),
                             sum = random(n * n);
    for (const DType dtype : {DType::f16, DType::bf16}) {
        const auto bits = [&](float x) { return from_float(x, dtype); };
        std::vector<std::vector<unsigned>> words_a(shape.wave_size), words_b(shape.wave_size);
        std::vector<std::vector<float>> out(shape.wave_size);
        std::vector<emu::MatrixCall> calls;
        for (int lane = 0; lane < shape.wave_size; ++lane) {
            std::vector<std::uint16_t> of_a, of_b;
            for (const auto& [row, column] : a[lane])
                of_a.push_back(bits(left[row * depth + column]));
            for (const auto& [row, column] : b[lane]) of_b.push_back(bits(right[row * n + column]));
            for (const auto& [row, column] : d[lane]) out[lane].push_back(sum[row * n + column]);
            words_a[lane] = packed(of_a);
            words_b[lane] = packed(of_b);
            calls.push_back({GetParam().which, dtype == DType::bf16, out[lane].data(),
                             words_a[lane].data(), words_b[lane].data()});
        }
        emu::multiply(shape, calls);
        for (int lane = 0; lane < shape.wave_size; ++lane)
            for (int r = 0; r < shape.registers; ++r) {
                const auto [row, column] = d[lane][r];
                float expected = sum[row * n + column];
                for (int k = 0; k < depth; ++k)
                    expected += left[row * depth + k] * right[k * n + column];
                EXPECT_EQ(out[lane][r], expected) << row << ", " << column;
            }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, EmuMatrix,
    testing::Values(MatrixCase{emu::Matrix::mfma_32x32x8, "cdna2 v_mfma_f32_32x32x8f16"},
                    MatrixCase{emu::Matrix::mfma_16x16x16, "cdna2 v_mfma_f32_16x16x16f16"},
                    MatrixCase{emu::Matrix::wmma_gfx11, "rdna3 v_wmma_f32_16x16x16_f16"},
                    MatrixCase{emu::Matrix::wmma_gfx12, "rdna4 v_wmma_f32_16x16x16_f16"}));

}  // namespace
}  // namespace attune
