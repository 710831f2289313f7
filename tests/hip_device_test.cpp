// The HIP device over a fake runtime: no GPU needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "runtime/device.h"
#include "tests/device_calls.h"
#include "tests/fake_code.h"
#include "tests/fake_fixture.h"

namespace attune {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeHip5 : public FakeHip {
protected:
    FakeHip5() : FakeHip(ATTUNE_FAKE_LIBAMDHIP64_5) {}
};

DeviceInfo info_of(int ordinal) {
    auto opened = open_hip_device(ordinal);
    EXPECT_TRUE(opened) << opened.error().text();
    return opened ? (*opened)->info() : DeviceInfo{};
}

TEST_F(FakeHip, describes_the_gpu_as_it_is_asked) {
    const DeviceInfo info = info_of(1);
    EXPECT_EQ(info.id, "hip:1");
    EXPECT_EQ(info.uuid, "0000:c2:00.0");
    EXPECT_EQ(info.driver, "hip 6.4.43483");
    EXPECT_FALSE(info.emulated);
    const Target& target = info.target;
    EXPECT_EQ(target.id, "hip:1");
    EXPECT_EQ(target.vendor, Vendor::amd);
    EXPECT_EQ(target.name, "AMD Instinct MI300X");
    EXPECT_EQ(target.arch, "gfx942") << "without its features";
    EXPECT_EQ(target.multiprocessors, 304);
    EXPECT_EQ(target.shared_bytes_per_cta, 65536);
    EXPECT_EQ(target.registers_per_multiprocessor, 131072);
    EXPECT_EQ(target.max_threads_per_multiprocessor, 2048);
    EXPECT_EQ(target.wave_size, 64);
    EXPECT_EQ(target.l2_bytes, 33554432);
    EXPECT_DOUBLE_EQ(target.boost_clock_mhz, 2100);
    EXPECT_DOUBLE_EQ(target.memory_gb_per_s, 5300);
    EXPECT_DOUBLE_EQ(target.dense_f16_tflops, 1307.4);
    EXPECT_THAT(fake->log, HasSubstr("hipGetDevicePropertiesR0600 "));
    EXPECT_THAT(fake->log, Not(HasSubstr("hipGetDeviceProperties ")));
}

TEST_F(FakeHip5, an_older_hip_is_asked_for_its_older_properties) {
    const Target target = info_of(0).target;
    EXPECT_EQ(target.arch, "gfx942");
    EXPECT_THAT(fake->log, HasSubstr("hipGetDeviceProperties "));
}

TEST_F(FakeHip, rdna_counts_pairs_of_compute_units) {
    std::strcpy(fake->gpu, "rx-7900-xtx");
    const Target target = info_of(0).target;
    EXPECT_EQ(target.arch, "gfx1100");
    EXPECT_EQ(target.wave_size, 32);
    EXPECT_EQ(target.multiprocessors, 96);
    EXPECT_DOUBLE_EQ(target.dense_f16_tflops, find_target("rx-7900-xtx")->dense_f16_tflops);
}

TEST_F(FakeHip, a_gpu_that_nobody_described_is_unsupported) {
    std::strcpy(fake->arch, "gfx906");
    auto device = open_hip_device(0);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::unsupported);
    EXPECT_THAT(device.error().message, HasSubstr("gfx906"));
    EXPECT_THAT(device.error().next_step, HasSubstr("configs/gpus"));
}

TEST_F(FakeHip, serves_every_call_and_leaves_nothing_behind) {
    for (const int ordinal : {0, 1}) {
        auto device = open_hip_device(ordinal);
        ASSERT_TRUE(device) << device.error().text();
        auto used = use(**device);
        EXPECT_TRUE(used) << used.error().text();
    }
    EXPECT_EQ(fake->live, 0);
    EXPECT_EQ(fake->bound, 0);
}

TEST_F(FakeHip, each_call_that_fails_is_an_error_and_leaks_nothing) {
    // On the second GPU: its calls make it the current one, and the first again.
    const int told = fail_each_call(
        *fake, [] { return open_hip_device(1); }, "hipErrorLaunchFailure",
        {"hipGetDevice", "hipSetDevice", "hipHostFree"}, {"hipGetDevice", "hipSetDevice"});
    EXPECT_GT(told, 40);
}

