// Every legal pair of axis values at least once, on shapes around tile edges, in every layout,
// against fp64. ATTUNE_TEST_DEVICE picks the device.
#include "tests/attention_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "runtime/launch_attention.h"

namespace attune {
namespace {

constexpr TensorLayout layouts[] = {TensorLayout::bhsd, TensorLayout::bshd, TensorLayout::fused_qkv,
                                    TensorLayout::padded};

TEST(GridDevice, IsTheOneAskedFor) {
    TestBed& bed = test_bed();
    EXPECT_EQ(bed.device().info().id, test_device_id());
    EXPECT_EQ(bed.emulated(), test_device_id().starts_with("emu:"));
    const Signature signature = widest_signature();
    const Config config =
        grid_families(bed.target()).front()->default_config(signature, bed.target());
    const auto binary =
        bed.compiler().compile(emit({signature, config, bed.target()}), bed.target().arch);
    ASSERT_TRUE(binary) << binary.error().text();
    // Code of the one does not run on the other: an ELF's machine is x86-64, CUDA or AMDGPU.
    std::uint16_t machine = 0;
    std::memcpy(&machine, binary->bytes.data() + 18, 2);
    EXPECT_EQ(machine, bed.emulated() ? 62 : bed.target().vendor == Vendor::nvidia ? 190 : 224);
    const Problem problem{signature, {1, 1, 1, 64, 64}};
    ASSERT_TRUE(bed.run(problem, config, normal_tensors(problem, 1)));
    if (bed.emulated()) {
        EXPECT_GT(bed.emulator()->last_counts().mma, 0u);
    }
}

/// Inputs and what they must give, made once per problem.
struct Case {
    HostTensors tensors;
    Reference reference;
};
const Case& case_of(const Problem& problem) {
    static std::map<std::string, Case> made;
    const auto [at, fresh] = made.try_emplace(problem.text());
    if (fresh) {
        at->second.tensors = normal_tensors(problem, 7);
        at->second.tensors.scales = head_scales(problem);
        at->second.reference = reference_of(problem, at->second.tensors);
    }
    return at->second;
}

/// The baseline subtracts each row's maximum: its largest P is exactly 1. A reference that may stay
/// below the maximum rounds that P as well.
double bar_for(const Config& config, const Problem& problem, const Reference& reference) {
    double bar = bar_of(reference);
    const std::string text = config.text();
    const bool follows_maximum =
        text.find("=each") != std::string::npos || text.find("=norm") != std::string::npos;
    double top = 0;
    for (double o : reference.o) top = std::max(top, std::fabs(o));
    if (!follows_maximum) bar += unit_roundoff(problem.signature.dtype) * top;
    return bar;
}

class Grid : public testing::TestWithParam<GridCase> {};

TEST_P(Grid, IsRightAndRepeatable) {
    TestBed& bed = test_bed();
    const auto& [signature, config, index] = GetParam();
    int turn = index;
    for (const Shape& shape : shapes_of(GetParam(), bed.emulated())) {
        const Problem problem{signature, shape};
        SCOPED_TRACE(problem.text());
        const Case& expected = case_of(problem);
        const TensorLayout layout = layouts[turn++ % 4];
        if (bed.emulated()) bed.emulator()->set_options({.seed = unsigned(turn)});
        const auto first = bed.run(problem, config, expected.tensors, layout);
        ASSERT_TRUE(first) << first.error().text();
        const double bar = bar_for(config, problem, expected.reference);
        EXPECT_EQ(difference(problem, expected.reference, *first, bar), "");
        if (bed.emulated()) bed.emulator()->set_options({.seed = unsigned(turn) + 1000});
        const auto second = bed.run(problem, config, expected.tensors, layout);
        ASSERT_TRUE(second) << second.error().text();
        EXPECT_EQ(first->o, second->o);
        EXPECT_EQ(first->lse, second->lse);
    }
    bed.forget_kernels();
}

INSTANTIATE_TEST_SUITE_P(Families, Grid,
                         testing::ValuesIn(grid_cases(test_bed().target(), test_bed().emulated())));

/// Holds the grid's own promise, so that it cannot shrink unnoticed.
TEST(GridCoverage, MeetsEveryLegalPairShapeAndSignature) {
    TestBed& bed = test_bed();
    using Pairs = std::set<std::array<int, 4>>;  // axis, its value, another, its value
    const auto pairs_of = [](const Config& config, std::map<std::string, Pairs>& of_family) {
        Pairs& pairs = of_family[config.family];
        const int axes = int(config.values.size());
        for (int i = 0; i < axes; ++i)
            for (int j = i + 1; j < axes; ++j)
                pairs.insert({i, config.values[i], j, config.values[j]});
    };
    std::map<std::string, Pairs> legal, met;
    std::set<std::string> signatures, shapes;
    for (const Family* family : grid_families(bed.target()))
        for_each_legal(*family, widest_signature(), bed.target(), [&](const Config& c) {
            pairs_of(c, legal);
            return true;
        });
    for (const GridCase& grid_case : grid_cases(bed.target(), bed.emulated())) {
        EXPECT_EQ(broken_constraint(grid_case.signature, grid_case.config, bed.target()), nullptr);
        pairs_of(grid_case.config, met);
        signatures.insert(grid_case.signature.text());
        for (const Shape& shape : shapes_of(grid_case, bed.emulated())) shapes.insert(shape.text());
    }
    for (const auto& [family, pairs] : legal)
        EXPECT_TRUE(
            std::includes(met[family].begin(), met[family].end(), pairs.begin(), pairs.end()))
            << family;
    for (const Signature& signature : grid_signatures(bed.target()))
        EXPECT_TRUE(signatures.contains(signature.text())) << signature.text();
    for (const Shape& shape : grid_shapes(bed.emulated()))
        EXPECT_TRUE(shapes.contains(shape.text())) << shape.text();
}

/// Query heads packed into q-tiles: ratios that are and are not powers of two, more heads than a
/// tile has rows, queries that end inside a tile, rows without keys.
TEST(GridPacking, IsRightForEveryRatioOfHeads) {
    TestBed& bed = test_bed();
    int turn = 0;
    for (const char* shape :
         {"b2.h2.kv2.q70.k90", "b1.h4.kv2.q67.k130", "b1.h6.kv2.q33.k70", "b1.h12.kv2.q45.k50",
          "b2.h16.kv2.q19.k200", "b1.h8.kv1.q1.k333", "b1.h48.kv1.q5.k3", "b1.h64.kv1.q3.k90",
          "b1.h128.kv1.q2.k70", "b1.h71.kv1.q2.k40", "b2.h4.kv2.q70.k0"})
        for (const char* signature : {"bf16.d40.causal.lse", "f16.d32.full.lse"})
            for (const char* text : {"wgmma/q128.kv48.rescale=moved.pp=yes.pack=yes",
                                     "wgmma/q192.kv64.s3.qs2.sched=dynamic.ahead=yes.pack=yes"}) {
                const Problem problem{*Signature::parse(signature), *Shape::parse(shape)};
                const Config config = *Config::parse(text);
                if (!find_family("wgmma")->applicable(problem.signature, bed.target()))
                    GTEST_SKIP() << "only wgmma packs heads";
                SCOPED_TRACE(problem.text() + " " + text);
                const Case& expected = case_of(problem);
                const auto got = bed.run(problem, config, expected.tensors, layouts[turn++ % 4]);
                ASSERT_TRUE(got) << got.error().text();
                const double bar = bar_for(config, problem, expected.reference);
                EXPECT_EQ(difference(problem, expected.reference, *got, bar), "");
            }
    bed.forget_kernels();
}

/// A race shows as an answer that moves: many runs of kernels with rings, odd numbers of tiles and
/// CTAs that go on to a next q-tile; on the emulator in another order each time.
TEST(GridRepeats, AreEqualBitForBit) {
    TestBed& bed = test_bed();
    const int repeats = bed.emulated() ? 3 : 1000;
    for (const char* text :
         {"bf16.d128.causal.lse/b1.h3.kv1.q500.k601", "bf16.d64.full.lse/b2.h2.kv2.q333.k290",
          "e4m3.d128.causal.lse/b1.h3.kv1.q500.k601"}) {
        const Problem problem = *Problem::parse(text);
        for (const std::string& config_text :
             policy_configs(problem.signature.dtype, bed.target())) {
            const Config config = *Config::parse(config_text);
            if (broken_constraint(problem.signature, config, bed.target())) continue;
            SCOPED_TRACE(problem.text() + " " + config_text);
            const HostTensors& tensors = case_of(problem).tensors;
            std::optional<Outcome> first;
            for (int i = 0; i < repeats; ++i) {
                if (bed.emulated()) bed.emulator()->set_options({.seed = unsigned(i)});
                auto got = bed.run(problem, config, tensors);
                ASSERT_TRUE(got) << got.error().text();
                if (!first) first = *got;
                ASSERT_EQ(got->o, first->o) << "run " << i;
                ASSERT_EQ(got->lse, first->lse) << "run " << i;
            }
        }
    }
    bed.forget_kernels();
}

/// One buffer whose rows lie 2^21 elements apart, each with q of two heads, k, v and o of two
/// heads.
class FarApart {
public:
    static constexpr int rows = 1100;
    static constexpr long long apart = 1LL << 21;

