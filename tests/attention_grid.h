// What the grid is made of: signatures, shapes around tile edges, and variants that meet every pair
// of axis values.
#pragma once

#include <string>
#include <vector>

#include "generator/space.h"
#include "tests/attention_case.h"

namespace attune {

/// A variant and the launches it is tried with.
struct GridCase {
    Signature signature;
    Config config;
    int index;  // in the grid; picks shapes and layouts
};
void PrintTo(const GridCase& grid_case, std::ostream* out);

/// The signature that leaves configs the most freedom.
Signature widest_signature();
/// Every dtype, full and causal, with and without LSE, head dims from 8 to 256.
/// Those that some family runs there.
std::vector<Signature> grid_signatures(const Target& target);
std::vector<Shape> grid_shapes(bool emulated);

/// The families that the target runs.
std::vector<const Family*> grid_families(const Target& target);

/// Of each family the default config of every signature, and pairwise covers. Emulated: one, of the
/// widest signature, each config under the first of grid_signatures(), from one that moves on, that
/// allows it. On a GPU: one for each of the first signatures, and all table points.
std::vector<GridCase> grid_cases(const Target& target, bool emulated);

/// The shapes of one case: on a GPU all; emulated one that this config's tiles divide badly, and
/// some of the grid's, in turn.
std::vector<Shape> shapes_of(const GridCase& grid_case, bool emulated);

}  // namespace attune
