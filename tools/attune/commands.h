// The commands, one file per group: arguments in, calls into the libraries, tables and JSON out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "generator/problem.h"
#include "generator/status.h"
#include "generator/target.h"
#include "runtime/store.h"

namespace attune {

struct AblationRequest;  // tuner/ablation.h

/// What the arguments ask for. `run` prints results itself and returns what they amount to; an
/// Error means that it printed nothing.
struct Cli {
    bool json = false;
    std::function<Result<Code>()> run;
};

void add_device_commands(CLI::App& app, Cli& cli);    // doctor, devices
void add_tune_commands(CLI::App& app, Cli& cli);      // tune, build, bench
void add_lookup_commands(CLI::App& app, Cli& cli);    // show, lookup
void add_explain_command(CLI::App& app, Cli& cli);    // explain
void add_kernel_commands(CLI::App& app, Cli& cli);    // emit, compile
void add_exchange_commands(CLI::App& app, Cli& cli);  // export, import

/// explain --ablation.
Result<Code> explain_ablation(const Cli& cli, AblationRequest request);

/// A subcommand with --json that sets cli.run.
CLI::App* add_command(CLI::App& app, Cli& cli, const char* name, const char* description,
                      std::function<Result<Code>()> run);
void add_store_option(CLI::App& command, std::string& store);
void add_device_option(CLI::App& command, std::string& device);

/// The option's value, else the default path.
Result<std::string> store_path_of(const std::string& option);

/// Each text is a preset's name, a problem's text or a JSON file of the presets' form; in order,
/// each problem once, each valid.
Result<std::vector<Problem>> problems_of(const std::vector<std::string>& texts);

/// Of a known GPU by id, or of the first known GPU of an arch, the arch as given; both where both
/// are given.
Result<Target> target_of(const std::string& gpu, const std::string& arch);

/// The first GPU that opens ("cuda:0", "hip:0"), else "emu:h200" with a note that says so.
std::string default_device();

/// Which GPU's records are meant: a device that opens here ("cuda:0", "hip:0", "emu:h200"), or a
/// GPU by known id ("h200") or by name as the store has it. Empty: the only GPU of the store, else
/// default_device().
Result<DeviceKey> device_key_of(const Store& store, const std::string& device);

/// The whole of a file, up to 64 MiB.
Result<std::string> read_file(const std::string& path);

}  // namespace attune
