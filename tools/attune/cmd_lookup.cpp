// show, lookup.

#include "generator/formatted.h"
#include "generator/space.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/tune.h"

namespace attune {
namespace {

struct LookupArguments {
    std::vector<std::string> shapes;
    std::string device, store;
    Restriction restriction;
};

// ---- show -------------------------------------------------------------------------------------

/// What a reader should know before trusting a record.
std::string flags_of(const Record& record) {
    std::string flags;
    const auto add = [&](const char* flag) {
        flags += (flags.empty() ? "" : ",") + std::string(flag);
    };
    if (record.binary_sha256.empty()) add("no kernel");
    if (is_outdated(record)) add("outdated");
    return flags.empty() ? "-" : flags;
}

void print_records(const DeviceKey& key, const std::vector<Record>& records) {
    print_line(formatted("{} ({}, {} SMs{}): {} records", key.name, key.arch, key.multiprocessors,
                         key.partition.empty() ? "" : ", " + key.partition, records.size()));
    Table table({"problem", "us", "TFLOP/s", "of peak", "of sheet", "gain", "evidence", "effort",
                 "flags", "restriction", "config"});
    for (const Record& r : records)
        table.add(
            {r.problem.text(), short_number(r.time_us), short_number(r.tflops),
             percent(r.mma_utilisation()), percent(r.datasheet_utilisation()),
             r.default_time_us > 0 ? formatted("{:.2f}x", r.default_time_us / r.time_us) : "-",
             name_of(r.evidence), name_of(r.effort), flags_of(r),
             r.restriction.empty() ? "-" : r.restriction, r.config});
    if (!table.empty()) table.print();
}

const char* match_of(const std::vector<Record>& records, const Problem& problem) {
    const Match match = best_match(records, problem);
    return match.record == nullptr ? "none" : match.distance == 0 ? "exact" : "bucket";
}

/// How many of `problems` have a record of their own, of their signature, or none.
nlohmann::json coverage_of(const std::vector<Record>& records,
                           const std::vector<Problem>& problems) {
    nlohmann::json coverage{{"exact", 0}, {"bucket", 0}, {"none", 0}};
    for (const Problem& problem : problems) {
        nlohmann::json& count = coverage[match_of(records, problem)];
        count = count.get<int>() + 1;
    }
    return coverage;
}

Result<std::vector<DeviceKey>> wanted_devices(const Store& store, const std::string& device) {
    if (device.empty()) return store.devices();
    const auto key = device_key_of(store, device);
    if (!key) return key.error();
    return std::vector<DeviceKey>{*key};
}

/// The problems asked about, and the store that may know them.
struct Asked {
    std::string path;
    std::vector<Problem> problems;
    Store store;
};
Result<Asked> asked_of(const LookupArguments& arguments) {
    auto path = store_path_of(arguments.store);
    if (!path) return path.error();
    auto problems = problems_of(arguments.shapes);
    if (!problems) return problems.error();
    auto store = Store::open(*path, Store::Access::read);
    if (!store) return store.error();
    return Asked{*std::move(path), *std::move(problems), *std::move(store)};
}

Result<Code> show(const Cli& cli, const LookupArguments& arguments) {
    const auto asked = asked_of(arguments);
    if (!asked) return asked.error();
    const auto& [path, problems, store] = *asked;
    const auto keys = wanted_devices(store, arguments.device);
    if (!keys) return keys.error();
    nlohmann::json list = nlohmann::json::array();
    for (const DeviceKey& key : *keys) {
        const auto records = store.records(key);
        if (!records) return records.error();
        const nlohmann::json coverage = coverage_of(*records, problems);
        if (!cli.json) {
            print_records(key, *records);
            if (!problems.empty())
                print_line(formatted("coverage of {} problems: {} exact, {} bucket, {} none",
                                     problems.size(), coverage["exact"].get<int>(),
                                     coverage["bucket"].get<int>(), coverage["none"].get<int>()));
            continue;
        }
        nlohmann::json rows = nlohmann::json::array();
        for (const Record& record : *records) {
            rows.push_back(attune::to_json(record));
            rows.back()["outdated"] = is_outdated(record);
        }
        list.push_back({{"device", attune::to_json(key)}, {"records", rows}});
        if (!problems.empty()) list.back()["coverage"] = coverage;
    }
    if (cli.json)
        print_json({{"store", path}, {"devices", list}});
    else if (keys->empty())
        print_line(path + " is empty: tune or import first");
    return Code::ok;
}

// ---- lookup -----------------------------------------------------------------------------------

struct Answer {
    std::string match, config, record_shape, evidence, advice;
    double distance = 0, expected_us = 0;
};

/// As attune_find (runtime/attune.h): exact, bucket, estimate, none.
Answer look_up(const std::vector<Record>& records, const Problem& problem, const DeviceKey& key,
               const LookupArguments& arguments) {
    Answer answer;
    const Match match = best_match(records, problem, arguments.restriction.text());
    if (match.record != nullptr) {
        const Record& r = *match.record;
        answer = {match.distance == 0 ? "exact" : "bucket",
                  r.config,
                  r.problem.shape.text(),
                  name_of(r.evidence),
                  "",
                  match.distance,
                  r.time_us};
        if (match.distance == 0) return answer;
    }
    answer.advice = formatted("attune tune --shapes {}", problem.text());
    if (match.record != nullptr) return answer;
    answer.match = "none";
    const std::string name = key.name.starts_with("emu ") ? key.name.substr(4) : key.name;
    for (const Target& known : known_targets()) {
        if (known.name != name) continue;
        const Target target = arguments.restriction.applied_to(known);
        const auto able =
            applicable_families(problem.signature, target, arguments.restriction.family);
        if (!able) {
            answer.advice = able.error().text();
            break;
        }
        const Family& family = *able->front();
        answer.match = "estimate";
        answer.config = best_by_estimate(family, problem, target, 1).front().text();
        answer.expected_us = family.estimate_us(problem, *Config::parse(answer.config), target);
        answer.evidence = name_of(Evidence::estimated);
        break;
    }
    return answer;
}

Result<Code> lookup(const Cli& cli, const LookupArguments& arguments) {
    const auto asked = asked_of(arguments);
    if (!asked) return asked.error();
    const Store& store = asked->store;
    const auto key = device_key_of(store, arguments.device);
    if (!key) return key.error();
    const auto records = store.records(*key);
    if (!records) return records.error();
    Code code = Code::ok;
    nlohmann::json list = nlohmann::json::array();
    Table table({"problem", "match", "distance", "us", "evidence", "of", "config", "next"});
    const auto dash = [](const std::string& text) { return text.empty() ? "-" : text; };
    for (const Problem& problem : asked->problems) {
        const Answer a = look_up(*records, problem, *key, arguments);
        if (a.match != "exact" && a.match != "bucket") code = Code::not_found;
        list.push_back({{"problem", problem.text()},
                        {"match", a.match},
                        {"distance", a.distance},
                        {"config", a.config},
                        {"record_shape", a.record_shape},
                        {"expected_us", a.expected_us},
                        {"evidence", a.evidence},
                        {"advice", a.advice}});
        table.add({problem.text(), a.match, formatted("{:.2f}", a.distance),
                   a.expected_us > 0 ? short_number(a.expected_us) : "-", dash(a.evidence),
                   dash(a.record_shape), dash(a.config), dash(a.advice)});
    }
    if (cli.json)
        print_json({{"device", attune::to_json(*key)}, {"answers", list}});
    else
        table.print();
    return code;
}

}  // namespace

void add_lookup_commands(CLI::App& app, Cli& cli) {
    auto shown = std::make_shared<LookupArguments>();
    CLI::App* show_command =
        add_command(app, cli, "show", "Records of the store, and how far they cover problems",
                    [&cli, shown] { return show(cli, *shown); });
    show_command->add_option("--device", shown->device,
                             "cuda:N, hip:N, emu:<gpu>, a known GPU's id or a name; default all");
    show_command->add_option("--shapes", shown->shapes, "count how these are covered");
    add_store_option(*show_command, shown->store);

    auto asked = std::make_shared<LookupArguments>();
    CLI::App* lookup_command =
        add_command(app, cli, "lookup", "What the loader would answer for problems",
                    [&cli, asked] { return lookup(cli, *asked); });
    lookup_command->add_option("problems", asked->shapes, "presets, problems or JSON files")
        ->required();
    lookup_command->add_option("--device", asked->device,
                               "cuda:N, hip:N, emu:<gpu>, a known GPU's id or a name");
    lookup_command->add_option("--family", asked->restriction.family,
                               "records limited to this family");
    lookup_command->add_option("--max-smem", asked->restriction.max_shared_bytes,
                               "records limited to this shared memory");
    add_store_option(*lookup_command, asked->store);
    lookup_command->footer("Exit code 0 if every problem has an exact or a bucket match.");
}

}  // namespace attune
