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

/// Every call of the interface once; the first error, if any.
inline Result<void> use(Device& device) {
    constexpr std::uint32_t shared_bytes = 49152;
    auto memory = device.allocate(64);
    if (!memory) return memory.error();
    std::uint32_t words[16] = {};
    auto done = device.copy_to_device(*memory, words, sizeof words);
    if (done) done = device.fill(*memory, 0xabcd1234, sizeof words);
    if (done) done = device.copy_to_host(words, *memory, sizeof words);
    if (done && words[15] != 0xabcd1234) done = Error{Code::internal, "no fill", ""};
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

}  // namespace attune
