// Prune = what is dropped after compiling, before the first launch. Pure.
#pragma once

#include <string>

#include "generator/family.h"
#include "tuner/compiler.h"

namespace attune {

/// Why a binary is not worth a launch, or cannot be launched at all: registers, spills, shared
/// memory, occupancy, serialised MMAs; empty if it is worth one. Numbers that the compiler did not
/// say (-1) pass.
std::string prune_reason(const Resources& resources, const Launch& launch, const Target& target);

/// CTAs that fit a multiprocessor at once; unknown registers count as none.
int resident_ctas(const Resources& resources, const Launch& launch, const Target& target);

}  // namespace attune
