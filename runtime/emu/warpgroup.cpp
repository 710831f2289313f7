#include "runtime/emu/warpgroup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "generator/formatted.h"
#include "runtime/emu/float16.h"
#include "runtime/emu/tensor_map.h"

namespace attune::emu {
namespace {

/// Calls visit(thread, register, row, column) for every element of 64 x n.
template <class Visit>
void for_each_register(int n, const Visit& visit) {
    for (int t = 0; t < warpgroup_threads; ++t)
        for (int i = 0; i < n / 2; ++i)
            visit(t, i, t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8, i / 4 * 8 + t % 4 * 2 + i % 2);
}

using Line = std::array<double, 256>;  // over the columns of d

/// Adds exactly and rounds once.
void add_exactly(Line& sum, const double* a, const double* b, int n, int depth) {
    for (int k = 0; k < depth; ++k)
        for (int j = 0; j < n; ++j) sum[j] += a[k] * b[k * n + j];
    for (int j = 0; j < n; ++j) sum[j] = static_cast<float>(sum[j]);
}

/// The largest power of two that is at most |x|; for 0 the least there is.
double power_of_two_in(double x) {
    constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000;
    return std::bit_cast<double>(
        std::max(std::bit_cast<std::uint64_t>(x) & exponent, std::uint64_t{1} << 52));
}

/// As Hopper adds products of one byte: what lies under the 14th bit of the largest term is cut off
/// every term, and what lies under the 14th bit of their sum off that (DeepSeek-V3 report, section
/// 3.5.2; SageAttention2 found the same of the accumulator).
void add_as_hopper_bytes(Line& sum, const double* a, const double* b, int n, int depth) {
    constexpr double bits_below = 0x1p13;
    Line largest{}, unit, total;
    for (int j = 0; j < n; ++j) largest[j] = std::abs(sum[j]);
    for (int k = 0; k < depth; ++k)
        for (int j = 0; j < n; ++j)
            largest[j] = std::max(largest[j], std::abs(a[k] * b[k * n + j]));
    for (int j = 0; j < n; ++j) {
        unit[j] = power_of_two_in(largest[j]) / bits_below;
        total[j] = std::trunc(sum[j] / unit[j]);
    }
    for (int k = 0; k < depth; ++k)
        for (int j = 0; j < n; ++j) total[j] += std::trunc(a[k] * b[k * n + j] / unit[j]);
    for (int j = 0; j < n; ++j) {
        const double last = std::max(1.0, power_of_two_in(total[j]) / bits_below);
        sum[j] = std::trunc(total[j] / last) * last * unit[j];
    }
}

template <float (*convert)(std::uint32_t), auto add>
void multiply_as(std::vector<float>& values, const Operands& operands, const WgmmaCall& call) {
    const int n = call.n, depth = depth_of(call.element);
    std::vector<double> a(operands.a.size()), b(operands.b.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = convert(operands.a[i]);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = convert(operands.b[i]);
    Line sum;
    for (int row = 0; row < 64; ++row) {
        float* out = values.data() + row * n;
        for (int j = 0; j < n; ++j) sum[j] = call.accumulate ? out[j] : 0.0;
        add(sum, a.data() + row * depth, b.data(), n, depth);
        std::copy_n(sum.begin(), n, out);
    }
}

/// The elements of 16 bytes.
std::array<std::uint16_t, 16> elements_of(const std::byte* piece, Element element) {
    std::array<std::uint16_t, 16> elements{};
    if (element == Element::e4m3)
        for (int i = 0; i < 16; ++i) elements[i] = std::to_integer<std::uint16_t>(piece[i]);
    else
        std::memcpy(elements.data(), piece, 16);
    return elements;
}

}  // namespace

MatrixOperand MatrixOperand::decode(std::uint64_t descriptor) {
    const auto field = [&](int first, int bits) {
        return static_cast<unsigned>(descriptor >> first & ((1u << bits) - 1));
    };
    constexpr unsigned swizzled_by_128 = 1;
    return {field(0, 14) << 4, static_cast<int>(field(16, 14) << 4),
            static_cast<int>(field(32, 14) << 4),
            field(62, 2) == swizzled_by_128 && field(49, 3) == 0};
}

SharedAddress MatrixOperand::along_depth(int row, int half) const {
    return swizzle_128(start + row / 8 * stride_bytes + row % 8 * 128 + 16 * half);
}

SharedAddress MatrixOperand::across_depth(int k, int chunk) const {
    return swizzle_128(start + chunk / 8 * leading_bytes + k / 8 * stride_bytes + k % 8 * 128 +
                       chunk % 8 * 16);
}

void Accumulators::take() {
    values.resize(std::size_t(64) * n);
    for_each_register(n, [&](int t, int i, int row, int column) {
        values[row * n + column] = d[t][i];
        d[t][i] = std::numeric_limits<float>::quiet_NaN();
    });
}

void Accumulators::give() const {
    for_each_register(
        n, [&](int t, int i, int row, int column) { d[t][i] = values[row * n + column]; });
}

Accumulators* Warpgroup::find_accumulators(const WgmmaCall& call) {
    const auto found =
        std::find_if(accumulators.begin(), accumulators.end(),
                     [&](const Accumulators& a) { return a.d[0] == call.d && a.n == call.n; });
    return found == accumulators.end() ? nullptr : &*found;
}

std::string step_name(const Warpgroup& group) {
    switch (group.step) {
        case WarpgroupStep::wgmma:
            return "wgmma";
        case WarpgroupStep::fence:
            return "wgmma_fence";
        case WarpgroupStep::commit:
            return "wgmma_commit";
        case WarpgroupStep::wait:
            return formatted("wgmma_wait<{}>", group.number);
        case WarpgroupStep::grow:
            return formatted("registers_grow<{}>", group.number);
        case WarpgroupStep::shrink:
            return formatted("registers_shrink<{}>", group.number);
    }
    return "";
}

void unpack_registers(Operands& operands, const PendingWgmma& wgmma) {
    const int depth = depth_of(wgmma.call.element), width = depth / 8;  // elements of a word
    const int bits = 32 / width;
    for (int t = 0; t < warpgroup_threads; ++t)
        for (int i = 0; i < 4 * width; ++i) {
            const int word = i / width, row = t / 32 * 16 + t % 32 / 4 + word % 2 * 8;
            const int k = word / 2 * (depth / 2) + t % 4 * width + i % width;
            operands.a[row * depth + k] = static_cast<std::uint16_t>(
                wgmma.a[t][word] >> bits * (i % width) & ((1u << bits) - 1));
        }
}

void unpack_a(Operands& operands, Element element, int i, const std::byte* piece) {
    const auto elements = elements_of(piece, element);
    const int count = depth_of(element) / 2;
    std::copy_n(elements.begin(), count, operands.a.begin() + count * i);
}

void unpack_b(Operands& operands, const WgmmaCall& call, int i, const std::byte* piece) {
    const auto elements = elements_of(piece, call.element);
    const int count = depth_of(call.element) / 2;
    for (int j = 0; j < count; ++j)
        operands.b[call.across ? 8 * i + j : (i % 2 * count + j) * call.n + i / 2] = elements[j];
}

void multiply(std::vector<float>& values, const Operands& operands, const WgmmaCall& call) {
    constexpr decltype(&multiply_as<from_f16, add_exactly>) by_element[] = {
        multiply_as<from_f16, add_exactly>, multiply_as<from_bf16, add_exactly>,
        multiply_as<from_e4m3, add_as_hopper_bytes>};
    by_element[static_cast<int>(call.element)](values, operands, call);
}

}  // namespace attune::emu
