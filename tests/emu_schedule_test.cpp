// Who works on what: every q-tile is taken once, and every CTA gets its share.
#include <algorithm>
#include <numeric>
#include <random>

#include "generator/formatted.h"
#include "tests/emu_fixture.h"

namespace attune {
namespace {

using Words = std::vector<std::uint32_t>;

class EmuSchedule : public EmuTest {};

TEST_F(EmuSchedule, DivisorDividesEveryNumber) {
    Words in;
    std::mt19937 engine(1);
    for (std::uint32_t divisor :
         {1u, 2u, 3u, 5u, 7u, 64u, 100u, 641u, 4096u, 65535u, 65536u, 1u << 30, 0x7fffffffu})
        for (int i = 0; i < 64; ++i) {
            const auto random = std::uint32_t(engine());
            const std::uint32_t multiple = random % (0x7fffffffu / divisor + 1) * divisor;
            const std::uint32_t numbers[] = {multiple, multiple == 0 ? 0 : multiple - 1,
                                             random >> (1 + i / 4), 0x7fffffffu - i / 4};
            in.insert(in.end(), {divisor, numbers[i % 4]});
        }
    helpers = "}\n#include \"templates/common/schedule.h\"\nnamespace attune {\n";
    const std::size_t count = in.size() / 2;
    const auto ran = run(formatted("for (int i = lane; i < {}; i += 32)\n"
                                   "    out[i] = int(in[2 * i + 1]) / Divisor(int(in[2 * i]));",
                                   count),
                         32, in, count);
    ASSERT_TRUE(ran) << ran.error().text();
    for (std::size_t i = 0; i < count; ++i)
        EXPECT_EQ(out[i], in[2 * i + 1] / in[2 * i]) << in[2 * i + 1] << " / " << in[2 * i];
}

struct List {
    bool causal;
    int section_heads, q_tiles, heads, ctas;
    const char* schedule = "persistent";
};

void PrintTo(const List& list, std::ostream* out) {
    *out << list.schedule << (list.causal ? " causal" : " full") << " sections "
         << list.section_heads << " q-tiles " << list.q_tiles << " heads " << list.heads << " ctas "
         << list.ctas;
}

class Worklists : public EmuTest, public testing::WithParamInterface<List> {
protected:
    /// For every q-tile of every head, who takes it: CTA + 1.
    Words takers() {
        const auto [causal, section_heads, q_tiles, heads, ctas, schedule] = GetParam();
        helpers = formatted(
            "}}\n#include \"templates/wgmma/worklist.h\"\nnamespace attune {{\n"
            "struct V {{ static constexpr int tile_q = 64, schedule = {};\n"
            "    static constexpr int section_heads = {}; static constexpr bool causal = {}; }};\n",
            schedule, section_heads, causal);
        const std::string body =
            "AttentionParams a{};\n"
            "a.batch = 1; a.heads_q = in[1]; a.seqlen_q = 64 * in[0] - 5;\n"
            "a.workspace = const_cast<unsigned*>(in + 2);\n"
            "if (lane > 0) return;\n"
            "Worklist<V> list(a, Packing<false>());\n"
            "Work work;\n"
            "unsigned taken = 0;\n"
            "for (; list.next(work); ++taken)\n"
            "    out[work.head * in[0] + work.q_tile] = cta_index() + 1;\n"
            "out[in[0] * in[1] + cta_index()] = taken;";
        const std::size_t items = std::size_t(q_tiles) * heads;
        const auto ran =
            run(body, 32, {unsigned(q_tiles), unsigned(heads), 0}, items + unsigned(ctas), ctas);
        EXPECT_TRUE(ran) << ran.error().text();
        EXPECT_EQ(std::accumulate(out.begin() + std::ptrdiff_t(items), out.end(), 0u), items);
        return {out.begin(), out.begin() + std::ptrdiff_t(items)};
    }
};

TEST_P(Worklists, TakeEachQTileOnce) {
    const Words by = takers();  // which also sees that nobody took more
    EXPECT_EQ(std::count(by.begin(), by.end(), 0u), 0);
}

class EvenWorklists : public Worklists {};

TEST_P(EvenWorklists, AreOfOneLength) {
    const auto [causal, section_heads, q_tiles, heads, ctas, schedule] = GetParam();
    const Words by = takers();
    std::vector<double> load(ctas);
    for (std::size_t i = 0; i < by.size(); ++i) {
        const int q_tile = int(i) % q_tiles;
        load[by[i] - 1] += causal ? q_tile + 1 : q_tile == q_tiles - 1 ? 0.7 : 1;
    }
    const double mean = std::accumulate(load.begin(), load.end(), 0.0) / ctas;
    const double longest = causal ? q_tiles : 1;
    // Nobody can have less than a whole item too much.
    EXPECT_LE(*std::max_element(load.begin(), load.end()), mean + longest);
}

// Full masks with a last q-tile that is shorter; causal ones head by head.
INSTANTIATE_TEST_SUITE_P(Sizes, EvenWorklists,
                         testing::Values(List{false, 0, 3, 1024, 132}, List{false, 0, 6, 512, 132},
                                         List{false, 0, 4, 64, 132}, List{false, 0, 7, 60, 108},
                                         List{false, 0, 200, 5, 132}, List{true, 0, 4, 512, 132},
                                         List{true, 0, 3, 1024, 132}));
// Sections are even only where their items do not fill two rounds: the tuner measures that.
INSTANTIATE_TEST_SUITE_P(Sizes, Worklists,
                         testing::Values(List{false, 0, 3, 1024, 132}, List{false, 0, 1, 7, 3},
                                         List{false, 0, 200, 5, 132}, List{true, 0, 4, 512, 132},
                                         List{true, 32, 8, 256, 132}, List{true, 8, 5, 19, 4},
                                         List{true, 32, 16, 128, 132},
                                         List{false, 0, 3, 101, 132, "dynamic"},
                                         List{false, 0, 1, 7, 7, "dynamic"},
                                         List{true, 8, 5, 19, 4, "dynamic"},
                                         List{true, 0, 4, 3, 1, "dynamic"}));

}  // namespace
}  // namespace attune
