// An operand of wgmma in shared memory, as 64 bits: what the hardware takes, and the emulator
// decodes. Included by target/cuda/hopper.h and target/emu/hopper.h.
#pragma once

namespace attune {

using MatrixDescriptor = unsigned long long;

/// 64-element (128-byte) rows with 128-byte swizzle. stride between groups of 8 rows: 1024 bytes.
/// PTX ISA, "Matrix descriptor format".
ATTUNE_DEVICE MatrixDescriptor matrix_descriptor(SharedAddress at, int leading_bytes) {
    constexpr MatrixDescriptor swizzle_128 = 1ull << 62, stride = (1024ull >> 4) << 32;
    return swizzle_128 | stride | static_cast<MatrixDescriptor>(leading_bytes >> 4) << 16 |
           (at & 0x3ffff) >> 4;
}
ATTUNE_DEVICE MatrixDescriptor advance(MatrixDescriptor from, int bytes) {
    return from + (bytes >> 4);
}

}  // namespace attune
