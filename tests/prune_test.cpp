// What is dropped before the first launch, and why.
#include "tuner/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attune {
namespace {

using ::testing::HasSubstr;

const Target& a100() {
    static const Target target = *find_target("a100-sxm4-80gb");
    return target;
}
constexpr Launch launch{100, 128, 65536, 0};

TEST(Prune, AnOrdinaryKernelPasses) {
    EXPECT_EQ(prune_reason({200, 0, 0, 0}, launch, a100()), "");
}

TEST(Prune, WhatTheCompilerDidNotSayPasses) {
    EXPECT_EQ(prune_reason({}, launch, a100()), "");
}

TEST(Prune, RegistersOverTheFile) {
    const Launch wide{100, 512, 1024, 0};
    EXPECT_THAT(prune_reason({255, 0, 0, 0}, wide, a100()), HasSubstr("registers"));
}

TEST(Prune, ManySpillsButNotAFew) {
    EXPECT_EQ(prune_reason({255, 64, 0, 0}, launch, a100()), "");
    EXPECT_THAT(prune_reason({255, 4096, 0, 0}, launch, a100()), HasSubstr("spills 4096"));
}

TEST(Prune, SharedMemoryWithWhatIsStatic) {
    const Launch full{100, 128, std::uint32_t(a100().shared_bytes_per_cta), 0};
    EXPECT_EQ(prune_reason({100, 0, 0, 0}, full, a100()), "");
    EXPECT_THAT(prune_reason({100, 0, 0, 16}, full, a100()), HasSubstr("shared memory"));
}

TEST(Prune, OccupancyZero) {
    Target tiny = a100();
    tiny.max_threads_per_multiprocessor = 64;
    EXPECT_THAT(prune_reason({32, 0, 0, 0}, launch, tiny), HasSubstr("occupancy 0"));
}

TEST(Prune, MmasThatAreWaitedForOneByOne) {
    Resources serialised{200, 0, 0, 0};
    serialised.serialised_note = 7512;
    EXPECT_THAT(prune_reason(serialised, launch, a100()), HasSubstr("C7512"));
}

TEST(ResidentCtas, IsTheLeastOfAllLimits) {
    EXPECT_EQ(resident_ctas({255, 0, 0, 0}, launch, a100()), 2);  // registers and shared memory
    EXPECT_EQ(resident_ctas({32, 0, 0, 0}, {1, 1024, 0, 0}, a100()), 2);  // threads
    EXPECT_EQ(resident_ctas({16, 0, 0, 0}, {1, 32, 0, 0}, a100()),
              a100().max_ctas_per_multiprocessor);
}

}  // namespace
}  // namespace attune
