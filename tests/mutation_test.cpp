// Mutants of the kernel templates: every wait, barrier and arrive taken away in turn, or given
// another count or parity. The emulator must report a fault or the answer must be wrong, on one of
// a few variants and seeds. Call sites are found in the embedded text: new calls are covered as
// they come. A call under a comment "order of issue only: ..." may be taken away unnoticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "generator/formatted.h"
#include "tests/attention_case.h"

namespace attune {
namespace {

struct Mutant {
    std::string name;  // "templates/mma/ring.h:113 without cta_sync()"
    std::string file;
    std::size_t at, length;  // of the call in the file's text
    std::string replacement;
    bool may_survive;
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
    return formatted("{}({}, ({}) {})", call.name, call.arguments.substr(0, comma),
                     call.arguments.substr(comma + 1), suffix);
}

/// What can go wrong at a call: (how, the text that takes its place).
std::vector<std::pair<std::string, std::string>> mistakes(const Call& call) {
    std::vector<std::pair<std::string, std::string>> list;
    list.emplace_back("without", call.name == "cta_any" ? "(" + call.arguments + ")" : "((void)0)");
    if (call.name == "cp_async_wait" || call.name == "wgmma_wait")
        list.emplace_back("one group early at", formatted("{}<({}) + 1>()", call.name, call.count));
    if (call.name == "mbarrier_arrive_expect") {
        list.emplace_back("more bytes at", with_last(call, "+ 16"));
        list.emplace_back("fewer bytes at", with_last(call, "- 16"));
    }
    if (call.name == "mbarrier_init") {
        list.emplace_back("one arrival more at", with_last(call, "+ 1"));
        list.emplace_back("one arrival less at", with_last(call, "- 1"));
    }
    if (call.name == "mbarrier_wait") list.emplace_back("other parity at", with_last(call, "^ 1"));
    return list;
}

constexpr const char* kernel_folders[] = {"templates/common/", "templates/mma/",
                                          "templates/transposed/", "templates/wgmma/"};
constexpr const char* call_names[] = {"cta_sync",
                                      "cta_any",
                                      "warp_sync",
                                      "fence_async",
                                      "named_sync",
                                      "named_arrive",
                                      "cp_async_wait",
                                      "cp_async_commit",
                                      "wait_window_copies",
                                      "mbarrier_init",
                                      "mbarrier_fence_init",
                                      "mbarrier_arrive",
                                      "mbarrier_arrive_cp_async",
                                      "mbarrier_arrive_expect",
                                      "mbarrier_wait",
                                      "tensor_load",
                                      "wgmma_fence",
                                      "wgmma_commit",
                                      "wgmma_wait",
                                      "registers_shrink"};

bool is_kernel_text(const TemplateFile& file) {
    return std::any_of(std::begin(kernel_folders), std::end(kernel_folders),
                       [&](const char* folder) { return file.name.starts_with(folder); });
}

/// Lines from 1 on, as editors count them.
std::ptrdiff_t line_of(const std::string& text, std::size_t at) {
    return 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n');
}

/// The line above says so.
bool orders_issue_only(const std::string& text, std::size_t at) {
    const std::size_t line = text.rfind('\n', at), above = text.rfind('\n', line - 1);
    return text.substr(above, line - above).find("// order of issue only: ") != std::string::npos;
}

std::vector<Mutant> mutants() {
    std::vector<Mutant> list;
    for (const TemplateFile& file : embedded_templates()) {
        if (!is_kernel_text(file)) continue;
        for (const char* name : call_names)
            for (const Call& call : calls_of(name, file.text)) {
                const std::string text = file.text.substr(call.at, call.length);
                for (const auto& [how, replacement] : mistakes(call))
                    list.push_back({formatted("{}:{} {} {}", file.name, line_of(file.text, call.at),
                                              how, text),
                                    file.name, call.at, call.length, replacement,
                                    orders_issue_only(file.text, call.at)});
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
    const char* device = "emu:h200";
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
constexpr Victim two_consumers{"wgmma/q128.kv48.rescale=moved",
                               "bf16.d16.full/b1.h1.kv1.q130.k250"};
constexpr Victim one_slot{"wgmma/q128.kv48.s1.overlap=no", "bf16.d16.causal/b1.h1.kv1.q130.k250"};
constexpr Victim ping_pong{"wgmma/q128.kv48.rescale=stale.pp=yes",
                           "bf16.d16.causal/b1.h1.kv1.q250.k250"};
constexpr Victim persistent{"wgmma/q128.kv48.sched=persist", "bf16.d16.full/b1.h7.kv1.q30.k50"};
constexpr Victim two_q_slots{"wgmma/q128.kv48.qs2.sched=persist",
                             "bf16.d16.full/b1.h10.kv1.q30.k50"};
constexpr Victim ahead{"wgmma/q128.kv48.qs2.sched=persist.ahead=yes",
                       "bf16.d16.full/b1.h10.kv1.q30.k50"};
constexpr Victim bytes{"wgmma/q128.kv64.rescale=stale", "e4m3.d16.causal/b1.h1.kv1.q130.k300"};
constexpr Victim bytes_one_slot{"wgmma/q64.kv64.s1.overlap=no", "e4m3.d16.full/b1.h1.kv1.q64.k300"};
constexpr Victim bytes_apart{"wgmma/q64.kv64.rescale=stale.acc32",
                             "e4m3.d48.full/b1.h1.kv1.q64.k300"};
constexpr Victim p_shared{"wgmma/q128.kv48.rescale=stale.p=smem",
                          "bf16.d16.full/b1.h1.kv1.q130.k250"};
constexpr Victim dynamic{"wgmma/q128.kv48.sched=dynamic", "bf16.d16.full/b1.h7.kv1.q30.k50"};
constexpr Victim dynamic_two_q{"wgmma/q64.kv48.qs2.sched=dynamic",
                               "bf16.d16.full/b1.h10.kv1.q30.k50"};
constexpr Victim one_tile{"mfma/q64.kv32.w2.mma16", "bf16.d32.full/b1.h1.kv1.q64.k150",
                          "emu:mi300x"};
constexpr Victim direct_k{"mfma/q64.kv32.w2.mma16.s2.k=lds", "bf16.d32.full/b1.h1.kv1.q64.k150",
                          "emu:mi300x"};
constexpr Victim victims[] = {
    ring_bar_3,     ring_bar_1,  ring_mbar, split,      per_head,      deferred, deferred_mbar,
    two_consumers,  one_slot,    ping_pong, persistent, two_q_slots,   ahead,    bytes,
    bytes_one_slot, bytes_apart, p_shared,  dynamic,    dynamic_two_q, one_tile, direct_k};

/// Whether a family's kernels include a template.
bool includes(const Victim& victim, const std::string& file) {
    const std::string entry = find_family(Config::parse(victim.config)->family)->entry_header;
    return file.starts_with("templates/common/") ||
           file.starts_with(entry.substr(0, entry.rfind('/') + 1));
}

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
        // More for of a stale reference; what a missing wait lets through is larger
        const double bar = bar_of(reference) + 0.03;
        const std::string wrong = difference(problem, reference, *got, bar);
        if (!wrong.empty()) return wrong;
    }
    return "";
}

class Mutation : public testing::TestWithParam<Mutant> {};

TEST_P(Mutation, IsNoticed) {
    for (const Victim& victim : victims) {
        if (!includes(victim, GetParam().file)) continue;
        auto bed = TestBed::open(victim.device, templates_with(GetParam()));
        ASSERT_TRUE(bed) << bed.error().text();
        const std::string found = evidence(*bed, victim);
        EXPECT_EQ(found.find("ended with status"), std::string::npos)
            << "does not compile: " << found;
        if (found.empty()) continue;
        std::cout << formatted("{}: {}: {}\n", GetParam().name, victim.config, found);
        return;
    }
    if (GetParam().may_survive) GTEST_SKIP() << "order of issue only: " << GetParam().name;
    FAIL() << "nothing fails " << GetParam().name << ": is it needed?";
}

INSTANTIATE_TEST_SUITE_P(Templates, Mutation, testing::ValuesIn(mutants()));

TEST(Mutants, TheUnchangedTemplatesAreRight) {
    for (const Victim& victim : victims) {
        auto bed = TestBed::open(victim.device);
        ASSERT_TRUE(bed) << bed.error().text();
        EXPECT_EQ(evidence(*bed, victim), "") << victim.config;
    }
}

TEST(Mutants, AreFoundInTheText) {
    const std::vector<Mutant> all = mutants();
    EXPECT_GE(all.size(), 75u);
    for (const char* text : {"without cta_sync()",
                             "without cp_async_commit()",
                             "without cta_any(",
                             "without mbarrier_wait(",
                             "without mbarrier_arrive(",
                             "without mbarrier_arrive_cp_async(",
                             "without wait_window_copies()",
                             "without warp_sync()",
                             "without fence_async()",
                             "without named_sync(",
                             "without named_arrive(",
                             "without tensor_load(",
                             "without wgmma_fence()",
                             "without wgmma_commit()",
                             "without wgmma_wait<",
                             "one group early at cp_async_wait<",
                             "one group early at wgmma_wait<",
                             "fewer bytes",
                             "one arrival less",
                             "other parity"})
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Mutant& mutant) {
            return mutant.name.find(text) != std::string::npos;
        })) << text;
}

}  // namespace
}  // namespace attune
