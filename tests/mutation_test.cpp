// Mutants of the kernel templates: every wait, barrier and arrive taken away in turn, or given
// another count or parity. The emulator must report a fault or the answer must be wrong, on one of
// a few variants and seeds. Call sites are found in the embedded text: new calls are covered as
// they come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/attention_case.h"

namespace attune {
namespace {

struct Mutant {
    std::string name;  // "templates/mma/ring.h:113 without cta_sync()"
    std::string file;
    std::size_t at, length;  // of the call in the file's text
    std::string replacement;
};
void PrintTo(const Mutant& mutant, std::ostream* out) {
    *out << mutant.name;
}

/// A call in the text: name, template argument and arguments, each without its brackets.
struct Call {
    std::size_t at, length;
    std::string name, count, arguments;
};

/// The end of the bracket that opens at `open`.
std::size_t closing(const std::string& text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
        depth += text[i] == '(';
        depth -= text[i] == ')';
        if (depth == 0) return i;
    }
    return std::string::npos;
}

std::vector<Call> calls_of(const std::string& name, const std::string& text) {
    std::vector<Call> calls;
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at) {
        const auto is_word = [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
        };
        const std::size_t line = text.rfind('\n', at) + 1;
        if (is_word(text[at - 1]) || text.substr(line, at - line).find("//") != std::string::npos)
            continue;
        std::size_t open = at + name.size();
        std::string count;
        if (text[open] == '<') {
            const std::size_t end = text.find(">(", open);
            count = text.substr(open + 1, end - open - 1);
            open = end + 1;
        }
        if (text[open] != '(') continue;
        const std::size_t end = closing(text, open);
        calls.push_back({at, end + 1 - at, name, count, text.substr(open + 1, end - open - 1)});
    }
    return calls;
}

/// Argument `arguments` with its last one changed by `suffix`, in brackets.
std::string with_last(const Call& call, const std::string& suffix) {
    const std::size_t comma = call.arguments.rfind(',');
    return fmt::format("{}({}, ({}) {})", call.name, call.arguments.substr(0, comma),
                       call.arguments.substr(comma + 1), suffix);
}

/// What can go wrong at a call: (how, the text that takes its place).
std::vector<std::pair<std::string, std::string>> mistakes(const Call& call) {
    std::vector<std::pair<std::string, std::string>> list;
    list.emplace_back("without", call.name == "cta_any" ? "(" + call.arguments + ")" : "((void)0)");
    if (call.name == "cp_async_wait")
        list.emplace_back("one group early at",
                          fmt::format("cp_async_wait<({}) + 1>()", call.count));
    if (call.name == "mbarrier_init") {
        list.emplace_back("one arrival more at", with_last(call, "+ 1"));
        list.emplace_back("one arrival less at", with_last(call, "- 1"));
    }
    if (call.name == "mbarrier_wait") list.emplace_back("other parity at", with_last(call, "^ 1"));
    return list;
}

std::vector<Mutant> mutants() {
    std::vector<Mutant> list;
    for (const TemplateFile& file : embedded_templates()) {
        if (!file.name.starts_with("templates/mma/") && !file.name.starts_with("templates/common/"))
            continue;
        for (const char* name :
             {"cta_sync", "cta_any", "warp_sync", "cp_async_wait", "cp_async_commit",
              "mbarrier_init", "mbarrier_arrive", "mbarrier_arrive_cp_async", "mbarrier_wait"})
            for (const Call& call : calls_of(name, file.text)) {
                const auto line =
                    1 + std::count(file.text.begin(), file.text.begin() + call.at, '\n');
                const std::string text = file.text.substr(call.at, call.length);
                for (const auto& [how, replacement] : mistakes(call))
                    list.push_back({fmt::format("{}:{} {} {}", file.name, line, how, text),
                                    file.name, call.at, call.length, replacement});
            }
    }
    return list;
}

std::vector<TemplateFile> templates_with(const Mutant& mutant) {
    std::vector<TemplateFile> files = embedded_templates();
    for (TemplateFile& file : files)
        if (file.name == mutant.file)
            file.text.replace(mutant.at, mutant.length, mutant.replacement);
    return files;
}

