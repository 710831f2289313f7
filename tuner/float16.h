// 16-bit floats on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "generator/problem.h"

namespace attune {

/// Bits of an infinity; magnitudes above it are NaN.
constexpr std::uint16_t infinity_bits(DType dtype) {
    return dtype == DType::f16 ? 0x7c00 : 0x7f80;
}

/// Exact.
inline float to_float(std::uint16_t bits, DType dtype) {
    if (dtype == DType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 0x3ff;
    if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
    return sign * std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
}

/// Rounded to nearest even; overflow is infinity.
inline std::uint16_t from_float(float value, DType dtype) {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (dtype == DType::bf16)
        return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const float magnitude = std::fabs(value);
    if (magnitude >= 65520.0f) return sign | 0x7c00;
    // The spacing of f16 at this magnitude; subnormals share the smallest normal's.
    const int exponent = std::max(std::ilogb(magnitude == 0 ? 1e-30f : magnitude), -14);
    const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

}  // namespace attune
