// emit, compile.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "generator/emit.h"
#include "generator/formatted.h"
#include "generator/presets.h"
#include "generator/space.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/devices.h"
#include "tuner/prune.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

struct TargetArguments {
    std::string gpu, arch;
};

void add_target_options(CLI::App& command, TargetArguments& arguments) {
    command.add_option("--gpu", arguments.gpu, "a known GPU's id: h200, a10, ...");
    command.add_option("--arch", arguments.arch,
                       "sm_80, sm_90a, gfx942, ...; the GPU need not be here");
}

Result<Target> target_of(const TargetArguments& arguments) {
    if (arguments.gpu.empty() && arguments.arch.empty())
        return Error{Code::invalid_argument, "no target is given", "give --gpu or --arch"};
    return attune::target_of(arguments.gpu, arguments.arch);
}

// ---- emit -------------------------------------------------------------------------------------

struct EmitArguments {
    std::string signature, config, out;
    TargetArguments target;
};

Result<void> write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush())
        return Error{Code::io_error, formatted("cannot write {}", path), "check the path"};
    return {};
}

Result<Code> run_emit(const Cli& cli, const EmitArguments& arguments) {
    const auto signature = Signature::parse(arguments.signature);
    if (!signature) return signature.error();
    const auto target = target_of(arguments.target);
    if (!target) return target.error();
    const auto able = applicable_families(*signature, *target);
    if (!able) return able.error();
    Config config = able->front()->default_config(*signature, *target);
    if (!arguments.config.empty()) {
        auto parsed = Config::parse(arguments.config);
        if (!parsed) return parsed.error();
        config = std::move(*parsed);
    }
    if (const Constraint* broken = broken_constraint(*signature, config, *target))
        return Error{Code::invalid_argument,
                     formatted("{} is not legal here: {}", config.text(), broken->name),
                     broken->meaning};
    const Source source = emit({*signature, config, *target});
    if (!arguments.out.empty())
        if (auto written = write_file(arguments.out, source.text); !written) return written.error();
    if (cli.json)
        print_json({{"signature", signature->text()},
                    {"config", config.text()},
                    {"arch", target->arch},
                    {"entry", source.entry},
                    {"hash", source.hash},
                    {"options", source.options},
                    {"text", source.text}});
    else if (arguments.out.empty())
        std::fputs(source.text.c_str(), stdout);
    return Code::ok;
}

// ---- compile ----------------------------------------------------------------------------------

struct CompileArguments {
    std::vector<std::string> signatures, configs;
    TargetArguments target;
    int cover_seed = -1, sample = 0;
    bool tables = false, estimates = false, all = false;
    WorkerOptions workers;
};

struct Job {
    Signature signature;
    Config config;
    Launch launch;
};

/// The best by estimate for every problem of the presets that has this signature, or for a long
/// one where none has.
std::vector<Config> estimates_for(const Family& family, const Signature& signature,
                                  const Target& target) {
    std::vector<Problem> problems;
    for (const Preset& preset : known_presets())
        for (const Problem& problem : preset.problems)
            if (problem.signature == signature) problems.push_back(problem);
    if (problems.empty()) problems.push_back({signature, {1, 16, 16, 4096, 4096}});
    std::vector<Config> configs;
    for (const Problem& problem : problems)
        for (Config& config : best_by_estimate(family, problem, target, 1))
            configs.push_back(std::move(config));
    return configs;
}

std::vector<Config> all_legal(const Family& family, const Signature& signature,
                              const Target& target) {
    std::vector<Config> configs;
    for_each_legal(family, signature, target, [&](const Config& config) {
        configs.push_back(config);
        return true;
    });
    return configs;
}

/// `count` of the configs in their order, the same ones on every run.
std::vector<Config> sample_of(const std::vector<Config>& configs, int count) {
    std::vector<Config> drawn;
    std::sample(configs.begin(), configs.end(), std::back_inserter(drawn), count, std::mt19937(1));
    return drawn;
}

std::vector<Config> configs_of(const CompileArguments& arguments, const Family& family,
                               const Signature& signature, const Target& target) {
    std::vector<Config> configs;
    const auto add = [&](std::vector<Config> more) {
        configs.insert(configs.end(), more.begin(), more.end());
    };
    const bool chosen = arguments.cover_seed >= 0 || arguments.estimates || arguments.all ||
                        arguments.sample > 0 || !arguments.configs.empty();
    if (arguments.tables || !chosen) add(family.table_points(signature, target));
    if (arguments.estimates) add(estimates_for(family, signature, target));
    if (arguments.cover_seed >= 0)
        add(pairwise_cover(family, signature, target, unsigned(arguments.cover_seed)));
    if (arguments.all) add(all_legal(family, signature, target));
    if (arguments.sample > 0)
        add(sample_of(all_legal(family, signature, target), arguments.sample));
    std::erase_if(configs, [&](const Config& config) {  // table points of other GPUs
        return broken_constraint(signature, config, target) != nullptr;
    });
    return configs;
}

