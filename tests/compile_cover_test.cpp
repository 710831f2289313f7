// Compiles what the generator offers for GPUs that are not here: every pair of a family's axis
// values for one of the GPUs, and for each GPU the hand-made tables and what the estimate picks for
// the paper's shapes. Prints what each variant needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "generator/formatted.h"
#include "generator/presets.h"
#include "generator/space.h"
#include "tuner/prune.h"

namespace attune {
namespace {

struct Job {
    Variant variant;
    const char* origin;  // "cover", "table", "estimate"
};

constexpr const char* gpus[] = {"a100-sxm4-80gb", "a10",  "l4",       "rtx-4090", "h200",
                                "h100-sxm",       "b200", "rtx-5090", "t4"};
/// The signatures whose pairs of axis values are all compiled, each for one of the GPUs that its
/// family runs on.
constexpr const char* covered[] = {"f16.d32.causal.lse", "e4m3.d64.causal.lse"};
/// Spill stores and loads that an estimate may cost: it is what runs where nothing was tuned.
constexpr int max_estimate_spill_bytes = 64;

bool is_legal(const Signature& signature, const Config& config, const Target& target) {
    return find_family(config.family)->applicable(signature, target) &&
           !broken_constraint(signature, config, target);
}

/// The cover of the largest target's space, dealt out over the GPUs; what does not fit a smaller
/// one goes to the largest.
std::vector<Job> deal_cover(const Family& family) {
    std::vector<Job> jobs;
    const Target largest = *find_target("h200");
    for (const char* text : covered) {
        const Signature signature = *Signature::parse(text);
        if (!family.applicable(signature, largest)) continue;
        for (const Config& config : pairwise_cover(family, signature, largest, 1)) {
            const Target wanted = *find_target(gpus[jobs.size() % std::size(gpus)]);
            const bool fits = is_legal(signature, config, wanted);
            jobs.push_back({{signature, config, fits ? wanted : largest}, "cover"});
        }
    }
    return jobs;
}

/// Where a GPU has no bf16, the same problem in f16.
Signature as_covered(Signature signature, const Target& target) {
    if (signature.dtype == DType::bf16 && !applicable_families(signature, target))
        signature.dtype = DType::f16;
    return signature;
}

std::vector<Job> jobs_for(const Family& family, const Target& target) {
    std::vector<Job> jobs;
    std::set<std::string> seen;
    const auto add = [&](const Signature& signature, const Config& config, const char* origin) {
        if (is_legal(signature, config, target) &&
            seen.insert(signature.text() + config.text()).second)
            jobs.push_back({{signature, config, target}, origin});
    };
    std::vector<Problem> problems = find_preset("fp8")->problems;
    std::ranges::copy_if(find_preset("paper")->problems, std::back_inserter(problems),
                         [](const Problem& problem) {  // longest and shortest
                             return problem.shape.batch == 1 || problem.shape.batch >= 32;
                         });
    for (Problem problem : problems) {
        problem.signature = as_covered(problem.signature, target);
        if (!family.applicable(problem.signature, target)) continue;
        for (const Config& config : best_by_estimate(family, problem, target, 1))
            add(problem.signature, config, "estimate");
    }
    for (int head_dim : {64, 96, 128, 192, 256})
        for (DType dtype : {DType::bf16, DType::e4m3}) {
            const Signature signature = as_covered({dtype, head_dim, Mask::causal, false}, target);
            for (const Config& config : family.table_points(signature, target))
                add(signature, config, "table");
        }
    for (const Job& job : deal_cover(family))
        if (job.variant.target.id == target.id)
            add(job.variant.signature, job.variant.config, "cover");
    return jobs;
}

std::vector<Job> jobs_for(const char* gpu) {
    std::vector<Job> jobs;
    const Target target = *find_target(gpu);
    for (const Family& family : families())
        for (Job& job : jobs_for(family, target)) jobs.push_back(std::move(job));
    return jobs;
}

using Outcome = std::shared_ptr<const Result<Binary>>;

/// One compiler per core; null where a compiler did not open. GPUs of one arch share what they have
/// in common.
std::vector<Outcome> compile_all(const std::vector<Job>& jobs) {
    static std::map<std::string, Outcome> compiled;  // by arch and text
    std::vector<Outcome*> outcomes(jobs.size());
    std::vector<std::size_t> fresh;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const Variant& variant = jobs[i].variant;
        const auto [at, is_fresh] =
            compiled.try_emplace(variant.target.arch + emit(variant).text, nullptr);
        outcomes[i] = &at->second;
        if (is_fresh) fresh.push_back(i);
    }
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        auto compiler = open_nvrtc();
        for (std::size_t n; compiler && (n = next++) < fresh.size();) {
            const Variant& variant = jobs[fresh[n]].variant;
            *outcomes[fresh[n]] = std::make_shared<Result<Binary>>(
                (*compiler)->compile(emit(variant), variant.target.arch));
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
        threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    std::vector<Outcome> all;
    for (const Outcome* outcome : outcomes) all.push_back(*outcome);
    return all;
}

class CompileCover : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        const auto compiler = open_nvrtc();
        if (compiler) return;
        ASSERT_EQ(std::getenv("ATTUNE_REQUIRE_NVRTC"), nullptr) << compiler.error().text();
        GTEST_SKIP() << "skipped: " << compiler.error().text();
    }
};

