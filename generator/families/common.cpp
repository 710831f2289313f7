#include "generator/families/common.h"

#include <algorithm>

#include "generator/formatted.h"

namespace attune {

Axis q_operand_axis(QOperand otherwise) {
    return {"qop",
            "q_operand",
            {in_shared, in_registers},
            {"smem", "reg"},
            otherwise,
            "where Q waits: read from shared memory each step, or kept in registers"};
}

Result<void> plain_tensors(const Signature& signature, const char* family) {
    if (signature.dtype == DType::e4m3)
        return Error{Code::unsupported,
                     formatted("{} multiplies f16 and bf16 alone, not e4m3", family),
                     "use Hopper (family wgmma), or bf16"};
    if (signature.head_dim_v == 0) return {};
    return Error{Code::unsupported,
                 formatted("{} needs one head_dim for Q, K and V, these are {} and {}", family,
                           signature.head_dim, signature.head_dim_v),
                 "pad V to the head_dim of Q and K, or use another family"};
}

std::vector<Config> points_for(std::span<const TableRow> rows, int head_dim) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const TableRow& r) { return head_dim <= r.up_to; });
    std::vector<Config> points;
    if (row == rows.end()) return points;
    for (const char* text : row->configs) points.push_back(*Config::parse(text));
    return points;
}

Config first_legal(const std::vector<Config>& points, const Signature& signature,
                   const Target& target, const char* fallback) {
    for (const Config& point : points)
        if (broken_constraint(signature, point, target) == nullptr) return point;
    return *Config::parse(fallback);
}

Fields signature_fields(const Signature& signature) {
    return {
        {"head_dim", formatted("{}", signature.head_dim)},
        {"head_dim_v", formatted("{}", signature.value_dim())},
        {"causal", signature.mask == Mask::causal ? "true" : "false"},
        {"write_lse", signature.lse ? "true" : "false"},
    };
}

void append_axes(Fields& fields, const std::vector<Axis>& axes, const Config& config) {
    for (std::size_t i = 0; i < axes.size(); ++i)
        fields.emplace_back(axes[i].name, formatted("{}", config.values[i]));
}

double kept_share(const Problem& problem) {
    if (problem.signature.mask == Mask::full) return 1.0;
    const Shape& shape = problem.shape;
    return attended_pairs(problem) / shape.batch / shape.heads_q /
           std::max(1.0, double(shape.seqlen_q) * shape.seqlen_kv);
}

}  // namespace attune
