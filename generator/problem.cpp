#include "generator/problem.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "generator/formatted.h"

namespace attune {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t from = 0;;) {
        const std::size_t to = text.find(separator, from);
        parts.push_back(text.substr(from, to - from));
        if (to == std::string_view::npos) return parts;
        from = to + 1;
    }
}

/// "kv16" with key "kv" -> 16. False if the key differs or anything but one decimal number follows.
bool parse_field(std::string_view text, std::string_view key, int& value) {
    if (!text.starts_with(key)) return false;
    text.remove_prefix(key.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
}

Error bad_text(const char* what, std::string_view text, const char* example) {
    return {Code::invalid_argument, formatted("'{}' is not a {}", text, what),
            formatted("write it like {}", example)};
}

Error invalid(std::string message, std::string next_step) {
    return {Code::invalid_argument, std::move(message), std::move(next_step)};
}

struct DTypeFacts {
    const char* name;
    int bytes;
    DType output;
};
constexpr DTypeFacts dtypes[] = {  // in DType's order
    {"f16", 2, DType::f16},
    {"bf16", 2, DType::bf16},
    {"e4m3", 1, DType::bf16}};

const DTypeFacts& facts_of(DType dtype) {
    return dtypes[static_cast<int>(dtype)];
}

}  // namespace

const char* name_of(DType dtype) {
    return facts_of(dtype).name;
}
int element_bytes(DType dtype) {
    return facts_of(dtype).bytes;
}
DType output_of(DType dtype) {
    return facts_of(dtype).output;
}
const char* name_of(Mask mask) {
    return mask == Mask::full ? "full" : "causal";
}

Result<DType> parse_dtype(std::string_view text) {
    for (const DTypeFacts& facts : dtypes)
        if (text == facts.name) return static_cast<DType>(&facts - dtypes);
    return bad_text("dtype", text, "f16, bf16 or e4m3");
}

Result<Mask> parse_mask(std::string_view text) {
    for (Mask mask : {Mask::full, Mask::causal})
        if (text == name_of(mask)) return mask;
    return bad_text("mask", text, "full or causal");
}

std::string Signature::text() const {
    return formatted("{}.d{}{}.{}{}", name_of(dtype), head_dim,
                     head_dim_v == 0 ? "" : formatted("v{}", head_dim_v), name_of(mask),
                     lse ? ".lse" : "");
}

Result<Signature> Signature::parse(std::string_view text) {
    const Error malformed = bad_text("signature", text, "bf16.d128.causal or f16.d64.full.lse");
    const auto parts = split(text, '.');
    if (parts.size() < 3 || parts.size() > 4) return malformed;
    const auto dtype = parse_dtype(parts[0]);
    if (!dtype) return dtype.error();
    const auto mask = parse_mask(parts[2]);
    if (!mask) return mask.error();
    Signature signature{*dtype, 0, *mask, parts.size() == 4};
    const std::size_t value = parts[1].find('v');
    if (!parse_field(parts[1].substr(0, value), "d", signature.head_dim)) return malformed;
    if (value != std::string_view::npos) {
        // One spelling each: "d64v64" is "d64".
        if (!parse_field(parts[1].substr(value), "v", signature.head_dim_v) ||
            signature.head_dim_v == signature.head_dim || signature.head_dim_v == 0)
            return malformed;
    }
    if (signature.lse && parts[3] != "lse") return malformed;
    return signature;
}

std::string Shape::text() const {
    return formatted("b{}.h{}.kv{}.q{}.k{}", batch, heads_q, heads_kv, seqlen_q, seqlen_kv);
}

Result<Shape> Shape::parse(std::string_view text) {
    Shape shape;
    const std::pair<const char*, int*> fields[] = {{"b", &shape.batch},
                                                   {"h", &shape.heads_q},
                                                   {"kv", &shape.heads_kv},
                                                   {"q", &shape.seqlen_q},
                                                   {"k", &shape.seqlen_kv}};
    const auto parts = split(text, '.');
    bool good = parts.size() == std::size(fields);
    for (std::size_t i = 0; good && i < parts.size(); ++i)
        good = parse_field(parts[i], fields[i].first, *fields[i].second);
    if (!good) return bad_text("shape", text, "b2.h16.kv16.q8192.k8192");
    return shape;
}

std::string Problem::text() const {
    return signature.text() + "/" + shape.text();
}

Result<Problem> Problem::parse(std::string_view text) {
    const auto parts = split(text, '/');
    if (parts.size() != 2)
        return bad_text("problem", text, "bf16.d128.causal/b2.h16.kv16.q8192.k8192");
    const auto signature = Signature::parse(parts[0]);
    if (!signature) return signature.error();
    const auto shape = Shape::parse(parts[1]);
    if (!shape) return shape.error();
    return Problem{*signature, *shape};
}