TEST_F(FakeHip, a_launch_only_launches_and_leaves_the_current_device_alone) {
    // Nothing else is legal inside a stream capture.
    const struct {
        int ordinal;
        const char* calls;
    } cases[] = {{0, "hipGetDevice hipModuleLaunchKernel "},
                 {1, "hipGetDevice hipSetDevice hipModuleLaunchKernel hipSetDevice "}};
    for (const auto& [ordinal, calls] : cases) {
        auto device = open_hip_device(ordinal);
        ASSERT_TRUE(device);
        expect_only_launches(*fake, **device, calls);
    }
}

TEST_F(FakeHip, more_lds_than_there_is_is_refused_by_name) {
    auto device = open_hip_device(0);
    forget_calls();
    auto kernel = (*device)->load(any_binary(), "attune_kernel", 65537);
    ASSERT_FALSE(kernel);
    EXPECT_EQ(kernel.error().code, Code::unsupported);
    EXPECT_THAT(kernel.error().message, HasSubstr("attune_kernel needs 65537 bytes of LDS"));
    EXPECT_THAT(kernel.error().message, HasSubstr("65536"));
    EXPECT_STREQ(fake->log, "");
    EXPECT_TRUE((*device)->load(any_binary(), "attune_kernel", 65536));
}

TEST_F(FakeHip, ordinals_out_of_range_are_not_found) {
    for (const int ordinal : {-1, 2}) {
        auto device = open_hip_device(ordinal);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code, Code::not_found);
        EXPECT_THAT(device.error().message, HasSubstr("2 GPU"));
        EXPECT_THAT(device.error().next_step, HasSubstr("HIP_VISIBLE_DEVICES"));
    }
    EXPECT_EQ(fake->live, 0);
}

TEST_F(FakeHip, results_map_to_codes) {
    expect_codes(*fake, open_hip_device,
                 {{2, Code::out_of_memory},
                  {100, Code::not_found},
                  {101, Code::not_found},
                  {200, Code::corrupt},
                  {209, Code::unsupported},
                  {700, Code::device_error},
                  {801, Code::unsupported},
                  {999, Code::device_error},
                  {12345, Code::device_error}});
}

TEST_F(FakeHip, modules_left_loaded_go_with_the_device) {
    {
        auto device = open_hip_device(0);
        ASSERT_TRUE((*device)->load(any_binary(), "attune_kernel", 0));
        EXPECT_EQ((*device)->unload(12345).error().code, Code::invalid_argument);
    }
    EXPECT_EQ(fake->live, 0);
}

TEST(Libamdhip64, a_missing_runtime_says_where_it_was_sought) {
    setenv("ATTUNE_LIBAMDHIP64", "/nowhere/libamdhip64.so.6:/tmp", 1);
    auto device = open_hip_device(0);
    unsetenv("ATTUNE_LIBAMDHIP64");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::library_missing);
    EXPECT_THAT(device.error().message,
                HasSubstr("/nowhere/libamdhip64.so.6, /tmp/libamdhip64.so.7"));
    EXPECT_THAT(device.error().next_step, HasSubstr("emu:"));
}

TEST(Libamdhip64, a_library_without_the_entry_points_is_named) {
    setenv("ATTUNE_LIBAMDHIP64", "libm.so.6", 1);
    auto device = open_hip_device(0);
    unsetenv("ATTUNE_LIBAMDHIP64");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::library_missing);
    EXPECT_THAT(device.error().message, HasSubstr("libm.so.6 has no hipInit"));
}

TEST_F(FakeHip, is_the_first_gpu_where_no_other_opens) {
    setenv("ATTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    auto first = open_gpu("");
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_EQ((*first)->info().id, "hip:0");
    setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_LIBCUDA, 1);
    first = open_gpu("");
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_EQ((*first)->info().id, "cuda:0");
    setenv("ATTUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    fake->calls = 0;
    fake->fail_at = 1;
    fake->fail_with = 100;
    EXPECT_EQ(open_gpu("").error().code, Code::not_found) << "says more than a missing library";
    setenv("ATTUNE_LIBAMDHIP64", "/nowhere/libamdhip64.so", 1);
    EXPECT_THAT(open_gpu("").error().message, HasSubstr("libcuda.so.1"));
    unsetenv("ATTUNE_LIBCUDA");
}

}  // namespace
}  // namespace attune
