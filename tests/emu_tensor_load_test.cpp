// Loads by TMA on the emulator: what they bring, when, and each way to use them wrongly.
#include "generator/formatted.h"
#include "tests/emu_fixture.h"

namespace attune {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using Words = std::vector<std::uint32_t>;

class EmuTensorLoad : public EmuTest {
protected:
    /// 16-bit numbers 1, 2, ...: [2 batch][3 heads][5 rows][72 columns], rows 80 apart.
    Words numbers() {
        tensor = {0, DType::f16, 72, 5, 3, 2, {3 * 5 * 80, 5 * 80, 80}, 8};
        std::vector<std::uint16_t> values(2 * 3 * 5 * 80);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = i + 1;
        return packed(values);
    }
    static std::uint32_t number(int column, int row, int head, int batch) {
        if (column >= 72 || row < 0 || row >= 5 || head >= 3 || batch >= 2) return 0;
        return 1 + ((batch * 3 + head) * 5 + row) * 80 + column;
    }

    const std::string init =
        "if (thread == 0) { mbarrier_init(shared + 1024, 1); mbarrier_fence_init(); }\n"
        "cta_sync();\n";
    const std::string load =
        "if (thread == 0) {\n"
        "    mbarrier_arrive_expect(shared + 1024, 1024);\n"
        "    tensor_load(shared, p.map, shared + 1024, 64, 2, 1, 1);\n"
        "}\n";
    const std::string wait = "mbarrier_wait(shared + 1024, 0);\n";
    const std::string show =
        "for (int i = thread; i < 256; i += 32)\n"
        "    out[i] = __builtin_bit_cast(unsigned, load_shared_f32(shared + 4 * i));\n";
};

TEST_F(EmuTensorLoad, SwizzlesAndFillsWithZeros) {
    for (const auto& [column, row] : {std::pair{0, 0}, {64, 2}, {0, -1}}) {
        const std::string at = std::to_string(column) + ", " + std::to_string(row) + ", 1, 1";
        ASSERT_TRUE(
            run(init + replaced(load, "64, 2, 1, 1", at) + wait + show, 32, numbers(), 256));
        for (int r = 0; r < 8; ++r)
            for (int c = 0; c < 64; c += 2) {
                const int chunk = c / 8 ^ r;
                EXPECT_EQ(out[32 * r + 4 * chunk + c % 8 / 2],
                          number(column + c, row + r, 1, 1) | number(column + c + 1, row + r, 1, 1)
                                                                  << 16)
                    << "row " << r << " column " << c << " from " << at;
            }
    }
    ASSERT_TRUE(
        run(init + replaced(load, "64, 2, 1, 1", "0, 0, 3, 0") + wait + show, 32, numbers(), 256));
    EXPECT_THAT(out, testing::Each(0u)) << "a head that is not there";
    EXPECT_EQ(device->last_counts().global_bytes, 0u);
}

/// Rows of one head after the other; and, heads and rows swapped in the map, heads of one row after
/// the other.
TEST_F(EmuTensorLoad, BringsABoxOfSeveralHeads) {
    const Words in = numbers();
    const auto expect = [&](int row, int head, auto line) {
        const std::string at = formatted("0, {}, {}, 1", row, head);
        ASSERT_TRUE(run(init + replaced(load, "64, 2, 1, 1", at) + wait + show, 32, in, 256));
        for (int r = 0; r < 8; ++r)
            for (int c = 0; c < 64; c += 2)
                EXPECT_EQ(out[32 * r + 4 * (c / 8 ^ r) + c % 8 / 2], line(r, c) | line(r, c + 1)
                                                                                      << 16)
                    << "row " << r << " column " << c << " from " << at;
    };
    tensor.box_rows = 4;
    tensor.box_heads = 2;
    for (const auto& [row, head] : {std::pair{0, 0}, {3, 1}, {-1, 2}})
        expect(row, head, [&](int r, int c) { return number(c, row + r % 4, head + r / 4, 1); });
    tensor = {0, DType::f16, 72, 3, 5, 2, {3 * 5 * 80, 80, 5 * 80}, 2, 4};
    for (const auto& [head, row] : {std::pair{0, 0}, {1, 3}, {2, 4}})
        expect(head, row, [&](int r, int c) { return number(c, row + r / 2, head + r % 2, 1); });
}

TEST_F(EmuTensorLoad, LandsWhenWaitedFor) {
    EXPECT_FALSE(run(init + load + show, 32, numbers(), 256)) << "a race";
    device->set_options({.detect_races = false});
    ASSERT_TRUE(run(init + load + show, 32, numbers(), 256));
    EXPECT_THAT(out, testing::Each(0xffffffffu));
    ASSERT_TRUE(run(init + load + wait + show, 32, numbers(), 256));
    EXPECT_EQ(out[0], number(64, 2, 1, 1) | number(65, 2, 1, 1) << 16);
}

TEST_F(EmuTensorLoad, BytesMustBeAsExpected) {
    const Words in = numbers();
    for (const char* bytes : {"512", "2048"}) {
        const Result<void> ran = run(
            init + replaced(load, "1024, 1024", std::string("1024, ") + bytes) + wait, 32, in, 1);
        ASSERT_FALSE(ran);
        EXPECT_THAT(ran.error().text(),
                    HasSubstr(std::string("deadlock: thread 0 waits at mbarrier_wait(shared byte "
                                          "1024, parity 0), where ") +
                              bytes + " bytes are expected and 1024 have been loaded"));
    }
}

TEST_F(EmuTensorLoad, OverwritingWhatIsNotReleasedIsARace) {
    const std::string setup =
        "if (thread == 0) { mbarrier_init(shared + 1024, 1); mbarrier_init(shared + 1032, 1);\n"
        "    mbarrier_fence_init(); }\n"
        "cta_sync();\n";
    const std::string text =
        setup +
        "if (warp == 0) {\n"
        "    for (int lap = 0; lap < 2; ++lap)\n"
        "        if (thread == 0) {\n"
        "            mbarrier_wait(shared + 1032, lap ^ 1);\n"
        "            mbarrier_arrive_expect(shared + 1024, 1024);\n"
        "            tensor_load(shared, p.map, shared + 1024, 0, lap, 0, 0);\n"
        "        }\n"
        "} else {\n"
        "    for (int lap = 0; lap < 2; ++lap) {\n"
        "        mbarrier_wait(shared + 1024, lap);\n"
        "        out[32 * lap + lane] = load_shared_f32(shared + 4 * lane) != 0;\n"
        "        warp_sync();\n"
        "        if (lane == 0) mbarrier_arrive(shared + 1032);\n"
        "    }\n"
        "}\n";
    EXPECT_TRUE(run(text, 64, numbers(), 64));
    const auto broken = run(replaced(text, "        warp_sync();\n", ""), 64, numbers(), 64);
    ASSERT_FALSE(broken);
    EXPECT_THAT(broken.error().text(), ContainsRegex("race: writes shared byte .* read"));
    const auto early =
        run(replaced(text, "mbarrier_wait(shared + 1032, lap ^ 1);", ""), 64, numbers(), 64);
    ASSERT_FALSE(early);
    EXPECT_THAT(early.error().text(), HasSubstr("CTA 0, thread 0: "));
}

TEST_F(EmuTensorLoad, Faults) {
    const Words in = numbers();
    const auto text_of = [&](const std::string& body) {
        const Result<void> ran = run(body, 32, in, 1);
        return ran ? std::string("no error") : ran.error().text();
    };
    EXPECT_THAT(text_of(replaced(init, "mbarrier_fence_init();", "") + load),
                HasSubstr("no mbarrier_fence_init followed"));
    EXPECT_THAT(text_of(init + replaced(load, "load(shared,", "load(shared + 512,")),
                HasSubstr("to shared byte 512 is not aligned to 1024 bytes"));
    EXPECT_THAT(text_of(init + replaced(load, "load(shared,", "load(shared + 4096,")),
                HasSubstr("outside the launch's 4096 bytes"));
    EXPECT_THAT(text_of(init + replaced(load, "p.map,", "TensorMap{},")),
                HasSubstr("encode_tensor_map"));
    tensor.rows = 100;
    EXPECT_THAT(text_of(init + replaced(load, "64, 2, 1, 1", "0, 90, 2, 1")),
                HasSubstr("tensor_load of 128 bytes at 0x"));
}

TEST_F(EmuTensorLoad, WhatIsNoTensor) {
    numbers();
    tensor.base = *device->allocate(4800);
    TensorMap map;
    EXPECT_TRUE(device->encode_tensor_map(tensor, map));
    const auto refused = [&](auto change) {
        TensorMapSpec spec = tensor;
        change(spec);
        return !device->encode_tensor_map(spec, map);
    };
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.base += 8; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.strides.row = 84; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box_rows = 257; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box_rows = 0; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box_heads = 0; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.box_heads = 257; }));
    EXPECT_TRUE(refused([](TensorMapSpec& s) { s.heads = 0; }));
    EXPECT_TRUE(device->release(tensor.base));
}

}  // namespace
}  // namespace attune
