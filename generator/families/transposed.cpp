#include "generator/families/transposed.h"

#include <algorithm>

#include "generator/families/common.h"
#include "generator/formatted.h"

namespace attune {
namespace {

// Registers beside those of transposed_needs: addresses, row statistics, operands, loop state.
constexpr int working_registers = 36;

// ---- applicable -------------------------------------------------------------------------------

Result<void> runs_on(const char* family, std::initializer_list<std::string_view> prefixes,
                     const char* gpus, const Signature& signature, const Target& target) {
    if (target.vendor != Vendor::amd ||
        std::none_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return target.arch.starts_with(prefix); }))
        return Error{Code::unsupported,
                     formatted("{} needs {}, this is {}", family, gpus, target.arch),
                     "use another family"};
    if (auto plain = plain_tensors(signature, family); !plain) return plain;
    return validate(Problem{signature, Shape{}});
}

Result<void> applicable_mfma(const Signature& signature, const Target& target) {
    return runs_on("mfma", {"gfx90a", "gfx942", "gfx950"},
                   "CDNA 2 or later (gfx90a, gfx942, gfx950)", signature, target);
}
Result<void> applicable_wmma(const Signature& signature, const Target& target) {
    return runs_on("wmma", {"gfx11", "gfx12"}, "RDNA 3 or 4 (gfx11.., gfx12..)", signature, target);
}

// ---- space ------------------------------------------------------------------------------------

std::vector<Axis> axes(bool mfma) {
    std::vector<Axis> all = {
        {"q", "tile_q", {16, 32, 64, 128, 192, 256, 384}, {}, 128, "query rows of a CTA"},
        {"kv", "tile_kv", {16, 32, 64, 96, 128, 256}, {}, 64, "keys of one step of the loop"},
        {"w", "warps", {1, 2, 4, 8}, {}, 4, "waves of a CTA"},
        {"s", "stages", {1, 2}, {}, 1, "K/V tiles in shared memory; one more is on its way"},
        q_operand_axis(in_registers),
        {"rescale",
         "rescale",
         {each_step, when_moved, stale, deferred},
         {"each", "moved", "stale", "defer"},
         each_step,
         "O is rescaled each step, or only when a row maximum moved by more than 2^8; or no "
         "maximum is taken and row sums tell when to rescale, looked at per step of P V or once "
         "per tile"},
        {"mix",
         "mix",
         {0, 1},
         {"no", "yes"},
         0,
         "exp2 of a step of P V placed among the MMAs of the step before"},
        {"dir", "kv_forward", {0, 1}, {"back", "fwd"}, 0, "order of the kv tiles"},
        {"loops",
         "loops",
         {1, 2},
         {},
         mfma ? 2 : 1,
         "2: whole tiles have a loop of their own, without masks; 1: all go through one, which "
         "takes fewer registers"},
        {"u", "unroll", {1, 2}, {}, 1, "kv steps per loop trip"},
        {"sec",
         "section_heads",
         {0, 8, 32},
         {},
         0,
         "longest q-tile first over sections of so many heads; 0: q-tiles of a head in order"},
        {"c", "min_ctas", {1, 2, 3, 4}, {}, 1, "CTAs per CU that registers are kept free for"},
    };
    if (!mfma) return all;
    all.insert(
        all.begin() + 3,
        {"mma", "matrix_rows", {16, 32}, {}, 32, "rows and columns of a matrix instruction"});
    all.push_back({"die",
                   "dies",
                   {1, 8},
                   {},
                   1,
                   "neighbouring work on the same of so many dies, each with an L2 of its own"});
    all.push_back({"k",
                   "k_direct",
                   {0, 1},
                   {"reg", "lds"},
                   0,
                   "K goes to shared memory through registers, or directly"});
    return all;
}

bool tiles_split_evenly(const Signature& s, const Config& c, const Target& t) {
    const TransposedNeeds needs = transposed_needs(s, c, t);
    const int rows = c["q"] / c["w"];
    return c["q"] % (c["w"] * needs.rows) == 0 && rows / needs.rows <= 4 &&
           c["kv"] % needs.rows == 0 && c["kv"] % needs.depth == 0;
}

bool registers_fit(const Signature& s, const Config& c, const Target& t) {
    return transposed_needs(s, c, t).accumulators + working_registers <=
           transposed_register_cap(c, t);
}

bool shared_fits_cta(const Signature& s, const Config& c, const Target& t) {
    return transposed_needs(s, c, t).shared_bytes <= t.shared_bytes_per_cta;
}

bool ctas_fit(const Signature& s, const Config& c, const Target& t) {
    const TransposedNeeds needs = transposed_needs(s, c, t);
    return c["c"] * needs.shared_bytes <= t.shared_bytes_per_multiprocessor &&
           c["c"] * needs.threads <= t.max_threads_per_multiprocessor;
}