    FarApart(Device& device, int head_dim)
        : device_(device),
          d_(head_dim),
          buffer_(*DeviceBuffer::allocate(device, 2 * (apart * rows + 6 * head_dim))),
          lse_(*DeviceBuffer::allocate(device, 4 * 2 * rows)) {}

    /// Everything else becomes NaN, O and LSE of a launch before included.
    void upload(const HostTensors& from) const {
        ASSERT_TRUE(device_.fill(buffer_.ptr(), 0xffffffff, buffer_.bytes()));
        ASSERT_TRUE(device_.fill(lse_.ptr(), 0xffffffff, lse_.bytes()));
        for (int row = 0; row < rows; ++row)
            for (const auto& [slot, values] :
                 {std::pair(0, &from.q[row * d_]), std::pair(1, &from.q[(rows + row) * d_]),
                  std::pair(2, &from.k[row * d_]), std::pair(3, &from.v[row * d_])})
                ASSERT_TRUE(device_.copy_to_device(at(slot, row), values, 2 * d_));
    }
    AttentionParams params(float scale) const {
        AttentionParams params{};
        params.q = reinterpret_cast<void*>(at(0, 0));
        params.k = reinterpret_cast<void*>(at(2, 0));
        params.v = reinterpret_cast<void*>(at(3, 0));
        params.o = reinterpret_cast<void*>(at(4, 0));
        params.lse = lse_.as<float>();
        params.q_strides = params.k_strides = params.v_strides =
            params.o_strides = {apart * rows, d_, apart};
        params.batch = params.heads_kv = 1;
        params.heads_q = 2;
        params.seqlen_q = params.seqlen_kv = rows;
        params.scale_log2 = scale * 1.44269504f;
        return params;
    }
    Outcome download() const {
        Outcome got{std::vector<std::uint16_t>(2 * rows * d_),
                    *read_back<float>(device_, lse_.ptr(), 2 * rows)};
        for (int i = 0; i < 2 * rows; ++i)
            EXPECT_TRUE(device_.copy_to_host(&got.o[i * d_], at(4 + i / rows, i % rows), 2 * d_));
        return got;
    }

private:
    DevicePtr at(int slot, int row) const { return buffer_.ptr() + 2 * (row * apart + slot * d_); }

