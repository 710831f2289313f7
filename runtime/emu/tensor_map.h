// Tensors for loads by TMA, as the emulator encodes them.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/device.h"
#include "templates/target/emu_abi.h"

namespace attune::emu {

constexpr int box_row_bytes = 128;

/// invalid_argument where the hardware's encoder would refuse too.
Result<void> encode_tensor_map(const TensorMapSpec& spec, TensorMap& map);
/// Empty if the bits were never encoded here.
std::optional<TensorMapSpec> decode_tensor_map(const TensorMap& map);

/// Rows of a box, all heads together.
constexpr int rows_of_box(const TensorMapSpec& tensor) {
    return tensor.box_rows * tensor.box_heads;
}

/// One row of a box, those of its first head first: bytes `begin` .. `begin + bytes` of its 128 lie
/// in the tensor, at `from`.
struct BoxRow {
    const std::byte* from = nullptr;
    int begin = 0;
    int bytes = 0;  // 0: all of it lies outside
};
BoxRow box_row(const TensorMapSpec& tensor, const TensorPoint& first, int row);

/// Where the 16 bytes at `at` lie under the 128-byte swizzle.
constexpr SharedAddress swizzle_128(SharedAddress at) {
    return at ^ (at >> 7 & 7) << 4;
}

}  // namespace attune::emu
