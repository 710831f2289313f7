// What family files share: tables of configs by head dim, the axes as fields, the share a mask
// keeps.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generator/family.h"

namespace attune {

/// Values of axes that several families have; templates/common/softmax.h and tile.h have the same
/// numbers.
enum Rescale { each_step = 0, when_moved = 1, normalised = 2, stale = 3, deferred = 4 };
enum QOperand { in_shared = 0, in_registers = 1 };
/// Where Q waits.
Axis q_operand_axis(QOperand otherwise);

/// Hand-made configs for head dims up to this (and over the row before).
struct TableRow {
    int up_to;
    std::vector<const char*> configs;
};
/// Refuses another head dim for V than for Q and K, and e4m3.
Result<void> plain_tensors(const Signature& signature, const char* family);

/// The configs of the first row that reaches `head_dim`.
std::vector<Config> points_for(std::span<const TableRow> rows, int head_dim);

/// The first of `points` that is legal, else the config written in `fallback`.
Config first_legal(const std::vector<Config>& points, const Signature& signature,
                   const Target& target, const char* fallback);

/// Fields of the generated struct.
using Fields = std::vector<std::pair<std::string, std::string>>;
/// Those of the signature, in the order in which they are emitted.
Fields signature_fields(const Signature& signature);
/// One for each axis, behind those in `fields`.
void append_axes(Fields& fields, const std::vector<Axis>& axes, const Config& config);

/// Share of all query-key pairs that the mask keeps.
double kept_share(const Problem& problem);

}  // namespace attune
