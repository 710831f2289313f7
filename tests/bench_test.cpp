// Bench on the emulator: a right kernel passes, and each kind of wrong one is caught for its
// reason.
#include "tuner/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/emu/emu.h"
#include "tuner/bench_judge.h"
#include "tuner/float16.h"
#include "tuner/reference.h"

namespace attune {
namespace {

using testing::HasSubstr;

const char* const config_text = "mma/q64.kv32.w4";

/// Replaces text in the templates, once each; a text that is not there fails the test.
std::vector<TemplateFile> mutated(const std::map<std::string, std::string>& changes) {
    std::vector<TemplateFile> files = embedded_templates();
    for (const auto& [from, to] : changes) {
        bool found = false;
        for (TemplateFile& file : files) {
            const std::size_t at = file.text.find(from);
            if (found || !file.name.starts_with("templates/") || at == std::string::npos) continue;
            file.text.replace(at, from.size(), to);
            found = true;
        }
        EXPECT_TRUE(found) << "no template says: " << from;
    }
    return files;
}

struct Rig {
    std::unique_ptr<EmuDevice> device = *open_emulator("h200");
    std::unique_ptr<Compiler> compiler;
    std::unique_ptr<Bench> bench;
    Candidate candidate;

    explicit Rig(const char* problem_text, const std::map<std::string, std::string>& changes = {},
                 const char* config = config_text) {
        const Problem problem = *Problem::parse(problem_text);
        const std::vector<TemplateFile> templates = mutated(changes);
        compiler = *open_host_compiler(templates);
        const Target& target = device->info().target;
        const Variant variant{problem.signature, *Config::parse(config), target};
        auto binary = compiler->compile(emit(variant, templates), target.arch);
        EXPECT_TRUE(binary) << binary.error().text();
        bench = *Bench::prepare(*device, *compiler, problem, 1);
        candidate = *bench->load(config, *binary);
    }
    CheckResult check() {
        auto result = bench->check(candidate);
        EXPECT_TRUE(result) << result.error().text();
        return *result;
    }
};

const char* const causal_lse = "bf16.d64.causal.lse/b1.h2.kv1.q70.k70";

TEST(Bench, a_right_kernel_passes_with_an_error_near_the_baseline) {
    for (const char* problem : {causal_lse, "f16.d64.full/b1.h1.kv1.q64.k96"}) {
        Rig rig(problem);
        const CheckResult result = rig.check();
        EXPECT_TRUE(result.ok) << result.reason;
        EXPECT_EQ(result.reason, "");
        EXPECT_GT(result.max_error, 0);
        EXPECT_LT(result.max_error, result.error_bar);
        EXPECT_LT(result.error_bar, 0.05);
    }
}

TEST(Bench, lengths_of_zero_are_checked_too) {
    for (const char* problem :
         {"bf16.d64.full.lse/b1.h1.kv1.q0.k5", "bf16.d64.full.lse/b1.h1.kv1.q5.k0"}) {
        Rig rig(problem);
        const CheckResult result = rig.check();
        EXPECT_TRUE(result.ok) << problem << ": " << result.reason;
        EXPECT_EQ(result.max_error, 0);
    }
}

TEST(Bench, a_wrong_scale_is_over_the_bar) {
    Rig rig(causal_lse, {{"softmax(p_.scale_log2)", "softmax(p_.scale_log2 * 1.05f)"}});
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.reason, HasSubstr("over the bar"));
    EXPECT_GT(result.max_error, result.error_bar);
}

TEST(Bench, rows_that_are_not_written_are_found) {
    Rig rig(causal_lse, {{"row < out.rows", "row < out.rows - 1"}});
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.reason, HasSubstr("not written"));
}

TEST(Bench, writing_past_the_output_is_found) {
    Rig rig("bf16.d64.full/b1.h1.kv1.q70.k70", {{"row < out.rows", "row < out.rows + 1"}});
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.reason, "wrote outside O");
}

TEST(Bench, a_workspace_that_is_not_left_zero_is_found) {
    const char* config = "wgmma/q64.kv64.sched=dynamic";
    EXPECT_EQ(Rig(causal_lse, {}, config).check().reason, "");
    Rig rig(causal_lse, {{"store_global_32(counter_, 0)", "(void)0"}}, config);
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.reason, "left its workspace other than zero");
}

