// tune, build, bench.

#include <cmath>

#include "generator/formatted.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/build.h"
#include "tuner/tune.h"
#include "tuner/tune_bench.h"

namespace attune {
namespace {

// ---- tune -------------------------------------------------------------------------------------

struct TuneArguments {
    std::vector<std::string> shapes;
    std::string effort = "measure", budget, store;
    TuneRequest request;
};

/// "90", "90s", "10m", "2h" in seconds; negative if it is none of them.
double parse_duration_s(const std::string& text) {
    std::size_t used = 0;
    double value = -1;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
        return -1;
    }
    const std::string unit = text.substr(used);
    if (!std::isfinite(value) || value < 0) return -1;
    if (unit.empty() || unit == "s") return value;
    return unit == "m" ? 60 * value : unit == "h" ? 3600 * value : -1;
}

Result<void> complete(TuneArguments& arguments) {
    TuneRequest& request = arguments.request;
    const auto effort = parse_effort(arguments.effort);
    if (!effort) return effort.error();
    request.effort = *effort;
    request.budget_s = arguments.budget.empty() ? 0 : parse_duration_s(arguments.budget);
    if (request.budget_s < 0)
        return Error{Code::invalid_argument,
                     formatted("'{}' is no length of time", arguments.budget),
                     "write 90s, 10m or 2h"};
    auto problems = problems_of(arguments.shapes);
    if (!problems) return problems.error();
    request.problems = std::move(*problems);
    auto store = store_path_of(arguments.store);
    if (!store) return store.error();
    request.store_path = *store;
    if (request.device.empty()) request.device = default_device();
    return {};
}

/// How many times faster the winner is than the default; 0 where there is no default to compare.
double gain(const Record& record) {
    return record.default_time_us > 0 ? record.default_time_us / record.time_us : 0;
}

const char* state_of(const TuneOutcome& outcome) {
    if (outcome.error.code != Code::ok) return code_name(outcome.error.code);
    if (outcome.skipped) return "kept (resume)";
    return outcome.stored ? "stored" : "kept the better";
}

void print_tuned(const std::vector<TuneOutcome>& outcomes) {
    Table table(
        {"problem", "us", "TFLOP/s", "gain", "compiled", "checked", "timed", "record", "config"});
    double logs = 0;
    int gains = 0, compiled = 0, checked = 0, timed = 0;
    for (const TuneOutcome& outcome : outcomes) {
        const Record& r = outcome.record;
        if (outcome.error.code != Code::ok) {
            table.add({outcome.problem.text(), "-", "-", "-", "-", "-", "-", state_of(outcome),
                       outcome.error.text()});
            continue;
        }
        table.add({outcome.problem.text(), short_number(r.time_us), short_number(r.tflops),
                   gain(r) > 0 ? formatted("{:.2f}x", gain(r)) : "-",
                   formatted("{}", r.candidates_compiled), formatted("{}", r.candidates_checked),
                   formatted("{}", r.candidates_timed), state_of(outcome), r.config});
        if (outcome.skipped) continue;
        if (gain(r) > 0) logs += std::log(gain(r)), ++gains;
        compiled += r.candidates_compiled;
        checked += r.candidates_checked;
        timed += r.candidates_timed;
    }
    table.print();
    print_line(formatted("{} candidates compiled, {} checked, {} timed{}", compiled, checked, timed,
                         gains > 0 ? formatted("; gain over the default {:.3f}x (geomean of {})",
                                               std::exp(logs / gains), gains)
                                   : ""));
}

nlohmann::json to_json(const TuneOutcome& outcome) {
    nlohmann::json json{{"problem", outcome.problem.text()},
                        {"stored", outcome.stored},
                        {"skipped", outcome.skipped}};
    if (outcome.error.code != Code::ok) {
        json["error"] = attune::to_json(outcome.error);
    } else {
        json["record"] = attune::to_json(outcome.record);
        json["gain"] = gain(outcome.record);
    }
    json["candidates"] = nlohmann::json::array();
    for (const Measurement& row : outcome.measurements)
        json["candidates"].push_back(attune::to_json(row));
    return json;
}

Result<Code> run_tune(const Cli& cli, TuneArguments& arguments) {
    if (auto ready = complete(arguments); !ready) return ready.error();
    const TuneRequest& request = arguments.request;
    const bool emulated = request.device.starts_with("emu:");
    if (emulated)
        print_note(
            "emulated device: times are its estimates, and records say so (evidence: "
            "estimated)");
    Progress progress;
    const auto outcomes = tune(request, [&](const TuneProgress& at) { progress.show(at); });
    progress.finish();
    if (!outcomes) return outcomes.error();
    Code code = Code::ok;
    for (const TuneOutcome& outcome : *outcomes)
        if (code == Code::ok) code = outcome.error.code;
    const std::size_t left = request.problems.size() - outcomes->size();
    if (cli.json) {
        nlohmann::json list = nlohmann::json::array();
        for (const TuneOutcome& outcome : *outcomes) list.push_back(to_json(outcome));
        print_json({{"device", request.device},
                    {"effort", name_of(request.effort)},
                    {"evidence",
                     name_of(emulated || request.effort == Effort::estimate ? Evidence::estimated
                                                                            : Evidence::measured)},
                    {"left_by_budget", left},
                    {"outcomes", list}});
        return code;
    }
    print_tuned(*outcomes);
    if (left > 0)
        print_line(
            formatted("{} problems left when the budget was used up: go on with --resume", left));
    return code;
}

std::string effort_table() {
    std::string text = "Efforts (a lower one never overwrites a higher one's record):\n";
    for (const EffortPlan& plan : effort_plans()) {
        text += formatted("  {:<11} {}", name_of(plan.effort), plan.summary);
        if (!plan.whole_space) text += formatted("; {} first", plan.first_candidates);
        if (plan.neighbour_rounds > 0)
            text += formatted(", {} rounds of {}", plan.neighbour_rounds, plan.round_candidates);
        if (plan.finalists > 0) text += formatted(", {} finalists", plan.finalists);
        text += "\n";
    }
    return text;
}

void add_tune(CLI::App& app, Cli& cli) {
    auto arguments = std::make_shared<TuneArguments>();
    TuneRequest& request = arguments->request;
    CLI::App* command =
        add_command(app, cli, "tune", "Find, prove and store the fastest kernel of each problem",
                    [&cli, arguments] { return run_tune(cli, *arguments); });
    add_device_option(*command, request.device);
    command
        ->add_option("--shapes", arguments->shapes,
                     "presets, problems (bf16.d128.causal/b2.h16.kv16.q8192.k8192) or JSON files")
        ->required();
    command->add_option("--effort", arguments->effort, "see below; default measure");
    command->add_option("--budget", arguments->budget,
                        "stop after the problem that overruns it: 90s, 10m, 2h");
    command->add_flag("--resume", request.resume,
                      "skip problems that have a record of this effort or more");
    command->add_option("--family", request.restriction.family, "only this kernel family");
    command
        ->add_option("--max-smem", request.restriction.max_shared_bytes,
                     "bytes of shared memory per CTA")
        ->check(CLI::PositiveNumber);
    command->add_option("--seed", request.seed, "of the inputs; default 0");
    command
        ->add_option("--jobs", request.workers.compile_processes,
                     "compiler processes; default one per core")
        ->check(CLI::PositiveNumber);
    add_store_option(*command, arguments->store);
    command->footer(effort_table());
}

// ---- build ------------------------------------------------------------------------------------

struct BuildArguments {
    std::string device, store;
    bool again = false;
};

Code report(const Cli& cli, const std::vector<BuildOutcome>& built) {
    Code code = Code::ok;
    std::size_t failed = 0, outdated = 0;
    nlohmann::json list = nlohmann::json::array();
    for (const BuildOutcome& outcome : built) {
        nlohmann::json row{{"device", attune::to_json(outcome.record.device)},
                           {"problem", outcome.record.problem.text()},
                           {"config", outcome.record.config},
                           {"outdated", outcome.outdated},
                           {"compile_ms", outcome.compile_ms}};
        if (outcome.error.code != Code::ok) {
            ++failed;
            if (code == Code::ok) code = outcome.error.code;
            row["error"] = attune::to_json(outcome.error);
        }
        outdated += outcome.outdated;
        list.push_back(std::move(row));
    }
    if (cli.json)
        print_json({{"built", list}});
    else
        print_line(formatted(
            "{} kernels built, {} failed, {} outdated (measured with other templates: tune them "
            "again)",
            built.size() - failed, failed, outdated));
    return code;
}

Result<Code> run_build(const Cli& cli, const BuildArguments& arguments) {
    BuildRequest request;
    const auto path = store_path_of(arguments.store);
    if (!path) return path.error();
    request.store_path = *path;
    request.again = arguments.again;
    if (!arguments.device.empty()) {
        const auto store = Store::open(*path, Store::Access::read);
        if (!store) return store.error();
        const auto key = device_key_of(*store, arguments.device);
        if (!key) return key.error();
        request.device = *key;
    }
    const auto built = build(request, [](const BuildOutcome& outcome, std::size_t done,
                                         std::size_t total) {
        print_note(formatted("[{}/{}] {} {}{}", done, total, outcome.record.problem.text(),
                             outcome.record.config,
                             outcome.error.code == Code::ok ? "" : ": " + outcome.error.text()));
    });
    if (!built) return built.error();
    return report(cli, *built);
}

void add_build(CLI::App& app, Cli& cli) {
    auto arguments = std::make_shared<BuildArguments>();
    CLI::App* command = add_command(
        app, cli, "build", "Compile the kernels of imported records, for any GPU without the GPU",
        [&cli, arguments] { return run_build(cli, *arguments); });
    command->add_option(
        "--device", arguments->device,
        "only this GPU: cuda:N, hip:N, emu:<gpu>, a known GPU's id or a name; default all");
    command->add_flag("--again", arguments->again, "also records that have a kernel");
    add_store_option(*command, arguments->store);
}

// ---- bench ------------------------------------------------------------------------------------

struct BenchArguments {
    std::string problem;
    std::vector<std::string> configs;
    BenchRequest request;
};

std::vector<std::string> bench_cells(const Measurement& row, double tflops) {
    const bool ok = row.verdict == Verdict::ok;
    return {ok ? short_number(row.median_us) : "-",
            ok ? short_number(tflops) : "-",
            formatted("{:.1f}%", 100 * row.spread),
            formatted("{:.2e}", row.max_error),
            formatted("{:.2e}", row.error_bar),
            formatted("{}", row.registers),
            formatted("{}", row.spill_bytes),
            formatted("{}", row.shared_bytes),
            ok ? "ok" : formatted("{}: {}", name_of(row.verdict), row.reason),
            row.config};
}

Result<Code> run_bench(const Cli& cli, BenchArguments& arguments) {
    BenchRequest& request = arguments.request;
    const auto problem = Problem::parse(arguments.problem);
    if (!problem) return problem.error();
    request.problem = *problem;
    for (const std::string& text : arguments.configs) {
        auto config = Config::parse(text);
        if (!config) return config.error();
        request.configs.push_back(std::move(*config));
    }
    if (request.device.empty()) request.device = default_device();
    const auto report = bench_configs(request);
    if (!report) return report.error();
    Code code = Code::ok;
    nlohmann::json list = nlohmann::json::array();
    Table table(
        {"us", "TFLOP/s", "spread", "error", "bar", "regs", "spills", "smem", "verdict", "config"});
    for (const Measurement& row : report->rows) {
        const bool ok = row.verdict == Verdict::ok;
        if (!ok) code = Code::wrong_result;
        const double tflops = ok ? flops(*problem) / row.median_us * 1e-6 : 0;
        list.push_back(attune::to_json(row));
        list.back()["tflops"] = tflops;
        table.add(bench_cells(row, tflops));
    }
    if (cli.json)
        print_json({{"device", attune::to_json(report->device)},
                    {"problem", problem->text()},
                    {"toolchain", report->toolchain},
                    {"policy", report->policy},
                    {"evidence",
                     name_of(report->device.emulated ? Evidence::estimated : Evidence::measured)},
                    {"rows", list}});
    else
        table.print();
    return code;
}

void add_bench(CLI::App& app, Cli& cli) {
    auto arguments = std::make_shared<BenchArguments>();
    CLI::App* command =
        add_command(app, cli, "bench", "Check and time given configs of a problem on a device",
                    [&cli, arguments] { return run_bench(cli, *arguments); });
    command->add_option("problem", arguments->problem, "bf16.d128.full/b1.h16.kv16.q4096.k4096")
        ->required();
    command->add_option("--config", arguments->configs,
                        "mma/q128.kv64.w4, as often as needed; default the default config");
    add_device_option(*command, arguments->request.device);
    command->add_option("--seed", arguments->request.seed, "of the inputs; default 0");
}

}  // namespace

void add_tune_commands(CLI::App& app, Cli& cli) {
    add_tune(app, cli);
    add_build(app, cli);
    add_bench(app, cli);
}

}  // namespace attune
