// The ablation's steps by rules alone, for many GPUs and signatures; then end to end on the
// emulator.
#include "tuner/ablation.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "generator/space.h"

namespace attune {
namespace {

using ::testing::HasSubstr;

constexpr const char* signatures[] = {"bf16.d128.causal", "bf16.d64.full", "f16.d96.causal",
                                      "bf16.d256.causal.lse", "f16.d40.full"};

bool names(const AblationStep& step, std::string_view axis) {
    return std::any_of(step.settings.begin(), step.settings.end(),
                       [&](const AblationStep::Setting& setting) { return axis == setting.axis; });
}

bool holds(const Config& config, const Settings& settings) {
    return std::all_of(settings.begin(), settings.end(), [&](const auto& setting) {
        const auto& [axis, values] = setting;
        return std::find(values.begin(), values.end(), config[axis]) != values.end();
    });
}

/// Walks the steps as the ablation does; a step's best is its first candidate by estimate.
class Steps {
public:
    Steps(const Family& family, const char* gpu, const char* signature, int heads_kv)
        : family_(family),
          target_(*find_target(gpu)),
          problem_{*Signature::parse(signature), {2, 16, heads_kv, 4096, 4096}} {}

    /// The candidates of each step; empty where the step is left out.
    std::vector<std::vector<Config>> walk() {
        std::vector<std::vector<Config>> all;
        for (const AblationStep& step : family_.ablation) {
            const Settings settings = settings_after(settings_, step);
            auto candidates = step_candidates(family_, settings, problem_, target_, previous_, 16);
            for (const Config& config : candidates) {
                EXPECT_TRUE(holds(config, settings)) << step.name << ": " << config.text();
                EXPECT_EQ(broken_constraint(problem_.signature, config, target_), nullptr)
                    << step.name << ": " << config.text();
            }
            if (previous_) expect_only_its_axes_change(step, settings);
            if (!candidates.empty()) {
                settings_ = settings;
                previous_ = candidates.front();
            }
            all.push_back(std::move(candidates));
        }
        return all;
    }

private:
    void expect_only_its_axes_change(const AblationStep& step, const Settings& settings) const {
        for (const Config& config : changed_to(*previous_, settings)) {
            EXPECT_NE(config, *previous_) << step.name << " switches nothing";
            for (std::size_t i = 0; i < family_.axes.size(); ++i)
                EXPECT_TRUE(config.values[i] == previous_->values[i] ||
                            names(step, family_.axes[i].key))
                    << step.name << " changes " << family_.axes[i].key;
        }
    }

    const Family& family_;
    Target target_;
    Problem problem_;
    Settings settings_;
    std::optional<Config> previous_;
};

std::vector<std::string> left_out(const char* name, const char* gpu, const char* signature,
                                  int heads_kv = 4) {
    const Family& family = *find_family(name);
    const auto all = Steps(family, gpu, signature, heads_kv).walk();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].empty()) names.push_back(family.ablation[i].name);
    return names;
}

TEST(AblationSteps, NameAxesAndValuesOfTheirFamily) {
    for (const Family& family : families())
        for (const AblationStep& step : family.ablation)
            for (const AblationStep::Setting& setting : step.settings) {
                const Axis* axis = family.axis(setting.axis);
                ASSERT_NE(axis, nullptr) << setting.axis;
                for (const int value : setting.values)
                    EXPECT_THAT(axis->values, ::testing::Contains(value)) << step.name;
            }
}

TEST(AblationSteps, AreLegalAndSwitchTheirOwnAxesOnly) {
    for (const char* gpu : {"h200", "a10", "rtx-4090"})
        for (const char* signature : signatures) {
            SCOPED_TRACE(std::string(gpu) + " " + signature);
            left_out("mma", gpu, signature);
        }
}

TEST(AblationSteps, OfHopperAreLegalAndSwitchTheirOwnAxesOnly) {
    for (const char* signature : signatures) {
        SCOPED_TRACE(signature);
        left_out("wgmma", "h200", signature);
    }
}

