// Code object = hiprtc's output: an ELF file whose note says what its kernels use.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "generator/status.h"
#include "tuner/compiler.h"

namespace attune {

/// The metadata note: {"amdhsa.target": "amdgcn-amd-amdhsa--gfx942", "amdhsa.kernels": [{".name",
/// ".vgpr_count", ...}], ...}. Source: LLVM, "User Guide for AMDGPU Backend", "Code Object V3
/// Metadata" and later. corrupt where the bytes are no code object of version 3 or later.
Result<nlohmann::json> code_object_metadata(std::span<const std::byte> code_object);

/// What the kernel `entry` uses, by that metadata; corrupt where it has no such kernel.
Result<Resources> code_object_resources(std::span<const std::byte> code_object,
                                        const std::string& entry);

}  // namespace attune
