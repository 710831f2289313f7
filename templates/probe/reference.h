// Attention in plain fp32 for chosen rows: a warp per row, online softmax over a key per lane at a
// time. Each lane takes one key for QK^T and then columns lane, lane + lanes, ... for PV. Beside
// it, in the same pass, the low-precision baseline that error bars come from: P rounded to the
// element type before PV, O not normalised and in fp32 until the end, then rounded to O's type.
#pragma once

#include "target.h"
#include "templates/common/element.h"
#include "templates/probe/params.h"

namespace attune {

/// V: Element, head_dim, head_dim_v, causal, lanes (of a warp).
template <class V>
class ReferenceRow {
    using Element = typename V::Element;
    using Traits = ElementTraits<Element>;
    using Storage = decltype(Element::bits);
    static constexpr int columns = (V::head_dim_v + V::lanes - 1) / V::lanes;  // of a lane

public:
    ATTUNE_DEVICE ReferenceRow(const AttentionParams& p, unsigned row)
        : p_(p), score_scale_(p.scale_log2) {
        const int query = static_cast<int>(row % p.seqlen_q);
        const int head = static_cast<int>(row / p.seqlen_q % p.heads_q);
        const int batch = static_cast<int>(row / p.seqlen_q / p.heads_q);
        const int kv_head = head / (p.heads_q / p.heads_kv);
        keys_ = p.seqlen_kv;
        if (V::causal) keys_ = min_int(keys_, query + 1 + p.seqlen_kv - p.seqlen_q);
        q_ = at(p.q, p.q_strides, batch, head) + query * p.q_strides.row;
        k_ = at(p.k, p.k_strides, batch, kv_head);
        v_ = at(p.v, p.v_strides, batch, kv_head);
        if (sizeof(Element) > 1) return;
        const int kv_index = batch * p.heads_kv + kv_head;
        score_scale_ *=
            head_scale(p.q_scale, batch * p.heads_q + head) * head_scale(p.k_scale, kv_index);
        value_scale_ = head_scale(p.v_scale, kv_index);
    }

    ATTUNE_DEVICE void run() {
        for (int key = 0; key < keys_; key += V::lanes) step(key);
    }

    ATTUNE_DEVICE void store(float* o, float* baseline, float* lse) const {
        const float factor = sum_ > 0 ? value_scale_ / sum_ : 0;
        ATTUNE_UNROLL
        for (int i = 0; i < columns; ++i) {
            const int column = lane_index() + V::lanes * i;
            if (column >= V::head_dim_v) continue;
            store_global_f32(o + column, o_[i] * factor);
            store_global_f32(baseline + column, ElementTraits<typename Traits::Output>::rounded(
                                                    baseline_[i] * factor));
        }
        constexpr float ln2 = 0.69314718055994531f;
        if (lane_index() == 0)
            store_global_f32(lse, sum_ > 0 ? ln2 * (max_ + log2_approx(sum_)) : -infinity());
    }

private:
    ATTUNE_DEVICE static const Storage* at(const void* tensor, const TensorStrides& strides,
                                           int batch, int head) {
        return static_cast<const Storage*>(tensor) + batch * strides.batch + head * strides.head;
    }
    ATTUNE_DEVICE static int min_int(int a, int b) { return a < b ? a : b; }

    ATTUNE_DEVICE float score(const Storage* key_row) const {
        float dot = 0;
        for (int d = 0; d < V::head_dim; d += 16 / int(sizeof(Element))) {
            const U128 a = load_global_128(q_ + d);
            const U128 b = load_global_128(key_row + d);
            dot += Traits::product(a.x, b.x) + Traits::product(a.y, b.y) +
                   Traits::product(a.z, b.z) + Traits::product(a.w, b.w);
        }
        return dot * score_scale_;
    }

    ATTUNE_DEVICE void step(int first_key) {
        const int key = first_key + lane_index();
        const float s = key < keys_ ? score(k_ + key * p_.k_strides.row) : -infinity();
        float top = s;
        ATTUNE_UNROLL
        for (int mask = 1; mask < V::lanes; mask *= 2) top = max_f32(top, shuffle_xor(top, mask));
        top = max_f32(top, max_);
        const float correction = exp2_approx(max_ - top);
        const float p = exp2_approx(s - top);
        max_ = top;
        float step_sum = p;
        ATTUNE_UNROLL
        for (int mask = 1; mask < V::lanes; mask *= 2) step_sum += shuffle_xor(step_sum, mask);
        sum_ = fma_rn(sum_, correction, step_sum);
        ATTUNE_UNROLL
        for (int i = 0; i < columns; ++i) {
            o_[i] *= correction;
            baseline_[i] *= correction;
        }
        add_values(first_key, p);
    }

    ATTUNE_DEVICE void add_values(int first_key, float p) {
        constexpr float up = 1 << Traits::largest_p_log2;
        const float p_rounded = Traits::rounded(p * up) / up;
        const int count = min_int(V::lanes, keys_ - first_key);
        for (int j = 0; j < count; ++j) {
            const float exact = shuffle(p, j), low = shuffle(p_rounded, j);
            const Storage* row = v_ + (first_key + j) * p_.v_strides.row;
            ATTUNE_UNROLL
            for (int i = 0; i < columns; ++i) {
                const int column = lane_index() + V::lanes * i;
                if (column >= V::head_dim_v) continue;
                const float value = Traits::load(row + column);
                o_[i] = fma_rn(exact, value, o_[i]);
                baseline_[i] = fma_rn(low, value, baseline_[i]);
            }
        }
    }

    const AttentionParams& p_;
    const Storage* q_;
    const Storage* k_;
    const Storage* v_;
    float score_scale_;
    float value_scale_ = 1;
    int keys_;
    float max_ = -infinity();
    float sum_ = 0;
    float o_[columns] = {};
    float baseline_[columns] = {};
};

template <class V>
ATTUNE_DEVICE void reference_rows(const ReferenceParams& p) {
    const int index = cta_index() * V::warps + warp_index();
    if (index >= p.row_count) return;
    ReferenceRow<V> row(p.attention, load_global_32(p.rows + index));
    row.run();
    const long long first = static_cast<long long>(index) * V::head_dim_v;
    row.store(p.o + first, p.baseline + first, p.lse + index);
}

}  // namespace attune
