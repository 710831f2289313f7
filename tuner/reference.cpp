#include "tuner/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tuner/bench.h"
#include "tuner/float16.h"

namespace attune {
namespace {

double rounded(double value, DType dtype) {
    return to_float(from_float(static_cast<float>(value), dtype), dtype);
}

/// P between 0 and 1 as a kernel multiplies it with V.
double rounded_p(double p, DType dtype) {
    return dtype == DType::e4m3 ? rounded(256 * p, dtype) / 256 : rounded(p, dtype);
}

/// Times the heads' scales, if there are any.
std::vector<double> widened(std::span<const std::uint16_t> values, DType dtype,
                            const std::vector<float>& scales) {
    std::vector<double> out(values.size());
    std::transform(values.begin(), values.end(), out.begin(),
                   [&](std::uint16_t bits) { return double{to_float(bits, dtype)}; });
    for (std::size_t i = 0; !scales.empty() && i < out.size(); ++i)
        out[i] *= scales[i / (out.size() / scales.size())];
    return out;
}

/// One kv head, ready for the rows that read it. K is transposed, so that inner loops run over
/// keys.
class KvHead {
public:
    KvHead(const Problem& problem, double scale, const double* k, const double* v)
        : dtype_(problem.signature.dtype),
          keys_(problem.shape.seqlen_kv),
          depth_(problem.signature.head_dim),
          columns_(problem.signature.value_dim()),
          scale_(scale),
          k_(static_cast<std::size_t>(keys_) * depth_),
          v_(v) {
        for (int j = 0; j < keys_; ++j)
            for (int c = 0; c < depth_; ++c)
                k_[std::size_t(c) * keys_ + j] = k[std::size_t(j) * depth_ + c];
    }

    /// Keys 0 .. keys - 1 are attended. Returns the LSE.
    double row(const double* q, int keys, double* o, double* baseline) {
        std::fill_n(o, columns_, 0.0);
        std::fill_n(baseline, columns_, 0.0);
        if (keys <= 0) return -std::numeric_limits<double>::infinity();
        p_.assign(keys, 0.0);
        for (int c = 0; c < depth_; ++c) {
            const double factor = q[c] * scale_;
            const double* k = &k_[std::size_t(c) * keys_];
            for (int j = 0; j < keys; ++j) p_[j] += factor * k[j];
        }
        const double top = *std::max_element(p_.begin(), p_.end());
        double sum = 0;
        for (int j = 0; j < keys; ++j) {
            const double p = std::exp(p_[j] - top);
            const double p_rounded = rounded_p(p, dtype_);
            const double* v = v_ + std::size_t(j) * columns_;
            sum += p;
            for (int c = 0; c < columns_; ++c) {
                o[c] += p * v[c];
                baseline[c] += p_rounded * v[c];
            }
        }
        for (int c = 0; c < columns_; ++c) {
            o[c] /= sum;
            baseline[c] = rounded(baseline[c] / sum, output_of(dtype_));
        }
        return top + std::log(sum);
    }

private:
    DType dtype_;
    int keys_;
    int depth_;    // of Q and K
    int columns_;  // of V and O
    double scale_;
    std::vector<double> k_;
    const double* v_;
    std::vector<double> p_;
};

}  // namespace

Reference compute_reference(const Problem& problem, float scale, std::span<const std::uint16_t> q,
                            std::span<const std::uint16_t> k, std::span<const std::uint16_t> v,
                            const HeadScales& scales) {
    const Shape& shape = problem.shape;
    const std::size_t d = problem.signature.head_dim, value_dim = problem.signature.value_dim();
    const DType dtype = problem.signature.dtype;
    const std::vector<double> wide_q = widened(q, dtype, scales.q),
                              wide_k = widened(k, dtype, scales.k),
                              wide_v = widened(v, dtype, scales.v);
    const std::size_t rows = std::size_t(shape.batch) * shape.heads_q * shape.seqlen_q;
    Reference out{std::vector<double>(rows * value_dim), std::vector<double>(rows * value_dim),
                  std::vector<double>(rows)};
    const std::size_t rows_per_kv_head =
        std::size_t(shape.heads_q / shape.heads_kv) * shape.seqlen_q;
    const std::size_t kv_heads = std::size_t(shape.batch) * shape.heads_kv;
    for (std::size_t head = 0; head < kv_heads; ++head) {
        const std::size_t first_key = head * shape.seqlen_kv;
        KvHead kv(problem, scale, wide_k.data() + first_key * d,
                  wide_v.data() + first_key * value_dim);
        for (std::size_t i = 0; i < rows_per_kv_head; ++i) {
            const std::size_t row = head * rows_per_kv_head + i;
            const int query = static_cast<int>(i % shape.seqlen_q);
            const int diagonal_end = query + 1 + shape.seqlen_kv - shape.seqlen_q;
            const int keys = problem.signature.mask == Mask::causal
                                 ? std::min(shape.seqlen_kv, diagonal_end)
                                 : shape.seqlen_kv;
            out.lse[row] = kv.row(&wide_q[row * d], keys, &out.o[row * value_dim],
                                  &out.baseline[row * value_dim]);
        }
    }
    return out;
}

void reference_attention(const Problem& problem, float scale, std::span<const std::uint16_t> q,
                         std::span<const std::uint16_t> k, std::span<const std::uint16_t> v,
                         std::vector<double>& o, std::vector<double>& lse) {
    Reference reference = compute_reference(problem, scale, q, k, v);
    o = std::move(reference.o);
    lse = std::move(reference.lse);
}

double lse_bar(DType dtype, double lse) {
    return dtype == DType::e4m3 && std::isfinite(lse) ? 1e-3 + 0x1p-10 * std::fabs(lse) : 1e-3;
}

double error_bar(double baseline_error) {
    return 2 * baseline_error + 1e-5;
}

}  // namespace attune
