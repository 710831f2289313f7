#include "tuner/tune_problem.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "generator/formatted.h"
#include "generator/space.h"
#include "tuner/search.h"
#include "tuner/tune_trial.h"

namespace attune {
namespace {

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

class ProblemTuner {
public:
    ProblemTuner(Sweep& sweep, const Problem& problem,
                 const std::function<void(const TuneProgress&)>& note)
        : sweep_(sweep),
          plan_(sweep.plan),
          problem_(problem),
          note_(note),
          trial_(*sweep.pool, sweep.bench, sweep.target, problem) {}

    Result<void> run(TuneOutcome& outcome) {
        if (auto found = start(); !found) return found;
        auto searched = timed() ? search() : first_that_works();
        outcome.measurements = trial_.rows();
        if (!searched) return searched;
        auto record = timed() ? timed_record() : estimated_record();
        outcome.measurements = trial_.rows();
        if (!record) return record.error();
        complete(*record);
        outcome.record = *record;
        progress_.stage = "done";
        note_(progress_);
        sweep_.winners.insert_or_assign(problem_.signature.text(), *Config::parse(record->config));
        auto stored = sweep_.store.put(*record, winner_binary_->binary.bytes, trial_.rows());
        if (!stored) return stored.error();
        outcome.stored = *stored;
        return {};
    }

private:
    bool timed() const { return plan_.finalists > 0; }
    double estimate_us(const Config& config) const {
        return find_family(config.family)->estimate_us(problem_, config, sweep_.target);
    }

    Result<void> start() {
        if (auto valid = validate(problem_); !valid) return valid;
        const Shape& s = problem_.shape;
        if (s.batch == 0 || s.heads_q == 0 || s.seqlen_q == 0 || s.seqlen_kv == 0)
            return Error{Code::invalid_argument, "a problem with a size of 0 has nothing to tune",
                         "tune a shape of the same signature: its kernel serves this one too"};
        auto able = applicable_families(problem_.signature, sweep_.target,
                                        sweep_.request.restriction.family);
        if (!able) return able.error();
        families_ = std::move(*able);
        for (const Family* family : families_)
            defaults_.push_back(family->default_config(problem_.signature, sweep_.target));
        std::vector<Config> known;
        const auto winner = sweep_.winners.find(problem_.signature.text());
        if (winner != sweep_.winners.end()) known.push_back(winner->second);
        for (const Config& config : known) preferred_.push_back(config.text());
        for (const Config& config : defaults_) preferred_.push_back(config.text());
        candidates_ = first_candidates(plan_, problem_, sweep_.target, families_, known);
        if (candidates_.empty())
            return Error{Code::unsupported,
                         formatted("no config of {} fits {} bytes of shared memory",
                                   problem_.signature.text(), sweep_.target.shared_bytes_per_cta),
                         "allow more with --max-smem"};
        progress_.stage = "prepare";
        note_(progress_);
        return sweep_.bench.prepare(problem_);
    }

    Trial::Plan trial_plan() {
        Trial::Plan plan{screening_policy(), timed(), !plan_.whole_space, {}};
        plan.on_stage = [this](const std::string& stage) {
            progress_.stage = stage;
            note_(progress_);
        };
        return plan;
    }

    Result<void> search() {
        Search search(
            plan_,
            {[this](const Config& config) { return neighbours(config, problem_, sweep_.target); },
             [this](const Config& config) { return estimate_us(config); }},
            std::move(candidates_));
        for (auto batch = search.next(); !batch.empty(); batch = search.next()) {
            progress_.total += int(batch.size());
            auto tried = trial_.run(batch, trial_plan(), search.best_us(),
                                    [&](const Config& config, const Measurement& row) {
                                        const bool ok = row.verdict == Verdict::ok;
                                        search.report(config, ok ? row.median_us : 0);
                                        tell(search);
                                        return true;
                                    });
            if (!tried) return tried;
        }
        finalists_ = search.fastest(std::size_t(plan_.finalists));
        return {};
    }

    void tell(const Search& search) {
        ++progress_.done;
        progress_.best_us = search.best_us();
        if (const auto best = search.fastest(1); !best.empty())
            progress_.best_config = best[0].text();
        note_(progress_);
    }

    /// Effort estimate: in the model's order, until one compiles and is right.
    Result<void> first_that_works() {
        std::stable_sort(
            candidates_.begin(), candidates_.end(),
            [this](const Config& a, const Config& b) { return estimate_us(a) < estimate_us(b); });
        progress_.total = int(candidates_.size());
        return trial_.run(candidates_, trial_plan(), 0,
                          [&](const Config& config, const Measurement& row) {
                              ++progress_.done;
                              note_(progress_);
                              if (row.verdict == Verdict::ok) finalists_ = {config};
                              return row.verdict != Verdict::ok;
                          });
    }

    Error nothing_works() const {
        std::string first;
        for (const Measurement& row : trial_.rows())
            if (first.empty() && row.verdict != Verdict::ok)
                first = formatted("{}: {} ({})", row.config, name_of(row.verdict), row.reason);
        return {Code::wrong_result,
                formatted("none of {} candidates of {} gave a right answer; the first was {}",
                          trial_.rows().size(), problem_.text(), first),
                "see attune explain for what became of each"};
    }