/// Small variants that together use every call, and a problem with several steps for each.
struct Victim {
    const char* config;
    const char* problem;
};
constexpr Victim ring_bar_1{"mma/q32.kv16.w2.grid=head", "bf16.d16.causal/b1.h1.kv1.q70.k100"};
constexpr Victim ring_bar_3{"mma/q32.kv16.w2.s3", "bf16.d16.full/b1.h1.kv1.q40.k120"};
constexpr Victim per_head{"mma/q32.kv16.w2.s2.grid=head", "bf16.d16.causal/b1.h1.kv1.q70.k100"};
constexpr Victim ring_mbar{"mma/q32.kv16.w2.s3.ring=mbar", "bf16.d16.full/b1.h1.kv1.q40.k150"};
constexpr Victim split{"mma/q16.kv48.w3.s2.part=kv", "bf16.d16.full/b1.h1.kv1.q16.k130"};
constexpr Victim deferred{"mma/q32.kv32.w2.s2.rescale=defer.mix=yes",
                          "bf16.d16.full/b1.h1.kv1.q64.k150"};
constexpr Victim deferred_mbar{"mma/q32.kv32.w2.s2.ring=mbar.rescale=defer.mix=yes",
                               "bf16.d16.full/b1.h1.kv1.q64.k150"};
constexpr Victim victims[] = {ring_bar_3, ring_bar_1, ring_mbar,    split,
                              per_head,   deferred,   deferred_mbar};

/// Scores that grow so fast along the walk that a deferred reference is lost, in one row of the
/// first warp alone: only a vote of the whole CTA tells the others.
HostTensors inputs_of(const Problem& problem, const Config& config) {
    HostTensors tensors = normal_tensors(problem, 5);
    if (config.text().find("rescale=defer") == std::string::npos) return tensors;
    const int d = problem.signature.head_dim;
    constexpr std::uint16_t sixteen = 0x4180, thousand = 0x447a;  // bf16
    for (int row = 0; row < problem.shape.seqlen_q; ++row)
        tensors.q[row * d] = row == 3 ? sixteen : 0;
    for (int key = 0; key < problem.shape.seqlen_kv; ++key)
        tensors.k[key * d] = key == 0 ? thousand : 0;
    return tensors;
}

/// What shows that this bed's kernels are wrong on a victim; "" if nothing does.
std::string evidence(TestBed& bed, const Victim& victim) {
    const Problem problem = *Problem::parse(victim.problem);
    const Config config = *Config::parse(victim.config);
    const HostTensors tensors = inputs_of(problem, config);
    const Reference reference = reference_of(problem, tensors);
    for (unsigned seed = 0; seed < 6; ++seed) {
        bed.emulator()->set_options({.seed = seed, .threads = 1});
        const auto got = bed.run(problem, config, tensors);
        if (!got) return got.error().message;
        Bars bars = bars_of(reference);
        bars.o += 0.03;  // of a stale reference; what a missing wait lets through is larger
        const std::string wrong = difference(problem, reference, *got, bars);
        if (!wrong.empty()) return wrong;
    }
    return "";
}

class Mutation : public testing::TestWithParam<Mutant> {};

TEST_P(Mutation, IsNoticed) {
    auto bed = TestBed::open("emu:h200", templates_with(GetParam()));
    ASSERT_TRUE(bed) << bed.error().text();
    for (const Victim& victim : victims) {
        const std::string found = evidence(*bed, victim);
        EXPECT_EQ(found.find("ended with status"), std::string::npos)
            << "does not compile: " << found;
        if (found.empty()) continue;
        fmt::print("{}: {}: {}\n", GetParam().name, victim.config, found);
        return;
    }
    FAIL() << "nothing fails " << GetParam().name << ": is it needed?";
}

INSTANTIATE_TEST_SUITE_P(Templates, Mutation, testing::ValuesIn(mutants()));

TEST(Mutants, TheUnchangedTemplatesAreRight) {
    auto bed = TestBed::open("emu:h200");
    ASSERT_TRUE(bed) << bed.error().text();
    for (const Victim& victim : victims) EXPECT_EQ(evidence(*bed, victim), "") << victim.config;
}

TEST(Mutants, AreFoundInTheText) {
    const std::vector<Mutant> all = mutants();
    EXPECT_GE(all.size(), 25u);
    for (const char* text :
         {"without cta_sync()", "without cp_async_commit()", "without cta_any(",
          "without mbarrier_wait(", "without mbarrier_arrive(", "without mbarrier_arrive_cp_async(",
          "without warp_sync()", "one group early", "one arrival less", "other parity"})
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Mutant& mutant) {
            return mutant.name.find(text) != std::string::npos;
        })) << text;
}

}  // namespace
}  // namespace attune