bool reference_is_set_early(const Signature& s, const Config& c, const Target&) {
    if (c["rescale"] < stale) return true;
    return c["mix"] == 1 && c["dir"] == 0 &&
           (c["rescale"] == stale || (s.dtype == DType::bf16 && c["loops"] == 2));
}

bool sections_mean_something(const Signature& s, const Config& c, const Target&) {
    return c["sec"] == 0 || s.mask == Mask::causal;
}

bool dies_exist(const Signature&, const Config& c, const Target& t) {
    return c["die"] == 1 || t.arch == "gfx942" || t.arch == "gfx950";
}

bool direct_k_is_whole(const Signature& s, const Config& c, const Target& t) {
    const TransposedNeeds needs = transposed_needs(s, c, t);
    return needs.direct_bytes == 0 ||
           (c["s"] == 2 && needs.columns == s.head_dim &&
            2 * c["kv"] * s.head_dim % (t.wave_size * needs.direct_bytes) == 0);
}

std::vector<Constraint> constraints(bool mfma) {
    std::vector<const char*> sizes{"q", "kv", "w"}, registers{"qop", "c", "mix"};
    if (mfma) sizes.push_back("mma"), registers.push_back("k");
    const auto with = [&](std::vector<const char*> more) {
        more.insert(more.begin(), sizes.begin(), sizes.end());
        return more;
    };
    std::vector<Constraint> all = {
        {"tile split", "each wave gets 1 to 4 blocks of query columns, a tile whole blocks of keys",
         sizes, tiles_split_evenly},
        {"registers", "S, O, Q, P and a tile on its way fit a lane's registers", with(registers),
         registers_fit},
        {"shared memory", "K/V tiles, and Q if it waits there, fit a CTA's shared memory",
         with({"s", "qop"}), shared_fits_cta},
        {"occupancy", "min_ctas CTAs fit a CU", with({"s", "qop", "c"}), ctas_fit},
        {"reference",
         "a stale reference starts from an edge tile (kv backwards) and moves between steps (mix); "
         "deferred needs bf16's range and a loop of whole tiles",
         {"rescale", "mix", "dir", "loops"},
         reference_is_set_early},
        {"order", "sections of heads need a causal mask", {"sec"}, sections_mean_something},
    };
    if (!mfma) return all;
    all.push_back({"dies", "gfx942 and gfx950 have eight", {"die"}, dies_exist});
    all.push_back({"direct K",
                   "needs a second stage, a head_dim without padding and whole waves of copies",
                   {"kv", "mma", "s", "k"},
                   direct_k_is_whole});
    return all;
}

/// CK-tile's tables (Composable Kernel, ck_tile's FMHA forward instances) by head_dim.
std::vector<Config> mfma_points(const Signature& s, const Target& t) {
    static const TableRow rows[] = {
        {64,
         {"mfma/q128.kv64.w4.mma32", "mfma/q16.kv32.w1.mma16", "mfma/q32.kv32.w1.mma32",
          "mfma/q128.kv64.w4.mma32.s2.rescale=stale.mix=yes"}},
        {128,
         {"mfma/q128.kv128.w4.mma32", "mfma/q64.kv128.w4.mma16", "mfma/q16.kv32.w1.mma16",
          "mfma/q32.kv32.w1.mma32", "mfma/q128.kv64.w4.mma32", "mfma/q256.kv32.w8.mma32",
          "mfma/q128.kv64.w4.mma32.rescale=stale.mix=yes",
          "mfma/q256.kv64.w8.mma32.rescale=stale.mix=yes", "mfma/q384.kv64.w8.mma16"}},
        {192, {"mfma/q128.kv128.w4.mma32", "mfma/q128.kv64.w4.mma32", "mfma/q64.kv64.w4.mma16"}},
        {256, {"mfma/q128.kv128.w4.mma32", "mfma/q128.kv64.w4.mma32", "mfma/q64.kv64.w4.mma16"}},
    };
    std::vector<Config> points = points_for(rows, s.head_dim);
    if (dies_exist(s, points[0].with("die", 8), t))
        for (Config& point : points)
            if (point["rescale"] != each_step) point = point.with("die", 8);
    return points;
}

std::vector<Config> wmma_points(const Signature& s, const Target&) {
    static const TableRow rows[] = {
        {64, {"wmma/q64.kv64.w4", "wmma/q128.kv64.w8", "wmma/q64.kv64.w4.rescale=stale.mix=yes"}},
        {128, {"wmma/q128.kv64.w8", "wmma/q64.kv64.w4", "wmma/q64.kv32.w4.rescale=stale.mix=yes"}},
        {192, {"wmma/q64.kv64.w4", "wmma/q64.kv32.w4", "wmma/q64.kv32.w4.qop=smem"}},
        {256,
         {"wmma/q128.kv64.w8", "wmma/q64.kv64.w4", "wmma/q64.kv32.w4.qop=smem",
          "wmma/q128.kv16.w8"}},
    };
    return points_for(rows, s.head_dim);
}

