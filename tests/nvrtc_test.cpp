// NVRTC as a compiler. Skipped where no NVRTC is found, unless ATTUNE_REQUIRE_NVRTC is set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tuner/compiler.h"
#include "tuner/nvrtc.h"

namespace attune {
namespace {

Source probe(const std::string& text) {
    return {"#include \"target.h\"\n" + text, "attune_kernel", "hash", {}};
}

const std::string store_one =
    "struct Params { float* to; };\n"
    "ATTUNE_KERNEL(attune_kernel, 32, 1, Params, params) {\n"
    "    attune::store_global_f32(params.to + attune::thread_index(), 1.0f);\n}\n";

Variant variant(const char* signature, const char* config, const char* gpu) {
    return {*Signature::parse(signature), *Config::parse(config), *find_target(gpu)};
}

class Nvrtc : public testing::Test {
protected:
    void SetUp() override {
        auto opened = open_nvrtc();
        if (opened) {
            compiler = *std::move(opened);
            return;
        }
        ASSERT_EQ(opened.error().code, Code::library_missing);
        ASSERT_EQ(std::getenv("ATTUNE_REQUIRE_NVRTC"), nullptr) << opened.error().text();
        GTEST_SKIP() << opened.error().text();
    }
    std::unique_ptr<Compiler> compiler;
};

TEST_F(Nvrtc, compiles_to_a_cubin_and_reports_resources) {
    auto binary = compiler->compile(probe(store_one), "sm_86");
    ASSERT_TRUE(binary) << binary.error().text();
    ASSERT_GT(binary->bytes.size(), 64u);
    EXPECT_EQ(static_cast<char>(binary->bytes[1]), 'E');
    EXPECT_EQ(binary->entry, "attune_kernel");
    EXPECT_EQ(binary->toolchain.substr(0, 6), "nvrtc ");
    EXPECT_GT(binary->resources.registers, 0);
    EXPECT_EQ(binary->resources.spill_bytes, 0);
    EXPECT_EQ(binary->resources.stack_bytes, 0);
    EXPECT_EQ(binary->resources.shared_static_bytes, 0);
    EXPECT_GT(binary->compile_ms, 0);
}

/// Where there is a GPU the driver keeps cubins, but not ptxas's report on them.
TEST_F(Nvrtc, reports_resources_each_time) {
    for (int time = 0; time < 3; ++time) {
        auto binary = compiler->compile(probe(store_one), "sm_90a");
        ASSERT_TRUE(binary) << binary.error().text();
        EXPECT_GT(binary->resources.registers, 0) << time;
        EXPECT_EQ(binary->resources.spill_bytes, 0) << time;
    }
}

TEST_F(Nvrtc, counts_spills) {
    // 512 live floats per thread do not fit 255 registers.
    auto binary = compiler->compile(
        probe("struct Params { float* io; };\n"
              "ATTUNE_KERNEL(attune_kernel, 32, 1, Params, params) {\n"
              "    float x[512];\n    ATTUNE_UNROLL\n"
              "    for (int i = 0; i < 512; ++i) x[i] = params.io[32 * i + threadIdx.x];\n"
              "    __syncthreads();\n    ATTUNE_UNROLL\n"
              "    for (int i = 0; i < 512; ++i) params.io[32 * (511 - i) + threadIdx.x] = x[i];\n"
              "}\n"),
        "sm_80");
    ASSERT_TRUE(binary) << binary.error().text();
    EXPECT_GT(binary->resources.spill_bytes, 0);
    EXPECT_GT(binary->resources.stack_bytes, 0);
}

TEST_F(Nvrtc, emitted_kernels_compile_for_every_arch_of_the_family) {
    for (const char* gpu : {"a100-sxm4-80gb", "a10", "l4", "h200", "b200", "rtx-5090"}) {
        const Variant small = variant("bf16.d64.causal.lse", "mma/q64.kv32.w4", gpu);
        auto binary = compiler->compile(emit(small), small.target.arch);
        ASSERT_TRUE(binary) << gpu << ": " << binary.error().text();
        EXPECT_GT(binary->resources.registers, 32) << gpu;
        EXPECT_GE(binary->resources.spill_bytes, 0) << gpu;
    }
}

TEST_F(Nvrtc, notes_wgmmas_that_are_waited_for_one_by_one) {
    // Scores and output take 224 of the 160 registers that three consumers have.
    for (const auto& [config, serialised] :
         {std::pair("wgmma/q192.kv192", true), {"wgmma/q128.kv64", false}}) {
        auto binary = compiler->compile(emit(variant("bf16.d64.full", config, "h200")), "sm_90a");
        ASSERT_TRUE(binary) << binary.error().text();
        EXPECT_EQ(binary->resources.serialised_note > 0, serialised) << config << binary->log;
        EXPECT_GT(binary->resources.registers, 0) << binary->log;
    }
}

TEST_F(Nvrtc, a_broken_source_carries_the_log) {
    auto binary = compiler->compile(probe("no_such_type x;"), "sm_80");
    ASSERT_FALSE(binary);
    EXPECT_EQ(binary.error().code, Code::compile_failed);
    EXPECT_NE(binary.error().message.find("no_such_type"), std::string::npos);
}

TEST_F(Nvrtc, an_unknown_arch_is_refused_with_those_it_knows) {
    for (const char* arch : {"sm_999", "sm_50", "gfx942", ""}) {
        auto binary = compiler->compile(probe(store_one), arch);
        ASSERT_FALSE(binary) << arch;
        EXPECT_EQ(binary.error().code, Code::unsupported);
        EXPECT_NE(binary.error().message.find("sm_90"), std::string::npos);
    }
    auto newer = compiler->compile(probe(store_one), "sm_999");
    EXPECT_NE(newer.error().message.find("newer"), std::string::npos);
}

TEST_F(Nvrtc, options_of_a_source_are_honoured) {
    Source source = probe("static_assert(ATTUNE_TEST_VALUE == 7);\n" + store_one);
    EXPECT_FALSE(compiler->compile(source, "sm_80"));
    source.options = {"-DATTUNE_TEST_VALUE=7"};
    EXPECT_TRUE(compiler->compile(source, "sm_80"));
}

TEST_F(Nvrtc, two_compilers_work_at_once) {
    auto second = open_nvrtc();
    ASSERT_TRUE(second);
    const Source source = probe(store_one);
    bool other_ok = false;
    std::thread other([&] {
        other_ok = true;
        for (int i = 0; i < 5; ++i) other_ok &= bool((*second)->compile(source, "sm_90a"));
    });
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(compiler->compile(source, "sm_80"));
    other.join();
    EXPECT_TRUE(other_ok);
}

TEST_F(Nvrtc, the_environment_names_a_file_or_a_folder) {
    const auto library = nvrtc::Library::open();
    ASSERT_TRUE(library);
    const std::filesystem::path opened = library->library.opened();
    setenv("ATTUNE_NVRTC", "/nowhere:/tmp", 1);
    const std::vector<std::string> sought = nvrtc::candidates();
    unsetenv("ATTUNE_NVRTC");
    EXPECT_EQ(sought,
              (std::vector<std::string>{"/nowhere", "/tmp/libnvrtc.so.13", "/tmp/libnvrtc.so.12"}));
    EXPECT_GT(nvrtc::candidates().size(), 10u);
    if (opened.has_parent_path()) {
        setenv("ATTUNE_NVRTC", opened.parent_path().c_str(), 1);
        EXPECT_TRUE(open_nvrtc());
        unsetenv("ATTUNE_NVRTC");
    }
}

TEST(DynamicLibrary, a_missing_library_says_where_it_was_sought) {
    auto missing =
        DynamicLibrary::open("a thing", {"libno-such-thing.so.1", "/nowhere/x.so"}, "go");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::library_missing);
    EXPECT_NE(missing.error().message.find("libno-such-thing.so.1, /nowhere/x.so"),
              std::string::npos);
    EXPECT_EQ(missing.error().next_step, "go");
}

TEST(DynamicLibrary, a_file_that_is_no_library_says_why) {
    const std::string path = testing::TempDir() + "/attune_not_a_library.so";
    std::ofstream(path) << std::string(200, 'x');
    auto broken = DynamicLibrary::open("a thing", {path}, "");
    ASSERT_FALSE(broken);
    EXPECT_NE(broken.error().message.find("invalid ELF header"), std::string::npos)
        << broken.error().message;
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace attune
