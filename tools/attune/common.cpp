
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "generator/formatted.h"
#include "generator/presets.h"
#include "runtime/device.h"
#include "tools/attune/commands.h"
#include "tools/attune/output.h"
#include "tuner/devices.h"

namespace attune {
namespace {

constexpr std::uintmax_t most_file_bytes = 64u << 20;

Result<std::vector<Problem>> problems_of_one(const std::string& text) {
    if (auto preset = find_preset(text)) return std::move(preset->problems);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(text, ignored)) {
        const auto content = read_file(text);
        if (!content) return content.error();
        auto preset = Preset::from_json(std::filesystem::path(text).stem().string(), *content);
        if (!preset) return preset.error();
        return std::move(preset->problems);
    }
    if (text.find('/') == std::string::npos) return find_preset(text).error();
    auto problem = Problem::parse(text);
    if (!problem) return problem.error();
    return std::vector<Problem>{*problem};
}

std::string known_archs() {
    std::vector<std::string> archs;
    for (const Target& target : known_targets())
        if (std::find(archs.begin(), archs.end(), target.arch) == archs.end())
            archs.push_back(target.arch);
    return formatted("{}", fmt::join(archs, " "));
}

}  // namespace

CLI::App* add_command(CLI::App& app, Cli& cli, const char* name, const char* description,
                      std::function<Result<Code>()> run) {
    CLI::App* command = app.add_subcommand(name, description);
    command->add_flag("--json", cli.json, "print JSON on standard output");
    command->callback([&cli, run = std::move(run)] { cli.run = run; });
    return command;
}

void add_store_option(CLI::App& command, std::string& store) {
    command.add_option("--store", store,
                       "SQLite file; default $ATTUNE_STORE, else the user's data folder");
}

void add_device_option(CLI::App& command, std::string& device) {
    command.add_option("--device", device,
                       "cuda:N, hip:N or emu:<gpu>; default the first GPU, else emu:h200");
}

Result<std::string> store_path_of(const std::string& option) {
    const std::string path = option.empty() ? default_store_path() : option;
    if (path.empty())
        return Error{Code::invalid_argument, "there is no place for a store",
                     "give --store, or set ATTUNE_STORE or HOME"};
    return path;
}

Result<std::vector<Problem>> problems_of(const std::vector<std::string>& texts) {
    std::vector<Problem> problems;
    for (const std::string& text : texts) {
        auto some = problems_of_one(text);
        if (!some) return some.error();
        for (const Problem& problem : *some) {
            if (auto valid = validate(problem); !valid) return valid.error();
            if (std::find(problems.begin(), problems.end(), problem) == problems.end())
                problems.push_back(problem);
        }
    }
    return problems;
}

Result<Target> target_of(const std::string& gpu, const std::string& arch) {
    if (!gpu.empty()) {
        auto target = find_target(gpu);
        if (target && !arch.empty()) target->arch = arch;
        return target;
    }
    Target wanted;
    wanted.arch = arch;
    for (const Target& known : known_targets()) {
        const bool same_capability = wanted.compute_capability() > 0 &&
                                     wanted.compute_capability() == known.compute_capability();
        if (known.arch != arch && !same_capability) continue;
        Target target = known;
        target.arch = arch;
        return target;
    }
    return Error{Code::not_found, formatted("no known GPU has arch '{}'", arch),
                 "use one of " + known_archs() + ", or --gpu"};
}

std::string default_device() {
    if (const auto gpu = open_gpu("")) return (*gpu)->info().id;
    print_note("no GPU opens here: using the emulator, emu:h200 (attune doctor says why)");
    return "emu:h200";
}

Result<DeviceKey> device_key_of(const Store& store, const std::string& text) {
    const auto stored = store.devices();
    if (!stored) return stored.error();
    if (text.empty() && stored->size() == 1) return stored->front();
    if (text.empty() || text.find(':') != std::string::npos) {
        const auto device = open_device(text.empty() ? default_device() : text);
        if (!device) return device.error();
        return device_key((*device)->info());
    }
    const auto known = find_target(text);
    const std::string name = known ? known->name : text;
    for (const DeviceKey& key : *stored)
        if (key.name == name) return key;
    std::string names;
    for (const DeviceKey& key : *stored) names += (names.empty() ? "" : ", ") + key.name;
    return Error{Code::not_found, formatted("the store has no records of '{}'", text),
                 names.empty() ? "it is empty: tune or import first" : "it has " + names};
}

Result<std::string> read_file(const std::string& path) {
    std::error_code fault;
    const auto bytes = std::filesystem::file_size(path, fault);
    std::ifstream file(path, std::ios::binary);
    if (fault || !file)
        return Error{Code::not_found, formatted("cannot read {}", path), "check the path"};
    if (bytes > most_file_bytes)
        return Error{Code::invalid_argument, formatted("{} is longer than 64 MiB", path),
                     "give a file that attune wrote"};
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

}  // namespace attune