Strides contiguous_bhsd(const Signature& signature, const Shape& shape) {
    const auto one = [](long long heads, long long seqlen, long long row) {
        return TensorStrides{heads * seqlen * row, seqlen * row, row};
    };
    const int d = signature.head_dim, value_dim = signature.value_dim();
    return {one(shape.heads_q, shape.seqlen_q, d), one(shape.heads_kv, shape.seqlen_kv, d),
            one(shape.heads_kv, shape.seqlen_kv, value_dim),
            one(shape.heads_q, shape.seqlen_q, value_dim)};
}

Strides contiguous_bshd(const Signature& signature, const Shape& shape) {
    const auto one = [](long long heads, long long seqlen, long long head) {
        return TensorStrides{seqlen * heads * head, head, heads * head};
    };
    const int d = signature.head_dim, value_dim = signature.value_dim();
    return {one(shape.heads_q, shape.seqlen_q, d), one(shape.heads_kv, shape.seqlen_kv, d),
            one(shape.heads_kv, shape.seqlen_kv, value_dim),
            one(shape.heads_q, shape.seqlen_q, value_dim)};
}

Result<void> validate(const Problem& problem) {
    const Signature& s = problem.signature;
    const Shape& shape = problem.shape;
    const std::pair<const char*, int> dims[] = {{"head_dim", s.head_dim},
                                                {"head_dim_v", s.value_dim()}};
    const int step = 16 / element_bytes(s.dtype);
    for (const auto& [name, dim] : dims)
        if (dim < step || dim > 256 || dim % step != 0)
            return invalid(
                formatted("{} {} is not a multiple of {} from {} to 256{}", name, dim, step, step,
                          step == 8 ? "" : " (rows of 16 bytes)"),
                formatted("pad the rows of Q, K and V to the next multiple of {}", step));
    const std::pair<const char*, int> sizes[] = {{"batch", shape.batch},
                                                 {"heads_q", shape.heads_q},
                                                 {"heads_kv", shape.heads_kv},
                                                 {"seqlen_q", shape.seqlen_q},
                                                 {"seqlen_kv", shape.seqlen_kv}};
    for (const auto& [name, value] : sizes)
        if (value < 0) return invalid(formatted("{} is {}", name, value), "sizes are 0 or more");
    if (shape.heads_q > 0 && (shape.heads_kv == 0 || shape.heads_q % shape.heads_kv != 0))
        return invalid(
            formatted("heads_q {} is not a multiple of heads_kv {}", shape.heads_q, shape.heads_kv),
            "each kv head serves the same number of query heads");
    const double ctas = double(shape.batch) * shape.heads_q * (shape.seqlen_q / 16 + 1.0);
    if (ctas >= 2147483647.0)
        return invalid("batch x heads_q x q-tiles passes 2^31 CTAs", "split the batch");
    return {};
}

Result<void> validate(const Problem& problem, const Strides& strides) {
    const std::pair<const char*, const TensorStrides*> tensors[] = {
        {"q", &strides.q}, {"k", &strides.k}, {"v", &strides.v}, {"o", &strides.o}};
    const DType dtype = problem.signature.dtype;
    for (const auto& [name, s] : tensors) {
        const int step = 16 / element_bytes(s == &strides.o ? output_of(dtype) : dtype);
        for (long long stride : {s->batch, s->head, s->row})
            if (stride % step != 0 || stride < 0)
                return invalid(formatted("a stride of {} is {}: rows would not start on 16 bytes",
                                         name, stride),
                               formatted("strides are multiples of {} elements, 0 or more", step));
    }
    const int columns = problem.signature.value_dim();
    if (strides.o.row < columns && problem.shape.seqlen_q > 1)
        return invalid(
            formatted("rows of o overlap: row stride {} < {} {}", strides.o.row,
                      problem.signature.head_dim_v == 0 ? "head_dim" : "head_dim_v", columns),
            "give o its own rows");
    return {};
}

float default_scale(const Signature& signature) {
    return 1.0f / std::sqrt(static_cast<float>(signature.head_dim));
}

double attended_pairs(const Problem& problem) {
    const Shape& shape = problem.shape;
    const double q = shape.seqlen_q, k = shape.seqlen_kv;
    double pairs = q * k;
    if (problem.signature.mask == Mask::causal) {
        // Row i attends max(0, i + 1 + k - q) keys; the rows that attend any are the last min(q,
        // k).
        const double rows = std::min(q, k);
        const double first = k - rows + 1;  // keys of the first such row
        pairs = rows * (first + k) / 2;
    }
    return pairs * shape.batch * shape.heads_q;
}

double flops(const Problem& problem) {
    const Signature& s = problem.signature;
    return 2.0 * (s.head_dim + s.value_dim()) * attended_pairs(problem);
}

double compulsory_bytes(const Problem& problem) {
    const Signature& signature = problem.signature;
    const Shape& s = problem.shape;
    const double q_rows = double(s.heads_q) * s.seqlen_q;
    const double kv_rows = double(s.heads_kv) * s.seqlen_kv;
    const double columns = signature.head_dim, value_columns = signature.value_dim();
    return s.batch * (element_bytes(signature.dtype) *
                          (columns * (q_rows + kv_rows) + value_columns * kv_rows) +
                      element_bytes(output_of(signature.dtype)) * value_columns * q_rows);
}

}  // namespace attune
