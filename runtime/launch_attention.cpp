#include "runtime/launch_attention.h"

#include <bit>
#include <utility>

namespace attune {
namespace {

TensorMapSpec spec_of(const void* base, DType dtype, int columns, int rows, int heads, int batch,
                      const TensorStrides& strides, int box_rows) {
    return {
        reinterpret_cast<DevicePtr>(base), dtype, columns, rows, heads, batch, strides, box_rows};
}

/// Packed, a load brings the heads that share a q-tile query by query: they are the map's rows.
void pack(TensorMapSpec& q, int heads) {
    std::swap(q.rows, q.heads);
    std::swap(q.strides.row, q.strides.head);
    q.box_heads = q.box_rows / heads;
    q.box_rows = heads;
}

}  // namespace

void describe_problem(AttentionParams& params, const Problem& problem, const Strides& strides,
                      float scale) {
    constexpr float log2_e = 1.44269504f;
    const Shape& shape = problem.shape;
    params.q_strides = strides.q;
    params.k_strides = strides.k;
    params.v_strides = strides.v;
    params.o_strides = strides.o;
    params.batch = shape.batch;
    params.heads_q = shape.heads_q;
    params.heads_kv = shape.heads_kv;
    params.seqlen_q = shape.seqlen_q;
    params.seqlen_kv = shape.seqlen_kv;
    params.scale_log2 = scale * log2_e;
}

Result<void> launch_attention(Device& device, Kernel kernel, const Launch& launch,
                              const Signature& signature, const AttentionParams& p, Stream stream) {
    if (launch.tma_rows_q == 0) return device.launch(kernel, launch, &p, sizeof p, stream);
    TmaAttentionParams params{p, 0, {}, {}, {}};
    TensorMapSpec q = spec_of(p.q, signature.dtype, signature.head_dim, p.seqlen_q, p.heads_q,
                              p.batch, p.q_strides, launch.tma_rows_q);
    if (launch.tma_heads_q > 0) {
        params.pack_shift = std::countr_zero(static_cast<unsigned>(launch.tma_heads_q));
        pack(q, launch.tma_heads_q);
    }
    const struct {
        TensorMapSpec spec;
        TensorMap& map;
    } tensors[] = {
        {q, params.q},
        {spec_of(p.k, signature.dtype, signature.head_dim, p.seqlen_kv, p.heads_kv, p.batch,
                 p.k_strides, launch.tma_rows_kv),
         params.k},
        {spec_of(p.v, signature.dtype, signature.value_dim(), p.seqlen_kv, p.heads_kv, p.batch,
                 p.v_strides, launch.tma_rows_kv),
         params.v},
    };
    for (const auto& [spec, map] : tensors) {
        if (spec.rows == 0) continue;  // no keys: the kernel loads nothing
        if (auto encoded = device.encode_tensor_map(spec, map); !encoded) return encoded;
    }
    return device.launch(kernel, launch, &params, sizeof params, stream);
}

}  // namespace attune
