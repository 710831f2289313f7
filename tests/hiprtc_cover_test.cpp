// Compiles with hiprtc what the generator offers for AMD's GPUs, none of which is here: a pairwise
// cover dealt out over the GPUs, and for three signatures on each GPU the tables and what the
// estimate picks. Prints what each kernel needs; reads in its disassembly that the products are
// done by matrix instructions. `attune compile --all` does the whole space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "generator/families/transposed.h"
#include "generator/formatted.h"
#include "generator/presets.h"
#include "generator/space.h"
#include "tests/disassembly.h"
#include "tuner/prune.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

using ::testing::IsEmpty;

enum class Origin { cover, table, estimate };
constexpr const char* origin_names[] = {"cover", "table", "estimate"};

struct Job {
    Variant variant;
    Origin origin;
};

constexpr const char* gpus[] = {"mi250x", "mi300x", "mi355x", "rx-7900-xtx", "rx-9070-xt"};
constexpr const char* signatures[] = {"f16.d64.causal.lse", "bf16.d128.causal", "bf16.d256.full"};
/// The signature whose pairs of axis values are covered.
constexpr const char* covered = "f16.d64.causal.lse";
/// Of a lane; an estimate is what runs where nothing was tuned.
constexpr int max_estimate_scratch_bytes = 64;

/// This GPU's share of the cover: of the GPUs that share a family, each takes every so many-th.
std::vector<Config> dealt_cover(const Family& family, const Target& target) {
    const Signature signature = *Signature::parse(covered);
    std::vector<std::string> ids;
    for (const char* gpu : gpus)
        if (family.applicable(signature, *find_target(gpu))) ids.push_back(gpu);
    const auto own = std::size_t(std::find(ids.begin(), ids.end(), target.id) - ids.begin());
    const std::vector<Config> all = pairwise_cover(family, signature, target, 1);
    std::vector<Config> dealt;
    for (std::size_t i = own; i < all.size(); i += ids.size()) dealt.push_back(all[i]);
    return dealt;
}

/// What the estimate picks for the shapes of all presets, each taken for every signature.
std::vector<Config> estimates(const Family& family, const Signature& signature,
                              const Target& target) {
    std::vector<Config> configs;
    for (const Preset& preset : known_presets())
        for (const Problem& problem : preset.problems)
            if (problem.signature.head_dim == signature.head_dim)
                for (Config& config :
                     best_by_estimate(family, {signature, problem.shape}, target, 1))
                    if (std::find(configs.begin(), configs.end(), config) == configs.end())
                        configs.push_back(std::move(config));
    return configs;
}

std::vector<Job> jobs_for(const Target& target) {
    std::vector<Job> jobs;
    std::set<std::string> seen;
    const auto add = [&](const Signature& signature, const std::vector<Config>& configs,
                         Origin origin) {
        for (const Config& config : configs)
            if (!broken_constraint(signature, config, target) &&
                seen.insert(signature.text() + config.text()).second)
                jobs.push_back({{signature, config, target}, origin});
    };
    for (const char* text : signatures) {
        const Signature signature = *Signature::parse(text);
        const auto able = *applicable_families(signature, target);
        for (const Family* family : able) {
            add(signature, estimates(*family, signature, target), Origin::estimate);
            add(signature, family->table_points(signature, target), Origin::table);
            if (text == std::string_view(covered))
                add(signature, dealt_cover(*family, target), Origin::cover);
        }
    }
    return jobs;
}

/// What stands in one copy of the loop's body.
struct Body {
    std::string instruction;  // the names of the matrix instruction start so
    int products;
    int operand_reads;  // of 16 bytes, from shared memory
    int outputs;        // elements of O in a lane; outside the loop
    int copies;         // of a wave, from global to shared memory
};

Body body_of(const Variant& variant) {
    const auto& [signature, config, target] = variant;
    const TransposedNeeds needs = transposed_needs(signature, config, target);
    const bool mfma = config.family == "mfma", deep = target.arch == "gfx950";
    const int issued = mfma && !deep ? 2 : 1;  // per step of the atom
    const int blocks = config["q"] / config["w"] / needs.rows;
    const int qk = config["kv"] / needs.rows * (needs.columns / needs.depth);
    const int pv = config["kv"] / needs.depth * (needs.value_columns / needs.rows);
    const int chunks = atom_of(config, target) == Atom::wmma_11 ? 2 : 1;
    const int direct = needs.direct_bytes * needs.threads;
    const int k_bytes = 2 * config["kv"] * needs.columns;
    return {
        formatted("v_{}_f32_{}x{}x{}", config.family, needs.rows, needs.rows, needs.depth / issued),
        blocks * (qk + pv) * issued, chunks * (qk + pv),
        config["q"] / config["w"] * needs.value_columns / target.wave_size,
        direct == 0 ? 0 : (k_bytes + direct - 1) / direct};
}

Instructions those(const Instructions& found, std::initializer_list<const char*> prefixes) {
    Instructions some;
    for (const auto& [name, times] : found)
        for (const char* prefix : prefixes)
            if (name.starts_with(prefix)) some[name] = times;
    return some;
}