Result<std::vector<Job>> jobs_of(const CompileArguments& arguments, const Target& target) {
    std::vector<Job> jobs;
    std::set<std::pair<std::string, std::string>> have;
    for (const std::string& text : arguments.signatures) {
        const auto signature = Signature::parse(text);
        if (!signature) return signature.error();
        const auto able = applicable_families(*signature, target);
        if (!able) return able.error();
        std::vector<Config> configs;
        for (const std::string& config_text : arguments.configs) {
            auto config = Config::parse(config_text);
            if (!config) return config.error();
            if (const Constraint* broken = broken_constraint(*signature, *config, target))
                return Error{Code::invalid_argument,
                             formatted("{} is not legal for {} on {}: {}", config->text(), text,
                                       target.arch, broken->name),
                             broken->meaning};
            configs.push_back(std::move(*config));
        }
        for (const Family* family : *able)
            for (Config& config : configs_of(arguments, *family, *signature, target))
                configs.push_back(std::move(config));
        for (Config& config : configs) {
            if (!have.insert({text, config.text()}).second) continue;
            const Launch launch =
                find_family(config.family)->launch(*signature, config, Shape{}, target);
            jobs.push_back({*signature, std::move(config), launch});
        }
    }
    return jobs;
}

/// What all jobs amount to.
struct Summary {
    int ok = 0, pruned = 0, failed = 0, spilling = 0;
    int most_registers = 0, most_shared_bytes = 0, most_spill_bytes = 0;
    double compile_ms = 0;
};

nlohmann::json row_of(const Job& job, const Compiled& compiled, const Target& target,
                      Summary& summary) {
    const Resources& r = compiled.binary.resources;
    nlohmann::json row{{"signature", job.signature.text()},
                       {"config", job.config.text()},
                       {"verdict", name_of(compiled.verdict)},
                       {"reason", compiled.reason},
                       {"registers", r.registers},
                       {"accumulation_registers", r.accumulation_registers},
                       {"scalar_registers", r.scalar_registers},
                       {"spill_bytes", r.spill_bytes},
                       {"stack_bytes", r.stack_bytes},
                       {"shared_bytes", job.launch.shared_bytes},
                       {"threads", job.launch.threads_per_cta},
                       {"ctas_per_multiprocessor", 0},
                       {"binary_bytes", compiled.binary.bytes.size()},
                       {"compile_ms", compiled.binary.compile_ms}};
    summary.compile_ms += compiled.binary.compile_ms;
    if (compiled.verdict != Verdict::ok) {
        ++summary.failed;
        return row;
    }
    row["ctas_per_multiprocessor"] = resident_ctas(r, job.launch, target);
    const std::string reason = prune_reason(r, job.launch, target);
    if (!reason.empty()) row["verdict"] = name_of(Verdict::pruned), row["reason"] = reason;
    ++(reason.empty() ? summary.ok : summary.pruned);
    summary.spilling += r.spill_bytes > 0;
    summary.most_registers = std::max(summary.most_registers, r.registers);
    summary.most_spill_bytes = std::max(summary.most_spill_bytes, r.spill_bytes);
    summary.most_shared_bytes = std::max(summary.most_shared_bytes, int(job.launch.shared_bytes));
    return row;
}

struct Column {
    const char *heading, *key;
};
/// In each vendor's own words.
const std::vector<Column> nvidia_columns{{"regs", "registers"},
                                         {"spills", "spill_bytes"},
                                         {"smem", "shared_bytes"},
                                         {"threads", "threads"},
                                         {"CTAs/SM", "ctas_per_multiprocessor"},
                                         {"ms", "compile_ms"}};
const std::vector<Column> amd_columns{{"VGPRs", "registers"},
                                      {"AGPRs", "accumulation_registers"},
                                      {"SGPRs", "scalar_registers"},
                                      {"scratch", "stack_bytes"},
                                      {"LDS", "shared_bytes"},
                                      {"threads", "threads"},
                                      {"groups/CU", "ctas_per_multiprocessor"},
                                      {"ms", "compile_ms"}};

/// Reasons of several lines (compilers' logs) stand below the table.
bool is_log(const std::string& reason) {
    return reason.find('\n') != std::string::npos;
}

/// Verdict, signature, config.
std::vector<std::string> described(const nlohmann::json& row) {
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    const std::string reason = text("reason");
    std::string verdict = text("verdict");
    if (is_log(reason))
        verdict += ", see below";
    else if (!reason.empty())
        verdict += ": " + reason;
    return {std::move(verdict), text("signature"), text("config")};
}

void print_logs(const std::vector<nlohmann::json>& rows) {
    for (const nlohmann::json& row : rows) {
        std::string log = row["reason"].get<std::string>();
        if (!is_log(log)) continue;
        log.erase(log.find_last_not_of('\n') + 1);
        print_line(formatted("\n{} {}: {}", row["signature"].get<std::string>(),
                             row["config"].get<std::string>(), log));
    }
}

