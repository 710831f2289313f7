// The probes on the emulator, against the CPU; and by NVRTC for the oldest and a new arch.
#include "tuner/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "generator/family.h"
#include "runtime/emu/emu.h"
#include "tuner/bench_case.h"
#include "tuner/device_buffer.h"
#include "tuner/float16.h"
#include "tuner/peak.h"
#include "tuner/reference.h"

namespace attune {
namespace {

class Probes : public testing::TestWithParam<const char*> {
protected:
    template <class Params>
    void run(const ProbeText& text, std::uint32_t ctas, const Params& params) {
        auto probe = Probe::load(*device, *compiler, text);
        ASSERT_TRUE(probe) << probe.error().text();
        auto launched = probe->launch(ctas, params);
        ASSERT_TRUE(launched) << launched.error().text();
    }
    DeviceBuffer words(std::vector<unsigned> values) {
        DeviceBuffer buffer = *DeviceBuffer::allocate(*device, 4 * values.size());
        EXPECT_TRUE(device->copy_to_device(buffer.ptr(), values.data(), 4 * values.size()));
        return buffer;
    }
    std::unique_ptr<EmuDevice> device = *open_emulator(GetParam());
    const int wave_size = device->info().target.wave_size;
    std::unique_ptr<Compiler> compiler = *open_host_compiler();
};

TEST_P(Probes, reference_rows_agree_with_fp64) {
    for (const char* text :
         {"bf16.d64.causal.lse/b2.h4.kv2.q9.k41", "f16.d72.full.lse/b1.h2.kv1.q5.k33",
          "bf16.d8.causal.lse/b1.h1.kv1.q7.k3", "f16.d24v80.full/b1.h2.kv1.q5.k70",
          "bf16.d72v8.causal.lse/b1.h2.kv2.q6.k5", "e4m3.d64.causal.lse/b2.h4.kv2.q9.k41",
          "e4m3.d48v80.full.lse/b1.h2.kv1.q5.k70"}) {
        const Problem problem = *Problem::parse(text);
        const BenchCase bench_case = *BenchCase::make(*device, problem, 5, 0);
        const auto inputs = *bench_case.read_inputs(*device);
        const Reference wanted = compute_reference(problem, default_scale(problem.signature),
                                                   inputs.q, inputs.k, inputs.v, inputs.scales);
        const std::size_t rows = bench_case.rows(), d = problem.signature.value_dim();
        std::vector<unsigned> order;  // any order: rows are named one by one
        for (std::size_t i = 0; i < rows; ++i) order.push_back((i * 5 + 3) % rows);
        const DeviceBuffer row_list = words(order);
        const auto o = *DeviceBuffer::allocate(*device, 4 * rows * d);
        const auto baseline = *DeviceBuffer::allocate(*device, 4 * rows * d);
        const auto lse = *DeviceBuffer::allocate(*device, 4 * rows);
        run(reference_text(problem.signature, wave_size),
            (rows + reference_warps - 1) / reference_warps,
            ReferenceParams{bench_case.params(0), row_list.as<unsigned>(), o.as<float>(),
                            baseline.as<float>(), lse.as<float>(), static_cast<int>(rows)});
        const auto got = *read_back<float>(*device, o.ptr(), rows * d);
        const auto low = *read_back<float>(*device, baseline.ptr(), rows * d);
        const auto got_lse = *read_back<float>(*device, lse.ptr(), rows);
        double error = 0, wanted_error = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            const std::size_t row = order[i];
            for (std::size_t c = 0; c < d; ++c) {
                ASSERT_NEAR(got[i * d + c], wanted.o[row * d + c], 2e-6) << text << " row " << row;
                error = std::max(error, std::fabs(low[i * d + c] - wanted.o[row * d + c]));
                wanted_error = std::max(
                    wanted_error, std::fabs(wanted.baseline[row * d + c] - wanted.o[row * d + c]));
            }
            if (std::isinf(wanted.lse[row]))
                ASSERT_EQ(got_lse[i], wanted.lse[row]);
            else
                ASSERT_NEAR(got_lse[i], wanted.lse[row], 1e-5);
        }
        // Both baselines round P and O; only their references of P differ along a row.
        EXPECT_GT(error, 0.5 * wanted_error) << text;
        EXPECT_LT(error, 2 * wanted_error) << text;
    }
}

TEST_P(Probes, a_scan_counts_nan_and_sees_every_bit) {
    std::mt19937 engine(1);
    std::vector<unsigned> values(4 * 1000);
    for (unsigned& value : values) value = engine() & 0x3f7f3f7f;  // finite bf16
    const auto scan = [&] {
        const DeviceBuffer data = words(values), result = words({0, 0, 0});
        run(scan_text(wave_size), 3,
            ScanParams{data.as<void>(), result.as<unsigned>(), 1000, infinity_bits(DType::bf16)});
        return *read_back<unsigned>(*device, result.ptr(), 3);
    };
    const std::vector<unsigned> clean = scan();
    EXPECT_EQ(clean[0], 0u);
    EXPECT_EQ(scan(), clean);
    for (const std::size_t place : {std::size_t{0}, std::size_t{1777}, values.size() - 1}) {
        values[place] ^= 1u << (place % 32);
        const std::vector<unsigned> changed = scan();
        EXPECT_TRUE(changed[1] != clean[1] && changed[2] != clean[2]) << place;
        values[place] ^= 1u << (place % 32);
    }
    std::swap(values[10], values[11]);
    EXPECT_NE(scan()[1], clean[1]);
    values[5] = 0xffffffff;     // poison: two NaN
    values[3999] = 0x7f800001;  // infinity above a small number
    values[2000] = 0x00017fc0;  // a quiet NaN below it
    EXPECT_EQ(scan()[0], 3u);
}

TEST_P(Probes, a_hold_ends_when_released_or_late) {
    for (const unsigned flag : {1u, 0u}) {
        const DeviceBuffer word = words({flag}), late = words({77});
        run(hold_text(), 1, HoldParams{word.as<unsigned>(), late.as<unsigned>(), 1000});
        EXPECT_EQ((*read_back<unsigned>(*device, late.ptr(), 1))[0], flag == 1 ? 0u : 1u);
    }
}

TEST_P(Probes, the_clock_probe_relates_cycles_to_time) {
    const DeviceBuffer result = words({0, 0});
    run(clock_text(), 1, ClockParams{result.as<unsigned>(), 5000});
    const auto read = *read_back<unsigned>(*device, result.ptr(), 2);
    EXPECT_GE(read[1], 5000u);
    EXPECT_GT(read[0], 0u);
}

TEST_P(Probes, every_family_has_a_peak) {
    const Target& target = device->info().target;
    const auto rate = [&](std::string_view family) {
        const auto probe = mma_probe(*Config::parse(std::string(family) + "/"), DType::f16, target);
        if (!probe) {
            EXPECT_EQ(probe.error().code, Code::unsupported) << probe.error().text();
            return 0.0;
        }
        const auto peak = measure_mma(*device, *compiler, *probe);
        EXPECT_TRUE(peak) << peak.error().text();
        // The CTA multiplies what the rate counts: by instructions of 16 x 8 x 16.
        EXPECT_EQ(6 * 4 * probe->flop_per_step, 6 * 2.0 * 16 * 8 * 16 * device->last_counts().mma)
            << family;
        return peak ? peak->rate : 0.0;
    };
    std::set<std::string_view> measured;
    for (const Family& family : families())
        if (rate(family.name) > 0) measured.insert(family.name);
    std::set<std::string_view> able;
    for (const Family& family : families())
        if (family.applicable(*Signature::parse("f16.d64.full"), target)) able.insert(family.name);
    EXPECT_EQ(measured, able);
}

TEST_P(Probes, bytes_have_a_peak_on_hopper) {
    const auto probe = mma_probe(*Config::parse("wgmma/"), DType::e4m3, device->info().target);
    ASSERT_EQ(bool(probe), device->info().target.arch == "sm_90a");
    if (!probe) return;
    const auto peak = measure_mma(*device, *compiler, *probe);
    ASSERT_TRUE(peak) << peak.error().text();
    EXPECT_EQ(4 * probe->flop_per_step, 2.0 * 16 * 8 * 16 * device->last_counts().mma);
}

TEST_P(Probes, reading_has_a_peak) {
    const auto peak = measure_read(*device, *compiler);
    ASSERT_TRUE(peak) << peak.error().text();
    EXPECT_GT(peak->rate, 0);
    EXPECT_GT(device->last_counts().global_bytes, 1u << 16);  // of the reading, the last launch
}

INSTANTIATE_TEST_SUITE_P(Emulated, Probes,
                         testing::Values("h200", "a100-sxm4-80gb", "mi300x", "rx-7900-xtx",
                                         "rx-9070-xt"));

TEST(ProbesByNvrtc, compile_without_spills) {
    auto nvrtc = open_nvrtc();
    if (!nvrtc) {
        ASSERT_EQ(std::getenv("ATTUNE_REQUIRE_NVRTC"), nullptr) << nvrtc.error().text();
        GTEST_SKIP() << nvrtc.error().text();
    }
    const std::string peak = "templates/probe/peak.h";
    const ProbeText texts[] = {reference_text(*Signature::parse("bf16.d128.causal"), 32),
                               reference_text(*Signature::parse("f16.d256.full.lse"), 32),
                               scan_text(32),
                               hold_text(),
                               clock_text(),
                               {peak, "PeakParams", "peak_read<256>(params)", 256, ""}};
    for (const ProbeText& text : texts)
        for (const char* arch : {"sm_80", "sm_90a"}) {
            auto binary = (*nvrtc)->compile(probe_source(text), arch);
            ASSERT_TRUE(binary) << text.call << ": " << binary.error().text();
            EXPECT_EQ(binary->resources.spill_bytes, 0) << text.call;
        }
    const ProbeText bytes = reference_text(*Signature::parse("e4m3.d256.causal"), 32);
    const auto reference = (*nvrtc)->compile(probe_source(bytes), "sm_90a");
    ASSERT_TRUE(reference) << reference.error().text();
    EXPECT_EQ(reference->resources.spill_bytes, 0);
    struct Row {
        const char* family;
        const char* gpu;
        DType dtype;
    };
    for (const auto& [family, gpu, dtype] :
         {Row{"mma", "t4", DType::f16}, Row{"mma", "a100-sxm4-80gb", DType::f16},
          Row{"mma", "h200", DType::f16}, Row{"wgmma", "h200", DType::f16},
          Row{"wgmma", "h200", DType::e4m3}}) {
        const Target target = *find_target(gpu);
        const auto probe = mma_probe(*Config::parse(std::string(family) + "/"), dtype, target);
        ASSERT_TRUE(probe) << probe.error().text();
        const auto binary = (*nvrtc)->compile(probe_source(probe->text), target.arch);
        ASSERT_TRUE(binary) << probe->text.call << ": " << binary.error().text();
        EXPECT_EQ(binary->resources.spill_bytes, 0) << probe->text.call;
        EXPECT_LT(binary->resources.serialised_note, 0) << probe->text.call;
    }
}

}  // namespace
}  // namespace attune
