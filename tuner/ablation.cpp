#include "tuner/ablation.h"

#include <algorithm>
#include <chrono>

#include "generator/formatted.h"
#include "generator/space.h"
#include "tuner/devices.h"
#include "tuner/search.h"
#include "tuner/tune_trial.h"

namespace attune {
namespace {

/// The family limited to the settings.
Family narrowed(const Family& family, const Settings& settings) {
    Family narrow = family;
    for (Axis& axis : narrow.axes)
        if (const auto held = settings.find(axis.key); held != settings.end())
            axis.values = held->second;
    narrow.table_points = [&family, settings](const Signature& signature, const Target& target) {
        std::vector<Config> points;
        for (const Config& point : family.table_points(signature, target))
            for (Config& config : changed_to(point, settings)) points.push_back(std::move(config));
        return points;
    };
    narrow.default_config = [&family, settings](const Signature& signature, const Target& target) {
        return changed_to(family.default_config(signature, target), settings).front();
    };
    return narrow;
}

/// Those that run the problem and have steps.
Result<std::vector<const Family*>> families_of(const AblationRequest& request,
                                               const Target& target) {
    auto able = applicable_families(request.problem.signature, target, request.restriction.family);
    if (!able) return able.error();
    const std::string_view first = able->front()->name;
    std::erase_if(*able, [](const Family* family) { return family->ablation.empty(); });
    if (able->empty())
        return Error{Code::unsupported, formatted("family {} has no steps to compare", first),
                     "name another family with --family"};
    return able;
}

class Ablation {
public:
    Ablation(const AblationRequest& request, const Target& target, Trial& trial,
             const std::function<void(const TuneProgress&)>& progress)
        : problem_(request.problem),
          count_(request.candidates),
          target_(target),
          trial_(trial),
          note_(progress) {}

    Result<void> run(const std::vector<const Family*>& families, AblationReport& report) {
        for (const Family* family : families) at_.problem_count += family->ablation.size();
        for (const Family* family : families) {
            settings_.clear();
            previous_.reset();
            for (const AblationStep& step : family->ablation) {
                at_.problem = step.name;
                AblationRow row{step, "", 0, {}, 0, 0};
                if (auto tried = try_step(*family, row); !tried) return tried;
                report.rows.push_back(std::move(row));
                ++at_.problem_index;
            }
        }
        return meet(report);
    }

private:
    /// Where a step has no best, the next one goes on from the one before.
    Result<void> try_step(const Family& family, AblationRow& row) {
        const Settings settings = settings_after(settings_, row.step);
        const auto candidates =
            step_candidates(family, settings, problem_, target_, previous_, count_);
        if (candidates.empty()) {
            row.left_out = why_none(family, settings);
            return {};
        }
        const auto best = fastest(candidates, row);
        if (!best) return best.error();
        if (!*best) return {};
        settings_ = settings;
        previous_ = **best;
        winners_.push_back(**best);
        return {};
    }

    /// Of those that are right; none leaves the row with why.
    Result<std::optional<Config>> fastest(const std::vector<Config>& candidates, AblationRow& row) {
        row.candidates = at_.total = int(candidates.size());
        at_.done = 0;
        at_.best_us = 0;
        at_.best_config.clear();
        std::string first_fault;
        std::optional<Config> best;
        const Trial::Plan plan{screening_policy(), true, true,
                               [this](const std::string& stage) { tell(stage); }};
        const auto on_row = [&](const Config& config, const Measurement& result) {
            const bool ok = result.verdict == Verdict::ok;
            if (!ok && first_fault.empty())
                first_fault = formatted("{} ({})", name_of(result.verdict), result.reason);
            if (ok && (!best || result.median_us < at_.best_us)) {
                best = config;
                at_.best_us = result.median_us;
                at_.best_config = result.config;
            }
            ++at_.done;
            return true;
        };
        if (auto tried = trial_.run(candidates, plan, 0, on_row); !tried) return tried.error();
        if (!best) row.left_out = "no candidate worked; the first: " + first_fault;
        return best;
    }

