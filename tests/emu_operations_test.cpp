// What each name of templates/target/contract.md does on the emulator.
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "generator/formatted.h"
#include "tests/emu_fixture.h"

namespace attune {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t poison = 0xffffffffu;

float as_float(std::uint32_t word) {
    return std::bit_cast<float>(word);
}

class EmuOperations : public EmuTest {};

TEST_F(EmuOperations, Identity) {
    ASSERT_TRUE(
        run("out[cta_index() * 64 + thread] = cta_index() * 1000000 + cta_count() * 10000 +"
            " warp * 100 + lane;",
            64, {}, 192, 3));
    for (unsigned i = 0; i < 192; ++i)
        EXPECT_EQ(out[i], i / 64 * 1000000 + 30000 + i % 64 / 32 * 100 + i % 32);
}

TEST_F(EmuOperations, Shuffles) {
    ASSERT_TRUE(
        run("out[lane] = shuffle_xor(unsigned(lane), 5);\n"
            "out[32 + lane] = __builtin_bit_cast(unsigned, shuffle(float(lane), 9));\n"
            "out[64 + lane] = shuffle(unsigned(lane), (lane + 1) % 32);",
            32, {}, 96));
    for (unsigned i = 0; i < 32; ++i) {
        EXPECT_EQ(out[i], i ^ 5);
        EXPECT_EQ(as_float(out[32 + i]), 9.f);
        EXPECT_EQ(out[64 + i], (i + 1) % 32);
    }
}

TEST_F(EmuOperations, Votes) {
    ASSERT_TRUE(
        run("out[thread] = warp_any(thread == 40) + 2 * warp_all(thread != 3) +"
            " 4 * warp_any(false) + 8 * warp_all(true) + 16 * cta_any(thread == 9) +"
            " 32 * cta_any(false);",
            64, {}, 64));
    EXPECT_EQ(out[0], 8u + 16u);
    EXPECT_EQ(out[63], 1u + 2u + 8u + 16u);
}

/// Matrix i, row r, column c holds 64 i + 8 r + c; lane l gives the address of row 31 - l.
TEST_F(EmuOperations, LdmatrixLayouts) {
    Words in(128);
    for (unsigned i = 0; i < 128; ++i) in[i] = 2 * i | (2 * i + 1) << 16;
    ASSERT_TRUE(
        run("store_shared_128(shared + 16 * (31 - lane), load_global_128(in + 4 * lane));\n"
            "warp_sync();\n"
            "unsigned r[4], t[4];\n"
            "ldmatrix_x4(r, shared + 16 * (31 - lane));\n"
            "ldmatrix_x4_trans(t, shared + 16 * (31 - lane));\n"
            "for (int i = 0; i < 4; ++i)\n"
            "    out[4 * lane + i] = r[i], out[128 + 4 * lane + i] = t[i];",
            32, in, 256));
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4, column = 2 * (lane % 4);
            const unsigned straight = 64 * i + 8 * row + column;
            const unsigned turned = 64 * i + 8 * column + row;
            EXPECT_EQ(out[4 * lane + i], straight | (straight + 1) << 16);
            EXPECT_EQ(out[128 + 4 * lane + i], turned | (turned + 8) << 16);
        }
}

/// in: a [16][16], b [16][8] as 16-bit values in words, c [16][8] fp32. out: [16][8] fp32.
/// Fragments by the PTX ISA's formulas.
std::string mma_text(const char* element) {
    return std::string("using E = ") + element +
           ";\n"
           "const int g = lane / 4, t = lane % 4;\n"
           "auto word = [&](int at, int next) { return in[at] | in[next] << 16; };\n"
           "unsigned a[4], b[2];\n"
           "float d[4];\n"
           "for (int i = 0; i < 4; ++i) {\n"
           "    const int at = (g + 8 * (i % 2)) * 16 + 2 * t + 8 * (i / 2);\n"
           "    a[i] = word(at, at + 1);\n"
           "}\n"
           "for (int i = 0; i < 2; ++i) {\n"
           "    const int at = 256 + (2 * t + 8 * i) * 8 + g;\n"
           "    b[i] = word(at, at + 8);\n"
           "}\n"
           "auto c = [&](int i) { return (g + 8 * (i / 2)) * 8 + 2 * t + i % 2; };\n"
           "for (int i = 0; i < 4; ++i) d[i] = __builtin_bit_cast(float, in[384 + c(i)]);\n"
           "mma_m16n8k16(d, a, b[0], b[1], E{});\n"
           "for (int i = 0; i < 4; ++i) out[c(i)] = __builtin_bit_cast(unsigned, d[i]);\n";
}

