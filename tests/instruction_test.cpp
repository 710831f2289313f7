// The instructions that every NVIDIA kernel uses: see tests/instruction_case.h.
#include <random>

#include "tests/instruction_case.h"

namespace attune {
namespace {

/// Matrix i, row r, column c holds 64 i + 8 r + c; lane l gives the address of row 31 - l.
TEST_F(Instruction, Ldmatrix) {
    Words in(128);
    for (unsigned i = 0; i < 128; ++i) in[i] = 2 * i | (2 * i + 1) << 16;
    run("store_shared_128(shared + 16 * (31 - lane), load_global_128(in + 4 * lane));\n"
        "warp_sync();\n"
        "unsigned r[4], t[4];\n"
        "ldmatrix_x4(r, shared + 16 * (31 - lane));\n"
        "ldmatrix_x4_trans(t, shared + 16 * (31 - lane));\n"
        "for (int i = 0; i < 4; ++i) out[4 * lane + i] = r[i], out[128 + 4 * lane + i] = t[i];",
        32, in, 256);
    expect_equal_bits();
    for (unsigned i = 0; i < 128; ++i) {
        const unsigned row = i / 4 / 4, column = 2 * (i / 4 % 4), matrix = 64 * (i % 4);
        EXPECT_EQ(out[i], (matrix + 8 * row + column) | (matrix + 8 * row + column + 1) << 16);
        EXPECT_EQ(out[128 + i], (matrix + 8 * column + row) | (matrix + 8 * (column + 1) + row)
                                                                  << 16);
    }
}

/// in: per lane a[4], b[2], c[4] as the instruction takes them; out: per lane d[4].
std::string mma_text(DType dtype) {
    return formatted(
        "unsigned a[4]; float d[4];\n"
        "for (int i = 0; i < 4; ++i) a[i] = in[10 * lane + i];\n"
        "for (int i = 0; i < 4; ++i) d[i] = float_of(in[10 * lane + 6 + i]);\n"
        "mma_m16n8k16(d, a, in[10 * lane + 4], in[10 * lane + 5], {}{{}});\n"
        "for (int i = 0; i < 4; ++i) out[4 * lane + i] = bits_of(d[i]);\n",
        dtype == DType::f16 ? "F16" : "BF16");
}

/// a [16][16], b [16][8], c [16][8], spread over lanes by the PTX ISA's fragment layouts.
struct Product {
    double a[16][16], b[16][8], c[16][8];

