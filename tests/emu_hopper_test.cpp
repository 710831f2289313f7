// wgmma, registers handed over and named barriers on the emulator: each does what
// templates/target/contract.md says, and each way to use it wrongly shows.
#include <bit>
#include <cmath>
#include <random>

#include "runtime/emu/model.h"
#include "tests/emu_fixture.h"
#include "tuner/float16.h"

namespace attune {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

// ---- wgmma ------------------------------------------------------------------------------------

/// A [64][64] and B in shared memory as tensor_load leaves them, and d = A B.
class EmuWgmma : public EmuTest {
protected:
    static constexpr int shared_bytes = 5 * 8192 + 1024;

    std::string prelude(int n, DType dtype, int boxes) const {
        return "constexpr int n = " + std::to_string(n) +
               ";\nusing E = " + (dtype == DType::f16 ? "F16" : "BF16") +
               ";\n"
               "const SharedAddress barrier = shared + 40960;\n"
               "if (thread == 0) { mbarrier_init(barrier, 1); mbarrier_fence_init(); }\n"
               "cta_sync();\n"
               "constexpr int boxes = " +
               std::to_string(boxes) + ";\n";
    }
    /// in: 64 rows of A, n rows of B transposed; 64 columns each.
    const std::string ss_body =
        "if (thread == 0) {\n"
        "    mbarrier_arrive_expect(barrier, boxes * 8192);\n"
        "    for (int i = 0; i < boxes; ++i)\n"
        "        tensor_load(shared + 8192 * i, p.map, barrier, 0, 64 * i, 0, 0);\n"
        "}\n"
        "mbarrier_wait(barrier, 0);\n"
        "const MatrixDescriptor a = matrix_descriptor(shared, 16);\n"
        "const MatrixDescriptor b = matrix_descriptor(shared + 8192, 16);\n"
        "float d[n / 2];\n"
        "for (float& x : d) x = 1;\n"
        "wgmma_fence();\n"
        "for (int step = 0; step < 4; ++step)\n"
        "    Wgmma<n, E>::ss(d, advance(a, 32 * step), advance(b, 32 * step), step > 0);\n"
        "wgmma_commit();\n"
        "wgmma_wait<0>();\n";
    /// in: 64 rows of B, n columns; then A in fragments, [4 steps][128 threads][4].
    const std::string rs_body =
        "if (thread == 0) {\n"
        "    mbarrier_arrive_expect(barrier, boxes * 8192);\n"
        "    for (int i = 0; i < boxes; ++i)\n"
        "        tensor_load(shared + 8192 * i, p.map, barrier, 64 * i, 0, 0, 0);\n"
        "}\n"
        "mbarrier_wait(barrier, 0);\n"
        "const MatrixDescriptor b = matrix_descriptor(shared, 8192);\n"
        "unsigned a[4][4];\n"
        "for (int i = 0; i < 16; ++i)\n"
        "    a[i / 4][i % 4] = in[32 * n + (i / 4 * 128 + thread) * 4 + i % 4];\n"
        "float d[n / 2];\n"
        "for (float& x : d) x = 1;\n"
        "wgmma_fence();\n"
        "for (int step = 0; step < 4; ++step)\n"
        "    Wgmma<n, E>::rs(d, a[step], advance(b, 16 * 128 * step), true);\n"
        "wgmma_commit();\n"
        "wgmma_wait<0>();\n";
    const std::string show =
        "for (int i = 0; i < n / 2; ++i) {\n"
        "    const int row = 16 * warp + lane / 4 + 8 * (i % 4 / 2);\n"
        "    out[row * n + 8 * (i / 4) + 2 * (lane % 4) + i % 2] =\n"
        "        __builtin_bit_cast(unsigned, d[i]);\n"
        "}\n";

