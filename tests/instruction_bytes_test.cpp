// What one-byte operands came with on Hopper: stmatrix, byte permutes, conversions; see
// tests/instruction_case.h.
#include <cmath>

#include "tests/instruction_case.h"

namespace attune {
namespace {

class ByteInstruction : public Instruction {
protected:
    void SetUp() override {
        const std::string& arch = test_bed().target().arch;
        if (arch != "sm_90a") GTEST_SKIP() << "e4m3 needs sm_90a, this is " << arch;
    }
};

TEST_F(ByteInstruction, StmatrixIsLdmatrixBackwards) {
    Words in(128);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = 1000 + i;
    run("unsigned r[4] = {in[4 * lane], in[4 * lane + 1], in[4 * lane + 2], in[4 * lane + 3]};\n"
        "stmatrix_x4(shared + 16 * (lane ^ 5), r);\n"
        "warp_sync();\n"
        "for (int i = 0; i < 4; ++i)\n"
        "    out[32 * i + lane] = bits_of(load_shared_f32(shared + 128 * i + 4 * lane));\n"
        "unsigned back[4];\n"
        "ldmatrix_x4(back, shared + 16 * (lane ^ 5));\n"
        "for (int i = 0; i < 4; ++i) out[128 + 4 * lane + i] = back[i];\n",
        32, in, 256);
    expect_equal_bits();
    for (unsigned l = 0; l < 32; ++l)
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = 8 * i + l / 4;  // whose lane gave the place
            EXPECT_EQ(out[4 * (row ^ 5) + l % 4], in[4 * l + i]);
            EXPECT_EQ(out[128 + 4 * l + i], in[4 * l + i]);
        }
}

TEST_F(ByteInstruction, BytePermutePicksBytes) {
    run("const unsigned selectors[] = {0x6420, 0x7531, 0x3210, 0x7654, 0x0123, 0x1111};\n"
        "if (lane < 6) out[lane] = byte_permute(0x13121110u, 0x17161514u, selectors[lane]);",
        32, {}, 6);
    expect_equal_bits();
    EXPECT_EQ(out, (Words{0x16141210, 0x17151311, 0x13121110, 0x17161514, 0x10111213, 0x11111111}));
}

/// All 256 codes.
TEST_F(ByteInstruction, E4m3ToFloat) {
    run("for (int i = thread; i < 256; i += 32)\n"
        "    out[i] = bits_of(to_float(static_cast<unsigned char>(i), E4M3{}));",
        32, {}, 256);
    for (unsigned i = 0; i < 256; ++i) {
        const float want = to_float(std::uint16_t(i), DType::e4m3);
        if (std::isnan(want))
            EXPECT_TRUE(std::isnan(as_float(out[i]))) << i;
        else
            EXPECT_EQ(out[i], as_word(want)) << i;
    }
}

/// Every code, every middle between two and its neighbours, what is past 448, NaN.
TEST_F(ByteInstruction, FloatToE4m3) {
    Words in;
    for (unsigned i = 0; i < 0x7f; ++i) {
        const float x = to_float(std::uint16_t(i), DType::e4m3);
        const float next = i == 0x7e ? 480.0f : to_float(std::uint16_t(i + 1), DType::e4m3);
        const float middle = (x + next) / 2;
        for (const float value :
             {x, middle, std::nextafter(middle, x), std::nextafter(middle, next)})
            for (const float sign : {1.0f, -1.0f}) in.push_back(as_word(sign * value));
    }
    for (const float value : {480.0f, 1e9f, INFINITY, -INFINITY, NAN, 1e-30f, -1e-30f, 0.0f})
        in.push_back(as_word(value));
    const unsigned count = static_cast<unsigned>(in.size());
    run(formatted("for (int i = thread; i < {0}; i += 32)\n"
                  "    out[i] = pack4(float_of(in[i]), 1, -2,\n"
                  "                   float_of(in[{0} - 1 - i]), E4M3{{}});",
                  count),
        32, in, count);
    expect_equal_bits();
    for (unsigned i = 0; i < count; ++i) {
        const auto code = [&](unsigned at) {
            return std::uint32_t(from_float(as_float(in[at]), DType::e4m3));
        };
        EXPECT_EQ(out[i], code(i) | 0x38u << 8 | 0xc0u << 16 | code(count - 1 - i) << 24)
            << as_float(in[i]);
    }
}

}  // namespace
}  // namespace attune
