#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "generator/problem.h"

namespace attune {
namespace {

using testing::HasSubstr;

Problem problem(const char* text) {
    return *Problem::parse(text);
}

TEST(Signature, TextRoundTrips) {
    for (const char* dtype : {"f16", "bf16", "e4m3"})
        for (const char* mask : {"full", "causal"})
            for (const char* lse : {"", ".lse"})
                for (const char* dim : {"8", "64", "128", "256", "192v128", "64v256"}) {
                    const std::string text = std::string(dtype) + ".d" + dim + "." + mask + lse;
                    const auto signature = Signature::parse(text);
                    ASSERT_TRUE(signature) << text;
                    EXPECT_EQ(signature->text(), text);
                }
}

TEST(Shape, TextRoundTrips) {
    const Shape shape{2, 16, 4, 8192, 1};
    EXPECT_EQ(shape.text(), "b2.h16.kv4.q8192.k1");
    const auto parsed = Shape::parse(shape.text());
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, shape);
    const auto none = Shape::parse("b0.h0.kv0.q0.k0");
    ASSERT_TRUE(none);
    EXPECT_EQ(none->text(), "b0.h0.kv0.q0.k0");
}

class RefusedProblem : public testing::TestWithParam<const char*> {};

TEST_P(RefusedProblem, NamesThePartAndTheRightForm) {
    const auto parsed = Problem::parse(GetParam());
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    EXPECT_THAT(parsed.error().message, HasSubstr("' is not a "));
    EXPECT_THAT(parsed.error().next_step, HasSubstr("write it like"));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, RefusedProblem,
    testing::Values("", "/", "bf16.d64.full", "b1.h1.kv1.q1.k1", "bf16.d64.full/b1.h1.kv1.q1.k1/",
                    "fp16.d64.full/b1.h1.kv1.q1.k1", "BF16.d64.full/b1.h1.kv1.q1.k1",
                    "bf16.64.full/b1.h1.kv1.q1.k1", "bf16.d64.window/b1.h1.kv1.q1.k1",
                    "bf16.d64/b1.h1.kv1.q1.k1", "bf16.d64.full.LSE/b1.h1.kv1.q1.k1",
                    "bf16.d64.full.lse.lse/b1.h1.kv1.q1.k1", "bf16.d.full/b1.h1.kv1.q1.k1",
                    "bf16.d64x.full/b1.h1.kv1.q1.k1", "bf16.d99999999999.full/b1.h1.kv1.q1.k1",
                    "bf16.d64v64.full/b1.h1.kv1.q1.k1", "bf16.d64v0.full/b1.h1.kv1.q1.k1",
                    "bf16.d64v.full/b1.h1.kv1.q1.k1", "bf16.dv64.full/b1.h1.kv1.q1.k1",
                    "bf16.d64v8v8.full/b1.h1.kv1.q1.k1", "bf16.d64.full/b1.h1.kv1.q1",
                    "bf16.d64.full/b1.h1.kv1.q1.k1.k1", "bf16.d64.full/h1.b1.kv1.q1.k1",
                    "bf16.d64.full/b1.h1.kv1.q1.k", "bf16.d64.full/b1.h1.kv1.q1.k1 ",
                    "bf16.d64.full/b1.h1.kv1.q1.k0x10", "bf16.d64.full/b1.h1.kv1.q2147483648.k1",
                    "bf16.d64.full/b1.h1.kv1.q1.5.k1"));

TEST(Problem, ParseNamesTheEmbeddedZero) {
    EXPECT_FALSE(Problem::parse(std::string_view("bf16.d64.full/b1.h1.kv1.q1.k1\0", 30)));
}

struct Contradiction {
    const char* text;
    const char* message;
};
class Contradictory : public testing::TestWithParam<Contradiction> {};

TEST_P(Contradictory, IsRefusedWithItsOwnReason) {
    const auto valid = validate(problem(GetParam().text));
    ASSERT_FALSE(valid);
    EXPECT_EQ(valid.error().code, Code::invalid_argument);
    EXPECT_THAT(valid.error().message, HasSubstr(GetParam().message));
    EXPECT_NE(valid.error().next_step, "");
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, Contradictory,
    testing::Values(Contradiction{"bf16.d20.full/b1.h1.kv1.q1.k1", "head_dim 20 is not a multiple"},
                    Contradiction{"bf16.d264.full/b1.h1.kv1.q1.k1", "head_dim 264"},
                    Contradiction{"bf16.d0.full/b1.h1.kv1.q1.k1", "head_dim 0"},
                    Contradiction{"e4m3.d72.full/b1.h1.kv1.q1.k1", "multiple of 16 from 16 to 256"},
                    Contradiction{"e4m3.d8.full/b1.h1.kv1.q1.k1", "head_dim 8"},
                    Contradiction{"e4m3.d64v72.full/b1.h1.kv1.q1.k1", "head_dim_v 72"},
                    Contradiction{"bf16.d64v20.full/b1.h1.kv1.q1.k1", "head_dim_v 20"},
                    Contradiction{"bf16.d64v264.full/b1.h1.kv1.q1.k1", "head_dim_v 264"},
                    Contradiction{"bf16.d-8.full/b1.h1.kv1.q1.k1", "head_dim -8"},
                    Contradiction{"bf16.d64.full/b-1.h1.kv1.q1.k1", "batch is -1"},
                    Contradiction{"bf16.d64.full/b1.h-2.kv1.q1.k1", "heads_q is -2"},
                    Contradiction{"bf16.d64.full/b1.h2.kv-1.q1.k1", "heads_kv is -1"},
                    Contradiction{"bf16.d64.full/b1.h1.kv1.q-1.k1", "seqlen_q is -1"},
                    Contradiction{"bf16.d64.full/b1.h1.kv1.q1.k-1", "seqlen_kv is -1"},
                    Contradiction{"bf16.d64.full/b1.h6.kv4.q1.k1", "heads_q 6 is not a multiple"},
                    Contradiction{"bf16.d64.full/b1.h2.kv0.q1.k1", "heads_kv 0"},
                    Contradiction{"bf16.d64.full/b65536.h65536.kv1.q64.k1", "2^31 CTAs"}));

TEST(Problem, EmptySizesAndEveryHeadDimAreValid) {
    for (int dim = 8; dim <= 256; dim += 8)
        EXPECT_TRUE(validate(Problem{{DType::f16, dim, Mask::causal, true}, {2, 8, 2, 5, 3}}));
    for (const char* shape :
         {"b0.h4.kv2.q7.k7", "b1.h4.kv2.q0.k7", "b1.h4.kv2.q7.k0", "b1.h0.kv0.q7.k7"})
        EXPECT_TRUE(validate(problem((std::string("bf16.d64.full/") + shape).c_str()))) << shape;
}

TEST(Strides, ContiguousLayouts) {
    const Signature s{DType::bf16, 64, Mask::full, false};
    const Shape shape{2, 6, 3, 10, 20};
    const Strides bhsd = contiguous_bhsd(s, shape), bshd = contiguous_bshd(s, shape);
    EXPECT_EQ(bhsd.q.batch, 6 * 10 * 64);
    EXPECT_EQ(bhsd.k.batch, 3 * 20 * 64);
    EXPECT_EQ(bhsd.v.head, 20 * 64);
    EXPECT_EQ(bhsd.o.row, 64);
    EXPECT_EQ(bshd.q.row, 6 * 64);
    EXPECT_EQ(bshd.k.row, 3 * 64);
    EXPECT_EQ(bshd.o.head, 64);
    EXPECT_EQ(bshd.v.batch, 20 * 3 * 64);
    EXPECT_TRUE(validate(Problem{s, shape}, bhsd));
    EXPECT_TRUE(validate(Problem{s, shape}, bshd));
}

TEST(Strides, VAndOHaveTheirOwnHeadDim) {
    const Signature s = *Signature::parse("bf16.d192v128.full");
    const Shape shape{2, 6, 3, 10, 20};
    const Strides bhsd = contiguous_bhsd(s, shape), bshd = contiguous_bshd(s, shape);
    EXPECT_EQ(bhsd.q.row, 192);
    EXPECT_EQ(bhsd.k.head, 20 * 192);
    EXPECT_EQ(bhsd.v.batch, 3 * 20 * 128);
    EXPECT_EQ(bhsd.o.head, 10 * 128);
    EXPECT_EQ(bshd.k.row, 3 * 192);
    EXPECT_EQ(bshd.v.row, 3 * 128);
    EXPECT_EQ(bshd.o.batch, 10 * 6 * 128);
    Strides overlap = bhsd;
    overlap.o.row = 120;
    EXPECT_THAT(validate(Problem{s, shape}, overlap).error().message,
                HasSubstr("120 < head_dim_v 128"));
}

TEST(Strides, AreSixtyFourBits) {
    const Strides s =
        contiguous_bhsd({DType::f16, 256, Mask::full, false}, {4, 64, 64, 1, 1 << 20});
    EXPECT_EQ(s.k.batch, 64LL * (1 << 20) * 256);
}

TEST(Strides, UnalignedAndOverlappingRowsAreRefused) {
    const Problem p = problem("bf16.d64.full/b1.h2.kv2.q4.k4");
    const Strides good = contiguous_bhsd(p.signature, p.shape);
    for (TensorStrides Strides::*tensor : {&Strides::q, &Strides::k, &Strides::v, &Strides::o})
        for (long long TensorStrides::*stride :
             {&TensorStrides::batch, &TensorStrides::head, &TensorStrides::row})
            for (long long delta : {1LL, 4LL, -1024LL}) {
                Strides bad = good;
                bad.*tensor.*stride += delta;
                const auto valid = validate(p, bad);
                ASSERT_FALSE(valid) << delta;
                EXPECT_THAT(valid.error().message, HasSubstr("16 bytes"));
            }
    Strides overlap = good;
    overlap.o.row = 32;
    EXPECT_THAT(validate(p, overlap).error().message, HasSubstr("rows of o overlap"));
    overlap = good;
    overlap.k.row = 0;  // one key row read by all is a legal broadcast
    EXPECT_TRUE(validate(p, overlap));
}

TEST(Strides, RowsOfBytesStartOnSixteenBytesToo) {
    const Problem p = problem("e4m3.d64.full/b2.h3.kv3.q5.k7");
    Strides strides = contiguous_bhsd(p.signature, p.shape);
    EXPECT_TRUE(validate(p, strides));
    strides.o.row += 8;  // bf16
    EXPECT_TRUE(validate(p, strides));
    strides.k.row += 8;
    const auto refused = validate(p, strides);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("stride of k is 72"));
    EXPECT_THAT(refused.error().next_step, HasSubstr("multiples of 16"));
}

