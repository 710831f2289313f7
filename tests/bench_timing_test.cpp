// The bench's timing rules over the fake driver, with launches that take what the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "templates/probe/params.h"
#include "tests/fake_fixture.h"
#include "tuner/bench.h"

namespace attune {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr unsigned probe_threads = 64;

class BenchTiming : public FakeCuda {
protected:
    void SetUp() override {
        FakeCuda::SetUp();
        fake->user = this;
        fake->on_launch = [](void* self, const FakeLaunch& launch) {
            static_cast<BenchTiming*>(self)->run(launch);
        };
        device = *open_cuda_device(0);
        const Problem problem = *Problem::parse("bf16.d64.full/b1.h1.kv1.q16.k1024");
        bench = *Bench::prepare(*device, compiler, problem);
        fast = load("mma/q64.kv64.w4", 128);
        slow = load("mma/q128.kv64.w8", 256);
        launches.clear();
        policy.idle_gap_ms = 0;
        policy.launches_per_burst = 4;
    }
    Candidate load(const char* config, unsigned threads) {
        Binary made;
        made.bytes = any_binary();
        made.entry = "attune_kernel";
        const Candidate candidate = *bench->load(config, made);
        EXPECT_EQ(candidate.launch.threads_per_cta, threads);
        return candidate;
    }
    void run(const FakeLaunch& launch) {
        if (launch.threads != probe_threads) {
            const auto* params = static_cast<const AttentionParams*>(launch.params);
            inputs.insert(params->q);
            launches.push_back(launch.threads);
            fake->now_ms += next_ms(launch.threads);
        } else if (!holding) {
            *static_cast<const HoldParams*>(launch.params)->timed_out = 0;
            holding = true;
        } else {
            unsigned* result = static_cast<const ClockParams*>(launch.params)->result;
            result[0] = clocks_mhz.empty() ? 1800 : clocks_mhz.front();
            result[1] = 1000;
            if (!clocks_mhz.empty()) clocks_mhz.erase(clocks_mhz.begin());
            holding = false;
        }
    }
    double next_ms(unsigned threads) {
        ++launched;
        const double jitter = noisy && launched % 2 == 0 ? 1.2 : 1;
        return (threads == 128 ? 1.0 : 2.0) * jitter;
    }

    NoCompiler compiler;
    std::unique_ptr<Device> device;
    std::unique_ptr<Bench> bench;
    Candidate fast, slow;
    MeasurePolicy policy;
    std::vector<unsigned> clocks_mhz;  // of the bursts to come; 1800 afterwards
    std::vector<unsigned> launches;    // thread counts, in order
    std::set<const void*> inputs;
    bool noisy = false;
    bool holding = false;
    int launched = 0;
};

TEST_F(BenchTiming, steady_kernels_stop_at_the_least_number_of_bursts) {
    auto timing = bench->time(fast, policy, 0);
    ASSERT_TRUE(timing) << timing.error().text();
    EXPECT_EQ(launches.size(), 2u + 2 * 4);
    EXPECT_EQ(timing->samples_us.size(), 2u * 3);
    EXPECT_THAT(timing->samples_us, Each(testing::DoubleNear(1000, 0.1)));
    EXPECT_THAT(timing->clocks_mhz, ElementsAre(1800, 1800));
    EXPECT_FALSE(timing->rejected);
}

TEST_F(BenchTiming, noisy_kernels_stop_at_the_most) {
    noisy = true;
    auto timing = bench->time(fast, policy, 0);
    ASSERT_TRUE(timing) << timing.error().text();
    EXPECT_EQ(launches.size(), 2u + 6 * 4);
    EXPECT_GT(timing->spread, policy.target_spread);
}

TEST_F(BenchTiming, two_launches_reject_what_is_far_too_slow) {
    auto timing = bench->time(slow, policy, 1000);
    ASSERT_TRUE(timing);
    EXPECT_TRUE(timing->rejected);
    EXPECT_EQ(launches.size(), 2u);
    auto kept = bench->time(slow, policy, 1500);  // 2000 is under 1.5 times as much
    ASSERT_TRUE(kept);
    EXPECT_FALSE(kept->rejected);
}

TEST_F(BenchTiming, a_burst_that_lost_is_the_last) {
    auto timing = bench->time(slow, policy, 1500);
    ASSERT_TRUE(timing);
    EXPECT_EQ(launches.size(), 2u + 4);
    launches.clear();
    ASSERT_TRUE(bench->time(slow, policy, 1950));  // within 6 %: may still turn out best
    EXPECT_EQ(launches.size(), 2u + 2 * 4);
}

TEST_F(BenchTiming, a_launch_over_the_limit_is_timed_out) {
    policy.max_launch_ms = 1.5;
    EXPECT_TRUE(bench->time(fast, policy, 0));
    auto timing = bench->time(slow, policy, 0);
    ASSERT_FALSE(timing);
    EXPECT_EQ(timing.error().code, Code::timed_out);
}

TEST_F(BenchTiming, inputs_rotate_over_three_l2_unless_told_otherwise) {
    policy.max_bursts = policy.min_bursts = 300;
    ASSERT_TRUE(bench->time(fast, policy, 0));
    const double set_bytes = 2.0 * 64 * (16 + 2 * 1024);
    EXPECT_GE(inputs.size() * set_bytes, 2.9 * device->info().target.l2_bytes);
    inputs.clear();
    policy.cold_l2_factor = 0;
    ASSERT_TRUE(bench->time(fast, policy, 0));
    EXPECT_EQ(inputs.size(), 1u);
}

TEST_F(BenchTiming, the_final_round_takes_turns_and_everybody_comes_first) {
    policy.max_bursts = 2;
    policy.launches_per_burst = 2;
    auto timings = bench->time_interleaved(std::vector<Candidate>{fast, slow}, policy);
    ASSERT_TRUE(timings) << timings.error().text();
    // One launch each to warm up, then two rounds.
    EXPECT_THAT(launches, ElementsAre(128, 256, 128, 128, 256, 256, 256, 256, 128, 128));
    EXPECT_NEAR((*timings)[0].median_us, 1000, 0.1);
    EXPECT_NEAR((*timings)[1].median_us, 2000, 0.1);
}

TEST_F(BenchTiming, a_block_at_a_low_clock_is_measured_again_at_most_twice) {
    policy.max_bursts = 3;
    policy.launches_per_burst = 2;
    clocks_mhz = {1800, 1500, 1800};
    auto timings = bench->time_interleaved(std::vector<Candidate>{fast}, policy);
    ASSERT_TRUE(timings);
    EXPECT_EQ(launches.size(), 1u + 3 * 2 + 2);
    EXPECT_THAT((*timings)[0].clocks_mhz, ElementsAre(1800, 1800, 1800));

    launches.clear();
    clocks_mhz = {1800, 1500, 1800, 1500, 1500, 1500};
    timings = bench->time_interleaved(std::vector<Candidate>{fast}, policy);
    ASSERT_TRUE(timings);
    EXPECT_EQ(launches.size(), 1u + 3 * 2 + 2 * 2);
    EXPECT_THAT((*timings)[0].clocks_mhz, ElementsAre(1800, 1500, 1800));
}

}  // namespace
}  // namespace attune