void expect_product(const std::vector<double>& x, const Words& out) {
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
            double sum = x[384 + row * 8 + column];
            for (int k = 0; k < 16; ++k) sum += x[row * 16 + k] * x[256 + k * 8 + column];
            EXPECT_EQ(as_float(out[row * 8 + column]), static_cast<float>(sum))
                << row << " " << column;
        }
}

/// Random values that fp16 and bf16 both hold: odd multiples of a power of two.
TEST_F(EmuOperations, MmaBothTypes) {
    std::mt19937 engine(3);
    std::uniform_int_distribution<int> mantissa(-127, 127), exponent(-9, -3);
    for (const bool half : {true, false}) {
        std::vector<double> values(512);
        Words in(512);
        for (int i = 0; i < 512; ++i) {
            const float value = std::ldexp(float(mantissa(engine)), exponent(engine));
            values[i] = value;
            in[i] = std::bit_cast<std::uint32_t>(value);
            if (i >= 384) continue;
            const std::uint32_t sign = in[i] >> 16 & 0x8000u, rest = in[i] & 0x7fffffffu;
            if (half && rest)
                in[i] = sign | ((rest >> 13) - (112 << 10));
            else
                in[i] = half ? sign : in[i] >> 16;
        }
        ASSERT_TRUE(run(mma_text(half ? "F16" : "BF16"), 32, in, 128));
        expect_product(values, out);
    }
}

/// Where the first lane says, each lane's bytes behind the one's before.
TEST_F(EmuOperations, WindowCopiesOfAWarpLieSideBySide) {
    device->set_options({.detect_races = false});
    Words in(4 + 128);
    std::iota(in.begin(), in.end(), 1u);
    for (const int words : {1, 4}) {
        const std::string issue = formatted(
            "copy_window_to_shared<{0}>(shared + 64 * lane, global_window(in),\n"
            "                         lane == 3 ? outside_window : {0} * (31 - lane), 16);\n",
            4 * words);
        const std::string show = formatted(
            "for (int i = 0; i < {0}; ++i) out[{0} * lane + i] = __builtin_bit_cast(unsigned,\n"
            "    load_shared_f32(shared + 4 * ({0} * lane + i)));\n",
            words);
        Words reversed(32 * words, poison);
        for (int i = 0; i < 32 * words; ++i)
            if (i / words != 3) reversed[i] = in[4 + (31 - i / words) * words + i % words];
        ASSERT_TRUE(run(issue + "wait_window_copies();\n" + show, 32, in, 32 * words));
        EXPECT_EQ(out, reversed) << words;
        ASSERT_TRUE(run(issue + show, 32, in, 32 * words));
        EXPECT_EQ(out, Words(32 * words, poison)) << words;
    }
}

TEST_F(EmuOperations, CopiesLandWhenWaitedFor) {
    device->set_options({.detect_races = false});
    const std::string issue =
        "cp_async_16(shared + 32 * lane, in, true); cp_async_commit();\n"
        "cp_async_16(shared + 32 * lane + 16, nullptr, false);\n"
        "cp_async_commit();\n";
    const std::string show =
        "for (int i = 0; i < 8; ++i) out[8 * lane + i] = "
        "__builtin_bit_cast(unsigned, load_shared_f32(shared + 32 * lane + "
        "4 * i));\n";
    using testing::ElementsAre;
    const auto first_lane = [&] { return Words(out.begin(), out.begin() + 8); };
    ASSERT_TRUE(run(issue + "cp_async_wait<0>();\n" + show, 32, {1, 2, 3, 4}, 256));
    EXPECT_THAT(first_lane(), ElementsAre(1, 2, 3, 4, 0, 0, 0, 0));
    ASSERT_TRUE(run(issue + "cp_async_wait<1>();\n" + show, 32, {1, 2, 3, 4}, 256));
    EXPECT_THAT(first_lane(), ElementsAre(1, 2, 3, 4, poison, poison, poison, poison));
    ASSERT_TRUE(run(issue + show, 32, {1, 2, 3, 4}, 256));
    EXPECT_THAT(first_lane(),
                ElementsAre(poison, poison, poison, poison, poison, poison, poison, poison));
}

