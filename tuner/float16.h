// Small floats on the host; e4m3 in the low byte.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "generator/problem.h"

namespace attune {

/// The largest magnitude that is no NaN: infinity, or in e4m3 448.
constexpr std::uint16_t infinity_bits(DType dtype) {
    constexpr std::uint16_t bits[] = {0x7c00, 0x7f80, 0x7e};  // in DType's order
    return bits[static_cast<int>(dtype)];
}
constexpr std::uint16_t nan_bits(DType dtype) {
    return dtype == DType::e4m3 ? 0x7f : 0x7fff;
}

inline float from_e4m3(unsigned bits) {
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    if ((bits & 0x7f) == 0x7f) return NAN;
    return sign * (exponent == 0 ? std::ldexp(float(mantissa), -9)
                                 : std::ldexp(float(mantissa + 8), exponent - 10));
}
inline std::uint16_t to_e4m3(float value) {
    const std::uint16_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude >= 448.0f) return sign | 0x7e;
    const int exponent = std::max(std::ilogb(magnitude == 0 ? 1e-30f : magnitude), -6);
    const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
    return static_cast<std::uint16_t>(sign + ((exponent + 6) << 3) + steps);
}

/// Exact.
inline float to_float(std::uint16_t bits, DType dtype) {
    if (dtype == DType::e4m3) return from_e4m3(bits);
    if (dtype == DType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 0x3ff;
    if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
    return sign * std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
}

/// Rounded to nearest even; overflow is infinity, or in e4m3 448.
inline std::uint16_t from_float(float value, DType dtype) {
    if (std::isnan(value)) return nan_bits(dtype);
    if (dtype == DType::e4m3) return to_e4m3(value);
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
