// attune: the command line.
#include <span>

#include "tools/attune/commands.h"
#include "tools/attune/exit_codes.h"
#include "tools/attune/output.h"
#include "tuner/worker_serve.h"

int main(int argc, char** argv) {
    using namespace attune;
    // What tune and compile start as child processes; no command of its own.
    if (argc >= 2 && std::string(argv[1]) == "worker")
        return run_worker(std::vector<std::string>(argv + 2, argv + argc));

    CLI::App app{
        "Finds the fastest attention kernel for the GPU in front of you, proves that it is "
        "right, and hands it to your program."};
    app.footer(exit_codes_text());
    app.set_version_flag("--version", ATTUNE_VERSION);
    app.require_subcommand(1);
    Cli cli;
    add_device_commands(app, cli);
    add_tune_commands(app, cli);
    add_lookup_commands(app, cli);
    add_explain_command(app, cli);
    add_kernel_commands(app, cli);
    add_exchange_commands(app, cli);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& fault) {
        return app.exit(fault) == 0 ? 0 : exit_usage;
    }
    const auto done = cli.run();
    return done ? exit_code(*done) : print_error(done.error(), cli.json);
}