TEST_F(EmuOperations, CopiesLandWithTheirMbarrier) {
    ASSERT_TRUE(
        run("if (thread == 0) { mbarrier_init(shared, 33); }\n"
            "cta_sync();\n"
            "for (unsigned lap = 0; lap < 3; ++lap) {\n"
            "    if (warp == 0) {\n"
            "        cp_async_16(shared + 64 + 16 * lane, in + 4 * lap, true);\n"
            "        mbarrier_arrive_cp_async(shared);\n"
            "    } else {\n"
            "        if (lane == 0) mbarrier_arrive(shared);\n"
            "        mbarrier_wait(shared, lap % 2);\n"
            "        const auto at = shared + 64 + 16 * (31 - lane) + 4;\n"
            "        out[32 * lap + lane] =\n"
            "            __builtin_bit_cast(unsigned, load_shared_f32(at));\n"
            "    }\n"
            "    cta_sync();\n"
            "}",
            64, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}, 96));
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(out[i], 10 * (i / 32) + 1);
}

TEST_F(EmuOperations, SharedMemoryStartsAsNaN) {
    ASSERT_TRUE(
        run("const float x = load_shared_f32(shared + 4 * lane);\n"
            "out[32 * cta_index() + lane] = __builtin_bit_cast(unsigned, x);\n"
            "warp_sync();\n"
            "store_shared_f32(shared + 4 * lane, 0.0f);",
            32, {}, 128, 4));
    EXPECT_THAT(out, testing::Each(poison));
}

/// Every fp16 and bf16 value survives a round trip; what lies between is rounded to nearest even.
TEST_F(EmuOperations, Conversions) {
    const char* text =
        "for (unsigned i = 256 * thread; i < 256u * thread + 256; ++i) {\n"
        "    const unsigned short bits = i;\n"
        "    const float x = to_float(bits, E{});\n"
        "    const bool same = pack2(x, x, E{}) == (i | i << 16);\n"
        "    if (!same && !(x != x)) atomic_add_global(out, 1);\n"
        "    if (x != x) atomic_add_global(out + 1, 1);\n"
        "    const float next = to_float(bits + 1, E{});\n"
        "    const unsigned even = i % 2 ? i + 1 : i;\n"
        "    if (next - x < __builtin_inff() && pack2(x + (next - x) / 2, 0, E{}) != even)\n"
        "        atomic_add_global(out + 2, 1);\n"
        "}\n";
    for (const bool half : {true, false}) {
        const std::string element = half ? "using E = F16;\n" : "using E = BF16;\n";
        ASSERT_TRUE(
            run("out[0] = out[1] = out[2] = 0; cta_sync();\n" + element + text, 256, {}, 3));
        EXPECT_EQ(out[0], 0u) << "values that did not come back";
        EXPECT_EQ(out[1], half ? 2 * 1023u : 2 * 127u) << "NaNs";
        EXPECT_EQ(out[2], 0u) << "ties that did not go to even";
    }
}

TEST_F(EmuOperations, Arithmetic) {
    ASSERT_TRUE(
        run("const float nan = __builtin_nanf(\"\"), inf = infinity();\n"
            "const float x[] = {exp2_approx(-inf), exp2_approx(3), log2_approx(8),\n"
            "    max_f32(nan, 2), max_f32(2, nan), max_f32(-inf, -3), fma_rn(2, 3, 4)};\n"
            "for (int i = 0; i < 7; ++i) out[i] = __builtin_bit_cast(unsigned, x[i]);",
            32, {}, 7));
    const float want[] = {0, 8, 3, 2, 2, -3, 10};
    for (int i = 0; i < 7; ++i) EXPECT_EQ(as_float(out[i]), want[i]) << i;
    EXPECT_EQ(device->last_counts().exp2, 64u);
}