Config mfma_default(const Signature& s, const Target& t) {
    return first_legal(mfma_points(s, t), s, t, "mfma/q64.kv32.w4.mma16");
}
Config wmma_default(const Signature& s, const Target& t) {
    return first_legal(wmma_points(s, t), s, t, "wmma/q64.kv16.w4.qop=smem");
}

// ---- launch -----------------------------------------------------------------------------------

Launch launch(const Signature& s, const Config& c, const Shape& shape, const Target& t) {
    const TransposedNeeds needs = transposed_needs(s, c, t);
    const std::uint32_t tiles = (shape.seqlen_q + c["q"] - 1) / c["q"];
    Launch launch;
    launch.ctas = static_cast<std::uint32_t>(shape.batch) * shape.heads_q * tiles;
    launch.threads_per_cta = static_cast<std::uint32_t>(needs.threads);
    launch.shared_bytes = static_cast<std::uint32_t>(needs.shared_bytes);
    return launch;
}

// ---- describe ---------------------------------------------------------------------------------

Fields fields(const Signature& s, const Config& c, const Target& t, bool mfma) {
    Fields out = signature_fields(s);
    append_axes(out, axes(mfma), c);
    out.emplace_back("atom", formatted("{}", static_cast<int>(atom_of(c, t))));
    out.emplace_back("wave_size", formatted("{}", t.wave_size));
    out.emplace_back("bank_groups", t.arch == "gfx950" ? "16" : "8");  // of 16 bytes
    out.emplace_back("direct_bytes", formatted("{}", transposed_needs(s, c, t).direct_bytes));
    if (!mfma) out.emplace_back("dies", "1");
    return out;
}

}  // namespace

Atom atom_of(const Config& config, const Target& target) {
    if (config.family == "mfma") return config["mma"] == 32 ? Atom::mfma_32 : Atom::mfma_16;
    return target.arch.starts_with("gfx12") ? Atom::wmma_12 : Atom::wmma_11;
}

TransposedNeeds transposed_needs(const Signature& signature, const Config& config,
                                 const Target& target) {
    const auto up = [](int n, int to) { return (n + to - 1) / to * to; };
    const Atom atom = atom_of(config, target);
    TransposedNeeds needs{};
    needs.rows = atom == Atom::mfma_32 ? 32 : 16;
    needs.depth = atom == Atom::mfma_16 ? 32 : 16;
    needs.threads = target.wave_size * config["w"];
    needs.columns = up(signature.head_dim, needs.depth);
    needs.value_columns = up(signature.head_dim, 2 * needs.rows);
    const int rows = config["q"] / config["w"], kv = config["kv"];
    const int copies = atom == Atom::wmma_11 ? 2 : 1;  // of an operand, in both halves of a wave
    const int steps = config["mix"] == 1 ? 2 : kv / needs.depth;         // P of so many is alive
    const int held = config["qop"] == in_registers ? needs.columns : 0;  // of a row of Q
    const int words =
        rows * (2 * kv + 2 * needs.value_columns + copies * (held + steps * needs.depth)) / 2;
    if (config.family == "mfma" && config["k"] != 0)
        needs.direct_bytes = target.arch == "gfx950" ? 16 : 4;
    const int loaded = needs.value_columns + (needs.direct_bytes ? 0 : needs.columns);
    const int loading = up(kv * loaded, 16 * needs.threads) / 2;
    needs.accumulators = words / target.wave_size + loading / needs.threads;
    needs.shared_bytes = config["s"] * 2 * kv * (needs.columns + needs.value_columns) +
                         (config["qop"] == in_shared ? 2 * config["q"] * needs.columns : 0);
    return needs;
}

int simds_per_cu(const Target& target) {
    const int waves = target.wave_size == 64 ? 8 : 16;
    return target.max_threads_per_multiprocessor / target.wave_size / waves;
}

int transposed_register_cap(const Config& config, const Target& target) {
    const int simds = simds_per_cu(target);
    const int waves = (config["c"] * config["w"] + simds - 1) / simds;
    const int granule = target.wave_size == 64 ? 8 : 24;
    const int per_lane = target.registers_per_multiprocessor / (simds * target.wave_size * waves);
    return std::min(target.max_registers_per_thread, per_lane / granule * granule);
}

Family mfma_family() {
    return {"mfma",
            "FlashAttention-2 class forward for CDNA's matrix cores, transposed",
            "templates/transposed/kernel.h",
            axes(true),
            constraints(true),
            applicable_mfma,
            mfma_points,
            mfma_default,
            launch,
            [](const auto& s, const auto& c, const auto& t) { return fields(s, c, t, true); },
            transposed_estimate_us};
}

Family wmma_family() {
    return {"wmma",
            "FlashAttention-2 class forward for RDNA's matrix instructions, transposed",
            "templates/transposed/kernel.h",
            axes(false),
            constraints(false),
            applicable_wmma,
            wmma_points,
            wmma_default,
            launch,
            [](const auto& s, const auto& c, const auto& t) { return fields(s, c, t, false); },
            transposed_estimate_us};
}

}  // namespace attune