TEST(DTypes, HaveASizeAndAnOutput) {
    for (DType dtype : {DType::f16, DType::bf16, DType::e4m3}) {
        EXPECT_EQ(*parse_dtype(name_of(dtype)), dtype);
        EXPECT_EQ(element_bytes(output_of(dtype)), 2);
    }
    EXPECT_EQ(element_bytes(DType::e4m3), 1);
    EXPECT_EQ(output_of(DType::e4m3), DType::bf16);
    EXPECT_EQ(output_of(DType::f16), DType::f16);
    // Q and K of 64 columns, V and O of 128: bytes, but O.
    EXPECT_EQ(compulsory_bytes(problem("e4m3.d64v128.full/b2.h4.kv2.q10.k20")),
              2 * (4 * 10 * 64 + 2 * 20 * (64 + 128) + 2 * 4 * 10 * 128));
}

TEST(Problem, AttendedPairsAgreeWithCounting) {
    for (int q : {0, 1, 3, 8, 17})
        for (int k : {0, 1, 2, 8, 13}) {
            double full = 0, causal = 0;
            for (int i = 0; i < q; ++i)
                for (int j = 0; j < k; ++j) full += 1, causal += j <= i + k - q;
            Problem p{{DType::bf16, 64, Mask::full, false}, {2, 6, 3, q, k}};
            EXPECT_EQ(attended_pairs(p), 12 * full);
            EXPECT_EQ(flops(p), 4.0 * 64 * 12 * full);
            p.signature.mask = Mask::causal;
            EXPECT_EQ(attended_pairs(p), 12 * causal) << q << " " << k;
        }
}

TEST(Problem, BytesAndScale) {
    const Problem p = problem("f16.d128.full/b2.h8.kv2.q100.k300");
    EXPECT_EQ(compulsory_bytes(p), 2.0 * 128 * 2 * (2 * 8 * 100 + 2 * 2 * 300));
    EXPECT_FLOAT_EQ(default_scale(p.signature), 1.0f / std::sqrt(128.0f));
    const Problem other = problem("f16.d128v32.full/b2.h8.kv2.q100.k300");
    EXPECT_EQ(compulsory_bytes(other), 2.0 * (128 + 32) * 2 * (8 * 100 + 2 * 300));
    EXPECT_EQ(flops(other), 2.0 * (128 + 32) * 2 * 8 * 100 * 300);
    EXPECT_FLOAT_EQ(default_scale(other.signature), 1.0f / std::sqrt(128.0f));
}

}  // namespace
}  // namespace attune