TEST_F(EmuOperations, BankConflicts) {
    const auto conflicts = [&](const std::string& text) {
        EXPECT_TRUE(run(text, 32, {}, 1));
        return device->last_counts().bank_conflicts;
    };
    EXPECT_EQ(conflicts("load_shared_f32(shared + 4 * lane);"), 0u);
    EXPECT_EQ(conflicts("load_shared_f32(shared + 128 * lane);"), 31u);
    EXPECT_EQ(conflicts("load_shared_f32(shared + 128 * lane); warp_sync();"), 31u);
    EXPECT_EQ(
        conflicts("for (int i = 0; i < 3; ++i) load_shared_f32(shared + 8 * lane + i % 2 * 4);"
                  "warp_sync();"),
        3u);
    EXPECT_EQ(conflicts("load_shared_f32(shared);"), 0u) << "one word for all";
    EXPECT_EQ(conflicts("load_shared_128(shared + 16 * lane);"), 0u);
    // Rows of 128 bytes: eight rows of a matrix fall into one group of banks; a swizzle spreads
    // them.
    EXPECT_EQ(conflicts("unsigned r[4]; ldmatrix_x4(r, shared + 128 * (lane % 8));"), 28u);
    EXPECT_EQ(conflicts("unsigned r[4] = {}; stmatrix_x4(shared + 128 * lane, r);"), 28u);
    EXPECT_EQ(conflicts("unsigned r[4] = {}; stmatrix_x4(shared + 16 * lane, r);"), 0u);
    EXPECT_EQ(conflicts("unsigned r[4]; ldmatrix_x4(r, shared + 128 * (lane % 8) + 16 * (lane % 8 ^"
                        " lane / 8));"),
              0u);
}

TEST_F(EmuOperations, CountsAndTime) {
    const Event start = *device->create_event(), stop = *device->create_event();
    ASSERT_TRUE(device->record(start));
    ASSERT_TRUE(
        run("float d[4] = {}; const unsigned a[4] = {};\n"
            "mma_m16n8k16(d, a, 0, 0, F16{});\n"
            "cta_sync(); cta_sync();\n"
            "store_shared_f32(shared + 4 * thread, 0);\n"
            "load_global_32(in);",
            64, {1}, 1, 2));
    ASSERT_TRUE(device->record(stop));
    const EmuCounts& counts = device->last_counts();
    EXPECT_EQ(counts.mma, 4u);
    EXPECT_EQ(counts.barriers, 4u);
    EXPECT_EQ(counts.shared_bytes, 2 * 64 * 4u);
    EXPECT_EQ(counts.global_bytes, 2 * 64 * 4u);
    EXPECT_GT(*device->elapsed_ms(start, stop), 0);
    EXPECT_TRUE(device->destroy_event(start));
    EXPECT_FALSE(device->record(start));
    EXPECT_TRUE(device->info().emulated);
    EXPECT_EQ(device->info().id, "emu:h200");
    EXPECT_EQ(device->info().target.name, "emu NVIDIA H200");
}

/// The order in which eight warps come by.
TEST_F(EmuOperations, TheSeedDecidesWhichWarpRuns) {
    const std::string text =
        "if (warp == 0 && lane == 0) out[0] = 0;\n"
        "cta_sync();\n"
        "if (lane == 0) out[1 + atomic_add_global(out, 1)] = warp;";
    const auto order = [&](unsigned seed, int threads) {
        device->set_options({.seed = seed, .threads = threads});
        EXPECT_TRUE(run(text, 256, {}, 9));
        return out;
    };
    EXPECT_EQ(order(1, 1), order(1, 2));
    EXPECT_NE(order(1, 1), order(2, 1));
    EXPECT_EQ(order(2, 1)[0], 8u);
}

}  // namespace
}  // namespace attune
