#include "tests/attention_grid.h"

#include <algorithm>
#include <ostream>

namespace attune {

void PrintTo(const GridCase& grid_case, std::ostream* out) {
    *out << grid_case.signature.text() << " " << grid_case.config.text();
}

Signature widest_signature() {
    return *Signature::parse("bf16.d32.causal.lse");
}

namespace {

std::vector<Signature> all_signatures() {
    std::vector<Signature> signatures;
    for (const char* text :
         {"bf16.d32.causal.lse",      "f16.d64.causal.lse",   "bf16.d128.causal.lse",
          "f16.d40.full.lse",         "bf16.d96.causal",      "f16.d128.full.lse",
          "bf16.d256.causal.lse",     "f16.d72.causal",       "bf16.d160.full.lse",
          "f16.d192.causal.lse",      "bf16.d80.full",        "f16.d224.full.lse",
          "bf16.d64.full.lse",        "f16.d256.causal",      "bf16.d8.causal.lse",
          "bf16.d192v128.causal.lse", "f16.d40v104.full.lse", "e4m3.d64.causal.lse",
          "e4m3.d128.full.lse",       "e4m3.d256.causal",     "e4m3.d48v80.full.lse",
          "e4m3.d16.causal.lse"})
        signatures.push_back(*Signature::parse(text));
    return signatures;
}

}  // namespace

std::vector<Signature> grid_signatures(const Target& target) {
    std::vector<Signature> signatures = all_signatures();
    std::erase_if(signatures, [&](const Signature& s) { return !applicable_families(s, target); });
    return signatures;
}

std::vector<Shape> grid_shapes(bool emulated) {
    std::vector<const char*> texts{
        "b1.h2.kv1.q113.k203", "b2.h2.kv2.q128.k217",   "b1.h4.kv1.q108.k256",
        "b1.h1.kv1.q256.k512", "b3.h2.kv1.q1.k1",       "b1.h6.kv2.q1.k339",
        "b2.h2.kv1.q3.k1024",  "b1.h3.kv3.q64.k1",      "b1.h2.kv1.q239.k1",
        "b1.h1.kv1.q799.k3",   "b2.h2.kv1.q0.k128",     "b2.h2.kv1.q70.k0",
        "b2.h4.kv2.q64.k64",   "b1.h1.kv1.q1023.k1024", "b1.h1.kv1.q1024.k1023"};
    if (!emulated)
        for (const char* text : {"b1.h2.kv1.q2048.k2048", "b1.h4.kv1.q1.k131072"})
            texts.push_back(text);
    std::vector<Shape> shapes;
    for (const char* text : texts) shapes.push_back(*Shape::parse(text));
    return shapes;
}

std::vector<const Family*> grid_families(const Target& target) {
    return *applicable_families(widest_signature(), target);
}

namespace {

/// Adds one family's cases.
void add_cases(const Family& family, const Target& target, bool emulated,
               std::vector<GridCase>& cases) {
    constexpr unsigned seed = 2;
    std::vector<Signature> signatures = all_signatures();
    std::erase_if(signatures, [&](const Signature& s) { return !family.applicable(s, target); });
    const auto add = [&](const Signature& signature, const Config& config) {
        cases.push_back({signature, config, int(cases.size())});
    };
    for (const Signature& signature : signatures) {
        add(signature, family.default_config(signature, target));
        if (emulated) continue;
        for (const Config& config : family.table_points(signature, target))
            if (!broken_constraint(signature, config, target)) add(signature, config);
    }
    if (!emulated) {
        // Kernels of warpgroup MMAs take ten times as long to compile.
        const std::size_t covered = std::string_view(family.name) == "wgmma" ? 2 : 7;
        const auto cover = [&](const Signature& signature) {
            for (const Config& config : pairwise_cover(family, signature, target, seed))
                add(signature, config);
        };
        for (std::size_t i = 0; i < covered; ++i) cover(signatures[i]);
        const auto bytes = std::ranges::find(signatures, DType::e4m3, &Signature::dtype);
        if (bytes != signatures.end()) cover(*bytes);
        return;
    }
    const auto deal_cover = [&](const Signature& of, const std::vector<Signature>& hands) {
        for (const Config& config : pairwise_cover(family, of, target, seed)) {
            std::size_t at = cases.size();
            while (broken_constraint(hands[at % hands.size()], config, target)) ++at;
            add(hands[at % hands.size()], config);
        }
    };
    deal_cover(widest_signature(), signatures);
    std::erase_if(signatures, [](const Signature& s) { return s.dtype != DType::e4m3; });
    if (!signatures.empty()) deal_cover(signatures.back(), signatures);
}

}  // namespace

std::vector<GridCase> grid_cases(const Target& target, bool emulated) {
    std::vector<GridCase> cases;
    for (const Family* family : grid_families(target)) add_cases(*family, target, emulated, cases);
    return cases;
}

std::vector<Shape> shapes_of(const GridCase& grid_case, bool emulated) {
    const std::vector<Shape> all = grid_shapes(emulated);
    if (!emulated) return all;
    const Config& config = grid_case.config;
    const int queries = config["q"] + 17, keys = 2 * config["kv"] + config["kv"] / 2 + 5;
    std::vector<Shape> shapes{{1, 2, 1, queries, keys}};
    const int more = config.family == "wgmma" ? 1 : 3;
    for (int i = 0; i < more; ++i)
        shapes.push_back(all[std::size_t(3 * grid_case.index + i) % all.size()]);
    return shapes;
}

}  // namespace attune