void print_rows(const std::vector<nlohmann::json>& rows, const Summary& s, const Target& target,
                const std::string& toolchain) {
    const auto& columns = target.vendor == Vendor::amd ? amd_columns : nvidia_columns;
    std::vector<std::string> header;
    for (const Column& column : columns) header.push_back(column.heading);
    header.insert(header.end(), {"verdict", "signature", "config"});
    Table table(header);
    for (const nlohmann::json& row : rows) {
        std::vector<std::string> cells;
        for (const Column& column : columns)
            cells.push_back(formatted("{:.0f}", row[column.key].get<double>()));
        for (std::string& cell : described(row)) cells.push_back(std::move(cell));
        table.add(std::move(cells));
    }
    table.print();
    print_logs(rows);
    print_line(
        formatted("{} on {} by {}: {} compiled, {} of them pruned, {} failed; {} spill (at most "
                  "{} bytes); at "
                  "most {} registers, {} of {} bytes shared memory; {:.1f} s of compiling",
                  rows.size(), target.arch, toolchain, s.ok + s.pruned, s.pruned, s.failed,
                  s.spilling, s.most_spill_bytes, s.most_registers, s.most_shared_bytes,
                  target.shared_bytes_per_cta, s.compile_ms / 1000));
}

Result<Code> run_compile(const Cli& cli, const CompileArguments& arguments) {
    const auto target = target_of(arguments.target);
    if (!target) return target.error();
    const auto jobs = jobs_of(arguments, *target);
    if (!jobs) return jobs.error();
    auto pool = CompilePool::open(arguments.workers, compiler_for(target->vendor, false));
    if (!pool) return pool.error();
    // A whole space does not wait in memory: each binary is forgotten once it is reported.
    const std::size_t ahead = 4 * std::size_t((*pool)->processes());
    std::vector<CompilePool::Future> futures;
    std::vector<nlohmann::json> rows;
    Summary summary;
    const auto source = [&](const Job& job) { return emit({job.signature, job.config, *target}); };
    for (std::size_t i = 0; i < jobs->size(); ++i) {
        while (futures.size() < std::min(jobs->size(), i + ahead))
            futures.push_back((*pool)->compile(source((*jobs)[futures.size()]), target->arch));
        rows.push_back(row_of((*jobs)[i], *futures[i].get(), *target, summary));
        futures[i] = {};
        (*pool)->forget(source((*jobs)[i]), target->arch);
        if ((i + 1) % 100 == 0)
            print_note(formatted("{}/{} compiled, {} failed", i + 1, jobs->size(), summary.failed));
    }
    if (cli.json)
        print_json({{"arch", target->arch},
                    {"toolchain", (*pool)->toolchain()},
                    {"kernels", rows},
                    {"summary",
                     {{"ok", summary.ok},
                      {"pruned", summary.pruned},
                      {"failed", summary.failed},
                      {"spilling", summary.spilling},
                      {"most_registers", summary.most_registers},
                      {"most_spill_bytes", summary.most_spill_bytes},
                      {"most_shared_bytes", summary.most_shared_bytes}}}});
    else
        print_rows(rows, summary, *target, (*pool)->toolchain());
    return summary.failed > 0 ? Code::compile_failed : Code::ok;
}

}  // namespace

void add_kernel_commands(CLI::App& app, Cli& cli) {
    auto emitted = std::make_shared<EmitArguments>();
    CLI::App* emit_command = add_command(app, cli, "emit", "A kernel's source",
                                         [&cli, emitted] { return run_emit(cli, *emitted); });
    emit_command
        ->add_option("--signature", emitted->signature, "bf16.d128.causal, f16.d64.full.lse")
        ->required();
    emit_command->add_option("--config", emitted->config,
                             "mma/q128.kv64.w4; default the default config");
    emit_command->add_option("-o,--output", emitted->out, "file; default standard output");
    add_target_options(*emit_command, emitted->target);

    auto compiled = std::make_shared<CompileArguments>();
    compiled->signatures = {"bf16.d128.causal"};
    CLI::App* compile_command =
        add_command(app, cli, "compile", "Compile kernels for any arch, without its GPU",
                    [&cli, compiled] { return run_compile(cli, *compiled); });
    add_target_options(*compile_command, compiled->target);
    compile_command->add_option("--signature", compiled->signatures,
                                "as often as needed; default bf16.d128.causal");
    compile_command->add_option("--config", compiled->configs, "this config, as often as needed");
    compile_command
        ->add_option("--cover", compiled->cover_seed,
                     "every legal pair of axis values at least once, by this seed")
        ->check(CLI::NonNegativeNumber);
    compile_command->add_flag("--tables", compiled->tables, "the hand-made tables (default)");
    compile_command->add_flag("--estimates", compiled->estimates,
                              "what the model picks for the presets' problems");
    compile_command->add_flag("--all", compiled->all, "the whole space: days for some signatures");
    compile_command
        ->add_option("--sample", compiled->sample,
                     "so many of every family's whole space, drawn at random, always the same")
        ->check(CLI::PositiveNumber);
    compile_command
        ->add_option("--jobs", compiled->workers.compile_processes,
                     "compiler processes; default one per core")
        ->check(CLI::PositiveNumber);
}

}  // namespace attune