    /// a [64][64], b [64][n]: small integers, so that every sum is exact.
    void fill(int n) {
        std::uniform_int_distribution<int> small(-8, 8);
        a.resize(64 * 64);
        b.resize(64 * n);
        for (double& x : a) x = small(engine);
        for (double& x : b) x = small(engine);
    }
    Words ss_input(int n, DType dtype) {
        fill(n);
        std::vector<std::uint16_t> values;
        for (const double x : a) values.push_back(from_float(float(x), dtype));
        for (int column = 0; column < n; ++column)
            for (int k = 0; k < 64; ++k)
                values.push_back(from_float(float(b[k * n + column]), dtype));
        tensor = {0, dtype, 64, 64 + n, 1, 1, {0, 0, 64}, 64};
        return packed(values);
    }
    Words rs_input(int n, DType dtype) {
        fill(n);
        std::vector<std::uint16_t> values;
        for (const double x : b) values.push_back(from_float(float(x), dtype));
        for (int i = 0; i < 4 * 128 * 8; ++i) {
            const int step = i / 1024, t = i / 8 % 128, word = i / 2 % 4;
            const int row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8;
            const int column = step * 16 + t % 4 * 2 + word / 2 * 8 + i % 2;
            values.push_back(from_float(float(a[row * 64 + column]), dtype));
        }
        tensor = {0, dtype, n, 64, 1, 1, {0, 0, n}, 64};
        return packed(values);
    }
    /// How many elements of the output are not A B + `start`.
    int wrong(int n, double start) const {
        int count = 0;
        for (int row = 0; row < 64; ++row)
            for (int column = 0; column < n; ++column) {
                double sum = start;
                for (int k = 0; k < 64; ++k) sum += a[row * 64 + k] * b[k * n + column];
                count += std::bit_cast<float>(out[row * n + column]) != sum;
            }
        return count;
    }
    int wrong_ss(const std::string& body, int n = 16, DType dtype = DType::f16) {
        const Words in = ss_input(n, dtype);
        const auto ran = run(prelude(n, dtype, 1 + (n + 63) / 64) + body + show, 128, in, 64 * n, 1,
                             shared_bytes);
        EXPECT_TRUE(ran) << ran.error().text();
        return wrong(n, 0);
    }
    int wrong_rs(const std::string& body, int n = 16, DType dtype = DType::f16) {
        const Words in = rs_input(n, dtype);
        const auto ran =
            run(prelude(n, dtype, (n + 63) / 64) + body + show, 128, in, 64 * n, 1, shared_bytes);
        EXPECT_TRUE(ran) << ran.error().text();
        return wrong(n, 1);
    }
    std::string fault_of(const std::string& body) {
        const Words in = ss_input(16, DType::f16);
        const auto ran = run(prelude(16, DType::f16, 2) + body, 128, in, 64 * 16, 1, shared_bytes);
        return ran ? "no error" : ran.error().text();
    }