void check(const Job& job, const Binary& binary) {
    const auto& [signature, config, target] = job.variant;
    const Family& family = *find_family(config.family);
    const Launch launch = family.launch(signature, config, Shape{}, target);
    const Resources& used = binary.resources;
    const int shared = int(launch.shared_bytes) + used.shared_static_bytes;
    std::cout << formatted(
        "{:6} {:20} {:8} {:3} registers {:5} spill bytes {:6} shared bytes {:5.0f} ms  {}{}\n",
        target.arch, signature.text(), job.origin, used.registers, used.spill_bytes, shared,
        binary.compile_ms, config.text(),
        used.serialised_note < 0 ? "" : formatted("  C{}", used.serialised_note));
    EXPECT_GT(used.registers, 0);
    EXPECT_GE(used.spill_bytes, 0);
    if (job.origin == std::string_view("estimate")) {
        EXPECT_LE(used.spill_bytes, max_estimate_spill_bytes);
    }
    if (job.origin != std::string_view("cover")) {
        EXPECT_LT(used.serialised_note, 0) << "ptxas waits for every wgmma";
    }
    EXPECT_LE(shared, target.shared_bytes_per_cta);
    const int wanted_ctas = family.axis("c") ? config["c"] : 1;
    EXPECT_GE(resident_ctas(used, launch, target), wanted_ctas);
}

TEST_P(CompileCover, EveryVariantCompilesAndFits) {
    const std::vector<Job> jobs = jobs_for(GetParam());
    const std::vector<Outcome> outcomes = compile_all(jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        SCOPED_TRACE(jobs[i].variant.signature.text() + " " + jobs[i].variant.config.text());
        ASSERT_NE(outcomes[i], nullptr);
        const Result<Binary>& binary = *outcomes[i];
        if (binary) {
            check(jobs[i], *binary);
        } else {
            ADD_FAILURE() << binary.error().text();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CompileCover, testing::ValuesIn(gpus), [](const auto& part) {
    std::string name = part.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST(CompileRefusal, TuringKnowsNoBf16) {
    const auto families =
        applicable_families(*Signature::parse("bf16.d128.causal"), *find_target("t4"));
    ASSERT_FALSE(families);
    EXPECT_EQ(families.error().code, Code::unsupported);
    EXPECT_THAT(families.error().message, testing::HasSubstr("no bf16"));
}

}  // namespace
}  // namespace attune
