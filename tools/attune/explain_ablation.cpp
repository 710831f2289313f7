// explain --ablation.

#include "generator/formatted.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/ablation.h"

namespace attune {
namespace {

double share(double tflops, double peak_tflops) {
    return peak_tflops > 0 ? tflops / peak_tflops : 0;
}

void print(const AblationReport& report) {
    print_line(formatted(
        "{}: {}, datasheet {} TFLOP/s", report.device.target.name,
        report.mma_peak_tflops > 0
            ? formatted("MMA peak {} TFLOP/s, measured", short_number(report.mma_peak_tflops))
            : "MMA peak not measured",
        short_number(report.datasheet_tflops)));
    Table table({"step", "TFLOP/s", "gain", "of peak", "of sheet", "smem", "tried", "config"});
    for (const AblationRow& row : report.rows) {
        if (!row.left_out.empty()) {
            table.add({row.step.name, "-", "-", "-", "-", "-", formatted("{}", row.candidates),
                       "left out: " + row.left_out});
            continue;
        }
        table.add({row.step.name, short_number(row.tflops),
                   row.gain > 0 ? formatted("{:.2f}x", row.gain) : "-",
                   percent(share(row.tflops, report.mma_peak_tflops)),
                   percent(share(row.tflops, report.datasheet_tflops)),
                   formatted("{}", row.best.shared_bytes), formatted("{}", row.candidates),
                   row.best.config});
    }
    table.print();
    for (const AblationRow& row : report.rows)
        print_line(formatted("{}: {}", row.step.name, row.step.meaning));
}

nlohmann::json to_json(const AblationRow& row, const AblationReport& report) {
    nlohmann::json json{{"step", row.step.name},
                        {"meaning", row.step.meaning},
                        {"left_out", row.left_out},
                        {"candidates", row.candidates}};
    if (!row.left_out.empty()) return json;
    json["tflops"] = row.tflops;
    json["gain"] = row.gain;
    json["mma_utilisation"] = share(row.tflops, report.mma_peak_tflops);
    json["datasheet_utilisation"] = share(row.tflops, report.datasheet_tflops);
    json["best"] = attune::to_json(row.best);
    return json;
}

}  // namespace

Result<Code> explain_ablation(const Cli& cli, AblationRequest request) {
    if (request.device.empty()) request.device = default_device();
    if (request.device.starts_with("emu:"))
        print_note("emulated device: times are its estimates, no measurements");
    Progress progress;
    const auto report = run_ablation(request, [&](const TuneProgress& at) { progress.show(at); });
    progress.finish();
    if (!report) return report.error();
    if (!cli.json) {
        print(*report);
        return Code::ok;
    }
    nlohmann::json steps = nlohmann::json::array();
    for (const AblationRow& row : report->rows) steps.push_back(to_json(row, *report));
    print_json(
        {{"device", attune::to_json(report->device)},
         {"problem", request.problem.text()},
         {"evidence", name_of(report->device.emulated ? Evidence::estimated : Evidence::measured)},
         {"toolchain", report->toolchain},
         {"policy", report->policy},
         {"mma_peak_tflops", report->mma_peak_tflops},
         {"datasheet_tflops", report->datasheet_tflops},
         {"steps", steps}});
    return Code::ok;
}

}  // namespace attune