TEST(Bench, a_wrong_lse_is_found) {
    Rig rig(causal_lse, {{"Softmax::lse(softmax.reference[i], sum)",
                          "Softmax::lse(softmax.reference[i], sum) + 0.01f"}});
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.reason, HasSubstr("LSE"));
}

TEST(Bench, what_only_ragged_lengths_show_is_found) {
    // The tuned lengths are multiples of the tile: only the ragged case has a tail to mask.
    Rig rig(
        "bf16.d64.full/b1.h1.kv1.q64.k64",
        {{"if (!causal) return seqlen_kv;", "if (!causal) return (seqlen_kv + 31) / 32 * 32;"}});
    const CheckResult result = rig.check();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.reason, HasSubstr("at b2.h2.kv2.q113.k203"));
}

/// Passes everything on to another device, except that the nth launch leaves one bit of its O
/// changed.
class Unrepeatable final : public Device {
public:
    explicit Unrepeatable(Device& device, int bad_launch)
        : device_(device), bad_launch_(bad_launch) {}

    const DeviceInfo& info() const override { return device_.info(); }
    Result<DevicePtr> allocate(std::size_t bytes) override { return device_.allocate(bytes); }
    Result<void> release(DevicePtr ptr) override { return device_.release(ptr); }
    Result<void> copy_to_device(DevicePtr to, const void* from, std::size_t bytes) override {
        return device_.copy_to_device(to, from, bytes);
    }
    Result<void> copy_to_host(void* to, DevicePtr from, std::size_t bytes) override {
        return device_.copy_to_host(to, from, bytes);
    }
    Result<void> fill(DevicePtr to, std::uint32_t pattern, std::size_t bytes,
                      Stream stream) override {
        return device_.fill(to, pattern, bytes, stream);
    }
    Result<Kernel> load(std::span<const std::byte> binary, const std::string& entry,
                        std::uint32_t shared_bytes) override {
        return device_.load(binary, entry, shared_bytes);
    }
    Result<void> unload(Kernel kernel) override { return device_.unload(kernel); }
    Result<void> launch(Kernel kernel, const Launch& launch, const void* params, std::size_t bytes,
                        Stream stream) override {
        auto done = device_.launch(kernel, launch, params, bytes, stream);
        if (!done || ++launches_ != bad_launch_) return done;
        const auto o = reinterpret_cast<DevicePtr>(static_cast<const AttentionParams*>(params)->o);
        std::uint16_t value = 0;
        if (done) done = device_.copy_to_host(&value, o, sizeof value);
        value ^= 1;
        if (done) done = device_.copy_to_device(o, &value, sizeof value);
        return done;
    }
    Result<void> synchronize() override { return device_.synchronize(); }
    Result<Event> create_event() override { return device_.create_event(); }
    Result<void> record(Event event, Stream stream) override {
        return device_.record(event, stream);
    }
    Result<double> elapsed_ms(Event start, Event stop) override {
        return device_.elapsed_ms(start, stop);
    }
    Result<void> destroy_event(Event event) override { return device_.destroy_event(event); }
    volatile std::uint32_t* host_flag() override { return device_.host_flag(); }
    DevicePtr host_flag_device_ptr() override { return device_.host_flag_device_ptr(); }

private:
    Device& device_;
    int bad_launch_;
    int launches_ = 0;
};

TEST(Bench, a_second_run_with_other_bits_is_found) {
    Rig rig(causal_lse);
    Unrepeatable device(*rig.device, 2);
    auto bench = Bench::prepare(device, *rig.compiler, *Problem::parse(causal_lse), 1);
    ASSERT_TRUE(bench) << bench.error().text();
    auto result = (*bench)->check(rig.candidate);
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_FALSE(result->ok);
    EXPECT_EQ(result->reason, "a second run gave other bits");
}

TEST(Bench, a_launch_that_fails_is_an_error_not_a_verdict) {
    Rig rig(causal_lse, {{"static_cast<unsigned short*>(p.o)",
                          "static_cast<unsigned short*>(p.o) + (1ll << 40)"}});
    auto result = rig.bench->check(rig.candidate);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::device_error);
    // The device stays usable.
    EXPECT_TRUE(Bench::prepare(*rig.device, *rig.compiler, *Problem::parse(causal_lse), 1));
}