    std::vector<double> a, b;
    std::mt19937 engine{5};
};

TEST_F(EmuWgmma, BothOperandsInSharedMemory) {
    EXPECT_EQ(wrong_ss(ss_body, 16, DType::f16), 0);
    EXPECT_EQ(device->last_counts().wgmma, 4 * 8u);
    EXPECT_EQ(device->last_counts().mma, 4 * 8u);
    EXPECT_EQ(wrong_ss(ss_body, 80, DType::bf16), 0);
    EXPECT_EQ(wrong_ss(ss_body, 256, DType::f16), 0);
}

TEST_F(EmuWgmma, AInRegisters) {
    EXPECT_EQ(wrong_rs(rs_body, 16, DType::bf16), 0);
    EXPECT_EQ(wrong_rs(rs_body, 80, DType::f16), 0);
    EXPECT_EQ(wrong_rs(rs_body, 256, DType::bf16), 0);
}

TEST_F(EmuWgmma, OneRoundingPerInstruction) {
    // 2^24 + 1 - 2^24 in one product is 1; in two, the sum between loses it.
    const auto first_of = [&](const std::vector<std::pair<int, float>>& row) {
        tensor = {0, DType::bf16, 64, 80, 1, 1, {0, 0, 64}, 64};
        std::vector<std::uint16_t> values(64 * 80);
        for (int i = 64 * 64; i < 64 * 80; ++i) values[i] = from_float(1, DType::bf16);
        for (const auto& [k, x] : row) values[k] = from_float(x, DType::bf16);
        EXPECT_TRUE(run(prelude(16, DType::bf16, 2) + ss_body + show, 128, packed(values), 64 * 16,
                        1, shared_bytes));
        return std::bit_cast<float>(out[0]);
    };
    EXPECT_EQ(first_of({{0, 0x1p24f}, {1, 1.0f}, {2, -0x1p24f}}), 1.0f);
    EXPECT_EQ(first_of({{0, 0x1p24f}, {1, 1.0f}, {16, -0x1p24f}}), 0.0f);
}

TEST_F(EmuWgmma, LeadingBytesCount) {
    EXPECT_GT(wrong_rs(replaced(rs_body, "(shared, 8192)", "(shared, 4096)"), 128), 0);
    EXPECT_EQ(wrong_rs(replaced(rs_body, "(shared, 8192)", "(shared, 4096)"), 48), 0)
        << "one chunk has no next one";
    EXPECT_GT(wrong_ss(replaced(ss_body, "advance(b, 32 * step)", "advance(b, 16 * step)")), 0);
    EXPECT_THAT(fault_of(replaced(ss_body, "(shared + 8192, 16)", "(shared + 40960, 16)")),
                HasSubstr("wgmma of 16 bytes at shared byte"));
    EXPECT_THAT(
        fault_of(replaced(ss_body, "(shared + 8192, 16)", "(shared + 8192, 16) ^ 3ull << 62")),
        HasSubstr("not of 128-byte swizzle"));
}

TEST_F(EmuWgmma, NeedsAFence) {
    EXPECT_THAT(fault_of(replaced(ss_body, "wgmma_fence();", "")),
                HasSubstr("wgmma without a wgmma_fence"));
    EXPECT_THAT(fault_of(ss_body + "Wgmma<n, E>::ss(d, a, b, true);\n"),
                HasSubstr("wgmma without a wgmma_fence"));
}

TEST_F(EmuWgmma, SeesStoresAfterTheStoringThreadsFence) {
    // Each thread stores 2 of B's words anew, unchanged.
    const std::string store =
        "for (int i = thread; i < 512; i += 128)\n"
        "    store_shared_f32(shared + 8192 + 4 * i, load_shared_f32(shared + 8192 + 4 * i));\n";
    const auto with = [&](const std::string& between) {
        return replaced(ss_body, "wgmma_fence();", store + between + "wgmma_fence();");
    };
    EXPECT_EQ(wrong_ss(with("fence_async(); cta_sync();\n")), 0);
    EXPECT_THAT(fault_of(with("cta_sync();\n")), HasSubstr("with no fence_async after"));
    EXPECT_THAT(fault_of(with("cta_sync(); if (thread < 127) fence_async(); cta_sync();\n")),
                HasSubstr("which thread 127 stored with no fence_async after"));
}

TEST_F(EmuWgmma, ResultsComeWithTheWait) {
    EXPECT_EQ(wrong_ss(replaced(ss_body, "wgmma_wait<0>();", "")), 64 * 16);
    EXPECT_EQ(wrong_ss(replaced(ss_body, "wgmma_wait<0>();", "wgmma_wait<1>();")), 64 * 16);
    EXPECT_EQ(wrong_ss(replaced(ss_body, "wgmma_commit();", "")), 64 * 16) << "of no batch";
    // A batch behind the one that is waited for.
    EXPECT_EQ(wrong_ss(replaced(ss_body, "wgmma_wait<0>();",
                                "float later[n / 2];\n"
                                "Wgmma<n, E>::ss(later, a, b, false);\n"
                                "wgmma_commit();\n"
                                "wgmma_wait<1>();\n")),
              0);
}

TEST_F(EmuWgmma, OperandsAreNotToBeTouchedBeforeTheWait) {
    const std::string spoil_b = "if (thread == 0) store_shared_f32(shared + 8192, 3.0f);\n";
    const std::string spoilt = replaced(ss_body, "wgmma_wait<0>();", spoil_b + "wgmma_wait<0>();");
    EXPECT_THAT(fault_of(spoilt), HasSubstr("a wgmma of warp 0 is still reading"));
    EXPECT_EQ(wrong_ss(ss_body + "cta_sync();\n" + spoil_b), 0);
    EXPECT_THAT(fault_of(ss_body + spoil_b), HasSubstr("a wgmma of warp 1 read"));
    device->set_options({.detect_races = false});
    EXPECT_GT(wrong_ss(spoilt), 0);
    EXPECT_GT(wrong_rs(replaced(rs_body, "wgmma_wait<0>();", "a[2][1] = 7;\nwgmma_wait<0>();")), 0);
    EXPECT_EQ(wrong_rs(rs_body + "a[2][1] = 7;\n"), 0);
}

TEST_F(EmuWgmma, AllThreadsTheSame) {
    EXPECT_THAT(fault_of("if (warp == 3) wgmma_commit(); else wgmma_fence();\n"),
                HasSubstr("divergent warpgroup"));
    EXPECT_THAT(fault_of(replaced(ss_body, "advance(b, 32 * step)", "advance(b, 32 * warp)")),
                HasSubstr("divergent warpgroup: this thread is at wgmma"));
    EXPECT_THAT(fault_of("if (warp < 3) wgmma_fence();\n"),
                HasSubstr("waits at wgmma_fence (96 threads)"));
    EXPECT_THAT(fault("wgmma_fence();\n", 64), HasSubstr("not whole warpgroups"));
}

TEST(EmuModel, OnHopperWgmmaIsFasterThanMmaSync) {
    EmuCounts by_mma_sync{.mma = 1000000000}, by_wgmma = by_mma_sync;
    by_wgmma.wgmma = by_wgmma.mma;
    const auto time = [](const char* gpu, const EmuCounts& counts) {
        return emu::estimate_us(counts, 132, *find_target(gpu));
    };
    EXPECT_GT(time("h200", by_mma_sync), 1.5 * time("h200", by_wgmma));
    EXPECT_EQ(time("a100-sxm4-80gb", by_mma_sync), time("a100-sxm4-80gb", by_wgmma));
}

// ---- registers and named barriers -------------------------------------------------------------

class EmuWarpgroups : public EmuTest {};

TEST_F(EmuWarpgroups, RegistersAreHandedOver) {
    const std::string text =
        "if (warp < 4) registers_shrink<24>(); else registers_grow<240>();\n"
        "if (lane == 0) out[warp] = 1;\n";
    ASSERT_TRUE(run(text, 384, {}, 12));
    EXPECT_THAT(out, testing::Each(1u));
    EXPECT_THAT(fault(replaced(text, "<240>", "<248>"), 384), HasSubstr("at registers_grow<248>"));
    EXPECT_THAT(fault(replaced(text, "<24>", "<32>"), 384), HasSubstr("at registers_grow<240>"));
    EXPECT_THAT(fault("registers_grow<24>();", 384), HasSubstr("of a warpgroup that has 168"));
    EXPECT_THAT(fault("registers_shrink<176>();", 384), HasSubstr("of a warpgroup that has 168"));
    EXPECT_THAT(fault("if (warp < 3) registers_shrink<24>();", 128), HasSubstr("deadlock"));
}

TEST_F(EmuWarpgroups, NamedBarriers) {
    // Warp 0 only arrives; warp 1 and 2 each read what the one before wrote.
    const std::string text =
        "if (warp == 0) { store_shared_f32(shared + 4 * lane, 5.0f); named_arrive(1, 64); }\n"
        "if (warp == 1) {\n"
        "    named_sync(1, 64);\n"
        "    store_shared_f32(shared + 128 + 4 * lane, load_shared_f32(shared + 4 * (31 - "
        "lane)));\n"
        "    named_sync(15, 64);\n"
        "}\n"
        "if (warp == 2) {\n"
        "    named_sync(15, 64);\n"
        "    out[lane] = unsigned(load_shared_f32(shared + 128 + 4 * (lane ^ 7)));\n"
        "}\n";
    for (const unsigned seed : {0, 1, 2, 3}) {
        device->set_options({.seed = seed});
        ASSERT_TRUE(run(text, 96, {}, 32));
        EXPECT_THAT(out, testing::Each(5u));
    }
    EXPECT_THAT(fault(replaced(text, "named_sync(15, 64);", ""), 96),
                ContainsRegex("race|waits at named_sync\\(15, 64\\), where 32 have come"));
    EXPECT_THAT(fault(replaced(text, "named_sync(1, 64);", ""), 96), HasSubstr("race"));
    EXPECT_THAT(fault("if (warp == 0) named_sync(3, 64);", 64),
                HasSubstr("thread 0 waits at named_sync(3, 64), where 32 have come (32 threads)"));
    EXPECT_THAT(fault("named_sync(4, warp == 0 ? 64 : 96);", 96), HasSubstr("barrier 4 is for"));
    EXPECT_THAT(fault("named_sync(16, 64);", 64), HasSubstr("barriers 1 .. 15"));
}

}  // namespace
}  // namespace attune