TEST(AblationSteps, LeaveOutWhatTheProblemOrTheGpuCannotDo) {
    using ::testing::ElementsAre;
    using ::testing::IsEmpty;
    EXPECT_THAT(left_out("mma", "h200", "bf16.d128.causal"), IsEmpty());
    EXPECT_THAT(left_out("mma", "h200", "bf16.d128.full"), ElementsAre("longest q-tile first"));
    EXPECT_THAT(left_out("mma", "a10", "f16.d64.causal"), ElementsAre("deferred check"));
    EXPECT_THAT(left_out("mma", "t4", "f16.d64.causal"),
                ElementsAre("mbarrier ring", "deferred check"));
    EXPECT_THAT(left_out("wgmma", "h200", "bf16.d128.causal"), IsEmpty());
    EXPECT_THAT(left_out("wgmma", "h200", "f16.d64.full"), ElementsAre("longest q-tile first"));
    EXPECT_THAT(left_out("wgmma", "h200", "bf16.d128.causal", 16), ElementsAre("packed heads"));
}

TEST(AblationSteps, TryTheTablesPointsAndEachValueOfASetting) {
    const Family& mma = *find_family("mma");
    const Config point = *Config::parse("mma/q128.kv64.w4.rescale=stale.mix=yes");
    const Settings settings{{"rescale", {1, 2}}, {"sec", {8, 32}}, {"mix", {0, 1}}};
    const auto changed = changed_to(point, settings);
    EXPECT_EQ(changed.size(), 4u) << "mix holds already";
    const Settings first = settings_after({}, mma.ablation[0]);
    const Settings split = settings_after(settings_after(first, mma.ablation[1]), mma.ablation[2]);
    const Problem problem = *Problem::parse("bf16.d128.full/b2.h16.kv16.q4096.k4096");
    const auto candidates = step_candidates(mma, split, problem, *find_target("h200"), {}, 16);
    const Config fa2 = changed_to(*Config::parse("mma/q128.kv64.w4"), split).front();
    EXPECT_THAT(candidates, ::testing::Contains(fa2)) << "FlashAttention-2's tile";
    EXPECT_GE(candidates.size(), 10u);
}

TEST(Ablation, TimesEveryStepOnTheEmulator) {
    AblationRequest request;
    request.device = "emu:h200";
    request.problem = *Problem::parse("f16.d16.causal/b1.h1.kv1.q32.k32");
    request.workers.command = {ATTUNE_WORKER_CHILD, "real"};
    request.workers.compile_processes = 2;
    request.restriction.max_shared_bytes =
        4096;  // no table point is as small: few kernels to compile
    request.candidates = 2;
    std::vector<std::string> stages;
    const auto report =
        run_ablation(request, [&](const TuneProgress& at) { stages.push_back(at.stage); });
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_TRUE(report->device.emulated);
    EXPECT_EQ(report->mma_peak_tflops, 0) << "the emulator measures nothing";
    const std::size_t mma_steps = find_family("mma")->ablation.size();
    ASSERT_EQ(report->rows.size(), mma_steps + find_family("wgmma")->ablation.size());
    for (std::size_t i = mma_steps; i < report->rows.size(); ++i)
        EXPECT_THAT(report->rows[i].left_out, HasSubstr("shared memory"));
    double before = 0;
    Settings settings;
    for (std::size_t i = 0; i < mma_steps; ++i) {
        const AblationRow& row = report->rows[i];
        if (std::string(row.step.name) == "deferred check") {
            EXPECT_THAT(row.left_out, HasSubstr("bf16"));
            continue;
        }
        EXPECT_EQ(row.left_out, "") << row.step.name;
        settings = settings_after(settings, row.step);
        EXPECT_TRUE(holds(*Config::parse(row.best.config), settings)) << row.best.config;
        EXPECT_EQ(row.best.verdict, Verdict::ok);
        EXPECT_TRUE(row.best.final_round);
        EXPECT_LE(row.best.max_error, row.best.error_bar);
        EXPECT_GT(row.best.shared_bytes, 0);
        EXPECT_GT(row.tflops, 0);
        EXPECT_DOUBLE_EQ(row.gain, before > 0 ? row.tflops / before : 0);
        before = row.tflops;
    }
    EXPECT_EQ(stages.back(), "final");
}

TEST(Ablation, WithoutAWorkerOrAFamilyItFails) {
    AblationRequest request;
    request.device = "emu:h200";
    request.problem = *Problem::parse("f16.d16.full/b1.h1.kv1.q16.k16");
    request.workers.command = {ATTUNE_WORKER_CHILD, "exit"};
    EXPECT_FALSE(run_ablation(request, {})) << "a worker that does not start";
    request.workers.command = {ATTUNE_WORKER_CHILD, "real"};
    request.restriction.family = "none";
    EXPECT_EQ(run_ablation(request, {}).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace attune
