// configs/gpus and configs/shapes, and hostile text in their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "generator/presets.h"
#include "generator/target.h"

namespace attune {
namespace {

using testing::HasSubstr;

std::vector<Problem> problems_of(const char* preset) {
    return (*find_preset(preset)).problems;
}

std::vector<std::string> texts(const char* preset) {
    std::vector<std::string> out;
    for (const Problem& problem : problems_of(preset)) out.push_back(problem.text());
    return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(KnownTargets, AreTheGpusWeName) {
    std::map<std::string, std::string> arch;
    for (const Target& target : known_targets()) arch[target.id] = target.arch;
    const std::map<std::string, std::string> expected{
        {"a100-sxm4-80gb", "sm_80"}, {"a10", "sm_86"},          {"h100-sxm", "sm_90a"},
        {"h200", "sm_90a"},          {"l4", "sm_89"},           {"rtx-4090", "sm_89"},
        {"rtx-5090", "sm_120"},      {"t4", "sm_75"},           {"b200", "sm_100"},
        {"mi250x", "gfx90a"},        {"mi300x", "gfx942"},      {"mi355x", "gfx950"},
        {"mi210", "gfx90a"},         {"mi325x", "gfx942"},      {"radeon-8060s", "gfx1151"},
        {"rx-7900-xtx", "gfx1100"},  {"rx-9070-xt", "gfx1201"},
    };
    EXPECT_EQ(arch, expected);
}

TEST(KnownTargets, NumbersAreWithinReason) {
    for (const Target& t : known_targets()) {
        SCOPED_TRACE(t.id);
        EXPECT_EQ(t.vendor == Vendor::nvidia, t.arch.starts_with("sm_"));
        EXPECT_EQ(t.compute_capability() > 0, t.vendor == Vendor::nvidia);
        EXPECT_GT(t.multiprocessors, 30);
        EXPECT_GE(t.shared_bytes_per_cta, 64 * 1024);
        EXPECT_LE(t.shared_bytes_per_cta + t.shared_bytes_reserved_per_cta,
                  t.shared_bytes_per_multiprocessor);
        EXPECT_EQ(t.max_threads_per_multiprocessor % t.wave_size, 0);
        EXPECT_GE(t.registers_per_multiprocessor, 65536);
        EXPECT_GE(t.max_ctas_per_multiprocessor, 16);
        // FLOP per multiprocessor and cycle: a power of two near the tensor unit's width.
        const double rate = t.dense_f16_tflops * 1e6 / (t.multiprocessors * t.boost_clock_mhz);
        EXPECT_GT(rate, 500);
        EXPECT_LT(rate, 8400);
        EXPECT_GE(t.l2_bytes, 2 << 20);
        EXPECT_GT(t.memory_gb_per_s, 250);
        EXPECT_LT(t.memory_gb_per_s, 10000);
    }
}

TEST(KnownTargets, ComputeCapability) {
    EXPECT_EQ(find_target("h200")->compute_capability(), 90);
    EXPECT_EQ(find_target("rtx-5090")->compute_capability(), 120);
    EXPECT_EQ(find_target("mi300x")->compute_capability(), 0);
    const auto unknown = find_target("h300");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Code::not_found);
    EXPECT_THAT(unknown.error().text(), HasSubstr("h300"));
    EXPECT_THAT(unknown.error().text(), HasSubstr("a100-sxm4-80gb"));
}

TEST(Target, JsonRoundTrips) {
    for (const Target& t : known_targets()) {
        const auto again = Target::from_json(t.to_json());
        ASSERT_TRUE(again) << t.id;
        EXPECT_EQ(again->to_json(), t.to_json());
    }
}

TEST(Target, EveryMissingOrBentKeyIsNamed) {
    const std::string good = find_target("h200")->to_json();
    for (const char* key :
         {"id", "name", "vendor", "arch", "multiprocessors", "shared_bytes_per_cta",
          "shared_bytes_per_multiprocessor", "shared_bytes_reserved_per_cta",
          "registers_per_multiprocessor", "max_registers_per_thread",
          "max_threads_per_multiprocessor", "max_ctas_per_multiprocessor", "wave_size", "l2_bytes",
          "memory_gb_per_s", "dense_f16_tflops", "boost_clock_mhz"}) {
        const std::string quoted = '"' + std::string(key) + '"';
        const std::string gone = replaced(good, quoted, "\"other\"");
        // A value of another kind: the key's value moves into a list.
        const std::size_t colon = good.find(quoted) + quoted.size() + 1;
        const std::size_t end = good.find_first_of(",\n}", colon);
        const std::string listed =
            good.substr(0, colon) + "[" + good.substr(colon, end - colon) + "]" + good.substr(end);
        for (const std::string& text : {gone, listed}) {
            const auto target = Target::from_json(text);
            ASSERT_FALSE(target) << text;
            EXPECT_EQ(target.error().code, Code::corrupt);
            EXPECT_THAT(target.error().message, HasSubstr(std::string("'") + key + "'"));
        }
    }
}

TEST(Target, HostileTextIsCorruptNeverACrash) {
    const std::string good = find_target("h200")->to_json();
    std::vector<std::string> bad{"",
                                 "{",
                                 "[]",
                                 "null",
                                 "42",
                                 "\"h200\"",
                                 "{}x",
                                 "\xff",
                                 "{\"id\": \"\xff\"}",
                                 std::string(100000, '['),
                                 good + "}"};
    for (const char* number : {"-1", "132.5", "1e9", "1e400", "18446744073709551616", "\"132\"",
                               "true", "null", "4294967428"})
        bad.push_back(replaced(good, "\"multiprocessors\": 132",
                               std::string("\"multiprocessors\": ") + number));
    bad.push_back(replaced(good, "\"vendor\": \"nvidia\"", "\"vendor\": \"intel\""));
    for (std::size_t cut = 0; cut + 2 < good.size(); cut += 7) bad.push_back(good.substr(0, cut));
    for (const std::string& text : bad) {
        const auto target = Target::from_json(text);
        ASSERT_FALSE(target) << text.substr(0, 300);
        EXPECT_EQ(target.error().code, Code::corrupt);
        EXPECT_NE(target.error().next_step, "");
    }
}

TEST(KnownPresets, AreSortedAndValid) {
    std::vector<std::string> names;
    for (const Preset& preset : known_presets()) {
        names.push_back(preset.name);
        EXPECT_NE(preset.description, "");
        std::set<std::string> distinct;
        for (const Problem& problem : preset.problems) {
            EXPECT_TRUE(validate(problem)) << problem.text();
            EXPECT_TRUE(distinct.insert(problem.text()).second) << problem.text();
        }
    }
    EXPECT_THAT(names,
                testing::ElementsAre("fp8", "llama3", "odd", "paper", "paper-fp16", "smoke"));
}

TEST(KnownPresets, PaperIsTheMeasuredGrid) {
    std::set<std::string> grid;
    for (int dim : {64, 128, 256})
        for (const char* mask : {"full", "causal"})
            for (int s = 512; s <= 16384; s *= 2) {
                const Signature signature{DType::bf16, dim, *parse_mask(mask), false};
                const int heads = 2048 / dim;
                grid.insert(Problem{signature, {16384 / s, heads, heads, s, s}}.text());
            }
    const auto paper = texts("paper");
    EXPECT_EQ(paper.size(), 36u);
    EXPECT_EQ(std::set(paper.begin(), paper.end()), grid);
}

TEST(KnownPresets, Fp16AndLlamaRowsAreTheMeasuredOnes) {
    EXPECT_THAT(
        texts("paper-fp16"),
        testing::UnorderedElementsAre(
            "f16.d96.full/b8.h16.kv16.q2048.k2048", "f16.d96.full/b2.h16.kv16.q8192.k8192",
            "f16.d96.causal/b8.h16.kv16.q2048.k2048", "f16.d96.causal/b2.h16.kv16.q8192.k8192",
            "f16.d192.full/b8.h8.kv8.q2048.k2048", "f16.d192.full/b2.h8.kv8.q8192.k8192",
            "f16.d192.causal/b8.h8.kv8.q2048.k2048", "f16.d192.causal/b2.h8.kv8.q8192.k8192",
            "f16.d128.full/b8.h16.kv16.q2048.k2048", "f16.d128.full/b2.h16.kv16.q8192.k8192",
            "f16.d128.causal/b8.h16.kv16.q2048.k2048", "f16.d128.causal/b2.h16.kv16.q8192.k8192"));
    EXPECT_THAT(texts("llama3"),
                testing::UnorderedElementsAre("bf16.d128.causal/b1.h32.kv8.q1024.k1024",
                                              "bf16.d128.causal/b1.h64.kv8.q1024.k1024",
                                              "bf16.d128.causal/b1.h32.kv8.q4096.k4096",
                                              "bf16.d128.causal/b1.h64.kv8.q4096.k4096",
                                              "bf16.d128.causal/b1.h32.kv8.q16384.k16384",
                                              "bf16.d128.causal/b1.h64.kv8.q16384.k16384"));
}

TEST(KnownPresets, Fp8IsPartOfThePapersGrid) {
    std::set<std::string> grid;
    for (int dim : {64, 128, 256})
        for (const char* mask : {"full", "causal"})
            for (int s : {2048, 8192}) {
                const Signature signature{DType::e4m3, dim, *parse_mask(mask), false};
                const int heads = 2048 / dim;
                grid.insert(Problem{signature, {16384 / s, heads, heads, s, s}}.text());
            }
    EXPECT_THAT(texts("fp8"), testing::UnorderedElementsAreArray(grid));
}

TEST(KnownPresets, OddIsHeldOutAndAnsweredByABucketOfPaper) {
    const std::vector<Problem> odd = problems_of("odd");
    EXPECT_EQ(odd.size(), 24u);
    std::set<std::string> paper_signatures;
    for (const Problem& problem : problems_of("paper"))
        paper_signatures.insert(problem.signature.text());
    std::set<std::string> covered;
    for (const Problem& problem : odd) {
        EXPECT_TRUE(paper_signatures.contains(problem.signature.text())) << problem.text();
        covered.insert(problem.signature.text());
        for (const Preset& preset : known_presets())
            for (const Problem& other : preset.problems)
                if (preset.name != "odd") {
                    EXPECT_NE(problem.shape, other.shape) << preset.name;
                }
    }
    EXPECT_EQ(covered, paper_signatures);
}

TEST(KnownPresets, SmokeIsSmall) {
    const auto smoke = problems_of("smoke");
    EXPECT_THAT(smoke.size(), testing::AllOf(testing::Ge(3u), testing::Le(6u)));
    for (const Problem& p : smoke) EXPECT_LE(std::max(p.shape.seqlen_q, p.shape.seqlen_kv), 128);
}

TEST(KnownPresets, UnknownNameListsTheNames) {
    const auto unknown = find_preset("papers");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Code::not_found);
    EXPECT_THAT(unknown.error().text(), HasSubstr("paper-fp16"));
}

std::string shapes(const std::string& problems, const std::string& schema = "attune-shapes/1") {
    return "{\"schema\": \"" + schema + "\", \"description\": \"\", \"problems\": " + problems +
           "}";
}

TEST(Preset, Reads) {
    const auto preset = Preset::from_json("mine", shapes("[\"bf16.d64.full/b1.h2.kv1.q3.k4\"]"));
    ASSERT_TRUE(preset);
    EXPECT_EQ(preset->name, "mine");
    ASSERT_EQ(preset->problems.size(), 1u);
    EXPECT_EQ(preset->problems[0].text(), "bf16.d64.full/b1.h2.kv1.q3.k4");
}

TEST(Preset, HostileTextIsCorruptAndNamesTheEntry) {
    const std::pair<std::string, const char*> bad[] = {
        {"", "not a JSON object"},
        {"[1]", "not a JSON object"},
        {std::string(100000, '{'), "not a JSON object"},
        {"{\"schema\": \"attune-shapes/1\"}", "'problems'"},
        {"{\"schema\": 1, \"problems\": []}", "schema"},
        {"{\"problems\": [\"bf16.d64.full/b1.h2.kv1.q3.k4\"]}", "schema"},
        {shapes("[\"bf16.d64.full/b1.h2.kv1.q3.k4\"]", "attune-shapes/2"), "schema"},
        {shapes("[]"), "'problems'"},
        {shapes("{}"), "'problems'"},
        {shapes("\"bf16.d64.full/b1.h2.kv1.q3.k4\""), "'problems'"},
        {shapes("[7]"), "7 is not a problem"},
        {shapes("[[\"bf16.d64.full/b1.h2.kv1.q3.k4\"]]"), "is not a problem"},
        {shapes("[\"bf16.d64.full\"]"), "'bf16.d64.full'"},
        {shapes("[\"bf16.d64.full/b1.h2.kv1.q3.k4\", \"bf16.d20.full/b1.h2.kv1.q3.k4\"]"),
         "head_dim 20"},
        {shapes("[\"bf16.d64.full/b1.h3.kv2.q3.k4\"]"), "heads_q 3"},
        {shapes("[\"bf16.d64.full/b1.h2.kv1.q-3.k4\"]"), "seqlen_q is -3"},
    };
    for (const auto& [text, reason] : bad) {
        const auto preset = Preset::from_json("mine", text);
        ASSERT_FALSE(preset) << text.substr(0, 200);
        EXPECT_EQ(preset.error().code, Code::corrupt);
        EXPECT_THAT(preset.error().message, HasSubstr("'mine'"));
        EXPECT_THAT(preset.error().message, HasSubstr(reason));
    }
}

}  // namespace
}  // namespace attune
