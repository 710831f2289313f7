#include "tuner/prune.h"

#include <algorithm>

#include "generator/formatted.h"

namespace attune {
namespace {

// Stores and loads together. A few spilled registers outside the loop cost nothing that timing
// would not show; more than this has always lost by far.
constexpr int most_spill_bytes = 512;

int shared_bytes(const Resources& r, const Launch& l) {
    return int(l.shared_bytes) + std::max(0, r.shared_static_bytes);
}

std::string registers(const Resources& r, const Launch& l, const Target& t) {
    const long needed = long(std::max(0, r.registers)) * l.threads_per_cta;
    if (needed <= t.registers_per_multiprocessor) return "";
    return formatted("{} registers x {} threads over the {} of a multiprocessor", r.registers,
                     l.threads_per_cta, t.registers_per_multiprocessor);
}

std::string spills(const Resources& r, const Launch&, const Target&) {
    if (r.spill_bytes <= most_spill_bytes) return "";
    return formatted("spills {} bytes, over {}", r.spill_bytes, most_spill_bytes);
}

std::string shared_memory(const Resources& r, const Launch& l, const Target& t) {
    if (shared_bytes(r, l) <= t.shared_bytes_per_cta) return "";
    return formatted("shared memory {} bytes, over the {} of a CTA", shared_bytes(r, l),
                     t.shared_bytes_per_cta);
}

std::string occupancy(const Resources& r, const Launch& l, const Target& t) {
    return resident_ctas(r, l, t) > 0 ? "" : "occupancy 0: no CTA fits a multiprocessor";
}

std::string serialised(const Resources& r, const Launch&, const Target&) {
    if (r.serialised_note < 0) return "";
    return formatted("waits for every wgmma (ptxas note C{})", r.serialised_note);
}

using Rule = std::string (*)(const Resources&, const Launch&, const Target&);
constexpr Rule rules[] = {registers, spills, shared_memory, occupancy, serialised};

}  // namespace

int resident_ctas(const Resources& resources, const Launch& launch, const Target& target) {
    const int threads = int(launch.threads_per_cta);
    const int shared = shared_bytes(resources, launch) + target.shared_bytes_reserved_per_cta;
    // Registers are handed out to warps in units of 8 per thread.
    const int per_thread = (std::max(1, resources.registers) + 7) / 8 * 8;
    return std::min({target.max_ctas_per_multiprocessor,
                     target.max_threads_per_multiprocessor / std::max(1, threads),
                     target.shared_bytes_per_multiprocessor / std::max(1, shared),
                     target.registers_per_multiprocessor / std::max(1, per_thread * threads)});
}

std::string prune_reason(const Resources& resources, const Launch& launch, const Target& target) {
    for (const Rule rule : rules)
        if (std::string reason = rule(resources, launch, target); !reason.empty()) return reason;
    return "";
}

}  // namespace attune
