// What is dropped before the first launch, and why.
#include "tuner/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attune {
namespace {

using ::testing::HasSubstr;

const Target& target() {
    static const Target a100 = *find_target("a100-sxm4-80gb");
    return a100;
}
constexpr Launch launch{100, 128, 65536, 0};

TEST(Prune, AnOrdinaryKernelPasses) {
    EXPECT_EQ(prune_reason({200, 0, 0, 0}, launch, target()), "");
}

TEST(Prune, WhatTheCompilerDidNotSayPasses) {
    EXPECT_EQ(prune_reason({}, launch, target()), "");
}

TEST(Prune, RegistersOverTheFile) {
    const Launch wide{100, 512, 1024, 0};
    EXPECT_THAT(prune_reason({255, 0, 0, 0}, wide, target()), HasSubstr("registers"));
}

TEST(Prune, ManySpillsButNotAFew) {
    EXPECT_EQ(prune_reason({255, 64, 0, 0}, launch, target()), "");
    EXPECT_THAT(prune_reason({255, 4096, 0, 0}, launch, target()), HasSubstr("spills 4096"));
}

TEST(Prune, SharedMemoryWithWhatIsStatic) {
    const Launch full{100, 128, std::uint32_t(target().shared_bytes_per_cta), 0};
    EXPECT_EQ(prune_reason({100, 0, 0, 0}, full, target()), "");
    EXPECT_THAT(prune_reason({100, 0, 0, 16}, full, target()), HasSubstr("shared memory"));
}

TEST(Prune, OccupancyZero) {
    Target tiny = target();
    tiny.max_threads_per_multiprocessor = 64;
    EXPECT_THAT(prune_reason({32, 0, 0, 0}, launch, tiny), HasSubstr("occupancy 0"));
}

TEST(Prune, MmasThatAreWaitedForOneByOne) {
    Resources serialised{200, 0, 0, 0};
    serialised.serialised_note = 7512;
    EXPECT_THAT(prune_reason(serialised, launch, target()), HasSubstr("C7512"));
}

TEST(ResidentCtas, IsTheLeastOfAllLimits) {
    EXPECT_EQ(resident_ctas({255, 0, 0, 0}, launch, target()), 2);  // registers and shared memory
    EXPECT_EQ(resident_ctas({32, 0, 0, 0}, {1, 1024, 0, 0}, target()), 2);  // threads
    EXPECT_EQ(resident_ctas({16, 0, 0, 0}, {1, 32, 0, 0}, target()),
              target().max_ctas_per_multiprocessor);
}

}  // namespace
}  // namespace attune
