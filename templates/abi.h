// The one header that host and device share: what a kernel is handed.
// No includes: NVRTC and hiprtc never look for files, and the host's compiler needs none here.
#pragma once

namespace attune {

/// Strides in elements; the innermost stride (along head_dim) is 1. 64-bit: caches pass 2^31
/// elements.
struct TensorStrides {
    long long batch;
    long long head;
    long long row;
};

/// The single parameter of every attention kernel, passed by value.
/// q: [batch, heads_q, seqlen_q, head_dim_qk], k: [batch, heads_kv, seqlen_kv, head_dim_qk],
/// v: [batch, heads_kv, seqlen_kv, head_dim_v], o: [batch, heads_q, seqlen_q, head_dim_v] in q's
/// dtype (bf16 where that is e4m3), each through its strides. Query head h reads kv head
/// h / (heads_q / heads_kv).
struct AttentionParams {
    const void* q;
    const void* k;
    const void* v;
    void* o;
    float* lse;  // natural log, fp32 [batch, heads_q, seqlen_q] contiguous; null where not wanted
    void* workspace;  // as many bytes as the launch geometry says, all zero, and left so; null
                      // where it says 0
    TensorStrides q_strides;
    TensorStrides k_strides;
    TensorStrides v_strides;
    TensorStrides o_strides;
    int batch;
    int heads_q;
    int heads_kv;
    int seqlen_q;
    int seqlen_kv;
    float scale_log2;  // softmax scale * log2(e): scores enter exp2 directly
    // e4m3 alone: what the stored numbers are multiplied with, each > 0; fp32 [batch, heads_q] and
    // twice [batch, heads_kv], contiguous; null: 1.
    const float* q_scale;
    const float* k_scale;
    const float* v_scale;
};

/// A tensor for loads by TMA, as the device encodes it (Device::encode_tensor_map).
struct alignas(128) TensorMap {
    unsigned long long opaque[16];
};

/// The single parameter of kernels that load by TMA: [batch][head][row][column], boxes of 128
/// bytes of columns. Of kernels that pack 2^pack_shift query heads that read one kv head into a
/// q-tile (packing.h), q is [batch][row][head][column].
struct TmaAttentionParams {
    AttentionParams attention;
    int pack_shift;
    TensorMap q;
    TensorMap k;
    TensorMap v;
};

}  // namespace attune