    Words fragments(DType dtype) const {
        const auto pair = [&](double lo, double hi) {
            return std::uint32_t{from_float(float(lo), dtype)} |
                   std::uint32_t{from_float(float(hi), dtype)} << 16;
        };
        Words words;
        for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4, t = 2 * (lane % 4);
            for (int i = 0; i < 4; ++i) {
                const double* row = a[g + 8 * (i % 2)] + t + 8 * (i / 2);
                words.push_back(pair(row[0], row[1]));
            }
            for (int i = 0; i < 2; ++i) words.push_back(pair(b[t + 8 * i][g], b[t + 8 * i + 1][g]));
            for (int i = 0; i < 4; ++i)
                words.push_back(as_word(float(c[g + 8 * (i / 2)][t + i % 2])));
        }
        return words;
    }
    /// Calls visit(index in out, sum, sum of magnitudes).
    template <class Visit>
    void for_each_sum(Visit visit) const {
        for (int at = 0; at < 128; ++at) {
            const int lane = at / 4, i = at % 4;
            const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double sum = c[row][column], size = std::fabs(sum);
            for (int k = 0; k < 16; ++k) {
                sum += a[row][k] * b[k][column];
                size += std::fabs(a[row][k] * b[k][column]);
            }
            visit(at, sum, size);
        }
    }
    template <class Value>
    static Product of(DType dtype, Value value) {
        Product p;
        const auto rounded = [&](double x) {
            return double{to_float(from_float(float(x), dtype), dtype)};
        };
        for (int i = 0; i < 256; ++i) p.a[i / 16][i % 16] = rounded(value());
        for (int i = 0; i < 128; ++i) p.b[i / 8][i % 8] = rounded(value());
        for (int i = 0; i < 128; ++i) p.c[i / 8][i % 8] = float(value());
        return p;
    }
};

/// Multiples of 1/16 up to 4: every partial sum fits a float.
TEST_F(Instruction, MmaIsExactWhereSumsAre) {
    std::mt19937 engine(1);
    std::uniform_int_distribution<int> steps(-64, 64);
    for (const DType dtype : {DType::f16, DType::bf16})
        for (int round = 0; round < 4; ++round) {
            const Product p = Product::of(dtype, [&] { return steps(engine) / 16.0; });
            run(mma_text(dtype), 32, p.fragments(dtype), 128);
            expect_equal_bits();
            p.for_each_sum(
                [&](int at, double sum, double) { EXPECT_EQ(as_float(out[at]), sum) << at; });
        }
}

/// Tensor cores cut low bits as they add: within 2^-20 of the sum of magnitudes.
TEST_F(Instruction, MmaOnRandomNumbers) {
    std::mt19937 engine(2);
    std::normal_distribution<double> normal;
    for (const DType dtype : {DType::f16, DType::bf16})
        for (double scale : {1.0, 1e-3, 100.0}) {
            const Product p = Product::of(dtype, [&] { return scale * normal(engine); });
            run(mma_text(dtype), 32, p.fragments(dtype), 128);
            p.for_each_sum([&](int at, double sum, double size) {
                EXPECT_NEAR(as_float(out[at]), sum, std::ldexp(size, -20)) << at;
                EXPECT_NEAR(as_float(emulated[at]), sum, std::ldexp(size, -20)) << at;
            });
        }
}

/// Infinities, NaN, subnormals, signed zeros and the largest numbers, one product per sum.
TEST_F(Instruction, MmaOnSpecialNumbers) {
    const double tiny = 0x1p-24, inf = INFINITY;
    const double values[] = {0.0,     -0.0,  1,      -1,  tiny, -3 * tiny,
                             0x1p-14, 65504, -65504, inf, -inf, NAN};
    for (const DType dtype : {DType::f16, DType::bf16})
        for (int shift = 0; shift < 12; ++shift) {
            Product p{};
            const auto value = [&](int i) {
                return double{to_float(from_float(float(values[i % 12]), dtype), dtype)};
            };
            for (int i = 0; i < 16; ++i) p.a[i][0] = value(i);
            for (int i = 0; i < 8; ++i) p.b[0][i] = value(i + shift);
            run(mma_text(dtype), 32, p.fragments(dtype), 128);
            expect_equal_floats();
            p.for_each_sum([&](int at, double sum, double) {
                EXPECT_TRUE(std::isnan(sum) ? is_nan(out[at]) : as_float(out[at]) == float(sum))
                    << at << ": " << as_float(out[at]) << " for " << sum;
            });
        }
}

TEST_F(Instruction, CpAsync) {
    Words in(128);
    for (unsigned i = 0; i < 128; ++i) in[i] = 1000 + i;
    run("cp_async_16(shared + 16 * lane, in + 4 * lane, lane % 3 != 0);\n"
        "cp_async_commit();\n"
        "cp_async_16(shared + 512 + 16 * lane, in + 4 * (31 - lane), true);\n"
        "cp_async_commit();\n"
        "cp_async_wait<1>();\n"
        "warp_sync();\n"
        "for (int i = 0; i < 4; ++i)\n"
        "    out[4 * lane + i] = bits_of(load_shared_f32(shared + 16 * (lane ^ 1) + 4 * i));\n"
        "cp_async_wait<0>();\n"
        "warp_sync();\n"
        "for (int i = 0; i < 4; ++i)\n"
        "    out[128 + 4 * lane + i] = bits_of(load_shared_f32(shared + 512 + 16 * lane + 4 * "
        "i));\n",
        32, in, 256);
    expect_equal_bits();
    for (unsigned i = 0; i < 128; ++i) {
        const unsigned from = i / 4 ^ 1;
        EXPECT_EQ(out[i], from % 3 ? 1000 + 4 * from + i % 4 : 0u);
        EXPECT_EQ(out[128 + i], 1000 + 4 * (31 - i / 4) + i % 4);
    }
}

/// Patterns around what rounding turns on: ties and their neighbours, the ends of the range,
/// subnormals, infinities, NaN; and random bits.
Words rounding_inputs() {
    Words words;
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
        for (std::uint32_t fraction : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu,
                                       0x8000u, 0x8001u, 0x18000u, 0x7ff000u, 0x7fffffu})
            words.push_back(exponent << 23 | fraction);
    const std::size_t positive = words.size();
    for (std::size_t i = 0; i < positive; ++i) words.push_back(words[i] | 0x80000000u);
    std::mt19937 engine(3);
    while (words.size() % 32 != 0 || words.size() < 12288) words.push_back(std::uint32_t(engine()));
    return words;
}

TEST_F(Instruction, Pack2) {
    const Words in = rounding_inputs();
    for (const DType dtype : {DType::f16, DType::bf16}) {
        run(formatted(
                "for (int i = thread; i < {0}; i += 256)\n"
                "    out[i] = pack2(float_of(in[i]), float_of(in[({0}) - 1 - i]), {1}{{}});\n",
                in.size(), dtype == DType::f16 ? "F16" : "BF16"),
            256, in, in.size());
        expect_equal_bits();
        for (std::size_t i = 0; i < in.size(); ++i) {
            const std::uint32_t lo = from_float(as_float(in[i]), dtype);
            const std::uint32_t hi = from_float(as_float(in[in.size() - 1 - i]), dtype);
            ASSERT_EQ(out[i], lo | hi << 16) << std::hex << in[i];
        }
    }
}

