// The command line: every command's JSON is JSON, every failure has its documented exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "generator/formatted.h"
#include "tools/attune/exit_codes.h"
#include "tuner/devices.h"

namespace attune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* tiny = "f16.d16.full/b1.h1.kv1.q16.k16";

struct Ran {
    int exit = -1;
    std::string out, err;

    json parsed() const {
        json value = json::parse(out, nullptr, false);
        EXPECT_FALSE(value.is_discarded()) << "not JSON: " << out;
        return value;
    }
};

std::string slurp(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class CliTest : public ::testing::Test {
protected:
    void SetUp() override {
        char pattern[] = "/tmp/attune-cli-test-XXXXXX";
        folder_ = mkdtemp(pattern);
        store_ = folder_ + "/store.sqlite";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Ran attune(const std::string& arguments) const {
        const std::string err = folder_ + "/stderr";
        const std::string command =
            formatted("ATTUNE_STORE='{}' '{}' {} 2>'{}'", store_, ATTUNE_CLI, arguments, err);
        Ran run;
        FILE* pipe = popen(command.c_str(), "r");
        char buffer[4096];
        for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
            run.out.append(buffer, got);
        const int status = pclose(pipe);
        run.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        run.err = slurp(err);
        return run;
    }

    void expect_failure(const std::string& arguments, Code code, const std::string& says = "") {
        const Ran run = attune(arguments + " --json");
        EXPECT_EQ(run.exit, exit_code(code)) << arguments << "\n" << run.out << run.err;
        EXPECT_EQ(run.parsed()["error"]["code"], code_name(code)) << arguments;
        EXPECT_THAT(run.err, HasSubstr(says)) << arguments;
    }

    std::string write(const char* name, const std::string& text) const {
        const std::string path = folder_ + "/" + name;
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    std::string folder_, store_;
};

TEST_F(CliTest, ATunedProblemIsShownLookedUpExplainedExportedImportedAndBuilt) {
    const Ran tuned =
        attune(formatted("tune --device emu:h200 --shapes {} --effort estimate --json", tiny));
    ASSERT_EQ(tuned.exit, 0) << tuned.out << tuned.err;
    EXPECT_EQ(tuned.parsed()["evidence"], "estimated");
    EXPECT_EQ(tuned.parsed()["outcomes"][0]["stored"], true);
    EXPECT_THAT(tuned.err, HasSubstr("estimate"));

    const json shown = attune("show --json").parsed();
    EXPECT_EQ(shown["devices"][0]["device"]["name"], "emu NVIDIA H200");
    EXPECT_EQ(shown["devices"][0]["records"][0]["problem"], tiny);
    EXPECT_EQ(shown["devices"][0]["records"][0]["outdated"], false);
    EXPECT_THAT(attune("show").out, HasSubstr(tiny));

    const Ran exact = attune(formatted("lookup {} --device emu:h200 --json", tiny));
    EXPECT_EQ(exact.exit, 0);
    EXPECT_EQ(exact.parsed()["answers"][0]["match"], "exact");
    const Ran bucket = attune("lookup f16.d16.full/b2.h1.kv1.q16.k16 --json");
    EXPECT_EQ(bucket.exit, 0);
    EXPECT_EQ(bucket.parsed()["answers"][0]["match"], "bucket");
    EXPECT_EQ(bucket.parsed()["answers"][0]["distance"], 1);
    const Ran none = attune("lookup bf16.d64.full/b1.h1.kv1.q16.k16 --json");
    EXPECT_EQ(none.exit, exit_code(Code::not_found));
    EXPECT_EQ(none.parsed()["answers"][0]["match"], "estimate");
    EXPECT_THAT(none.parsed()["answers"][0]["advice"], HasSubstr("attune tune"));

    const json explained = attune(formatted("explain {} --json", tiny)).parsed();
    EXPECT_EQ(explained["candidates"][0]["why"], "the winner");
    const json guessed = attune("explain bf16.d64.full/b1.h1.kv1.q64.k64 --json").parsed();
    EXPECT_TRUE(guessed["record"].is_null());
    EXPECT_EQ(guessed["candidates"][0]["verdict"], "not tried");

    const std::string file = folder_ + "/h200.json";
    ASSERT_EQ(attune("export -o " + file).exit, 0);
    EXPECT_EQ(attune("export").out, slurp(file)) << "the same bytes on every run";
    store_ = folder_ + "/second.sqlite";
    const Ran imported = attune("import " + file + " --json");
    ASSERT_EQ(imported.exit, 0) << imported.err;
    EXPECT_EQ(imported.parsed()["files"][0]["rows"][0]["outcome"], "added");
    EXPECT_EQ(attune(formatted("lookup {}", tiny)).exit, exit_code(Code::not_found));
    const Ran built = attune("build --json");
    ASSERT_EQ(built.exit, 0) << built.err;
    EXPECT_EQ(built.parsed()["built"].size(), 1u);
    EXPECT_EQ(attune(formatted("lookup {}", tiny)).exit, 0);
}

TEST_F(CliTest, CommandsThatNeedNoStore) {
    const json devices = attune("devices --json").parsed();
    bool emulated_h200 = false;
    for (const json& device : devices["devices"]) emulated_h200 |= device["id"] == "emu:h200";
    EXPECT_TRUE(emulated_h200);

    const Ran doctor = attune("doctor --json");
    EXPECT_EQ(doctor.exit, 0) << doctor.out;
    EXPECT_EQ(doctor.parsed()["checks"].size(), 7u);

    const Ran emitted = attune("emit --signature bf16.d64.causal --gpu a10 --json");
    EXPECT_EQ(emitted.exit, 0);
    EXPECT_EQ(attune("emit --signature bf16.d64.causal --gpu a10").out, emitted.parsed()["text"]);

    const Ran benched =
        attune(formatted("bench {} --device emu:a10 --config mma/q16.kv16.w1 --json", tiny));
    EXPECT_EQ(benched.exit, 0) << benched.err;
    EXPECT_EQ(benched.parsed()["rows"][0]["verdict"], "ok");
}

TEST_F(CliTest, CompileReportsResourcesOfAnArchWithoutItsGpu) {
    if (!open_compiler("nvrtc")) GTEST_SKIP() << "skipped: no NVRTC here";
    const Ran run =
        attune("compile --arch sm_86 --signature f16.d64.full --config mma/q64.kv32.w4 --json");
    ASSERT_EQ(run.exit, 0) << run.err;
    const json kernel = run.parsed()["kernels"][0];
    EXPECT_EQ(kernel["verdict"], "ok");
    EXPECT_GT(kernel["registers"].get<int>(), 32);
    EXPECT_GE(kernel["spill_bytes"].get<int>(), 0);
    EXPECT_GT(kernel["shared_bytes"].get<int>(), 0);
    EXPECT_GT(kernel["ctas_per_multiprocessor"].get<int>(), 0);
}

/// Compilers' logs have several lines, which would tear a table's columns apart.
TEST_F(CliTest, LogsOfKernelsThatDoNotCompileStandBelowTheTable) {
    const char* before = getenv("ATTUNE_NVRTC");
    const std::string old = before == nullptr ? "" : before;
    setenv("ATTUNE_NVRTC", ATTUNE_FAKE_LIBNVRTC, 1);
    const Ran run = attune(
        "compile --arch sm_86 --signature f16.d64.full --config mma/q64.kv32.w4 --config "
        "mma/q128.kv32.w4");
    before == nullptr ? unsetenv("ATTUNE_NVRTC") : setenv("ATTUNE_NVRTC", old.c_str(), 1);
    EXPECT_EQ(run.exit, exit_code(Code::compile_failed)) << run.err;
    std::istringstream lines(run.out);
    std::string header, row;
    std::getline(lines, header);
    const std::size_t verdict = header.find("verdict"), signature = header.find("signature");
    ASSERT_NE(signature, std::string::npos) << run.out;
    for (const char* config : {"mma/q64.", "mma/q128."}) {
        std::getline(lines, row);
        EXPECT_EQ(row.find("compile_failed, see below"), verdict) << run.out;
        EXPECT_EQ(row.find("f16.d64.full"), signature) << run.out;
        EXPECT_EQ(row.find(config), header.find("config")) << run.out;
        const std::size_t log = run.out.find(formatted("\nf16.d64.full {}", config));
        ASSERT_NE(log, std::string::npos) << run.out;
        EXPECT_LT(run.out.find("error: a first fault\n", log),
                  run.out.find("error: a second one\n", log));
    }
    EXPECT_THAT(run.out, HasSubstr("2 failed"));
}

TEST_F(CliTest, RequestsThatContradictThemselves) {
    const std::string tune = "tune --device emu:h200 --effort estimate --shapes ";
    expect_failure(tune + "bf16.d64.full/b1.h3.kv2.q16.k16", Code::invalid_argument, "heads");
    expect_failure(tune + "bf16.d20.full/b1.h1.kv1.q16.k16", Code::invalid_argument, "20");
    expect_failure(tune + "bf16.d264.full/b1.h1.kv1.q16.k16", Code::invalid_argument, "264");
    expect_failure(tune + "bf16.d64.full/b1.h1.kv1.q-16.k16", Code::invalid_argument);
    expect_failure(tune + "no-such-preset", Code::not_found, "paper");
    expect_failure(formatted("tune --shapes {} --effort heroic", tiny), Code::invalid_argument,
                   "exhaustive");
    expect_failure(tune + tiny + " --budget soon", Code::invalid_argument, "10m");
    expect_failure("emit --signature bf16.d64.full --gpu h200 --config mma/q77",
                   Code::invalid_argument, "tile_q");
    expect_failure("emit --signature bf16.d64.full", Code::invalid_argument, "--gpu");
    EXPECT_FALSE(std::filesystem::exists(store_)) << "nothing is left behind";
}

TEST_F(CliTest, DevicesGpusAndArchsThatAreNotThere) {
    expect_failure(formatted("tune --device emu:gtx-9 --shapes {}", tiny), Code::not_found, "h200");
    expect_failure(formatted("tune --device toaster --shapes {}", tiny), Code::invalid_argument,
                   "cuda:0");
    expect_failure("compile --arch sm_75", Code::unsupported, "f16");
    expect_failure("compile --arch sm_11", Code::not_found, "sm_90a");
    expect_failure("emit --signature bf16.d64.full --gpu gtx-9", Code::not_found, "h200");
    if (!open_cuda_device(0)) {
        const Ran run = attune(formatted("tune --device cuda:0 --shapes {} --json", tiny));
        EXPECT_NE(run.exit, 0);
        EXPECT_THAT(run.parsed()["error"]["next_step"], HasSubstr("emu:"));
    }
}

TEST_F(CliTest, StoresThatAreNotThereOrDamaged) {
    expect_failure("show", Code::not_found);
    expect_failure(formatted("lookup {} --device emu:h200", tiny), Code::not_found);
    store_ = write("garbage.sqlite", std::string(8192, 'x'));
    const std::string before = slurp(store_);
    expect_failure("show", Code::corrupt);
    expect_failure(formatted("tune --device emu:h200 --shapes {}", tiny), Code::corrupt);
    EXPECT_EQ(slurp(store_), before) << "a damaged store is not touched";
    EXPECT_EQ(attune("doctor --json").exit, exit_code(Code::corrupt));
    store_ = "/proc/no/store.sqlite";
    expect_failure(formatted("tune --device emu:h200 --shapes {}", tiny), Code::io_error);
}

TEST_F(CliTest, FilesThatAreMalformed) {
    expect_failure("tune --device emu:h200 --shapes " + write("a.json", "{\"schema\": 5"),
                   Code::corrupt);
    expect_failure("tune --device emu:h200 --shapes " +
                       write("b.json", R"({"schema": "attune-shapes/1", "description": "",
                                           "problems": ["bf16.d64"]})"),
                   Code::corrupt, "bf16.d64");
    const Ran run = attune("import " + write("c.json", std::string(100000, '[')) + " --json");
    EXPECT_EQ(run.exit, exit_code(Code::corrupt));
    EXPECT_EQ(run.parsed()["files"][0]["error"]["code"], "corrupt");
}

TEST_F(CliTest, UsageAndHelp) {
    EXPECT_EQ(attune("").exit, exit_usage);
    EXPECT_EQ(attune("dance").exit, exit_usage);
    EXPECT_EQ(attune("tune --shapes").exit, exit_usage);
    EXPECT_EQ(attune("tune --device emu:h200").exit, exit_usage) << "--shapes is required";
    const Ran help = attune("--help");
    EXPECT_EQ(help.exit, 0);
    for (const ExitCode& row : exit_codes) EXPECT_THAT(help.out, HasSubstr(row.meaning));
    EXPECT_THAT(attune("tune --help").out, HasSubstr("exhaustive"));
    EXPECT_EQ(attune("--version").exit, 0);
}

TEST(ExitCodes, AreOnePerCodeAndNoneIsUsage) {
    std::set<int> exits;
    for (int code = 0; code <= int(Code::internal); ++code) exits.insert(exit_code(Code(code)));
    EXPECT_EQ(exits.size(), std::size_t(Code::internal) + 1);
    EXPECT_EQ(exits.count(exit_usage), 0u);
}

}  // namespace
}  // namespace attune
