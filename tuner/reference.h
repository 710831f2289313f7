// Attention on the CPU in fp64, and the low-precision baseline that error bars come from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generator/problem.h"

namespace attune {

/// Of e4m3 tensors: what each head's numbers are multiplied with; [batch, heads]. Empty: 1.
struct HeadScales {
    std::vector<float> q, k, v;
};

/// Tensors are contiguous BHSD. The baseline is what a plain kernel of the element type gives:
/// scores exact, P = exp(score - row maximum) rounded to the element type before PV (in e4m3 256
/// times that, so that the small ones keep their bits), products and sums exact, one normalisation
/// by the sum of unrounded P, the result rounded to the output's type.
struct Reference {
    std::vector<double> o;
    std::vector<double> baseline;
    std::vector<double> lse;  // natural log, -inf where a row attends nothing
};
Reference compute_reference(const Problem& problem, float scale, std::span<const std::uint16_t> q,
                            std::span<const std::uint16_t> k, std::span<const std::uint16_t> v,
                            const HeadScales& scales = {});

/// The bar of max |O - reference|: twice the baseline's own error, plus 1e-5.
double error_bar(double baseline_error);
/// Of |LSE - reference| where the reference is `lse`. In e4m3 scores are sums that keep 14 bits
/// (runtime/emu/warpgroup.cpp).
double lse_bar(DType dtype, double lse);

}  // namespace attune
