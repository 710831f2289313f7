// export, import.

#include <cstdio>

#include "generator/formatted.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/exchange.h"

namespace attune {
namespace {

struct ExportArguments {
    std::string device, store, out;
};

Result<Code> run_export(const Cli& cli, const ExportArguments& arguments) {
    const auto path = store_path_of(arguments.store);
    if (!path) return path.error();
    const auto store = Store::open(*path, Store::Access::read);
    if (!store) return store.error();
    const auto key = device_key_of(*store, arguments.device);
    if (!key) return key.error();
    if (arguments.out.empty()) {
        const auto text = export_json(*store, *key);
        if (!text) return text.error();
        std::fputs(text->c_str(), stdout);
        return Code::ok;
    }
    if (auto written = export_file(*store, *key, arguments.out); !written) return written.error();
    if (cli.json)
        print_json({{"device", to_json(*key)}, {"file", arguments.out}});
    else
        print_line(formatted("{} exported to {}", key->name, arguments.out));
    return Code::ok;
}

struct ImportArguments {
    std::vector<std::string> files;
    std::string store;
};

using Outcome = ImportRow::Outcome;

nlohmann::json to_json(const std::string& file, const ImportReport& report) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ImportRow& row : report.rows)
        rows.push_back(
            {{"problem", row.problem}, {"outcome", name_of(row.outcome)}, {"reason", row.reason}});
    return {{"file", file}, {"device", attune::to_json(report.device)}, {"rows", rows}};
}

void print(const std::string& file, const ImportReport& report) {
    print_line(formatted("{}: {}: {} read, {} added, {} replaced, {} kept, {} refused", file,
                         report.device.name, report.rows.size(), report.count(Outcome::added),
                         report.count(Outcome::replaced), report.count(Outcome::kept),
                         report.count(Outcome::refused)));
    for (const ImportRow& row : report.rows)
        if (!row.reason.empty())
            print_line(formatted("  {} {}: {}", name_of(row.outcome), row.problem, row.reason));
}

Result<Code> run_import(const Cli& cli, const ImportArguments& arguments) {
    const auto path = store_path_of(arguments.store);
    if (!path) return path.error();
    auto store = Store::open(*path, Store::Access::write);
    if (!store) return store.error();
    nlohmann::json list = nlohmann::json::array();
    Code code = Code::ok;
    for (const std::string& file : arguments.files) {
        const auto report = import_file(*store, file);
        if (!report) {
            code = report.error().code;
            list.push_back({{"file", file}, {"error", attune::to_json(report.error())}});
            print_error({code, file + ": " + report.error().message, report.error().next_step},
                        false);
            continue;
        }
        if (report->count(Outcome::refused) > 0 && code == Code::ok) code = Code::corrupt;
        list.push_back(to_json(file, *report));
        if (!cli.json) print(file, *report);
    }
    if (cli.json)
        print_json({{"files", list}});
    else if (code == Code::ok)
        print_line("attune build compiles the kernels of the records that came without one");
    return code;
}

}  // namespace

void add_exchange_commands(CLI::App& app, Cli& cli) {
    auto exported = std::make_shared<ExportArguments>();
    CLI::App* export_command =
        add_command(app, cli, "export", "One GPU's records as JSON that is the same on every run",
                    [&cli, exported] { return run_export(cli, *exported); });
    export_command->add_option(
        "--device", exported->device,
        "cuda:N, hip:N, emu:<gpu>, a known GPU's id or a name; default the only one");
    export_command->add_option("-o,--output", exported->out, "file; default standard output");
    add_store_option(*export_command, exported->store);

    auto imported = std::make_shared<ImportArguments>();
    CLI::App* import_command =
        add_command(app, cli, "import", "Merge exported records into the store, with a report",
                    [&cli, imported] { return run_import(cli, *imported); });
    import_command->add_option("files", imported->files, "JSON files that export wrote")
        ->required();
    add_store_option(*import_command, imported->store);
}

}  // namespace attune
