// explain.

#include <algorithm>
#include <map>

#include "generator/formatted.h"
#include "generator/space.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/ablation.h"
#include "tuner/search.h"
#include "tuner/tune.h"

namespace attune {
namespace {

struct ExplainArguments {
    std::string problem, device, store;
    Restriction restriction;
    int rows = 30;
    bool ablation = false;
};

/// One candidate and why it is or is not the winner.
struct Line {
    std::string config, verdict, why;
    double us = 0;
};

/// The device's numbers: asked where it opens here, else those of the known GPU of this name.
Result<Target> target_of_key(const DeviceKey& key) {
    const std::string name = key.name.starts_with("emu ") ? key.name.substr(4) : key.name;
    for (const Target& target : known_targets())
        if (target.name == name) return target;
    return target_of("", key.arch);
}

/// The latest row of each config; a final round's row stands for the config where there is one.
std::vector<Measurement> latest(const std::vector<Measurement>& rows) {
    std::map<std::string, Measurement> by_config;
    for (const Measurement& row : rows) by_config[row.config] = row;
    std::vector<Measurement> list;
    for (auto& [config, row] : by_config) list.push_back(std::move(row));
    return list;
}

std::string why_it_lost(const Measurement& row, const Record& record) {
    if (row.config == record.config) return "the winner";
    if (row.verdict != Verdict::ok) return row.reason;
    const double behind = row.median_us / record.time_us - 1;
    if (!row.final_round) return formatted("{:+.1f}% when searching", 100 * behind);
    if (behind < noise) return formatted("{:+.1f}%: a tie, lost by the fixed order", 100 * behind);
    return formatted("{:+.1f}% in the final round", 100 * behind);
}

std::vector<Line> measured_lines(const std::vector<Measurement>& rows, const Record& record) {
    std::vector<Line> lines;
    for (const Measurement& row : latest(rows))
        lines.push_back(
            {row.config, name_of(row.verdict), why_it_lost(row, record), row.median_us});
    std::stable_sort(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
        const auto rank = [&](const Line& line) {
            return std::tuple(line.config != record.config, line.us <= 0, line.us);
        };
        return rank(a) < rank(b);
    });
    return lines;
}

Result<std::vector<Line>> estimated_lines(const ExplainArguments& arguments, const Problem& problem,
                                          const Target& unrestricted) {
    const Target target = arguments.restriction.applied_to(unrestricted);
    const auto able = applicable_families(problem.signature, target, arguments.restriction.family);
    if (!able) return able.error();
    std::vector<Line> lines;
    for (const Config& config :
         first_candidates(plan_of(Effort::measure), problem, target, *able, {}))
        lines.push_back({config.text(), "not tried", "an estimate: tune measures it",
                         find_family(config.family)->estimate_us(problem, config, target)});
    std::stable_sort(lines.begin(), lines.end(),
                     [](const Line& a, const Line& b) { return a.us < b.us; });
    return lines;
}

/// Why each family can or cannot run the signature there.
nlohmann::json families_json(const Signature& signature, const Target& target) {
    nlohmann::json list = nlohmann::json::array();
    for (const Family& family : families()) {
        const auto can = family.applicable(signature, target);
        std::size_t legal = 0;
        if (can)
            for_each_legal(family, signature, target, [&](const Config&) { return ++legal > 0; });
        list.push_back({{"family", family.name},
                        {"applicable", bool(can)},
                        {"reason", can ? "" : can.error().message},
                        {"legal_configs", legal}});
    }
    return list;
}

void print(const nlohmann::json& key, const nlohmann::json& families, const Record* record,
           const std::vector<Line>& lines, int most) {
    print_line(formatted("key      {} | {} | restriction '{}'",
                         key["device"]["name"].get<std::string>(),
                         key["problem"].get<std::string>(), key["restriction"].get<std::string>()));
    for (const nlohmann::json& family : families)
        print_line(formatted(
            "family   {}: {}", family["family"].get<std::string>(),
            family["applicable"].get<bool>()
                ? formatted("{} legal configs", family["legal_configs"].get<std::size_t>())
                : family["reason"].get<std::string>()));
    if (record == nullptr) {
        print_line("record   none: below are the first candidates, by estimate");
    } else {
        print_line(formatted("record   {} {} us, {} by effort {}, {} with {}{}", record->config,
                             short_number(record->time_us), name_of(record->evidence),
                             name_of(record->effort), record->created_utc, record->toolchain,
                             is_outdated(*record) ? ", outdated" : ""));
    }
    Table table({"us", "verdict", "why", "config"});
    for (const Line& line : lines) {
        if (int(&line - lines.data()) >= most) break;
        table.add({line.us > 0 ? short_number(line.us) : "-", line.verdict, line.why, line.config});
    }
    table.print();
    if (int(lines.size()) > most)
        print_line(formatted("and {} more: --rows {}", int(lines.size()) - most, lines.size()));
}

nlohmann::json to_json(const std::vector<Line>& lines) {
    nlohmann::json list = nlohmann::json::array();
    for (const Line& line : lines)
        list.push_back({{"config", line.config},
                        {"verdict", line.verdict},
                        {"why", line.why},
                        {"us", line.us}});
    return list;
}

Result<Code> explain(const Cli& cli, const ExplainArguments& arguments) {
    const auto problem = Problem::parse(arguments.problem);
    if (!problem) return problem.error();
    if (auto valid = validate(*problem); !valid) return valid.error();
    if (arguments.ablation)
        return explain_ablation(cli, {arguments.device, *problem, arguments.restriction, 0, {}});
    const auto path = store_path_of(arguments.store);
    if (!path) return path.error();
    const auto store = Store::open(*path, Store::Access::read);
    if (!store) return store.error();
    const auto key = device_key_of(*store, arguments.device);
    if (!key) return key.error();
    const auto target = target_of_key(*key);
    if (!target) return target.error();
    const std::string restriction = arguments.restriction.text();
    const auto record = store->find(*key, *problem, restriction);
    if (!record) return record.error();
    const auto rows = store->measurements(*key, *problem, restriction);
    if (!rows) return rows.error();
    const Result<std::vector<Line>> lines =
        *record ? measured_lines(*rows, **record) : estimated_lines(arguments, *problem, *target);
    if (!lines) return lines.error();

    const nlohmann::json key_json{{"device", attune::to_json(*key)},
                                  {"problem", problem->text()},
                                  {"restriction", restriction}};
    const nlohmann::json families = families_json(problem->signature, *target);
    if (!cli.json) {
        print(key_json, families, *record ? &**record : nullptr, *lines, arguments.rows);
        return Code::ok;
    }
    print_json({{"key", key_json},
                {"families", families},
                {"record", *record ? attune::to_json(**record) : nlohmann::json()},
                {"candidates", to_json(*lines)}});
    return Code::ok;
}

}  // namespace

void add_explain_command(CLI::App& app, Cli& cli) {
    auto arguments = std::make_shared<ExplainArguments>();
    CLI::App* command =
        add_command(app, cli, "explain",
                    "A problem's key, candidates, verdicts, and why each lost; estimates where "
                    "nothing was tried",
                    [&cli, arguments] { return explain(cli, *arguments); });
    command->add_option("problem", arguments->problem, "bf16.d128.causal/b2.h16.kv16.q8192.k8192")
        ->required();
    command->add_option("--device", arguments->device,
                        "cuda:N, hip:N, emu:<gpu>, a known GPU's id or a name");
    command->add_option("--family", arguments->restriction.family,
                        "the record limited to this family");
    command->add_option("--max-smem", arguments->restriction.max_shared_bytes,
                        "the record limited to this shared memory");
    CLI::Option* rows =
        command->add_option("--rows", arguments->rows, "candidates printed; default 30");
    command
        ->add_flag(
            "--ablation", arguments->ablation,
            "time the steps from FlashAttention-1 to now on --device (cuda:N, hip:N, emu:<gpu>), "
            "each with its own best config; no store is needed")
        ->excludes(rows);
    add_store_option(*command, arguments->store);
}

}  // namespace attune
