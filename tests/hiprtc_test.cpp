// hiprtc as a compiler, in worker processes. Skipped where none is found, unless
// ATTUNE_REQUIRE_HIPRTC is set.
#include "tuner/hiprtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "generator/formatted.h"
#include "tests/disassembly.h"
#include "tuner/compiler_process.h"
#include "tuner/devices.h"
#include "tuner/worker_pool.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// d = a b + d by one matrix instruction, written with the compiler's own names.
std::string matrix_kernel(const std::string& builtin, int a_halves, int d_floats,
                          const std::string& more_arguments) {
    return formatted(
        "typedef _Float16 A __attribute__((ext_vector_type({})));\n"
        "typedef float D __attribute__((ext_vector_type({})));\n"
        "struct Params {{ const A* a; D* d; }};\n"
        "extern \"C\" __global__ void __launch_bounds__(64) attune_kernel(Params p) {{\n"
        "    const A a = p.a[threadIdx.x];\n"
        "    p.d[threadIdx.x] = {}(a, a, p.d[threadIdx.x]{});\n}}\n",
        a_halves, d_floats, builtin, more_arguments);
}

Source source_of(const std::string& text) {
    return {text, "attune_kernel", sha256_hex(text), {}};
}

Source mfma() {
    return source_of(matrix_kernel("__builtin_amdgcn_mfma_f32_32x32x8f16", 4, 16, ", 0, 0, 0"));
}
Source wmma_rdna3() {
    return source_of(matrix_kernel("__builtin_amdgcn_wmma_f32_16x16x16_f16_w32", 16, 8, ""));
}
Source wmma_rdna4() {
    return source_of(matrix_kernel("__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12", 8, 8, ""));
}

WorkerOptions workers() {
    WorkerOptions options;
    options.command = {ATTUNE_WORKER_CHILD, "worker"};
    options.compile_processes = 2;
    return options;
}

class Hiprtc : public testing::Test {
protected:
    void SetUp() override {
        auto opened = CompilerProcess::open(workers(), "hiprtc");
        if (opened) {
            compiler = *std::move(opened);
            return;
        }
        ASSERT_EQ(std::getenv("ATTUNE_REQUIRE_HIPRTC"), nullptr) << opened.error().text();
        GTEST_SKIP() << "skipped: " << opened.error().text();
    }
    std::unique_ptr<CompilerProcess> compiler;
};

TEST_F(Hiprtc, compiles_for_every_arch_without_its_gpu) {
    auto disassembler = Disassembler::start(ATTUNE_WORKER_CHILD);
    ASSERT_TRUE(disassembler) << disassembler.error().text();
    const struct {
        const char* arch;
        Source source;
        const char* instruction;
    } rows[] = {{"gfx90a", mfma(), "v_mfma_f32_32x32x8"},
                {"gfx942", mfma(), "v_mfma_f32_32x32x8"},
                {"gfx942:sramecc+:xnack-", mfma(), "v_mfma_f32_32x32x8"},
                {"gfx950", mfma(), "v_mfma_f32_32x32x8"},
                {"gfx1100", wmma_rdna3(), "v_wmma_f32_16x16x16_f16"},
                {"gfx1151", wmma_rdna3(), "v_wmma_f32_16x16x16_f16"},
                {"gfx1200", wmma_rdna4(), "v_wmma_f32_16x16x16_f16"},
                {"gfx1201", wmma_rdna4(), "v_wmma_f32_16x16x16_f16"}};
    for (const auto& [arch, source, instruction] : rows) {
        SCOPED_TRACE(arch);
        const auto binary = compiler->compile(source, arch);
        ASSERT_TRUE(binary) << binary.error().text();
        EXPECT_EQ(binary->entry, "attune_kernel");
        EXPECT_EQ(binary->toolchain, compiler->toolchain());
        EXPECT_THAT(binary->toolchain, testing::StartsWith("hiprtc "));
        EXPECT_GT(binary->compile_ms, 0);
        EXPECT_GT(binary->resources.registers, 8);
        EXPECT_GT(binary->resources.scalar_registers, 0);
        EXPECT_EQ(binary->resources.spill_bytes, 0);
        EXPECT_EQ(binary->resources.stack_bytes, 0);
        EXPECT_EQ(binary->resources.shared_static_bytes, 0);
        const auto found = disassembler->instructions(binary->bytes, binary->entry);
        ASSERT_TRUE(found) << found.error().text();
        EXPECT_EQ(count(*found, instruction), 1);
        EXPECT_EQ(count(*found, "s_endpgm"), 1);
    }
}

