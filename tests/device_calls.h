// Every call of a Device over a fake driver, and what must hold when one of them fails.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tests/fake_fixture.h"

namespace attune {

/// Every call of the interface that the vendor has once; the first error, if any.
inline Result<void> use(Device& device) {
    constexpr std::uint32_t shared_bytes = 49152;
    auto memory = device.allocate(64);
    if (!memory) return memory.error();
    std::uint32_t words[16] = {};
    auto done = device.copy_to_device(*memory, words, sizeof words);
    if (done) done = device.fill(*memory, 0xabcd1234, sizeof words);
    if (done) done = device.copy_to_host(words, *memory, sizeof words);
    if (done && words[15] != 0xabcd1234) done = Error{Code::internal, "no fill", ""};
    if (done && device.info().target.vendor == Vendor::nvidia) {
        TensorMap map;
        done = device.encode_tensor_map({*memory, DType::bf16, 16, 2, 1, 1, {32, 32, 16}, 2}, map);
    }
    auto kernel = device.load(any_binary(), "attune_kernel", shared_bytes);
    if (done && !kernel) done = kernel.error();
    int params = 7;
    if (done)
        done = device.launch(*kernel, Launch{3, 128, shared_bytes, 0}, &params, sizeof params);
    auto start = device.create_event();
    if (done && !start) done = start.error();
    if (done) done = device.record(*start);
    if (done) done = device.synchronize();
    if (done) {
        auto elapsed = device.elapsed_ms(*start, *start);
        if (!elapsed) done = elapsed.error();
    }
    if (start)
        if (auto destroyed = device.destroy_event(*start); done && !destroyed) done = destroyed;
    if (kernel)
        if (auto unloaded = device.unload(*kernel); done && !unloaded) done = unloaded;
    if (auto released = device.release(*memory); done && !released) done = released;
    return done;
}

/// Makes the 1st, 2nd, ... call fail with a launch failure until one beyond the last: each is told
/// in a message that names the result, unless it is one of `silent` (what a destructor calls has
/// nobody to tell), and nothing is kept, unless it is `binding` (without a context there is no way
/// to give a thing back). Returns how many were told.
inline int fail_each_call(FakeControl& fake,
                          const std::function<Result<std::unique_ptr<Device>>()>& open,
                          const std::string& result_name, const std::vector<std::string>& silent,
                          const std::vector<std::string>& binding) {
    int told = 0;
    for (int nth = 1;; ++nth) {
        fake = FakeControl{};
        fake.fail_at = nth;
        fake.fail_with = 719;
        std::string message;
        {
            auto device = open();
            auto used = device ? use(**device) : Result<void>(device.error());
            if (!used) message = used.error().text();
        }
        const std::string failed = fake.failed;
        if (std::find(binding.begin(), binding.end(), failed) == binding.end()) {
            EXPECT_EQ(fake.live, 0) << failed;
        }
        EXPECT_EQ(fake.bound, 0) << failed;
        if (failed.empty()) return told;
        if (message.empty()) {
            EXPECT_THAT(silent, testing::Contains(failed));
            continue;
        }
        ++told;
        EXPECT_THAT(message, testing::HasSubstr(result_name + " (719)"));
        EXPECT_THAT(message, testing::HasSubstr("start a new process"));
    }
}

/// A launch makes `calls` alone, what it is given arrives, and where there is nothing to launch no
/// call is made.
inline void expect_only_launches(FakeControl& fake, Device& device, const char* calls) {
    auto kernel = device.load(any_binary(), "attune_kernel", 0);
    ASSERT_TRUE(kernel);
    FakeLaunch seen{};
    fake.user = &seen;
    fake.on_launch = [](void* user, const FakeLaunch& launch) {
        *static_cast<FakeLaunch*>(user) = launch;
    };
    forget_calls(fake);
    const int params = 7;
    EXPECT_TRUE(device.launch(*kernel, Launch{5, 64, 256, 0}, &params, sizeof params, 0x77));
    EXPECT_STREQ(fake.log, calls);
    EXPECT_EQ(fake.bound, 0);
    EXPECT_EQ(seen.ctas, 5u);
    EXPECT_EQ(seen.threads, 64u);
    EXPECT_EQ(seen.shared_bytes, 256u);
    EXPECT_EQ(seen.stream, 0x77u);
    EXPECT_EQ(seen.params, &params);
    forget_calls(fake);
    EXPECT_TRUE(device.launch(*kernel, Launch{0, 64, 0, 0}, &params, sizeof params));
    EXPECT_STREQ(fake.log, "") << "nothing to launch";
}

/// Where the first call that opening makes returns a row's result, the error has the row's code.
inline void expect_codes(FakeControl& fake, Result<std::unique_ptr<Device>> (*open)(int ordinal),
                         const std::vector<std::pair<int, Code>>& rows) {
    for (const auto& [result, code] : rows) {
        fake.calls = 0;
        fake.fail_at = 1;
        fake.fail_with = result;
        auto device = open(0);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code, code) << result;
    }
}

}  // namespace attune
