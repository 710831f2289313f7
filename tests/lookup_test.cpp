#include <gtest/gtest.h>

#include <cmath>

#include "generator/formatted.h"
#include "runtime/device.h"
#include "tests/store_fixtures.h"

namespace attune {
namespace {

Shape shape(const char* text) {
    return *Shape::parse(text);
}

TEST(BucketDistance, IsASumOfLogarithms) {
    const struct {
        const char *asked, *tuned;
        double distance;
    } cases[] = {
        {"b2.h16.kv16.q8192.k8192", "b2.h16.kv16.q8192.k8192", 0},
        {"b4.h16.kv16.q8192.k8192", "b2.h16.kv16.q8192.k8192", 1},
        {"b2.h16.kv16.q8192.k8192", "b4.h8.kv8.q8192.k8192", 0},  // batch * heads_q is what counts
        {"b1.h1.kv1.q1024.k4096", "b1.h1.kv1.q4096.k1024", 4},
        {"b1.h8.kv2.q64.k64", "b1.h8.kv8.q64.k64", 0.5},
        {"b1.h8.kv2.q64.k64", "b1.h16.kv4.q64.k64", 1},  // the same ratio of heads
        {"b1.h1.kv1.q0.k0", "b1.h1.kv1.q1.k2", 1},       // lengths of 0 count as 1
        {"b0.h0.kv0.q16.k16", "b1.h1.kv1.q16.k16", 0},   // 0 heads have every ratio
        {"b1.h1.kv1.q3.k1", "b1.h1.kv1.q1.k1", std::log2(3.0)},
        {"b65536.h65536.kv65536.q1.k1", "b1.h1.kv1.q1.k1", 32},  // no overflow
    };
    for (const auto& [asked, tuned, distance] : cases) {
        EXPECT_NEAR(bucket_distance(shape(asked), shape(tuned)), distance, 1e-12)
            << asked << " " << tuned;
        EXPECT_NEAR(bucket_distance(shape(tuned), shape(asked)), distance, 1e-12) << "symmetric";
    }
}

std::vector<Record> records(std::initializer_list<const char*> problems) {
    std::vector<Record> all;
    for (const char* problem : problems) all.push_back(some_record(problem));
    return all;
}

std::string match(const std::vector<Record>& all, const char* problem,
                  const std::string& restriction = "") {
    const Match best = best_match(all, *Problem::parse(problem), restriction);
    return best.record == nullptr
               ? "none"
               : formatted("{} {}", best.record->problem.shape.text(), best.distance);
}

TEST(BestMatch, PrefersExactThenNearestThenLexicallyFirst) {
    auto all = records({"bf16.d64.full/b1.h1.kv1.q64.k64", "bf16.d64.full/b1.h1.kv1.q256.k64",
                        "bf16.d64.full/b1.h1.kv1.q128.k128", "bf16.d64.causal/b1.h1.kv1.q96.k64",
                        "f16.d64.full/b1.h1.kv1.q96.k64", "bf16.d64.full.lse/b1.h1.kv1.q96.k64"});
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q128.k128"), "b1.h1.kv1.q128.k128 0");
    // q 128, k 64 is 1 away from each of the three; "q128" sorts first.
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q128.k64"), "b1.h1.kv1.q128.k128 1");
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q1000.k64"),
              formatted("b1.h1.kv1.q256.k64 {}", std::log2(1000.0 / 256)));
    EXPECT_EQ(match(all, "bf16.d128.full/b1.h1.kv1.q64.k64"), "none");
    EXPECT_EQ(match({}, "bf16.d64.full/b1.h1.kv1.q64.k64"), "none");
}

TEST(BestMatch, TiesDoNotHangOnTheLastBit) {
    // 3 / 1 and 9 / 3: equal ratios whose logarithms may differ by rounding.
    auto all = records({"bf16.d64.full/b1.h1.kv1.q9.k7", "bf16.d64.full/b1.h1.kv1.q1.k7"});
    EXPECT_TRUE(match(all, "bf16.d64.full/b1.h1.kv1.q3.k7").starts_with("b1.h1.kv1.q1.k7 "));
    std::swap(all[0], all[1]);
    EXPECT_TRUE(match(all, "bf16.d64.full/b1.h1.kv1.q3.k7").starts_with("b1.h1.kv1.q1.k7 "));
}

TEST(BestMatch, PassesOverRecordsItCannotUse) {
    auto all = records({"bf16.d64.full/b1.h1.kv1.q64.k64", "bf16.d64.full/b1.h1.kv1.q512.k64"});
    all[0].binary_sha256.clear();
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q64.k64"), "b1.h1.kv1.q512.k64 3");
    all[1].restriction = "family=mma";
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q64.k64"), "none");
    EXPECT_EQ(match(all, "bf16.d64.full/b1.h1.kv1.q512.k64", "family=mma"), "b1.h1.kv1.q512.k64 0");
}

/// Kernels tuned for other shapes that nobody should use for this one (Family::unfit).
TEST(BestMatch, PassesOverRecordsUnfitForTheProblem) {
    auto all = records({"e4m3.d64.full/b1.h1.kv1.q64.k128", "e4m3.d64.full/b1.h1.kv1.q64.k64"});
    all[0].config = "wgmma/q64.kv64";  // its sums would be cut
    all[1].config = "wgmma/q64.kv64.acc64";
    EXPECT_EQ(match(all, "e4m3.d64.full/b1.h1.kv1.q64.k512"), "b1.h1.kv1.q64.k64 3");
    EXPECT_EQ(match(all, "e4m3.d64.full/b2.h1.kv1.q64.k128"), "b1.h1.kv1.q64.k128 1");
    all[0].config = "of/another.version";
    EXPECT_EQ(match(all, "e4m3.d64.full/b1.h1.kv1.q64.k512"), "b1.h1.kv1.q64.k128 2");
}

TEST(DeviceKeyOf, TakesTheMigProfileFromTheName) {
    DeviceInfo info;
    info.target.name = "NVIDIA H200 MIG 1g.18gb";
    info.target.arch = "sm_90a";
    info.target.multiprocessors = 16;
    EXPECT_EQ(device_key(info), (DeviceKey{"nvidia", "NVIDIA H200", "sm_90a", 16, "1g.18gb"}));
    info.target.name = "emu NVIDIA H200";
    EXPECT_EQ(device_key(info), (DeviceKey{"nvidia", "emu NVIDIA H200", "sm_90a", 16, ""}));
}

TEST(RecordNames, ParseWhatTheyPrintAndRefuseTheRest) {
    for (const Verdict v :
         {Verdict::ok, Verdict::pruned, Verdict::compile_failed, Verdict::launch_failed,
          Verdict::wrong, Verdict::timed_out, Verdict::crashed, Verdict::slow})
        EXPECT_EQ(*parse_verdict(name_of(v)), v);
    for (const Effort e : {Effort::estimate, Effort::measure, Effort::patient, Effort::exhaustive})
        EXPECT_EQ(*parse_effort(name_of(e)), e);
    for (const Evidence e : {Evidence::estimated, Evidence::measured})
        EXPECT_EQ(*parse_evidence(name_of(e)), e);
    EXPECT_FALSE(parse_verdict("Ok"));
    EXPECT_FALSE(parse_effort(""));
    EXPECT_EQ(parse_evidence("guessed").error().next_step, "use one of estimated measured");
}

}  // namespace
}  // namespace attune