    std::string why_none(const Family& family, const Settings& settings) const {
        const Config before =
            previous_.value_or(family.default_config(problem_.signature, target_));
        const Config wanted = changed_to(before, settings).front();
        const Constraint* broken = broken_constraint(problem_.signature, wanted, target_);
        if (broken != nullptr) return broken->meaning;
        const char* unfit = why_unfit(wanted, problem_);
        return unfit != nullptr ? unfit : "no legal config";
    }

    /// The final round: the steps' best, interleaved.
    Result<void> meet(AblationReport& report) {
        if (winners_.empty())
            return Error{Code::wrong_result,
                         formatted("no step of {} gave a right answer; the first: {}",
                                   problem_.text(), report.rows.front().left_out),
                         "see attune bench for what becomes of one config"};
        tell("final");
        const MeasurePolicy policy;
        const auto final_rows = trial_.final_round(winners_, policy);
        if (!final_rows) return final_rows.error();
        report.policy = policy.id();
        report.mma_peak_tflops = trial_.mma_peak_tflops(winners_.back());
        auto next = final_rows->begin();
        double before = 0;
        for (AblationRow& row : report.rows) {
            if (!row.left_out.empty()) continue;
            row.best = *next++;
            row.tflops = flops(problem_) / row.best.median_us * 1e-6;
            row.gain = before > 0 ? row.tflops / before : 0;
            before = row.tflops;
        }
        return {};
    }

    void tell(const std::string& stage) {
        at_.stage = stage;
        at_.elapsed_s =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        if (note_) note_(at_);
    }

    const Problem& problem_;
    const int count_;
    const Target& target_;
    Trial& trial_;
    const std::function<void(const TuneProgress&)>& note_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Settings settings_;
    std::optional<Config> previous_;  // winner of the last step that had one
    std::vector<Config> winners_;
    TuneProgress at_;
};

}  // namespace

Settings settings_after(Settings settings, const AblationStep& step) {
    for (const AblationStep::Setting& setting : step.settings)
        settings[setting.axis] = setting.values;
    return settings;
}

std::vector<Config> changed_to(const Config& config, const Settings& settings) {
    std::vector<Config> configs{config};
    for (const auto& [axis, values] : settings) {
        if (std::find(values.begin(), values.end(), config[axis]) != values.end()) continue;
        std::vector<Config> more;
        for (const Config& one : configs)
            for (const int value : values) more.push_back(one.with(axis, value));
        configs = std::move(more);
    }
    return configs;
}

std::vector<Config> step_candidates(const Family& family, const Settings& settings,
                                    const Problem& problem, const Target& target,
                                    const std::optional<Config>& previous, int count) {
    const EffortPlan plan{Effort::measure, "", count, 0, 0, 0, false};
    const Family narrow = narrowed(family, settings);
    const Family* families[] = {&narrow};
    std::vector<Config> known;
    if (previous) known = changed_to(*previous, settings);
    return first_candidates(plan, problem, target, families, known);
}

Result<AblationReport> run_ablation(const AblationRequest& request,
                                    const std::function<void(const TuneProgress&)>& progress) {
    if (auto valid = validate(request.problem); !valid) return valid.error();
    auto bench = WorkerBench::open(request.workers, request.device, request.seed);
    if (!bench) return bench.error();
    const Target target = request.restriction.applied_to(bench->info().target);
    const auto families = families_of(request, target);
    if (!families) return families.error();
    auto pool = CompilePool::open(
        request.workers, compiler_for(bench->info().target.vendor, bench->info().emulated));
    if (!pool) return pool.error();
    if (auto ready = bench->prepare(request.problem); !ready) return ready.error();
    Trial trial(**pool, *bench, target, request.problem);
    AblationReport report;
    report.device = bench->info();
    report.toolchain = (*pool)->toolchain();
    report.datasheet_tflops =
        report.device.target.dense_tflops(element_bytes(request.problem.signature.dtype));
    auto done = Ablation(request, target, trial, progress).run(*families, report);
    if (!done) return done.error();
    return report;
}

}  // namespace attune
