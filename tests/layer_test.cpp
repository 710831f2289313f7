// Reads every tracked file and holds the tree to its layers (README, architecture).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "generator/formatted.h"
#include "tests/layers.h"

namespace attune::layers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> tracked_files() {
    const std::string command =
        formatted("git -c safe.directory='*' -C '{}' ls-files -z 2>/dev/null", ATTUNE_SOURCE_DIR);
    FILE* pipe = popen(command.c_str(), "r");
    std::string all;
    std::array<char, 4096> part;
    while (std::size_t got = pipe ? fread(part.data(), 1, part.size(), pipe) : 0)
        all.append(part.data(), got);
    if (pipe) pclose(pipe);
    std::vector<std::string> files;
    std::istringstream stream(all);
    for (std::string name; std::getline(stream, name, '\0');) files.push_back(name);
    return files;
}

TEST(Layers, EveryTrackedFileKeepsTheRules) {
    const auto files = tracked_files();
    if (files.empty()) GTEST_SKIP() << "skipped: not a git checkout, or no git to list its files";
    std::size_t code_files = 0;
    for (const std::string& name : files) {
        std::ifstream in(std::string(ATTUNE_SOURCE_DIR) + "/" + name);
        if (!in) continue;  // removed in the working tree
        std::ostringstream text;
        text << in.rdbuf();
        code_files += name.ends_with(".cpp") || name.ends_with(".h");
        for (const std::string& violation : violations(name, text.str()))
            ADD_FAILURE() << violation;
    }
    EXPECT_GT(code_files, 30u) << "the list of tracked files looks wrong";
}

TEST(Layers, DownIsAllowed) {
    EXPECT_THAT(violations("tuner/a.cpp", "#include \"runtime/store.h\"\n"), IsEmpty());
    EXPECT_THAT(violations("templates/mma/a.h", "#include \"target.h\"\n"), IsEmpty());
    EXPECT_THAT(violations("tests/a.cpp", "#include \"tuner/tune.h\"\n"), IsEmpty());
    EXPECT_THAT(violations("runtime/emu/a.cpp", "#include \"runtime/emu/emu.h\"\n"), IsEmpty());
    EXPECT_THAT(violations("tools/examples/a.c", "#include <attune/attune.h>\n"), IsEmpty());
}

struct Bad {
    const char* path;
    const char* text;
    const char* expected;
};

class BadFile : public testing::TestWithParam<Bad> {};

TEST_P(BadFile, IsReported) {
    const auto [path, text, expected] = GetParam();
    EXPECT_THAT(violations(path, text), ElementsAre(HasSubstr(expected)));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadFile,
    testing::Values(
        Bad{"generator/a.cpp", "#include \"runtime/store.h\"\n", "a.cpp:1: generator may not"},
        Bad{"generator/a.cpp", "int x;\n#  include \"tuner/tune.h\"\n", "a.cpp:2:"},
        Bad{"generator/a.cpp", "#include <fstream>\n", "pure"},
        Bad{"generator/a.cpp", "#include \"space.h\"\n", "may not include \"space.h\""},
        Bad{"generator/a.cpp", "#include \"../tuner/tune.h\"\n", "may not include"},
        Bad{"runtime/a.cpp", "#include \"tuner/tune.h\"\n", "runtime may not"},
        Bad{"runtime/attune.cpp", "#include \"runtime/emu/emu.h\"\n", "the emulator's"},
        Bad{"tuner/a.cpp", "#include \"tools/attune/main.h\"\n", "tuner may not"},
        Bad{"tuner/a.cpp", "#include \"tests/layers.h\"\n", "tuner may not"},
        Bad{"tools/attune/a.cpp", "#include \"tests/layers.h\"\n", "tools may not"},
        Bad{"tools/examples/a.c", "#include \"runtime/attune.h\"\n", "tools/examples may not"},
        Bad{"templates/mma/a.h", "#include \"generator/space.h\"\n", "templates may not"},
        Bad{"templates/mma/a.h", "#include <cmath>\n", "a kernel may not include <cmath>"},
        Bad{"templates/mma/a.h", "#ifdef FAST\n", "no #if"},
        Bad{"templates/mma/a.h", "int i = threadIdx.x;\n", "vendor built-ins"},
        Bad{"templates/mma/a.h", "x = __shfl_xor_sync(m, x, 1);\n", "vendor built-ins"},
        Bad{"templates/mma/a.h", "asm volatile(\"bar.sync 0;\");\n", "asm stands in"},
        Bad{"runtime/a.cpp", "#if defined(__HIP_PLATFORM_AMD__)\n", "vendor or arch"},
        Bad{"tuner/a.cpp", "#ifdef __CUDA_ARCH__\n", "vendor or arch"},
        Bad{"misc/a.txt", "", "'misc' is no top-level name"},
        Bad{"notes.md", "", "'notes.md' is no top-level name"}));

TEST(Layers, LongFileIsReported) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "int x;\n";
    EXPECT_THAT(violations("tests/a.cpp", text), IsEmpty());
    EXPECT_THAT(violations("tests/a.cpp", text + "int x;\n"),
                ElementsAre(HasSubstr("401 lines, at most 400")));
}

TEST(Layers, CommentsAndLiteralsAreNotCode) {
    EXPECT_THAT(violations("templates/mma/a.h",
                           "// asm here\n/* #if\n __CUDA_ARCH__ */\nauto s = \"asm \\\" asm\";\n"),
                IsEmpty());
    EXPECT_EQ(without_comments_and_literals("a /* b\n c */ d // e\nf(\"g\", 'h', 1'000);"),
              "a     \n      d     \nf(\" \", ' ', 1'000);");
}

TEST(Layers, TheSeamHoldsVendorSpellings) {
    EXPECT_THAT(violations("templates/target/cuda.h",
                           "#if __CUDA_ARCH__\nasm(\"\");\nint i = threadIdx.x;\n#endif\n"),
                IsEmpty());
}

}  // namespace
}  // namespace attune::layers
