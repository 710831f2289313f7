// Family = one way to write the kernel. A family file has four parts, in this order:
// applicable, space, launch, describe. Adding a family = one generator file, one template, one row
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/config.h"
#include "generator/problem.h"
#include "generator/status.h"
#include "generator/target.h"

namespace attune {

/// Grid and block are one-dimensional: kernels decode a linear CTA index.
struct Launch {
    std::uint32_t ctas = 0;  // 0: nothing to launch
    std::uint32_t threads_per_cta = 0;
    std::uint32_t shared_bytes = 0;
    std::size_t workspace_bytes = 0;
    // Kernels that load by TMA take TmaAttentionParams: rows of a box of Q, and of K and V. 0: they
    // take AttentionParams.
    int tma_rows_q = 0;
    int tma_rows_kv = 0;
    // A power of two of query heads that share a q-tile (templates/common/packing.h): a box of Q
    // holds tma_rows_q / tma_heads_q queries of each. 0: the family or config does not pack.
    int tma_heads_q = 0;
    bool operator==(const Launch&) const = default;
};

/// A named reason why a config is not legal: "shared memory", "registers", ...
struct Constraint {
    const char* name;
    const char* meaning;
    std::vector<const char*> axes;  // keys it looks at, so that enumeration can cut early
    std::function<bool(const Signature&, const Config&, const Target&)> holds;
};

/// One step of a family's ablation, from the oldest way to write the kernel to the newest. Its
/// settings hold from this step on, until a later one names the axis again.
struct AblationStep {
    struct Setting {
        const char* axis;         // key
        std::vector<int> values;  // the best of them counts
    };
    const char* name;
    const char* meaning;  // one sentence
    std::vector<Setting> settings;
};

struct Family {
    std::string_view name;     // "mma"
    const char* description;   // one sentence
    const char* entry_header;  // template the generated source includes: "templates/mma/kernel.h"
    std::vector<Axis> axes;
    std::vector<Constraint> constraints;
    /// Why this family cannot run this signature on this target; ok if it can.
    std::function<Result<void>(const Signature&, const Target&)> applicable;
    /// The hand-made tables (FlashAttention-2, -3 and others) as points of the space, legal or not.
    std::function<std::vector<Config>(const Signature&, const Target&)> table_points;
    /// The config an estimate falls back to; legal for every signature `applicable` accepts.
    std::function<Config(const Signature&, const Target&)> default_config;
    std::function<Launch(const Signature&, const Config&, const Shape&, const Target&)> launch;
    /// Named constexpr fields of the generated struct, in order: {"tile_q", "128"}, ...
    std::function<std::vector<std::pair<std::string, std::string>>(const Signature&, const Config&,
                                                                   const Target&)>
        fields;
    /// Predicted microseconds, for ordering candidates and as stored "estimated" evidence.
    std::function<double(const Problem&, const Config&, const Target&)> estimate_us;
    std::vector<AblationStep> ablation = {};  // empty: nothing to compare
    /// Why a legal config is not to be tried or taken for this problem: another with an axis at a
    /// plainer value does exactly the same there, or it is too inexact. Null: it may be.
    std::function<const char*(const Config&, const Problem&)> unfit = nullptr;

    const Axis* axis(std::string_view key) const;
};

const std::vector<Family>& families();
const Family* find_family(std::string_view name);

/// The first constraint a config breaks; null if it is legal.
const Constraint* broken_constraint(const Signature& signature, const Config& config,
                                    const Target& target);

/// Family::unfit.
const char* why_unfit(const Config& config, const Problem& problem);

}  // namespace attune
