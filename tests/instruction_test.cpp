// One instruction at a time, by tiny kernels written once against templates/target/contract.md:
// held against host arithmetic on the device under test and, where that is a GPU, against the
// emulator too: equal bits, except that one NaN is as good as another. exp2 and log2 are
// approximate.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "generator/formatted.h"
#include "tests/attention_case.h"
#include "tests/kernel_text.h"
#include "tuner/device_buffer.h"
#include "tuner/float16.h"

namespace attune {
namespace {

using Words = std::vector<std::uint32_t>;

float as_float(std::uint32_t word) {
    return std::bit_cast<float>(word);
}
bool is_nan(std::uint32_t word) {
    return std::isnan(as_float(word));
}
std::uint32_t as_word(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

/// What the kernels here are handed, as `p`.
struct Params {
    const void* in;
    void* out;
    TensorMap map;
};

/// `body` sees in, out (words), shared, thread, lane, warp, and p.map of `tensor`, whose base is
/// the input, if it has box_rows.
Result<Words> run_on(TestBed& bed, const std::string& body, int threads, const Words& in,
                     std::size_t out_words, TensorMapSpec tensor = {}) {
    constexpr std::uint32_t shared_bytes = 48 << 10;
    Source source;
    source.entry = "attune_kernel";
    source.text = kernel_text(
        body, "TensorMap map;",
        "ATTUNE_DEVICE unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }\n"
        "ATTUNE_DEVICE float float_of(unsigned x) { return __builtin_bit_cast(float, x); }\n",
        threads);
    const auto binary = bed.compiler().compile(source, bed.target().arch);
    if (!binary) return binary.error();
    Device& device = bed.device();
    const auto kernel = device.load(binary->bytes, binary->entry, shared_bytes);
    if (!kernel) return kernel.error();
    auto input = DeviceBuffer::allocate(device, 4 * std::max<std::size_t>(in.size(), 4));
    if (!input) return input.error();
    auto output = DeviceBuffer::allocate(device, 4 * out_words);
    if (!output) return output.error();
    auto done = device.copy_to_device(input->ptr(), in.data(), 4 * in.size());
    if (done) done = device.fill(output->ptr(), 0xffffffff, output->bytes());
    Params params{input->as<void>(), output->as<void>(), {}};
    tensor.base = input->ptr();
    if (done && tensor.box_rows > 0) done = device.encode_tensor_map(tensor, params.map);
    const Launch launch{1, static_cast<std::uint32_t>(threads), shared_bytes, 0};
    if (done) done = device.launch(*kernel, launch, &params, sizeof params);
    if (done) done = device.synchronize();
    if (!done) return done.error();
    auto out = read_back<std::uint32_t>(device, output->ptr(), out_words);
    (void)device.unload(*kernel);
    return out;
}

class Instruction : public testing::Test {
protected:
    /// On the device under test; `emulated` is what the emulator gives, the same where that is it.
    void run(const std::string& body, int threads, const Words& in, std::size_t out_words,
             const TensorMapSpec& tensor = {}) {
        auto result = run_on(test_bed(), body, threads, in, out_words, tensor);
        ASSERT_TRUE(result) << result.error().text();
        out = emulated = *result;
        if (test_bed().emulated()) return;
        static TestBed emulator = *TestBed::open("emu:h200");
        result = run_on(emulator, body, threads, in, out_words, tensor);
        ASSERT_TRUE(result) << result.error().text();
        emulated = *result;
    }
    void expect_equal_bits() const { EXPECT_EQ(out, emulated); }
    void expect_equal_floats() const {
        for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_TRUE(out[i] == emulated[i] || (is_nan(out[i]) && is_nan(emulated[i])))
                << i << ": " << as_float(out[i]) << " and " << as_float(emulated[i]);
    }
    /// Both within 2 units of the last place of `exact`, or within `absolute`.
    void expect_close(const Words& in, double (*exact)(double), double absolute) const {
        for (std::size_t i = 0; i < in.size(); ++i)
            for (const float got : {as_float(out[i]), as_float(emulated[i])}) {
                const double want = exact(as_float(in[i]));
                const double bar = std::max(std::ldexp(std::fabs(want), -22), absolute);
                EXPECT_TRUE(got == want || (std::isfinite(want) && std::fabs(got - want) <= bar) ||
                            (std::isnan(got) && std::isnan(want)))
                    << got << " where " << want << " is right, of " << as_float(in[i]);
            }
    }
    Words out, emulated;
};

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

// ---- Hopper ------------------------------------------------------------------------------------

class HopperInstruction : public Instruction {
protected:
    void SetUp() override {
        const std::string& arch = test_bed().target().arch;
        if (arch != "sm_90a")
            GTEST_SKIP() << "warpgroup MMAs and TMA need sm_90a, this is " << arch;
    }
    const std::string init =
        "const SharedAddress barrier = shared + 40960;\n"
        "if (thread == 0) { mbarrier_init(barrier, 1); mbarrier_init(barrier + 8, 1);\n"
        "    mbarrier_fence_init(); }\n"
        "cta_sync();\n";
    const std::string dump =
        "mbarrier_wait(barrier, 0);\n"
        "for (int i = thread; i < 256; i += 32)\n"
        "    out[i] = bits_of(load_shared_f32(shared + 4 * i));\n";
};

/// 16-bit numbers 1, 2, ...: [2 batch][3 heads][5 rows][72 columns], rows 80 apart.
std::uint32_t numbered(int column, int row, int head, int batch) {
    if (column >= 72 || row < 0 || row >= 5 || head >= 3 || batch >= 2) return 0;
    return 1 + ((batch * 3 + head) * 5 + row) * 80 + column;
}

TEST_F(HopperInstruction, TensorLoadSwizzlesAndFillsWithZeros) {
    Words in(2 * 3 * 5 * 40);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = (2 * i + 1) | (2 * i + 2) << 16;
    const TensorMapSpec tensor{0, DType::f16, 72, 5, 3, 2, {3 * 5 * 80, 5 * 80, 80}, 8};
    struct Box {
        int column, row, head, batch;
    };
    for (const auto& [column, row, head, batch] :
         {Box{0, 0, 0, 0}, Box{64, 2, 1, 1}, Box{0, -1, 2, 0}, Box{64, 5, 0, 1}, Box{0, 0, 3, 0}}) {
        const std::string at = formatted("{}, {}, {}, {}", column, row, head, batch);
        SCOPED_TRACE(at);
        run(init +
                "if (thread == 0) {\n"
                "    mbarrier_arrive_expect(barrier, 1024);\n"
                "    tensor_load(shared, p.map, barrier, " +
                at + ");\n}\n" + dump,
            32, in, 256, tensor);
        expect_equal_bits();
        for (int r = 0; r < 8; ++r)
            for (int c = 0; c < 64; c += 2)
                EXPECT_EQ(out[32 * r + 4 * (c / 8 ^ r) + c % 8 / 2],
                          numbered(column + c, row + r, head, batch) |
                              numbered(column + c + 1, row + r, head, batch) << 16)
                    << "row " << r << " column " << c;
    }
}

/// Two slots, five laps: the barriers' phases and byte counts keep reader and loader in step.
TEST_F(HopperInstruction, MbarriersCountBytesAndPhases) {
    Words in(10 * 256);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = i;
    const TensorMapSpec tensor{0, DType::f16, 64, 80, 1, 1, {0, 0, 64}, 8};
    run("const SharedAddress full = shared + 40960, empty = full + 16;\n"
        "if (thread == 0) {\n"
        "    for (int s = 0; s < 2; ++s) {\n"
        "        mbarrier_init(full + 8 * s, 1);\n"
        "        mbarrier_init(empty + 8 * s, 2);\n"
        "    }\n"
        "    mbarrier_fence_init();\n"
        "}\n"
        "cta_sync();\n"
        "for (int i = 0; i < 10; ++i) {\n"
        "    const int s = i % 2, lap = i / 2 % 2;\n"
        "    if (thread == 0) {\n"
        "        mbarrier_wait(empty + 8 * s, lap ^ 1);\n"
        "        mbarrier_arrive_expect(full + 8 * s, 1024);\n"
        "        tensor_load(shared + 1024 * s, p.map, full + 8 * s, 0, 8 * i, 0, 0);\n"
        "    } else if (warp > 0) {\n"
        "        mbarrier_wait(full + 8 * s, lap);\n"
        "        for (int j = thread - 32; j < 256; j += 64)\n"
        "            out[256 * i + j] = bits_of(load_shared_f32(shared + 1024 * s + 4 * j));\n"
        "        warp_sync();\n"
        "        if (lane == 0) mbarrier_arrive(empty + 8 * s);\n"
        "    }\n"
        "}",
        96, in, 10 * 256, tensor);
    expect_equal_bits();
    for (unsigned i = 0; i < out.size(); ++i) {
        const unsigned row = i / 32, chunk = i % 32 / 4 ^ row % 8;
        EXPECT_EQ(out[i], 32 * row + 4 * chunk + i % 4);
    }
}

/// A [64][64] times B [64][n], every sum exact.
struct WarpgroupProduct {
    int n;
    DType dtype;
    std::vector<double> a = std::vector<double>(64 * 64),
                        b = std::vector<double>(std::size_t(64) * n);

    WarpgroupProduct(int columns, DType type) : n(columns), dtype(type) {
        std::mt19937 engine(n);
        std::uniform_int_distribution<int> small(-64, 64);
        for (double& x : a) x = small(engine) / 16.0;
        for (double& x : b) x = small(engine) / 16.0;
    }
    std::uint32_t pair(double low, double high) const {
        return from_float(float(low), dtype) | std::uint32_t(from_float(float(high), dtype)) << 16;
    }
    /// 64 rows of A, n rows of B transposed.
    Words rows_of_both() const {
        Words words;
        for (std::size_t i = 0; i < a.size(); i += 2) words.push_back(pair(a[i], a[i + 1]));
        for (int column = 0; column < n; ++column)
            for (int k = 0; k < 64; k += 2)
                words.push_back(pair(b[k * n + column], b[(k + 1) * n + column]));
        return words;
    }
    /// 64 rows of B; then A as fragments [4 steps][128 threads][4].
    Words rows_and_fragments() const {
        Words words;
        for (std::size_t i = 0; i < b.size(); i += 2) words.push_back(pair(b[i], b[i + 1]));
        for (int i = 0; i < 4 * 128 * 4; ++i) {
            const int step = i / 512, t = i / 4 % 128, word = i % 4;
            const int row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8;
            const double* at = &a[row * 64 + step * 16 + t % 4 * 2 + word / 2 * 8];
            words.push_back(pair(at[0], at[1]));
        }
        return words;
    }
    void expect(const Words& out) const {
        for (int row = 0; row < 64; ++row)
            for (int column = 0; column < n; ++column) {
                double sum = 1;
                for (int k = 0; k < 64; ++k) sum += a[row * 64 + k] * b[k * n + column];
                ASSERT_EQ(as_float(out[row * n + column]), sum) << row << " " << column;
            }
    }
    std::string body(const std::string& load_and_multiply) const {
        return formatted(
                   "constexpr int n = {}; using E = {};\n"
                   "float d[n / 2];\n"
                   "ATTUNE_UNROLL\nfor (int i = 0; i < n / 2; ++i) d[i] = 1;\n",
                   n, dtype == DType::f16 ? "F16" : "BF16") +
               load_and_multiply +
               "wgmma_commit();\n"
               "wgmma_wait<0>();\n"
               "ATTUNE_UNROLL\nfor (int i = 0; i < n / 2; ++i) {\n"
               "    const int row = 16 * warp + lane / 4 + 8 * (i % 4 / 2);\n"
               "    out[row * n + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = bits_of(d[i]);\n"
               "}\n";
    }
};

/// Both operands by descriptor, rows of k: as Q K^T. The sum that d held is dropped by the first.
TEST_F(HopperInstruction, WarpgroupMmaOfTwoSharedOperands) {
    for (const DType dtype : {DType::f16, DType::bf16})
        for (const int n : {48, 64, 96, 176, 256}) {
            SCOPED_TRACE(n);
            const WarpgroupProduct product(n, dtype);
            const int boxes = 1 + (n + 63) / 64;
            run(init +
                    product.body(formatted(
                        "if (thread == 0) {{\n"
                        "    mbarrier_arrive_expect(barrier, {0} * 8192);\n"
                        "    for (int i = 0; i < {0}; ++i)\n"
                        "        tensor_load(shared + 8192 * i, p.map, barrier, 0, 64 * i, 0, 0);\n"
                        "}}\n"
                        "mbarrier_wait(barrier, 0);\n"
                        "const MatrixDescriptor a = matrix_descriptor(shared, 16);\n"
                        "const MatrixDescriptor b = matrix_descriptor(shared + 8192, 16);\n"
                        "wgmma_fence();\n"
                        "ATTUNE_UNROLL\n"
                        "for (int step = 0; step < 4; ++step)\n"
                        "    Wgmma<n, E>::ss(d, advance(a, 32 * step), advance(b, 32 * step),\n"
                        "                    step > 0);\n",
                        boxes)),
                128, product.rows_of_both(), std::size_t(64) * n,
                {0, dtype, 64, 64 + n, 1, 1, {0, 0, 64}, 64});
            expect_equal_bits();
            for (std::uint32_t& word : out) word = as_word(as_float(word) + 1);
            product.expect(out);
        }
}

/// A in registers, B by descriptor with rows of n: as P V.
TEST_F(HopperInstruction, WarpgroupMmaOfRegistersAndShared) {
    for (const DType dtype : {DType::f16, DType::bf16})
        for (const int n : {16, 64, 112, 192, 256}) {
            SCOPED_TRACE(n);
            const WarpgroupProduct product(n, dtype);
            run(init +
                    product.body(formatted(
                        "if (thread == 0) {{\n"
                        "    mbarrier_arrive_expect(barrier, {0} * 8192);\n"
                        "    for (int i = 0; i < {0}; ++i)\n"
                        "        tensor_load(shared + 8192 * i, p.map, barrier, 64 * i, 0, 0, 0);\n"
                        "}}\n"
                        "mbarrier_wait(barrier, 0);\n"
                        "const MatrixDescriptor b = matrix_descriptor(shared, 8192);\n"
                        "unsigned a[4][4];\n"
                        "ATTUNE_UNROLL\n"
                        "for (int i = 0; i < 16; ++i)\n"
                        "    a[i / 4][i % 4] = in[32 * n + (i / 4 * 128 + thread) * 4 + i % 4];\n"
                        "wgmma_fence();\n"
                        "ATTUNE_UNROLL\n"
                        "for (int step = 0; step < 4; ++step)\n"
                        "    Wgmma<n, E>::rs(d, a[step], advance(b, 16 * 128 * step));\n",
                        (n + 63) / 64)),
                128, product.rows_and_fragments(), std::size_t(64) * n,
                {0, dtype, n, 64, 1, 1, {0, 0, n}, 64});
            expect_equal_bits();
            product.expect(out);
        }
}

TEST_F(HopperInstruction, NamedBarriersHandOver) {
    run("for (int lap = 0; lap < 4; ++lap) {\n"
        "    if (warp < 4) {\n"
        "        store_shared_f32(shared + 4 * thread, float(1000 * lap + thread));\n"
        "        named_arrive(1, 256);\n"
        "        named_sync(2, 256);\n"
        "    } else {\n"
        "        named_sync(1, 256);\n"
        "        out[128 * lap + thread - 128] =\n"
        "            unsigned(load_shared_f32(shared + 4 * (255 - thread)));\n"
        "        named_arrive(2, 256);\n"
        "    }\n"
        "}",
        256, {}, 512);
    expect_equal_bits();
    for (unsigned i = 0; i < 512; ++i) EXPECT_EQ(out[i], 1000 * (i / 128) + 127 - i % 128);
}

}  // namespace
}  // namespace attune