/// What the compiler does not know of asm, the disassembly's reader must.
TEST_F(Hiprtc, hazards_inside_asm_are_found) {
    auto disassembler = Disassembler::start(ATTUNE_WORKER_CHILD);
    ASSERT_TRUE(disassembler) << disassembler.error().text();
    for (const int states : {4, 5}) {
        const Source source = source_of(formatted(
            "extern \"C\" __global__ void attune_kernel(int* out) {{\n"
            "    int lane = threadIdx.x, read;\n"
            "    asm volatile(\"v_readfirstlane_b32 s20, %1\\n\\ts_nop {}\\n\\t\"\n"
            "                 \"global_load_dword %0, %1, s[20:21]\\n\\ts_waitcnt vmcnt(0)\"\n"
            "                 : \"=v\"(read) : \"v\"(lane) : \"s20\", \"s21\");\n"
            "    out[lane] = read;\n}}\n",
            states - 1));
        const auto binary = compiler->compile(source, "gfx942");
        ASSERT_TRUE(binary) << binary.error().text();
        const auto found = disassembler->instructions(binary->bytes, binary->entry);
        ASSERT_TRUE(found) << found.error().text();
        EXPECT_EQ(count(*found, "hazard: global_load_dword"), states < 5 ? 1 : 0);
    }
}

TEST_F(Hiprtc, counts_spills_scratch_and_shared_memory) {
    // 160 live floats per thread do not fit the 128 registers that 1024 threads leave each.
    const auto binary = compiler->compile(
        source_of(
            "extern \"C\" __global__ void __launch_bounds__(1024) attune_kernel(float* io) {\n"
            "    __shared__ float shared[1024];\n"
            "    float x[160];\n#pragma unroll\n"
            "    for (int i = 0; i < 160; ++i) x[i] = io[1024 * i + threadIdx.x];\n"
            "    shared[threadIdx.x ^ 7] = x[0];\n    __syncthreads();\n#pragma unroll\n"
            "    for (int i = 0; i < 160; ++i)\n"
            "        io[1024 * (159 - i) + threadIdx.x] = x[i] * shared[threadIdx.x];\n}\n"),
        "gfx942");
    ASSERT_TRUE(binary) << binary.error().text();
    EXPECT_EQ(binary->resources.registers, 128);
    EXPECT_GE(binary->resources.accumulation_registers, 0) << "told, and here not needed";
    EXPECT_GT(binary->resources.spill_bytes, 0);
    EXPECT_GE(binary->resources.stack_bytes, binary->resources.spill_bytes);
    EXPECT_EQ(binary->resources.shared_static_bytes, 4096);
}

TEST_F(Hiprtc, an_unknown_arch_is_refused_with_those_it_knows) {
    for (const char* arch : {"gfx999", "sm_90a", ""}) {
        const auto binary = compiler->compile(mfma(), arch);
        ASSERT_FALSE(binary) << arch;
        EXPECT_EQ(binary.error().code, Code::unsupported);
        EXPECT_THAT(binary.error().message, HasSubstr("gfx90a"));
    }
    EXPECT_TRUE(compiler->compile(mfma(), "gfx90a")) << "the process lives";
}

TEST_F(Hiprtc, a_broken_source_carries_the_log) {
    const auto binary = compiler->compile(source_of("no_such_type x;"), "gfx942");
    ASSERT_FALSE(binary);
    EXPECT_EQ(binary.error().code, Code::compile_failed);
    EXPECT_THAT(binary.error().message, HasSubstr("no_such_type"));
}

/// RDNA 3's instruction on RDNA 4: the front end takes it, the back end ends the process.
TEST_F(Hiprtc, an_instruction_that_the_arch_lacks_is_one_verdict_and_the_next_source_compiles) {
    auto pool = CompilePool::open(workers(), "hiprtc");
    ASSERT_TRUE(pool) << pool.error().text();
    auto bad = (*pool)->compile(wmma_rdna3(), "gfx1201");
    auto good = (*pool)->compile(wmma_rdna4(), "gfx1201");
    EXPECT_EQ(bad.get()->verdict, Verdict::crashed);
    EXPECT_THAT(bad.get()->reason, HasSubstr("SIGABRT"));
    EXPECT_EQ(good.get()->verdict, Verdict::ok) << good.get()->reason;
}

TEST_F(Hiprtc, options_of_a_source_are_honoured) {
    Source source = mfma();
    source.text = "static_assert(ATTUNE_TEST_VALUE == 7);\n" + source.text;
    EXPECT_FALSE(compiler->compile(source, "gfx942"));
    source.options = {"-DATTUNE_TEST_VALUE=7"};
    EXPECT_TRUE(compiler->compile(source, "gfx942"));
}