TEST(Bench, the_emulator_gives_one_estimate_and_slow_ones_are_rejected) {
    Rig rig(causal_lse);
    auto timing = rig.bench->time(rig.candidate, MeasurePolicy{}, 0);
    ASSERT_TRUE(timing) << timing.error().text();
    ASSERT_EQ(timing->samples_us.size(), 1u);
    EXPECT_GT(timing->median_us, 0);
    EXPECT_TRUE(timing->clocks_mhz.empty());
    EXPECT_FALSE(timing->rejected);
    auto slow = rig.bench->time(rig.candidate, MeasurePolicy{}, timing->median_us / 2);
    ASSERT_TRUE(slow);
    EXPECT_TRUE(slow->rejected);
    const std::vector<Candidate> twice{rig.candidate, rig.candidate};
    auto both = rig.bench->time_interleaved(twice, MeasurePolicy{});
    ASSERT_TRUE(both);
    ASSERT_EQ(both->size(), 2u);
    EXPECT_DOUBLE_EQ((*both)[0].median_us, (*both)[1].median_us);
}

TEST(Bench, a_contradictory_problem_is_refused) {
    Rig rig(causal_lse);
    Problem problem = *Problem::parse(causal_lse);
    problem.shape.heads_q = 3;
    problem.shape.heads_kv = 2;
    auto bench = Bench::prepare(*rig.device, *rig.compiler, problem);
    ASSERT_FALSE(bench);
    EXPECT_EQ(bench.error().code, Code::invalid_argument);
}

TEST(Judge, a_small_error_in_a_long_row_does_not_hide_under_the_bar_of_short_rows) {
    auto device = *open_emulator("h200");
    auto compiler = *open_host_compiler();
    const Problem problem = *Problem::parse("bf16.d8.causal/b1.h1.kv1.q2000.k2000");
    const BenchCase bench_case = *BenchCase::make(*device, problem, 1, 0);
    const Judge judge = *Judge::make(*device, *compiler, bench_case, 1);
    const auto inputs = *bench_case.read_inputs(*device);
    const Reference right =
        compute_reference(problem, default_scale(problem.signature), inputs.q, inputs.k, inputs.v);
    const auto fault_with_last_row_times = [&](double factor) {
        std::vector<std::uint16_t> o;
        for (std::size_t i = 0; i < right.o.size(); ++i) {
            const double scaled = i + 8 >= right.o.size() ? factor * right.o[i] : right.o[i];
            o.push_back(from_float(static_cast<float>(scaled), DType::bf16));
        }
        EXPECT_TRUE(device->copy_to_device(bench_case.o().ptr(), o.data(), 2 * o.size()));
        const Findings found = *judge.examine(*device, bench_case);
        EXPECT_LE(found.max_error, judge.error_bar());
        return judge.fault(found);
    };
    EXPECT_EQ(fault_with_last_row_times(1), "");
    EXPECT_THAT(fault_with_last_row_times(1.1), HasSubstr("of a row's largest value"));
}

TEST(SampleRows, small_problems_are_looked_at_whole) {
    const std::vector<RowRun> runs = sample_rows({2, 4, 4, 100, 100}, 0);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].count, 800u);
}

TEST(SampleRows, big_problems_by_runs_inside_every_head) {
    const Shape shape{8, 40, 8, 2049, 2049};
    const std::vector<RowRun> runs = sample_rows(shape, 7);
    std::vector<int> seen(8 * 40);
    std::size_t rows = 0, at_start = 0, at_end = 0;
    for (const RowRun& run : runs) {
        const std::size_t head = run.first / 2049, query = run.first % 2049;
        ASSERT_LT(head, seen.size());
        ASSERT_LE(query + run.count, 2049u);
        ++seen[head];
        rows += run.count;
        at_start += query == 0;
        at_end += query + run.count == 2049;
    }
    EXPECT_GE(rows, 4096u);
    EXPECT_GT(at_start, 0u);
    EXPECT_GT(at_end, 0u);
    for (const int count : seen) EXPECT_GE(count, 1);
}

TEST(SampleRows, one_query_per_head) {
    for (const RowRun& run : sample_rows({512, 32, 8, 1, 1024}, 3)) {
        EXPECT_EQ(run.count, 1u);
        EXPECT_LT(run.first, 512u * 32u);
    }
}

}  // namespace
}  // namespace attune
