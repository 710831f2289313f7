#include "runtime/emu/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "generator/formatted.h"

namespace attune::emu {
namespace {

struct Encoded {
    std::uint64_t mark;
    TensorMapSpec spec;
};
static_assert(sizeof(Encoded) <= sizeof(TensorMap) && std::is_trivially_copyable_v<Encoded>);

constexpr std::uint64_t encoded_mark = 0x7265706f6f6c6d65;
constexpr int max_box = 256;

const char* fault_of(const TensorMapSpec& spec) {
    const TensorStrides& s = spec.strides;
    if (spec.base == 0 || spec.base % 16 != 0) return "its base is not on 16 bytes";
    const int step = 16 / element_bytes(spec.dtype);
    if (s.row % step != 0 || s.head % step != 0 || s.batch % step != 0)
        return "its strides are not multiples of 16 bytes";
    if (s.row < 0 || s.head < 0 || s.batch < 0) return "a stride is negative";
    if (std::min({spec.columns, spec.rows, spec.heads, spec.batch}) < 1) return "a size is not > 0";
    if (spec.box_rows < 1 || spec.box_rows > max_box) return "a box has 1 .. 256 rows";
    if (spec.box_heads < 1 || spec.box_heads > max_box) return "a box has 1 .. 256 heads";
    return nullptr;
}

}  // namespace

Result<void> encode_tensor_map(const TensorMapSpec& spec, TensorMap& map) {
    if (const char* fault = fault_of(spec))
        return Error{Code::invalid_argument, formatted("no tensor for loads: {}", fault),
                     "use a family that does not load by TMA"};
    const Encoded encoded{encoded_mark, spec};
    map = {};
    std::memcpy(map.opaque, &encoded, sizeof encoded);
    return {};
}

std::optional<TensorMapSpec> decode_tensor_map(const TensorMap& map) {
    Encoded encoded;
    std::memcpy(&encoded, map.opaque, sizeof encoded);
    if (encoded.mark != encoded_mark) return {};
    return encoded.spec;
}

BoxRow box_row(const TensorMapSpec& tensor, const TensorPoint& first, int row) {
    const auto inside = [](int i, int size) { return i >= 0 && i < size; };
    const int width = element_bytes(tensor.dtype);
    const long long column = std::max(first.column, 0);
    const long long end = std::min(first.column + box_row_bytes / width, tensor.columns);
    const int head = first.head + row / tensor.box_rows;
    row = first.row + row % tensor.box_rows;
    if (!inside(row, tensor.rows) || !inside(head, tensor.heads) ||
        !inside(first.batch, tensor.batch) || column >= end)
        return {};
    const TensorStrides& strides = tensor.strides;
    const long long element =
        first.batch * strides.batch + head * strides.head + row * strides.row + column;
    return {reinterpret_cast<const std::byte*>(tensor.base) + width * element,
            static_cast<int>(width * (column - first.column)),
            static_cast<int>(width * (end - column))};
}

}  // namespace attune::emu