int sum(const Instructions& instructions) {
    return count(instructions, "");
}

/// The body stands there in each loop, more often where it is unrolled or the tile may have to be
/// done again.
void check_instructions(const Job& job, const Binary& binary, const Instructions& found) {
    const Body body = body_of(job.variant);
    const int products = count(found, body.instruction);
    EXPECT_EQ(products % body.products, 0) << products << " of " << body.products;
    EXPECT_GE(products / body.products, job.variant.config["loops"])
        << products << " of " << body.products;
    EXPECT_EQ(sum(those(found, {"v_mfma", "v_smfma", "v_wmma", "v_swmma"})), products)
        << "another matrix instruction than " << body.instruction;
    EXPECT_THAT(those(found, {"v_dot", "v_mad_mix", "v_pk_fma_f16", "v_fma_f16", "v_mad_f32",
                              "v_mad_f16", "v_mac_"}),
                IsEmpty())
        << "products beside the matrix instructions'";
    // Direct copies of K, a whole tile in each place.
    const int copies = sum(those(found, {"buffer_load_dword lds", "buffer_load_dwordx4 lds"}));
    EXPECT_EQ(copies > 0, body.copies > 0);
    EXPECT_EQ(body.copies > 0 ? copies % body.copies : 0, 0) << copies << " of " << body.copies;
    EXPECT_THAT(those(found, {"hazard"}), IsEmpty());
    // O by the reciprocal of its sum, to f16: once each.
    EXPECT_LE(sum(those(found, {"v_fma_mix"})), body.outputs);
    const Instructions reads = those(found, {"ds_read_b128", "ds_load_b128"});
    EXPECT_GE(sum(reads), body.operand_reads * (products / body.products));
    EXPECT_EQ(those(found, {"ds_read", "ds_load"}), reads) << "narrower reads";
    if (binary.resources.stack_bytes == 0) {
        // What was loaded from there would have been stored; buffer_load brings Q, K and V.
        EXPECT_THAT(those(found, {"scratch_", "buffer_store"}), IsEmpty());
    }
}

void check_resources(const Job& job, const Binary& binary) {
    const auto& [signature, config, target] = job.variant;
    const Family& family = *find_family(config.family);
    const Launch launch = family.launch(signature, config, Shape{}, target);
    const Resources& used = binary.resources;
    EXPECT_GT(used.registers, 0);
    EXPECT_LE(used.registers, target.max_registers_per_thread);
    EXPECT_LE(int(launch.shared_bytes) + used.shared_static_bytes, target.shared_bytes_per_cta);
    EXPECT_GE(used.spill_bytes, 0);
    EXPECT_GE(used.stack_bytes, 0);
    EXPECT_GE(resident_ctas(used, launch, target), config["c"]);
    if (job.origin == Origin::estimate) {
        EXPECT_LE(used.stack_bytes, max_estimate_scratch_bytes);
    }
    std::cout << formatted(
        "{:8} {:18} {:8} {:3} VGPRs {:3} AGPRs {:5} scratch bytes {:5} LDS bytes {:5.0f} ms  {}\n",
        target.arch, signature.text(), origin_names[int(job.origin)], used.registers,
        used.accumulation_registers, used.stack_bytes, launch.shared_bytes, binary.compile_ms,
        config.text());
}

class HiprtcCover : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        WorkerOptions options;
        options.command = {ATTUNE_WORKER_CHILD, "worker"};
        auto opened = CompilePool::open(options, "hiprtc");
        if (opened) {
            pool = *std::move(opened);
            return;
        }
        ASSERT_EQ(std::getenv("ATTUNE_REQUIRE_HIPRTC"), nullptr) << opened.error().text();
        GTEST_SKIP() << "skipped: " << opened.error().text();
    }
    std::unique_ptr<CompilePool> pool;
};

TEST_P(HiprtcCover, every_variant_compiles_fits_and_multiplies_by_matrix_instructions) {
    const std::vector<Job> jobs = jobs_for(*find_target(GetParam()));
    ASSERT_FALSE(jobs.empty());
    std::vector<CompilePool::Future> compiled;
    for (const Job& job : jobs)
        compiled.push_back(pool->compile(emit(job.variant), job.variant.target.arch));
    auto disassembler = Disassembler::start(ATTUNE_WORKER_CHILD);
    ASSERT_TRUE(disassembler) << disassembler.error().text();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const auto& [signature, config, target] = jobs[i].variant;
        SCOPED_TRACE(target.arch + " " + signature.text() + " " + config.text());
        const auto done = compiled[i].get();
        ASSERT_EQ(done->verdict, Verdict::ok) << done->reason;
        check_resources(jobs[i], done->binary);
        const auto found = disassembler->instructions(done->binary.bytes, done->binary.entry);
        ASSERT_TRUE(found) << found.error().text();
        check_instructions(jobs[i], done->binary, *found);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, HiprtcCover, testing::ValuesIn(gpus), [](const auto& part) {
    std::string name = part.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace attune
