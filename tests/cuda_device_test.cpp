// The CUDA device and the held stopwatch over a fake driver: no GPU needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/device.h"
#include "templates/probe/params.h"
#include "tests/device_calls.h"
#include "tests/fake_fixture.h"
#include "tuner/measure.h"

namespace attune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(FakeCuda, describes_the_gpu_as_it_is_asked) {
    auto opened = open_cuda_device(0);
    ASSERT_TRUE(opened) << opened.error().text();
    const DeviceInfo& info = (*opened)->info();
    EXPECT_EQ(info.id, "cuda:0");
    EXPECT_EQ(info.uuid, "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    EXPECT_FALSE(info.emulated);
    EXPECT_FALSE(info.driver.empty());
    const Target& target = info.target;
    EXPECT_EQ(target.name, "NVIDIA H200");
    EXPECT_EQ(target.arch, "sm_90a");
    EXPECT_EQ(target.multiprocessors, 132);
    EXPECT_EQ(target.shared_bytes_per_cta, 232448);
    EXPECT_EQ(target.shared_bytes_per_multiprocessor, 233472);
    EXPECT_EQ(target.shared_bytes_reserved_per_cta, 1024);
    EXPECT_EQ(target.registers_per_multiprocessor, 65536);
    EXPECT_EQ(target.max_threads_per_multiprocessor, 2048);
    EXPECT_EQ(target.max_ctas_per_multiprocessor, 32);
    EXPECT_EQ(target.wave_size, 32);
    EXPECT_EQ(target.l2_bytes, 62914560);
    EXPECT_DOUBLE_EQ(target.boost_clock_mhz, 1980);
    EXPECT_NEAR(target.memory_gb_per_s, 4917, 1);
    EXPECT_DOUBLE_EQ(target.dense_f16_tflops, find_target("h200")->dense_f16_tflops);
}

TEST_F(FakeCuda, serves_every_call_and_leaves_nothing_behind) {
    {
        auto device = open_cuda_device(0);
        ASSERT_TRUE(device);
        auto used = use(**device);
        EXPECT_TRUE(used) << used.error().text();
        EXPECT_EQ(fake->dynamic_shared, 49152);
    }
    EXPECT_EQ(fake->live, 0);
    EXPECT_EQ(fake->bound, 0);
}

TEST_F(FakeCuda, each_call_that_fails_is_an_error_and_leaks_nothing) {
    const int told = fail_each_call(*fake, [] { return open_cuda_device(0); }, "CUDA_ERROR_FAKE",
                                    {"cuCtxPopCurrent_v2", "cuMemFreeHost", "cuCtxPushCurrent_v2",
                                     "cuDevicePrimaryCtxRelease_v2"},
                                    {"cuCtxPushCurrent_v2"});
    EXPECT_GT(told, 40);
}

TEST_F(FakeCuda, a_launch_only_binds_launches_and_unbinds) {
    // Nothing else is legal inside a stream capture.
    auto device = open_cuda_device(0);
    ASSERT_TRUE(device);
    expect_only_launches(*fake, **device, "cuCtxPushCurrent_v2 cuLaunchKernel cuCtxPopCurrent_v2 ");
}

TEST_F(FakeCuda, ordinals_out_of_range_are_not_found) {
    for (const int ordinal : {-1, 1}) {
        auto device = open_cuda_device(ordinal);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code, Code::not_found);
        EXPECT_THAT(device.error().message, HasSubstr("1 GPU"));
    }
    EXPECT_EQ(fake->live, 0);
}

TEST_F(FakeCuda, results_map_to_codes) {
    expect_codes(*fake, open_cuda_device,
                 {{2, Code::out_of_memory},
                  {100, Code::not_found},
                  {209, Code::unsupported},
                  {200, Code::corrupt},
                  {700, Code::device_error},
                  {12345, Code::device_error}});
}

TEST_F(FakeCuda, an_entry_that_is_not_there_unloads_the_module) {
    auto device = open_cuda_device(0);
    const int before = fake->live;
    auto kernel = (*device)->load(any_binary(), "no_such_kernel", 0);
    ASSERT_FALSE(kernel);
    EXPECT_EQ(kernel.error().code, Code::not_found);
    EXPECT_EQ(fake->live, before);
    EXPECT_EQ((*device)->unload(12345).error().code, Code::invalid_argument);
}

TEST_F(FakeCuda, modules_left_loaded_go_with_the_device) {
    {
        auto device = open_cuda_device(0);
        ASSERT_TRUE((*device)->load(any_binary(), "attune_kernel", 0));
    }
    EXPECT_EQ(fake->live, 0);
}

