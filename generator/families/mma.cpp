#include "generator/families/mma.h"

#include <algorithm>

#include "generator/families/common.h"
#include "generator/formatted.h"

namespace attune {
namespace {

// Values of the axes whose text form is a word; templates/mma/layout.h and ring.h have the same
// numbers.
enum Partition { over_q = 0, over_kv = 1 };
enum Grid { per_q_tile = 0, per_head = 1 };
enum Guard { barrier = 0, mbarrier = 1 };

// Registers beside the accumulators: addresses, row statistics, operand fragments, loop state.
constexpr int working_registers = 36;

// ---- applicable -------------------------------------------------------------------------------

Result<void> applicable(const Signature& signature, const Target& target) {
    if (target.vendor != Vendor::nvidia)
        return Error{Code::unsupported, "mma needs an NVIDIA GPU", "use another family"};
    const int capability = target.compute_capability();
    if (capability < 75)
        return Error{Code::unsupported,
                     formatted("mma needs sm_75 or later, {} has no mma.m16n8k8", target.arch),
                     "use a GPU since Turing"};
    if (auto plain = plain_tensors(signature, "mma"); !plain) return plain;
    if (capability < 80 && (signature.dtype != DType::f16 || signature.head_dim > 128))
        return Error{Code::unsupported,
                     formatted("on {} mma covers f16 and head dims up to 128: its tensor cores "
                               "know no bf16 and its shared memory is small",
                               target.arch),
                     "use f16, or a GPU since Ampere"};
    return validate(Problem{signature, Shape{}});
}

// ---- space ------------------------------------------------------------------------------------

std::vector<Axis> axes() {
    return {
        {"q", "tile_q", {16, 32, 48, 64, 96, 128, 192, 256, 384}, {}, 128, "query rows of a CTA"},
        {"kv",
         "tile_kv",
         {16, 32, 48, 64, 80, 96, 112, 128, 176, 192, 256},
         {},
         64,
         "keys of one step of the loop"},
        {"w", "warps", {1, 2, 3, 4, 6, 8, 12}, {}, 4, "warps of a CTA"},
        {"s",
         "stages",
         {1, 2, 3, 4},
         {},
         1,
         "K/V tiles in shared memory; 1 alternates K and V loads under the two products"},
        {"ring",
         "guard",
         {barrier, mbarrier},
         {"bar", "mbar"},
         barrier,
         "what guards the K/V tiles: a CTA barrier per tile, or full and empty mbarriers per slot"},
        q_operand_axis(in_shared),
        {"part",
         "partition",
         {over_q, over_kv},
         {"q", "kv"},
         over_q,
         "what warps split: query rows (FlashAttention-2) or keys (FlashAttention-1)"},
        {"grid",
         "grid",
         {per_q_tile, per_head},
         {"qtile", "head"},
         per_q_tile,
         "a CTA per q-tile and head, or a CTA per head that loops over its q-tiles"},
        {"rescale",
         "rescale",
         {each_step, when_moved, normalised, stale, deferred},
         {"each", "moved", "norm", "stale", "defer"},
         each_step,
         "O is rescaled each step, only when a row maximum moved by more than 2^8, or divided by "
         "the row sum each step (FlashAttention-1); or no maximum is taken and row sums tell when "
         "to rescale, looked at per 16 keys or once per tile"},
        {"mix",
         "mix",
         {0, 1},
         {"no", "yes"},
         0,
         "exp2 of 16 keys placed among the MMAs of the 16 before"},
        {"dir", "kv_forward", {0, 1}, {"back", "fwd"}, 0, "order of the kv tiles"},
        {"u", "unroll", {1, 2}, {}, 1, "kv steps per loop trip"},
        {"sec",
         "section_heads",
         {0, 8, 32},
         {},
         0,
         "longest q-tile first over sections of so many heads; 0: q-tiles of a head in order"},
        {"c", "min_ctas", {1, 2, 3, 4}, {}, 1, "CTAs per SM that registers are kept free for"},
    };
}

bool tiles_split_evenly(const Signature&, const Config& c, const Target&) {
    if (c["part"] == over_kv) return c["kv"] % (16 * c["w"]) == 0 && c["q"] <= 64 && c["w"] > 1;
    const int rows = c["q"] / c["w"];
    return c["q"] % (16 * c["w"]) == 0 && (rows == 16 || rows == 32 || rows == 64);
}

bool registers_fit(const Signature& s, const Config& c, const Target& t) {
    return mma_needs(s, c).accumulators + working_registers <= mma_register_cap(c, t);
}

bool shared_fits_cta(const Signature& s, const Config& c, const Target& t) {
    return mma_needs(s, c).shared_bytes <= t.shared_bytes_per_cta;
}

bool ctas_fit(const Signature& s, const Config& c, const Target& t) {
    const MmaNeeds needs = mma_needs(s, c);
    const int shared = needs.shared_bytes + t.shared_bytes_reserved_per_cta;
    return c["c"] * shared <= t.shared_bytes_per_multiprocessor &&
           c["c"] * needs.threads <= t.max_threads_per_multiprocessor;
}

bool loader_has_threads(const Signature& s, const Config& c, const Target&) {
    const MmaNeeds needs = mma_needs(s, c);
    return needs.threads >= needs.head_dim_padded / 8;
}

bool ring_works(const Signature&, const Config& c, const Target& t) {
    return c["ring"] == barrier ||
           (c["s"] >= 2 && c["grid"] == per_q_tile && t.compute_capability() >= 80);
}

bool reference_is_set_early(const Signature& s, const Config& c, const Target&) {
    if (c["rescale"] < stale) return true;
    return c["mix"] == 1 && c["dir"] == 0 && (c["rescale"] == stale || s.dtype == DType::bf16);
}

bool sections_mean_something(const Signature& s, const Config& c, const Target&) {
    return c["sec"] == 0 || (c["grid"] == per_q_tile && s.mask == Mask::causal);
}

std::vector<Constraint> constraints() {
    return {
        {"tile split",
         "each warp gets 16, 32 or 64 query rows, or a multiple of 16 keys",
         {"q", "kv", "w", "part"},
         tiles_split_evenly},
        {"loader",
         "a row has no more 16-byte chunks than the CTA has threads",
         {"w"},
         loader_has_threads},
        {"registers",
         "S, O and Q of a warp fit its registers",
         {"q", "kv", "w", "qop", "part", "c"},
         registers_fit},
        {"shared memory",
         "Q and the K/V ring fit a CTA's shared memory",
         {"q", "kv", "w", "s", "ring", "qop", "part"},
         shared_fits_cta},
        {"occupancy",
         "min_ctas CTAs fit an SM",
         {"q", "kv", "w", "s", "ring", "qop", "part", "c"},
         ctas_fit},
        {"ring",
         "mbarriers need sm_80, two slots and one q-tile per CTA",
         {"s", "ring", "grid"},
         ring_works},
        {"reference",
         "a stale reference starts from an edge tile (kv backwards) and moves between blocks "
         "(mix); "
         "deferred needs bf16's range",
         {"rescale", "mix", "dir"},
         reference_is_set_early},
        {"order",
         "sections of heads need a causal mask and a CTA per q-tile",
         {"grid", "sec"},
         sections_mean_something},
    };
}

/// FlashAttention-2 (tile_q x tile_kv, warps) and FlashAttention-3's sm_8x table, by head_dim; then
/// what won on an H200 (docs/perf-notes.md).
std::vector<Config> table_points(const Signature& s, const Target&) {
    static const TableRow rows[] = {
        {64,
         {"mma/q128.kv128.w4", "mma/q128.kv112.w4",
          "mma/q128.kv64.w4.s4.ring=mbar.qop=reg.rescale=defer.mix=yes.c2",
          "mma/q128.kv64.w4.s4.ring=mbar.qop=reg.rescale=stale.mix=yes.c2",
          "mma/q256.kv64.w8.s4.ring=mbar.rescale=defer.mix=yes"}},
        {96, {"mma/q128.kv64.w4", "mma/q64.kv64.w4"}},
        {128,
         {"mma/q128.kv64.w4", "mma/q128.kv32.w4", "mma/q64.kv64.w4", "mma/q128.kv128.w8.qop=reg",
          "mma/q256.kv32.w8.s4.ring=mbar.rescale=defer.mix=yes",
          "mma/q256.kv64.w8.s3.ring=mbar.rescale=stale.mix=yes",
          "mma/q128.kv32.w4.s3.ring=mbar.rescale=defer.mix=yes.c2",
          "mma/q128.kv32.w4.s3.ring=mbar.rescale=stale.mix=yes.c2"}},
        {192, {"mma/q128.kv64.w8", "mma/q128.kv96.w8.s2.qop=reg", "mma/q64.kv64.w4"}},
        {256,
         {"mma/q128.kv64.w8", "mma/q64.kv64.w4", "mma/q128.kv96.w8",
          "mma/q128.kv32.w8.s3.ring=mbar.qop=reg.rescale=defer.mix=yes",
          "mma/q128.kv32.w8.s3.ring=mbar.qop=reg.rescale=stale.mix=yes"}},
    };
    std::vector<Config> points = points_for(rows, s.head_dim);
    if (s.mask == Mask::causal)
        for (Config& point : points)
            if (point["ring"] == mbarrier) point = point.with("sec", 32);
    return points;
}

Config default_config(const Signature& s, const Target& t) {
    return first_legal(table_points(s, t), s, t, "mma/q64.kv32.w4");
}

// ---- launch -----------------------------------------------------------------------------------

Launch launch(const Signature& s, const Config& c, const Shape& shape, const Target&) {
    const MmaNeeds needs = mma_needs(s, c);
    const std::uint32_t heads = static_cast<std::uint32_t>(shape.batch) * shape.heads_q;
    const std::uint32_t tiles = (shape.seqlen_q + c["q"] - 1) / c["q"];
    Launch launch;
    launch.ctas = tiles == 0 ? 0 : heads * (c["grid"] == per_head ? 1 : tiles);
    launch.threads_per_cta = static_cast<std::uint32_t>(needs.threads);
    launch.shared_bytes = static_cast<std::uint32_t>(needs.shared_bytes);
    return launch;
}

// ---- describe ---------------------------------------------------------------------------------

Fields fields(const Signature& s, const Config& c, const Target&) {
    Fields out = signature_fields(s);
    append_axes(out, axes(), c);
    return out;
}

// ---- ablation ---------------------------------------------------------------------------------

std::vector<AblationStep> ablation() {
    return {
        {"FA-1 style",
         "a CTA per head loops over its q-tiles, warps split the keys and merge through shared "
         "memory, O is divided by the row sum each step",
         {{"grid", {per_head}},
          {"part", {over_kv}},
          {"rescale", {normalised}},
          {"ring", {barrier}},
          {"mix", {0}},
          {"sec", {0}}}},
        {"CTA per q-tile",
         "q-tiles of a head run on different SMs at once",
         {{"grid", {per_q_tile}}}},
        {"warps split queries",
         "each warp has its own query rows: nothing to merge (with this, FA-2's partition)",
         {{"part", {over_q}}}},
        {"normalise once",
         "O is divided by the row sum after the last step (FA-2's softmax)",
         {{"rescale", {each_step}}}},
        {"rescale when moved",
         "O is rescaled only where a row maximum moved by more than 2^8",
         {{"rescale", {when_moved}}}},
        {"mbarrier ring",
         "full and empty mbarriers per K/V tile in place of a CTA barrier per tile",
         {{"ring", {mbarrier}}}},
        {"stale reference",
         "no maximum is taken, row sums tell when to rescale, and exp2 runs among the MMAs",
         {{"rescale", {stale}}, {"mix", {1}}}},
        {"deferred check",
         "row sums are looked at once per tile, a tile that overran is redone (bf16 only)",
         {{"rescale", {deferred}}}},
        {"longest q-tile first",
         "causal q-tiles start longest first over sections of 8 or 32 heads",
         {{"sec", {8, 32}}}},
    };
}

}  // namespace

MmaNeeds mma_needs(const Signature& signature, const Config& config) {
    MmaNeeds needs{};
    const bool split_kv = config["part"] == over_kv;
    needs.threads = 32 * config["w"];
    needs.head_dim_padded = (signature.head_dim + 15) / 16 * 16;
    needs.rows_per_warp = split_kv ? config["q"] : config["q"] / config["w"];
    needs.keys_per_warp = split_kv ? config["kv"] / config["w"] : config["kv"];
    const int per_row = needs.keys_per_warp + needs.head_dim_padded;
    needs.accumulators = needs.rows_per_warp * per_row / 32;
    const bool q_in_registers = config["qop"] == in_registers;
    if (q_in_registers) needs.accumulators += needs.rows_per_warp * needs.head_dim_padded / 64;
    const int row_bytes = 2 * needs.head_dim_padded;
    const int barriers = config["ring"] == mbarrier ? 16 * config["s"] : 0;
    const int ring = 2 * config["s"] * config["kv"] * row_bytes + barriers;
    const int q_bytes = q_in_registers ? 0 : config["q"] * row_bytes;
    // Merging the warps' partial O: one fp32 tile and a maximum and a sum per row and warp.
    const int merge = config["q"] * (4 * needs.head_dim_padded + 8 * config["w"]);
    needs.shared_bytes = split_kv ? std::max(q_bytes + ring, merge) : q_bytes + ring;
    return needs;
}

int mma_register_cap(const Config& config, const Target& target) {
    // An SM is four schedulers with a quarter of the registers each; warps are dealt out evenly.
    const int warps_per_scheduler = (config["c"] * config["w"] + 3) / 4;
    const int per_thread = target.registers_per_multiprocessor / (4 * 32 * warps_per_scheduler);
    return std::min(target.max_registers_per_thread, per_thread / 8 * 8);
}

Family mma_family() {
    return {
        "mma",
        "FlashAttention-2 class forward with mma.sync and cp.async; Turing in f16, copies at once",
        "templates/mma/kernel.h",
        axes(),
        constraints(),
        applicable,
        table_points,
        default_config,
        launch,
        fields,
        mma_estimate_us,
        ablation()};
}

}  // namespace attune
