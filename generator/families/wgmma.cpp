#include "generator/families/wgmma.h"

#include <algorithm>

#include "generator/families/common.h"
#include "generator/formatted.h"

namespace attune {
namespace {

// Values of the axis whose text form is a word; templates/wgmma/layout.h has the same numbers.
enum Schedule { cta_per_tile = 0, persistent = 1, dynamic = 2 };

// Registers of a consumer beside the accumulators. One more block of 16 keys and ptxas waits for
// every wgmma (its note C7512).
constexpr int working_registers = 32;

// ---- applicable -------------------------------------------------------------------------------

/// A sum that keeps 14 bits loses about n 2^-15 of n like terms: at so many what bf16 rounds off O.
constexpr int max_keys_of_cut_sums = 128;

Result<void> applicable(const Signature& signature, const Target& target) {
    if (target.arch != "sm_90a")
        return Error{Code::unsupported,
                     formatted("wgmma needs sm_90a (warpgroup MMAs, TMA), this is {}", target.arch),
                     "use another family"};
    return validate(Problem{signature, Shape{}});
}

// ---- space ------------------------------------------------------------------------------------

std::vector<Axis> axes() {
    return {
        {"q", "tile_q", {64, 128, 192}, {}, 128, "query rows of a CTA, 64 per consumer warpgroup"},
        {"kv",
         "tile_kv",
         {48, 64, 80, 96, 112, 128, 144, 160, 176, 192},
         {},
         128,
         "keys of one step of the loop"},
        {"s", "stages", {1, 2, 3, 4, 5, 6}, {}, 2, "slots of the K ring and of the V ring"},
        {"qs",
         "q_stages",
         {1, 2},
         {},
         1,
         "slots for Q: with two, Q of the next q-tile comes early"},
        {"rescale",
         "rescale",
         {each_step, when_moved, stale},
         {"each", "moved", "stale"},
         each_step,
         "O is rescaled each step, or only when a row maximum moved by more than 2^8 (e4m3: 2^2); "
         "or "
         "no maximum is taken and the row sums of a tile (e4m3: of 32 keys) tell when to rescale"},
        {"overlap",
         "overlap",
         {0, 1},
         {"no", "yes"},
         1,
         "softmax of a tile runs under P V of the tile before"},
        {"odd",
         "odd_overlap",
         {0, 1},
         {"serial", "overlap"},
         0,
         "where overlapped steps are odd in number, one does without; or it comes last, in code of "
         "its own"},
        {"pp", "ping_pong", {0, 1}, {"no", "yes"}, 0, "consumers take turns at issuing their MMAs"},
        {"sched",
         "schedule",
         {cta_per_tile, persistent, dynamic},
         {"tile", "persist", "dynamic"},
         cta_per_tile,
         "a CTA per q-tile; or one per SM that takes q-tiles by turns, or the next one that nobody "
         "has taken"},
        {"sec",
         "section_heads",
         {0, 8, 32},
         {},
         0,
         "longest q-tile first over sections of so many heads; 0: q-tiles of a head in order"},
        {"ahead",
         "ahead",
         {0, 1},
         {"no", "yes"},
         0,
         "Q K^T of the next q-tile's first step runs while O of a q-tile is stored"},
        {"pack",
         "pack",
         {0, 1},
         {"no", "yes"},
         0,
         "a q-tile holds queries of several heads that read one kv head"},
        {"p",
         "p_shared",
         {0, 1},
         {"reg", "smem"},
         0,
         "P comes to P V from registers; or through shared memory, which leaves more of them"},
        {"acc",
         "apart_columns",
         {0, 32, 64, 128},
         {},
         0,
         "e4m3: so many columns of P V at a time are summed over one kv tile alone, then added "
         "to O in fp32; 0: one sum by MMA over all tiles, of which the hardware keeps 14 bits"},
    };
}

bool shared_fits_cta(const Signature& s, const Config& c, const Target& t) {
    return wgmma_needs(s, c).shared_bytes <= t.shared_bytes_per_cta;
}

bool registers_fit(const Signature& s, const Config& c, const Target&) {
    const WgmmaNeeds needs = wgmma_needs(s, c);
    return needs.accumulators + working_registers <= std::min(needs.consumer_registers, 240);
}

bool turns_mean_something(const Signature&, const Config& c, const Target&) {
    return c["pp"] == 0 || c["q"] > 64;
}

bool q_stages_mean_something(const Signature&, const Config& c, const Target&) {
    return c["qs"] == 1 || c["sched"] != cta_per_tile;
}

bool sections_mean_something(const Signature& s, const Config& c, const Target&) {
    return c["sec"] == 0 || s.mask == Mask::causal;
}

std::vector<Constraint> constraints() {
    return {
        {"registers",
         "S, O and P of a consumer fit the registers handed to it",
         {"q", "kv", "rescale", "sched", "p", "acc"},
         registers_fit},
        {"shared memory",
         "Q, P and the K and V rings fit a CTA's shared memory",
         {"q", "kv", "s", "qs", "sched", "p"},
         shared_fits_cta},
        {"key steps",
         "e4m3 multiplies 32 keys at a time",
         {"kv"},
         [](const Signature& s, const Config& c, const Target&) {
             return s.dtype != DType::e4m3 || c["kv"] % 32 == 0;
         }},
        {"one byte",
         "e4m3 has a scale per query head, V's transposers follow a list of their own, and P is "
         "small",
         {"sched", "pack", "p"},
         [](const Signature& s, const Config& c, const Target&) {
             return s.dtype != DType::e4m3 ||
                    (c["sched"] != dynamic && c["pack"] == 0 && c["p"] == 0);
         }},
        {"sums apart",
         "only MMAs of one byte cut their sums, which a tile of 128 keys bears; and V has more "
         "columns "
         "than half of these",
         {"kv", "acc"},
         [](const Signature& s, const Config& c, const Target&) {
             return c["acc"] == 0 || (s.dtype == DType::e4m3 && c["kv"] <= max_keys_of_cut_sums &&
                                      (c["acc"] == 32 || s.value_dim() > c["acc"] / 2));
         }},
        {"turns", "ping-pong needs two consumers", {"q", "pp"}, turns_mean_something},
        {"odd step",
         "an odd step's overlap needs overlapped steps",
         {"overlap", "odd"},
         [](const Signature&, const Config& c, const Target&) {
             return c["odd"] == 0 || c["overlap"] == 1;
         }},
        {"next Q",
         "a second slot for Q needs a CTA with more than one q-tile",
         {"qs", "sched"},
         q_stages_mean_something},
        {"next scores",
         "the next q-tile's Q K^T needs a CTA with more than one q-tile",
         {"sched", "ahead"},
         [](const Signature&, const Config& c, const Target&) {
             return c["ahead"] == 0 || c["sched"] != cta_per_tile;
         }},
        {"order", "sections of heads need a causal mask", {"sec"}, sections_mean_something},
    };
}

/// FlashAttention-3's sm_90 table (tile_q x tile_kv, two stages) with its exact softmax, by
/// head_dim; then what won on an H200 (docs/perf-notes.md), and ones with the axes ahead, pack and
/// sched=dynamic, not yet measured.
std::vector<Config> table_points(const Signature& s, const Target&) {
    static const TableRow rows[] = {
        {64,
         {"wgmma/q192.kv128", "wgmma/q192.kv192.p=smem", "wgmma/q192.kv128.rescale=stale.p=smem",
          "wgmma/q192.kv96.s3.rescale=stale", "wgmma/q192.kv96.s3.rescale=stale.sched=persist",
          "wgmma/q192.kv96.s3.rescale=stale.sched=dynamic",
          "wgmma/q192.kv64.s6.qs2.rescale=stale.sched=persist",
          "wgmma/q192.kv64.s6.qs2.rescale=stale.odd=overlap.sched=persist",
          "wgmma/q192.kv64.s6.qs2.rescale=stale.odd=overlap.sched=persist.ahead=yes",
          "wgmma/q64.kv128.s6.rescale=stale.pack=yes",
          "wgmma/q128.kv128.s4.rescale=stale.sched=persist.pack=yes"}},
        {96, {"wgmma/q128.kv128", "wgmma/q192.kv144.p=smem", "wgmma/q192.kv80.s3.rescale=stale"}},
        {128,
         {"wgmma/q128.kv128", "wgmma/q128.kv176", "wgmma/q128.kv128.rescale=stale.sched=persist",
          "wgmma/q128.kv128.rescale=stale.sched=dynamic", "wgmma/q192.kv64.s3.rescale=stale",
          "wgmma/q192.kv64.s4.qs2.rescale=stale.odd=overlap.sched=persist",
          "wgmma/q192.kv64.s4.qs2.rescale=stale.odd=overlap.sched=persist.ahead=yes",
          "wgmma/q128.kv128.rescale=stale.sched=persist.ahead=yes",
          "wgmma/q128.kv64.s4.qs2.rescale=stale.sched=persist", "wgmma/q128.kv144.rescale=stale",
          "wgmma/q64.kv128.s3.rescale=stale.pack=yes",
          "wgmma/q128.kv128.rescale=stale.sched=persist.pack=yes"}},
        {192, {"wgmma/q128.kv112", "wgmma/q128.kv96.rescale=stale"}},
        {256,
         {"wgmma/q128.kv80", "wgmma/q128.kv64.rescale=stale",
          "wgmma/q128.kv64.rescale=stale.sched=persist",
          "wgmma/q128.kv64.rescale=stale.sched=persist.ahead=yes",
          "wgmma/q128.kv64.rescale=stale.sched=dynamic",
          "wgmma/q64.kv64.s3.rescale=stale.pack=yes"}},
    };
    static const TableRow e4m3_rows[] = {
        {64,
         {"wgmma/q128.kv128.acc64", "wgmma/q128.kv128.rescale=stale.acc64",
          "wgmma/q192.kv96.s3.rescale=stale.sched=persist.acc32", "wgmma/q128.kv192.rescale=stale",
          "wgmma/q192.kv96.s3.rescale=stale.sched=persist"}},
        {128,
         {"wgmma/q128.kv128.acc64", "wgmma/q128.kv128.rescale=stale.acc64",
          "wgmma/q128.kv96.s3.rescale=stale.sched=persist.acc128", "wgmma/q128.kv160.rescale=stale",
          "wgmma/q128.kv128.s3.rescale=stale.sched=persist"}},
        {256,
         {"wgmma/q128.kv64.rescale=stale.acc32", "wgmma/q64.kv64.rescale=stale.acc64",
          "wgmma/q128.kv64.rescale=stale", "wgmma/q128.kv96.rescale=stale.sched=persist"}},
    };
    const std::span<const TableRow> table =
        s.dtype == DType::e4m3 ? std::span<const TableRow>(e4m3_rows) : rows;
    std::vector<Config> points = points_for(table, s.value_dim());
    if (s.head_dim_v != 0)
        for (Config& point : points_for(table, s.head_dim)) points.push_back(std::move(point));
    if (s.mask == Mask::causal)
        for (Config& point : points)
            if (point["rescale"] == stale)
                point = point.with("sec", point["sched"] == persistent ? 32 : 8);
    return points;
}

Config default_config(const Signature& s, const Target& t) {
    return first_legal(table_points(s, t), s, t, "wgmma/q64.kv64");
}

// ---- launch -----------------------------------------------------------------------------------

Launch launch(const Signature& s, const Config& c, const Shape& shape, const Target& t) {
    const WgmmaNeeds needs = wgmma_needs(s, c);
    const int group = c["pack"] == 1 ? packed_heads(shape) : 1;
    const std::uint32_t groups = static_cast<std::uint32_t>(shape.batch) * (shape.heads_q / group);
    const std::uint32_t tiles = groups * ((shape.seqlen_q * group + c["q"] - 1) / c["q"]);
    Launch launch;
    launch.ctas = c["sched"] == cta_per_tile
                      ? tiles
                      : std::min(tiles, static_cast<std::uint32_t>(t.multiprocessors));
    launch.threads_per_cta = static_cast<std::uint32_t>(needs.threads);
    launch.shared_bytes = static_cast<std::uint32_t>(needs.shared_bytes);
    if (c["sched"] == dynamic) launch.workspace_bytes = sizeof(std::uint32_t);  // a counter
    launch.tma_rows_q = 64;
    launch.tma_rows_kv = c["kv"];
    launch.tma_heads_q = c["pack"] == 1 ? group : 0;
    return launch;
}

const char* unfit(const Config& c, const Problem& problem) {
    if (c["pack"] == 1 && packed_heads(problem.shape) == 1)
        return "it changes nothing on this shape";
    const bool cut = problem.signature.dtype == DType::e4m3 && c["acc"] == 0;
    if (cut && problem.shape.seqlen_kv > max_keys_of_cut_sums)
        return "sums over so many keys lose more than O's rounding";
    return nullptr;
}

// ---- ablation ---------------------------------------------------------------------------------

std::vector<AblationStep> ablation() {
    return {
        {"TMA and wgmma",
         "a producer loads by TMA, one consumer warpgroup multiplies by wgmma and then does its "
         "softmax",
         {{"q", {64}},
          {"rescale", {each_step}},
          {"overlap", {0}},
          {"odd", {0}},
          {"pp", {0}},
          {"sched", {cta_per_tile}},
          {"qs", {1}},
          {"ahead", {0}},
          {"sec", {0}},
          {"pack", {0}}}},
        {"shared K and V",
         "two or three consumer warpgroups read the same K and V",
         {{"q", {128, 192}}}},
        {"ping-pong",
         "consumers take turns: one's MMAs run under another's softmax",
         {{"pp", {1}}}},
        {"overlap",
         "a consumer's softmax runs under its own P V of the tile before, with or without "
         "ping-pong "
         "(with this, FA-3)",
         {{"overlap", {1}}, {"pp", {0, 1}}}},
        {"rescale when moved",
         "O is rescaled only where a row maximum moved by more than 2^8",
         {{"rescale", {when_moved}}}},
        {"stale reference",
         "no maximum is taken, a tile's row sums tell when to rescale",
         {{"rescale", {stale}}}},
        {"persistent CTAs",
         "a CTA per SM takes q-tiles by turns or as they are left, the next one's Q may come early",
         {{"sched", {persistent, dynamic}}, {"qs", {1, 2}}, {"odd", {0, 1}}}},
        {"next scores",
         "Q K^T of the next q-tile's first step runs under the store of O",
         {{"ahead", {1}}, {"qs", {1, 2}}}},
        {"longest q-tile first",
         "causal q-tiles start longest first over sections of 8 or 32 heads, in persistent CTAs or "
         "not",
         {{"sec", {8, 32}}, {"sched", {cta_per_tile, persistent, dynamic}}}},
        {"packed heads", "query heads that read one kv head share q-tiles", {{"pack", {1}}}},
    };
}

// ---- describe ---------------------------------------------------------------------------------

Fields fields(const Signature& s, const Config& c, const Target&) {
    const WgmmaNeeds needs = wgmma_needs(s, c);
    Fields out = signature_fields(s);
    out.emplace_back("min_ctas", "1");
    out.emplace_back("producer_registers", formatted("{}", needs.producer_registers));
    out.emplace_back("consumer_registers", formatted("{}", needs.consumer_registers));
    append_axes(out, axes(), c);
    return out;
}

}  // namespace

WgmmaNeeds wgmma_needs(const Signature& signature, const Config& config) {
    // By consumers: multiples of 8 whose sum over the warpgroups is at most 512 (65536 / 128).
    struct Split {
        int producer, consumer;
    };
    constexpr Split splits[] = {{56, 256}, {24, 240}, {32, 160}};
    constexpr Split transposing[] = {{56, 256}, {40, 232}, {56, 152}};
    const int bytes = element_bytes(signature.dtype);
    WgmmaNeeds needs{};
    needs.consumers = config["q"] / 64;
    needs.threads = 128 * (1 + needs.consumers);
    needs.transposes = bytes == 1;
    needs.depth = (signature.head_dim + 32 / bytes - 1) / (32 / bytes) * (32 / bytes);
    needs.value_columns = (signature.value_dim() + 15) / 16 * 16;
    // P of a tile and of the tile before; or P takes the place of S (else ptxas spills).
    const bool replaces_s =
        config["rescale"] == each_step && bytes == 2 && needs.value_columns <= 192;
    const int p_sets = config["p"] == 1 || replaces_s ? 1 : 2;
    needs.accumulators = config["kv"] / 2 + p_sets * bytes * config["kv"] / 8 +
                         needs.value_columns / 2 + std::min(config["acc"], needs.value_columns) / 2;
    Split split = (needs.transposes ? transposing : splits)[needs.consumers - 1];
    if (config["sched"] != cta_per_tile && needs.consumers == 2)
        split = {40, 232};  // the list of tiles needs more
    needs.producer_registers = split.producer;
    needs.consumer_registers = split.consumer;
    const int qk_chunks = (needs.depth * bytes + 127) / 128;
    const int v_chunks = (needs.value_columns * bytes + 127) / 128;
    const int transposed_bytes =
        needs.transposes ? (config["kv"] + 127) / 128 * needs.value_columns * 128 : 0;
    const int barriers = 16 * (config["qs"] + (needs.transposes ? 3 : 2) * config["s"]);
    const int hand_over = config["sched"] == dynamic ? 16 * config["qs"] : 0;
    const int p_bytes =
        config["p"] == 1 ? needs.consumers * ((config["kv"] + 63) / 64) * 64 * 128 : 0;
    needs.shared_bytes =
        config["qs"] * needs.consumers * qk_chunks * 64 * 128 +
        config["s"] * ((qk_chunks + v_chunks) * config["kv"] * 128 + transposed_bytes) + p_bytes +
        barriers + hand_over;
    return needs;
}

int packed_heads(const Shape& shape) {
    const int heads = shape.heads_kv > 0 ? shape.heads_q / shape.heads_kv : 1;
    return std::clamp(heads & -heads, 1, 64);
}

Family wgmma_family() {
    return {"wgmma",
            "Hopper forward: a producer loads by TMA, consumer warpgroups multiply by wgmma",
            "templates/wgmma/kernel.h",
            axes(),
            constraints(),
            applicable,
            table_points,
            default_config,
            launch,
            fields,
            wgmma_estimate_us,
            ablation(),
            unfit};
}

}  // namespace attune