TEST(Libcuda, a_missing_driver_says_where_it_was_sought) {
    setenv("ATTUNE_LIBCUDA", "/nowhere/libcuda.so.1:/tmp", 1);
    auto device = open_cuda_device(0);
    unsetenv("ATTUNE_LIBCUDA");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::library_missing);
    EXPECT_THAT(device.error().message, HasSubstr("/nowhere/libcuda.so.1, /tmp/libcuda.so.1"));
    EXPECT_THAT(device.error().next_step, HasSubstr("emu:"));
}

TEST(Libcuda, a_library_without_the_entry_points_is_named) {
    setenv("ATTUNE_LIBCUDA", "libm.so.6", 1);
    auto device = open_cuda_device(0);
    unsetenv("ATTUNE_LIBCUDA");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::library_missing);
    EXPECT_THAT(device.error().message, HasSubstr("libm.so.6 has no cuInit"));
}

/// Plays the probes and a kernel whose launches take 9, 1, 2, 3, ... ms.
struct FakeGpu {
    Device* device = nullptr;
    FakeControl* fake = nullptr;
    bool late = false;
    std::vector<std::string> order;

    static void on_launch(void* user, const FakeLaunch& launch) {
        static_cast<FakeGpu*>(user)->run(launch);
    }
    void run(const FakeLaunch& launch) {
        if (launch.threads == 128) {
            const auto kernels = std::count(order.begin(), order.end(), "kernel");
            fake->now_ms += kernels == 0 ? 9 : static_cast<double>(kernels);
            order.push_back("kernel");
        } else if (order.empty()) {
            const auto* hold = static_cast<const HoldParams*>(launch.params);
            EXPECT_EQ(*hold->flag, 0u);
            *hold->timed_out = late;
            fake->now_ms += 100;
            order.push_back("hold");
        } else {
            const auto* clock = static_cast<const ClockParams*>(launch.params);
            clock->result[0] = 36000;
            clock->result[1] = 20000;
            fake->now_ms += 50;
            order.push_back("clock");
        }
    }
};

class HeldBurst : public FakeCuda {
protected:
    void SetUp() override {
        FakeCuda::SetUp();
        device = *open_cuda_device(0);
        stopwatch = *Stopwatch::create(*device, compiler);
        kernel = *device->load(any_binary(), "attune_kernel", 0);
        gpu.device = device.get();
        gpu.fake = fake;
        fake->user = &gpu;
        fake->on_launch = FakeGpu::on_launch;
    }
    Result<Burst> burst(int launches) {
        return stopwatch->burst(launches, [&](int) {
            return device->launch(kernel, Launch{1, 128, 0, 0}, "", 1);
        });
    }
    NoCompiler compiler;
    FakeGpu gpu;
    std::unique_ptr<Device> device;
    std::unique_ptr<Stopwatch> stopwatch;
    Kernel kernel = 0;
};

TEST_F(HeldBurst, times_each_launch_but_the_first_and_none_of_the_probes) {
    auto timed = burst(4);
    ASSERT_TRUE(timed) << timed.error().text();
    EXPECT_THAT(gpu.order, ElementsAre("hold", "kernel", "kernel", "kernel", "kernel", "clock"));
    EXPECT_THAT(timed->samples_us, ElementsAre(1000, 2000, 3000));
    EXPECT_DOUBLE_EQ(timed->clock_mhz, 1800);
    EXPECT_NE(*device->host_flag(), 0u);  // released
}

TEST_F(HeldBurst, a_hold_that_ran_out_is_no_measurement) {
    gpu.late = true;
    auto timed = burst(2);
    ASSERT_FALSE(timed);
    EXPECT_EQ(timed.error().code, Code::timed_out);
}

TEST_F(HeldBurst, a_launch_that_fails_still_releases_the_queue) {
    int launched = 0;
    forget_calls();
    auto timed = stopwatch->burst(4, [&](int) -> Result<void> {
        if (++launched == 2) return Error{Code::device_error, "launch failed", ""};
        return device->launch(kernel, Launch{1, 128, 0, 0}, "", 1);
    });
    ASSERT_FALSE(timed);
    EXPECT_EQ(timed.error().message, "launch failed");
    EXPECT_EQ(launched, 2);
    EXPECT_NE(*device->host_flag(), 0u);
    EXPECT_THAT(fake->log, HasSubstr("cuCtxSynchronize"));
    EXPECT_THAT(gpu.order, Not(testing::Contains("clock")));
}

}  // namespace
}  // namespace attune