TEST_F(Instruction, ToFloatOfEveryNumber) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
        run(formatted("for (unsigned i = thread; i < 65536; i += 256)\n"
                      "    out[i] = bits_of(to_float((unsigned short)i, {}{{}}));\n",
                      dtype == DType::f16 ? "F16" : "BF16"),
            256, {}, 65536);
        expect_equal_floats();
        for (std::uint32_t i = 0; i < 65536; ++i) {
            const float want = to_float(std::uint16_t(i), dtype);
            ASSERT_TRUE(std::isnan(want) ? is_nan(out[i]) : out[i] == as_word(want)) << i;
        }
    }
}

/// Results below the smallest normal float may be 0.
TEST_F(Instruction, Exp2) {
    Words in;
    for (float x :
         {-INFINITY, INFINITY, NAN, 0.0f, -0.0f, 1e-40f, -1e30f, 127.5f, -126.0f, -149.0f})
        in.push_back(as_word(x));
    std::mt19937 engine(4);
    std::uniform_real_distribution<float> uniform(-130, 127.9f);
    while (in.size() < 4096) in.push_back(as_word(uniform(engine)));
    run("for (int i = thread; i < 4096; i += 256) out[i] = bits_of(exp2_approx(float_of(in[i])));",
        256, in, in.size());
    expect_close(in, std::exp2, 0x1p-126);
    EXPECT_EQ(out[0], 0u) << "of -infinity";
    EXPECT_EQ(out[3], as_word(1)) << "of 0";
}

/// Near 1 the hardware's error is absolute: 2^-21.
TEST_F(Instruction, Log2) {
    Words in;
    for (float x : {0.0f, INFINITY, NAN, -1.0f, 1.0f, 2.0f, 0x1p-126f, 3e38f})
        in.push_back(as_word(x));
    std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(-120, 120);
    while (in.size() < 2048) in.push_back(as_word(std::exp2(uniform(engine))));
    while (in.size() < 4096) in.push_back(as_word(1 + uniform(engine) / 200));
    run("for (int i = thread; i < 4096; i += 256) out[i] = bits_of(log2_approx(float_of(in[i])));",
        256, in, in.size());
    expect_close(in, std::log2, 0x1p-21);
}

TEST_F(Instruction, MaxAndFma) {
    const float values[] = {NAN, 1, -1, INFINITY, -INFINITY, 3e38f, 1e-40f, 0x1.000002p0f};
    Words in;
    for (float x : values) in.push_back(as_word(x));
    run("const float a = float_of(in[thread / 8]), b = float_of(in[thread % 8]);\n"
        "out[thread] = bits_of(max_f32(a, b));\n"
        "out[64 + thread] = bits_of(fma_rn(a, b, -1.0f));\n",
        64, in, 128);
    expect_equal_floats();
    for (int i = 0; i < 64; ++i) {
        const float a = values[i / 8], b = values[i % 8];
        const float top = std::fmax(a, b), fma = std::fma(a, b, -1.0f);
        SCOPED_TRACE(formatted("{} and {}", a, b));
        EXPECT_TRUE(as_float(out[i]) == top || (std::isnan(top) && is_nan(out[i])));
        EXPECT_TRUE(as_float(out[64 + i]) == fma || (std::isnan(fma) && is_nan(out[64 + i])));
    }
}

TEST_F(Instruction, ShufflesAndVotes) {
    run("out[thread] = shuffle_xor(unsigned(thread), 5);\n"
        "out[64 + thread] = bits_of(shuffle(float(thread), (lane + 1) % 32));\n"
        "out[128 + thread] = warp_any(thread == 40) + 2 * warp_all(thread != 3);\n"
        "const bool first = cta_any(thread == 63), second = cta_any(false);\n"
        "out[192 + thread] = first + 2 * second;\n",
        64, {}, 256);
    expect_equal_bits();
    for (unsigned i = 0; i < 64; ++i) {
        EXPECT_EQ(out[i], i ^ 5);
        EXPECT_EQ(as_float(out[64 + i]), float(i / 32 * 32 + (i + 1) % 32));
        EXPECT_EQ(out[128 + i], i < 32 ? 0u : 3u);
        EXPECT_EQ(out[192 + i], 1u);
    }
}

TEST_F(Instruction, MbarrierHandsOverWhatWasCopied) {
    Words in(384);
    for (unsigned i = 0; i < 384; ++i) in[i] = i;
    run("if (thread == 0) mbarrier_init(shared, 33);\n"
        "cta_sync();\n"
        "for (int lap = 0; lap < 3; ++lap) {\n"
        "    if (warp == 0) {\n"
        "        cp_async_16(shared + 64 + 16 * lane, in + 128 * lap + 4 * lane, true);\n"
        "        mbarrier_arrive_cp_async(shared);\n"
        "    } else {\n"
        "        if (lane == 0) mbarrier_arrive(shared);\n"
        "        mbarrier_wait(shared, lap % 2);\n"
        "        out[32 * lap + lane] = bits_of(load_shared_f32(shared + 64 + 16 * (31 - lane)));\n"
        "    }\n"
        "    cta_sync();\n"
        "}",
        64, in, 96);
    expect_equal_bits();
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(out[i], 128 * (i / 32) + 4 * (31 - i % 32));
}

}  // namespace
}  // namespace attune
