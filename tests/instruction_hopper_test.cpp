// Hopper's instructions: TMA, byte-counting mbarriers, warpgroup MMAs, named barriers; see
// tests/instruction_case.h.
#include <random>

#include "tests/instruction_case.h"

namespace attune {
namespace {

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

/// Heads and rows swapped in the map, a box holds heads of one row after the other: as Q where
/// heads are packed.
TEST_F(HopperInstruction, TensorLoadBringsHeadsRowByRow) {
    Words in(2 * 3 * 5 * 40);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = (2 * i + 1) | (2 * i + 2) << 16;
    struct Box {
        int heads, rows;  // 8 together
        int head, row;    // the first
    };
    for (const auto& [heads, rows, head, row] :
         {Box{1, 8, 1, 0}, Box{2, 4, 0, 1}, Box{2, 4, 2, 3}, Box{4, 2, 0, 4}, Box{8, 1, 1, 2}}) {
        SCOPED_TRACE(formatted("{} heads from {}, {} rows from {}", heads, head, rows, row));
        const TensorMapSpec tensor{0,     DType::f16, 72, 3, 5, 2, {3 * 5 * 80, 80, 5 * 80},
                                   heads, rows};
        run(init +
                formatted("if (thread == 0) {{\n"
                          "    mbarrier_arrive_expect(barrier, 1024);\n"
                          "    tensor_load(shared, p.map, barrier, 0, {}, {}, 1);\n}}\n",
                          head, row) +
                dump,
            32, in, 256, tensor);
        expect_equal_bits();
        for (int r = 0; r < 8; ++r)
            for (int c = 0; c < 64; c += 2) {
                const auto number = [&](int column) {
                    return numbered(column, row + r / heads, head + r % heads, 1);
                };
                EXPECT_EQ(out[32 * r + 4 * (c / 8 ^ r) + c % 8 / 2], number(c) | number(c + 1)
                                                                                     << 16)
                    << "row " << r << " column " << c;
            }
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

/// A [64][depth] times B [depth][n] in four steps, every sum exact.
struct WarpgroupProduct {
    int n;
    DType dtype;
    std::vector<double> a = std::vector<double>(std::size_t(64) * depth()),
                        b = std::vector<double>(std::size_t(depth()) * n);

    WarpgroupProduct(int columns, DType type) : n(columns), dtype(type) {
        std::mt19937 engine(n);
        const int most = dtype == DType::e4m3 ? 8 : 64;
        std::uniform_int_distribution<int> small(-most, most);
        for (double& x : a) x = small(engine) / 16.0;
        for (double& x : b) x = small(engine) / 16.0;
    }
    int depth() const { return 128 / element_bytes(dtype); }  // of A's rows and B's columns
    /// Of neighbouring elements.
    std::uint32_t word(const double* from, int apart = 1) const {
        const int bits = 8 * element_bytes(dtype);
        std::uint32_t packed = 0;
        for (int i = 0; i < 32 / bits; ++i)
            packed |= std::uint32_t(from_float(float(from[i * apart]), dtype)) << bits * i;
        return packed;
    }
    int per_word() const { return 4 / element_bytes(dtype); }
    /// n rows of B transposed.
    void add_columns(Words& words) const {
        for (int column = 0; column < n; ++column)
            for (int k = 0; k < depth(); k += per_word())
                words.push_back(word(&b[k * n + column], n));
    }
    /// 64 rows of A, n rows of B transposed.
    Words rows_of_both() const {
        Words words;
        for (std::size_t i = 0; i < a.size(); i += per_word()) words.push_back(word(&a[i]));
        add_columns(words);
        return words;
    }
    /// Rows of B, in e4m3 transposed; then A as fragments [4 steps][128 threads][4].
    Words rows_and_fragments() const {
        Words words;
        if (dtype == DType::e4m3)
            add_columns(words);
        else
            for (std::size_t i = 0; i < b.size(); i += 2) words.push_back(word(&b[i]));
        for (int i = 0; i < 4 * 128 * 4; ++i) {
            const int step = i / 512, t = i / 4 % 128, half = i % 4 / 2;
            const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8;
            const int k = step * depth() / 4 + t % 4 * per_word() + half * depth() / 8;
            words.push_back(word(&a[row * depth() + k]));
        }
        return words;
    }
    void expect(const Words& out) const {
        for (int row = 0; row < 64; ++row)
            for (int column = 0; column < n; ++column) {
                double sum = 1;
                for (int k = 0; k < depth(); ++k) sum += a[row * depth() + k] * b[k * n + column];
                ASSERT_EQ(as_float(out[row * n + column]), sum) << row << " " << column;
            }
    }
    std::string body(const std::string& load_and_multiply) const {
        return formatted(
                   "constexpr int n = {}; using E = {};\n"
                   "float d[n / 2];\n"
                   "ATTUNE_UNROLL\nfor (int i = 0; i < n / 2; ++i) d[i] = 1;\n",
                   n, element_name(dtype)) +
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
    for (const DType dtype : {DType::f16, DType::bf16, DType::e4m3})
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
                {0, dtype, product.depth(), 64 + n, 1, 1, {0, 0, product.depth()}, 64});
            expect_equal_bits();
            for (std::uint32_t& word : out) word = as_word(as_float(word) + 1);
            product.expect(out);
        }
}

/// Both by descriptor, B with rows of n: as P V where P lies in shared memory.
TEST_F(HopperInstruction, WarpgroupMmaAcrossTheDepth) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
        const WarpgroupProduct product(64, dtype);
        Words words = product.rows_of_both();
        words.resize(words.size() / 2);  // A, as many rows as B's and as long
        for (std::size_t i = 0; i < product.b.size(); i += 2)
            words.push_back(product.word(&product.b[i]));
        run(init + product.body(
                       "if (thread == 0) {\n"
                       "    mbarrier_arrive_expect(barrier, 2 * 8192);\n"
                       "    for (int i = 0; i < 2; ++i)\n"
                       "        tensor_load(shared + 8192 * i, p.map, barrier, 0, 64 * i, 0, 0);\n"
                       "}\n"
                       "mbarrier_wait(barrier, 0);\n"
                       "const MatrixDescriptor a = matrix_descriptor(shared, 16);\n"
                       "const MatrixDescriptor b = matrix_descriptor(shared + 8192, 8192);\n"
                       "wgmma_fence();\n"
                       "ATTUNE_UNROLL\n"
                       "for (int step = 0; step < 4; ++step)\n"
                       "    Wgmma<n, E>::ss_across(d, advance(a, 32 * step),\n"
                       "                           advance(b, 16 * 128 * step), true);\n"),
            128, words, std::size_t(64) * 64, {0, dtype, 64, 128, 1, 1, {0, 0, 64}, 64});
        expect_equal_bits();
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
                        "    Wgmma<n, E>::rs(d, a[step], advance(b, 16 * 128 * step), true);\n",
                        (n + 63) / 64)),
                128, product.rows_and_fragments(), std::size_t(64) * n,
                {0, dtype, n, 64, 1, 1, {0, 0, n}, 64});
            expect_equal_bits();
            product.expect(out);
        }
}

