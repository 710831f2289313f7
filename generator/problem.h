// Problem = what to compute. Its compile-time part is the Signature, the rest is the Shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "generator/status.h"
#include "templates/abi.h"

namespace attune {

/// Of Q, K and V. O has the same type, but bf16 where they are e4m3.
enum class DType { f16, bf16, e4m3 };
enum class Mask { full, causal };

const char* name_of(DType dtype);  // "f16", "bf16", "e4m3"
int element_bytes(DType dtype);
DType output_of(DType dtype);    // of O
const char* name_of(Mask mask);  // "full", "causal"
Result<DType> parse_dtype(std::string_view text);
Result<Mask> parse_mask(std::string_view text);

/// What a kernel is compiled for. Text form: "bf16.d128.causal.lse" ("f16.d64.full" without LSE,
/// "bf16.d192v128.causal" where V and O have another head_dim than Q and K).
/// Head dims are multiples of 8 from 8 to 256; of 16 in e4m3.
/// Layout is strided with rows that start on 16 bytes (base pointers and strides multiples of
/// 8 elements, 16 in e4m3); others are refused by validate() with the reason.
struct Signature {
    DType dtype = DType::bf16;
    int head_dim = 128;  // of Q and K
    Mask mask =
        Mask::full;  // causal is bottom-right: query i sees keys j <= i + seqlen_kv - seqlen_q
    bool lse = false;
    int head_dim_v = 0;  // of V and O; 0: as head_dim, the only form of an equal one

    /// Columns of V and O.
    int value_dim() const { return head_dim_v == 0 ? head_dim : head_dim_v; }

    std::string text() const;
    static Result<Signature> parse(std::string_view text);
    bool operator==(const Signature&) const = default;
};

/// What a kernel is launched with. Text form: "b2.h16.kv16.q8192.k8192" for contiguous BHSD
/// tensors; strides are not part of the text, nor of a record's key.
struct Shape {
    int batch = 1;
    int heads_q = 1;
    int heads_kv = 1;
    int seqlen_q = 1;
    int seqlen_kv = 1;

    std::string text() const;
    static Result<Shape> parse(std::string_view text);
    bool operator==(const Shape&) const = default;
};

/// Strides of the four tensors, in elements.
struct Strides {
    TensorStrides q, k, v, o;
};

/// Contiguous [batch, heads, seqlen, head dim] tensors.
Strides contiguous_bhsd(const Signature& signature, const Shape& shape);
/// Contiguous [batch, seqlen, heads, head dim] tensors.
Strides contiguous_bshd(const Signature& signature, const Shape& shape);

struct Problem {
    Signature signature;
    Shape shape;

    /// "bf16.d128.causal/b2.h16.kv16.q8192.k8192"
    std::string text() const;
    static Result<Problem> parse(std::string_view text);
    bool operator==(const Problem&) const = default;
};

/// Refuses contradictions and what no kernel covers, one named reason each: negative sizes, heads_q
/// not a multiple of heads_kv, head dims not multiples of 8 (16 in e4m3) or outside 8..256. Sizes
/// of 0 are legal.
Result<void> validate(const Problem& problem);
/// Refuses strides that break 16-byte rows or overlap nothing can fix (a row of O shorter than it
/// is).
Result<void> validate(const Problem& problem, const Strides& strides);

/// The softmax scale used where none is given: 1 / sqrt(head_dim).
float default_scale(const Signature& signature);

/// Query-key pairs a mask keeps, over batch and heads_q. Causal counts attended pairs only.
double attended_pairs(const Problem& problem);
/// Forward FLOP: 2 * (head_dim + value_dim) * attended_pairs (2 per multiply-add, QK^T and PV).
double flops(const Problem& problem);
/// Bytes of Q, K, V and O, each moved once.
double compulsory_bytes(const Problem& problem);

}  // namespace attune
