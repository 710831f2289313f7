// Small floats to fp32, in a form that compilers vectorise. Exact.
#pragma once

#include <bit>
#include <cstdint>

namespace attune::emu {

/// Moving exponent and fraction into place leaves the exponent 112 too small; a product with 2^112
/// is right for subnormals too. Infinity and NaN get the highest exponent.
inline float from_f16(std::uint32_t bits) {
    const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
    const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
    const std::uint32_t top = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | top | (bits & 0x8000u) << 16);
}

inline float from_bf16(std::uint32_t bits) {
    return std::bit_cast<float>(bits << 16);
}

/// As from f16, in its upper byte less a bit of exponent: 120 too small. 0x7f and 0xff are NaN.
inline float from_e4m3(std::uint32_t bits) {
    const std::uint32_t magnitude = (bits & 0x7fu) << 20;
    const float value = std::bit_cast<float>(magnitude) * 0x1p120f;
    const std::uint32_t nan = (bits & 0x7fu) == 0x7fu ? 0x7fc00000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | nan | (bits & 0x80u) << 24);
}

}  // namespace attune::emu