class HopperBytes : public HopperInstruction {
protected:
    /// A in registers, B by descriptor, along the depth as in Q K^T. What d held is dropped.
    void multiply(const WarpgroupProduct& product) {
        run(init + product.body(formatted(
                       "if (thread == 0) {{\n"
                       "    mbarrier_arrive_expect(barrier, {0} * 8192);\n"
                       "    for (int i = 0; i < {0}; ++i)\n"
                       "        tensor_load(shared + 8192 * i, p.map, barrier, 0, 64 * i, 0, 0);\n"
                       "}}\n"
                       "mbarrier_wait(barrier, 0);\n"
                       "const MatrixDescriptor b = matrix_descriptor(shared, 16);\n"
                       "unsigned a[4][4];\n"
                       "ATTUNE_UNROLL\n"
                       "for (int i = 0; i < 16; ++i)\n"
                       "    a[i / 4][i % 4] = in[32 * n + (i / 4 * 128 + thread) * 4 + i % 4];\n"
                       "wgmma_fence();\n"
                       "ATTUNE_UNROLL\n"
                       "for (int step = 0; step < 4; ++step)\n"
                       "    Wgmma<n, E>::rs(d, a[step], advance(b, 32 * step), step > 0);\n",
                       (product.n + 63) / 64)),
            128, product.rows_and_fragments(), std::size_t(64) * product.n,
            {0, DType::e4m3, 128, product.n, 1, 1, {0, 0, 128}, 64});
        expect_equal_bits();
    }
};

TEST_F(HopperBytes, WarpgroupMmaOfRegistersAndShared) {
    for (const int n : {16, 64, 112, 192, 256}) {
        SCOPED_TRACE(n);
        const WarpgroupProduct product(n, DType::e4m3);
        multiply(product);
        for (std::uint32_t& word : out) word = as_word(as_float(word) + 1);
        product.expect(out);
    }
}

/// 1, then 127 times 2^-13, the 14th bit of the sum, or 2^-14, which is cut off.
TEST_F(HopperBytes, SumsKeepFourteenBits) {
    WarpgroupProduct product(16, DType::e4m3);
    for (int row = 0; row < 64; ++row)
        for (int k = 0; k < product.depth(); ++k)
            product.a[row * product.depth() + k] = k == 0 ? 1 : 0x1p-6;
    for (int k = 0; k < product.depth(); ++k)
        for (int column = 0; column < 16; ++column)
            product.b[k * 16 + column] = k == 0 ? 1 : column % 2 == 0 ? 0x1p-7 : 0x1p-8;
    multiply(product);
    for (int i = 0; i < 64 * 16; ++i)
        ASSERT_EQ(as_float(out[i]), i % 2 == 0 ? 1 + 127 * 0x1p-13 : 1) << i;
}

/// Boxes of 128 one-byte columns; what lies past the tensor's 48 is zero.
TEST_F(HopperInstruction, TensorLoadOfBytes) {
    Words in(8 * 16);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = 0x01010101u * (i % 251 + 1);
    run(init +
            "if (thread == 0) {\n"
            "    mbarrier_arrive_expect(barrier, 1024);\n"
            "    tensor_load(shared, p.map, barrier, 0, 0, 0, 0);\n}\n" +
            dump,
        32, in, 256, {0, DType::e4m3, 48, 8, 1, 1, {0, 0, 64}, 8});
    expect_equal_bits();
    for (unsigned r = 0; r < 8; ++r)
        for (unsigned word = 0; word < 32; ++word)
            EXPECT_EQ(out[32 * r + 4 * (word / 4 ^ r) + word % 4],
                      word < 12 ? in[16 * r + word] : 0u);
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