TEST_F(Hiprtc, keeps_nothing_in_the_users_cache) {
    const fs::path cache = fs::path(testing::TempDir()) / "attune_comgr_cache";
    setenv("AMD_COMGR_CACHE_DIR", cache.c_str(), 1);
    setenv("AMD_COMGR_CACHE", "1", 1);
    auto another = CompilerProcess::open(workers(), "hiprtc");
    unsetenv("AMD_COMGR_CACHE");
    unsetenv("AMD_COMGR_CACHE_DIR");
    ASSERT_TRUE(another) << another.error().text();
    EXPECT_TRUE((*another)->compile(mfma(), "gfx942"));
    EXPECT_FALSE(fs::exists(cache));
}

// ---- where it is sought; no hiprtc needed ------------------------------------------------------

/// Environment variables as given, and as they were when it ends.
class Environment {
public:
    Environment(std::initializer_list<std::pair<std::string, std::string>> values) {
        for (const auto& [name, value] : values) {
            const char* old = std::getenv(name.c_str());
            old_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
            setenv(name.c_str(), value.c_str(), 1);
        }
    }
    ~Environment() {
        for (const auto& [name, value] : old_)
            value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    std::map<std::string, std::optional<std::string>> old_;
};

/// A folder that looks as tools/rocm-prefix.sh leaves it.
fs::path make_prefix(const fs::path& folder) {
    const fs::path libraries = folder / "usr/lib/x86_64-linux-gnu";
    fs::create_directories(libraries);
    std::ofstream(libraries / "ld-linux-x86-64.so.2") << "";
    return libraries;
}

TEST(HiprtcSearch, the_environment_names_a_library_a_folder_or_a_prefix) {
    const fs::path folder = fs::path(testing::TempDir()) / "attune_hiprtc_search";
    fs::create_directories(folder / "plain");
    const fs::path libraries = make_prefix(folder / "prefix");
    {
        const Environment named{{"ATTUNE_HIPRTC", "/nowhere/libhiprtc.so.9"}};
        EXPECT_THAT(hiprtc::candidates(), ElementsAre("/nowhere/libhiprtc.so.9"));
        EXPECT_THAT(hiprtc::command_for({"/bin/true"}), ElementsAre("/bin/true"));
        auto missing = CompilerProcess::open(workers(), "hiprtc");
        ASSERT_FALSE(missing);
        EXPECT_EQ(missing.error().code, Code::library_missing);
        EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/libhiprtc.so.9"));
        EXPECT_THAT(missing.error().next_step, HasSubstr("tools/rocm-prefix.sh"));
    }
    {
        const Environment named{{"ATTUNE_HIPRTC", (folder / "plain").string()}};
        EXPECT_EQ(hiprtc::candidates().front(), (folder / "plain/libhiprtc.so.7").string());
        EXPECT_THAT(hiprtc::command_for({"/bin/true"}), ElementsAre("/bin/true"));
    }
    {
        const Environment named(
            {{"ATTUNE_HIPRTC", (folder / "prefix").string()}, {"LD_LIBRARY_PATH", "/more"}});
        EXPECT_EQ(hiprtc::candidates().front(), (libraries / "libhiprtc.so.7").string());
        EXPECT_EQ(hiprtc::candidates().back(), (libraries / "libamdhip64.so").string());
        EXPECT_THAT(hiprtc::command_for({"/proc/self/exe", "worker"}),
                    ElementsAre((libraries / "ld-linux-x86-64.so.2").string(), "--library-path",
                                libraries.string() + ":/more",
                                fs::canonical("/proc/self/exe").string(), "worker"));
    }
    fs::remove_all(folder);
}

TEST(HiprtcSearch, a_prefix_in_its_usual_place_comes_before_the_systems) {
    const fs::path cache = fs::path(testing::TempDir()) / "attune_hiprtc_cache";
    const Environment usual{{"ATTUNE_HIPRTC", ""}, {"XDG_CACHE_HOME", cache.string()}};
    EXPECT_THAT(hiprtc::command_for({"/bin/true"}), ElementsAre("/bin/true"));
    const fs::path libraries = make_prefix(cache / "attune/rocm");
    const std::vector<std::string> sought = hiprtc::candidates();
    EXPECT_EQ(sought.front(), (libraries / "libhiprtc.so.7").string());
    EXPECT_THAT(sought, testing::Contains("libhiprtc.so.7"));
    EXPECT_EQ(hiprtc::command_for({"/bin/true"}).front(),
              (libraries / "ld-linux-x86-64.so.2").string());
    fs::remove_all(cache);
}

TEST(HiprtcSearch, compilers_by_vendor) {
    EXPECT_STREQ(compiler_for(Vendor::amd, false), "hiprtc");
    EXPECT_STREQ(compiler_for(Vendor::nvidia, false), "nvrtc");
    EXPECT_STREQ(compiler_for(Vendor::amd, true), "host");
}

}  // namespace
}  // namespace attune