    Device& device_;
    int d_;
    DeviceBuffer buffer_, lse_;
};

TEST(GridOffsets, PassTwoToThe31) {
    TestBed& bed = test_bed();
    if (bed.emulated()) GTEST_SKIP() << "needs 5 GB of device memory: on a GPU only";
    const Problem problem{widest_signature(), {1, 2, 1, FarApart::rows, FarApart::rows}};
    const Case& expected = case_of(problem);
    const FarApart tensors(bed.device(), problem.signature.head_dim);
    const AttentionParams params = tensors.params(default_scale(problem.signature));
    for (const Family* family : grid_families(bed.target())) {
        SCOPED_TRACE(family->name);
        tensors.upload(expected.tensors);
        const Config config = family->default_config(problem.signature, bed.target());
        const auto kernel = bed.kernel(problem.signature, config);
        ASSERT_TRUE(kernel) << kernel.error().text();
        const Launch launch =
            family->launch(problem.signature, config, problem.shape, bed.target());
        ASSERT_TRUE(launch_attention(bed.device(), *kernel, launch, problem.signature, params));
        ASSERT_TRUE(bed.device().synchronize());
        const double bar = bar_of(expected.reference);
        EXPECT_EQ(difference(problem, expected.reference, tensors.download(), bar), "");
    }
}

}  // namespace
}  // namespace attune