    bool was_right(const Config& config) const {
        return std::any_of(trial_.rows().begin(), trial_.rows().end(), [&](const Measurement& row) {
            return row.config == config.text() &&
                   (row.verdict == Verdict::ok || row.verdict == Verdict::slow);
        });
    }

    /// The best few, and the defaults wherever they gave right answers.
    void complete_finalists() {
        for (const Config& config : defaults_)
            if (was_right(config) &&
                std::find(finalists_.begin(), finalists_.end(), config) == finalists_.end())
                finalists_.push_back(config);
    }

    Result<Record> timed_record() {
        if (finalists_.empty()) return nothing_works();
        complete_finalists();
        progress_.stage = "final";
        note_(progress_);
        const MeasurePolicy policy;
        const auto rows = trial_.final_round(finalists_, policy);
        if (!rows) return rows.error();
        std::vector<Finalist> finalists;
        for (const Measurement& row : *rows)
            finalists.push_back({row.config, row.median_us, row.spread});
        const std::size_t winner = pick_winner(finalists, preferred_);
        const Measurement& best = (*rows)[winner];
        Record record;
        take(record, best);
        record.time_us = best.median_us;
        record.spread = best.spread;
        record.sm_clock_mhz = median(best.clocks_mhz);
        record.policy = policy.id();
        record.evidence = sweep_.bench.info().emulated ? Evidence::estimated : Evidence::measured;
        record.mma_peak_tflops = trial_.mma_peak_tflops(finalists_[winner]);
        compare(record, *rows, winner);
        return record;
    }

    /// Fills in the runner-up and the (fastest) default.
    void compare(Record& record, const std::vector<Measurement>& rows, std::size_t winner) const {
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double us = rows[i].median_us;
            const bool first_other = record.runner_up_config.empty();
            if (i != winner && (first_other || us < record.runner_up_time_us)) {
                record.runner_up_config = rows[i].config;
                record.runner_up_time_us = us;
            }
            const bool is_default =
                std::find(defaults_.begin(), defaults_.end(), finalists_[i]) != defaults_.end();
            const bool first_default = record.default_config.empty();
            if (is_default && (first_default || us < record.default_time_us)) {
                record.default_config = rows[i].config;
                record.default_time_us = us;
            }
        }
    }

    Result<Record> estimated_record() {
        if (finalists_.empty()) return nothing_works();
        Record record;
        take(record, trial_.rows().back());
        record.time_us = estimate_us(finalists_[0]);
        record.policy = "estimate";
        record.default_config = defaults_[0].text();
        record.default_time_us = estimate_us(defaults_[0]);
        return record;
    }

    static void take(Record& record, const Measurement& row) {
        record.config = row.config;
        record.registers = row.registers;
        record.spill_bytes = row.spill_bytes;
        record.shared_bytes = row.shared_bytes;
        record.max_error = row.max_error;
        record.error_bar = row.error_bar;
    }

    void complete(Record& record) {
        const Config config = *Config::parse(record.config);
        winner_binary_ = trial_.compiled(config);
        const Source source = trial_.source(config);
        const std::vector<std::byte>& bytes = winner_binary_->binary.bytes;
        record.device = sweep_.device;
        record.problem = problem_;
        record.restriction = sweep_.restriction;
        record.entry = winner_binary_->binary.entry;
        record.source_hash = source.hash;
        record.binary_sha256 =
            sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        record.effort = plan_.effort;
        record.tflops = flops(problem_) / record.time_us * 1e-6;
        record.datasheet_tflops =
            sweep_.target.dense_tflops(element_bytes(problem_.signature.dtype));
        record.candidates_compiled = trial_.compiled_count();
        record.candidates_checked = trial_.checked_count();
        record.candidates_timed = trial_.timed_count();
        record.toolchain = sweep_.pool->toolchain();
        record.driver = sweep_.bench.info().driver;
        record.tool_version = ATTUNE_VERSION;
        const std::time_t now = std::time(nullptr);
        char utc[sizeof "yyyy-mm-ddThh:mm:ssZ"];
        std::strftime(utc, sizeof utc, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
        record.created_utc = utc;
    }

    Sweep& sweep_;
    const EffortPlan& plan_;
    const Problem& problem_;
    const std::function<void(const TuneProgress&)>& note_;
    Trial trial_;
    std::vector<const Family*> families_;
    std::vector<Config> defaults_;        // one of each family
    std::vector<Config> candidates_;      // where the search starts
    std::vector<Config> finalists_;       // with effort estimate: the one that worked
    std::vector<std::string> preferred_;  // who wins a tie
    std::shared_ptr<const Compiled> winner_binary_;
    TuneProgress progress_;
};

}  // namespace

TuneOutcome tune_problem(Sweep& sweep, const Problem& problem,
                         const std::function<void(const TuneProgress&)>& note) {
    TuneOutcome outcome;
    outcome.problem = problem;
    const auto done = ProblemTuner(sweep, problem, note).run(outcome);
    if (!done) outcome.error = done.error();
    return outcome;
}

}  // namespace attune
