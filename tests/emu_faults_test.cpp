// What a wrong kernel does on the emulator: each fault is an error that says where.
#include <cstdlib>

#include "runtime/attune_emu.h"
#include "runtime/backend.h"
#include "tests/emu_fixture.h"

namespace attune {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class EmuFaults : public EmuTest {};

TEST_F(EmuFaults, MissingCtaSyncIsARace) {
    const std::string write = "store_shared_f32(shared + 4 * thread, 1.0f);\n";
    const std::string read = "out[thread] = load_shared_f32(shared + 4 * (63 - thread));\n";
    EXPECT_TRUE(run(write + "cta_sync();\n" + read, 64, {}, 64));
    EXPECT_THAT(fault(write + read),
                ContainsRegex("CTA 0, thread [0-9]+: race: .* shared byte [0-9]+, which CTA 0, "
                              "thread [0-9]+ (wrote|read)"));
}

TEST_F(EmuFaults, MissingWarpSyncIsARace) {
    const std::string write = "store_shared_f32(shared + 4 * thread, 1.0f);\n";
    const std::string read = "out[thread] = load_shared_f32(shared + 4 * (thread ^ 1));\n";
    EXPECT_TRUE(run(write + "warp_sync();\n" + read, 64, {}, 64));
    EXPECT_THAT(fault(write + read), HasSubstr("race"));
    // A shuffle brings lanes together without ordering their memory accesses.
    EXPECT_THAT(fault(write + "shuffle(1.0f, 0);\n" + read), HasSubstr("race"));
}

TEST_F(EmuFaults, OverwritingWhatIsStillReadIsARace) {
    const std::string start =
        "if (warp == 0) store_shared_f32(shared + 4 * lane, 1.0f);\n"
        "cta_sync();\n"
        "if (warp == 1) out[lane] = load_shared_f32(shared + 4 * lane);\n";
    const std::string overwrite = "if (warp == 0) store_shared_f32(shared + 4 * lane, 2.0f);\n";
    EXPECT_TRUE(run(start + "cta_sync();\n" + overwrite, 64, {}, 64));
    EXPECT_THAT(fault(start + overwrite), HasSubstr("race"));
}

TEST_F(EmuFaults, CopyInFlightIsARace) {
    const std::string copy = "cp_async_16(shared + 16 * thread, in, true); cp_async_commit();\n";
    const std::string read = "out[thread] = load_shared_f32(shared + 16 * thread);\n";
    EXPECT_TRUE(run(copy + "cp_async_wait<0>();\n" + read, 64, {1, 2, 3, 4}, 64));
    EXPECT_THAT(fault(copy + read), HasSubstr("a copy of CTA 0, thread"));
    EXPECT_THAT(fault(copy + "cp_async_wait<1>();\n" + read), HasSubstr("still writing"));
    // Waiting lands the thread's own copies; others see them after a barrier only.
    const std::string other = "out[thread] = load_shared_f32(shared + 16 * (63 - thread));\n";
    EXPECT_THAT(fault(copy + "cp_async_wait<0>();\n" + other), HasSubstr("race"));
    EXPECT_TRUE(run(copy + "cp_async_wait<0>(); cta_sync();\n" + other, 64, {1, 2, 3, 4}, 64));
}

TEST_F(EmuFaults, WindowCopyInFlightIsARace) {
    const std::string copy =
        "copy_window_to_shared<4>(shared + 128 * warp, global_window(in), 4 * thread, 0);\n";
    const std::string wait = "wait_window_copies();\n";
    const std::string own = "out[thread] = load_shared_f32(shared + 4 * thread);\n";
    const std::string other = "out[thread] = load_shared_f32(shared + 4 * (63 - thread));\n";
    const std::vector<std::uint32_t> in(64);
    EXPECT_TRUE(run(copy + wait + own, 64, in, 64));
    EXPECT_THAT(fault(copy + own), HasSubstr("a copy of CTA 0, thread"));
    EXPECT_THAT(fault(copy + wait + other), HasSubstr("race"));
    EXPECT_TRUE(run(copy + wait + "cta_sync();\n" + other, 64, in, 64));
    EXPECT_THAT(fault(replaced(copy, "thread, 0", "thread, 4")),
                HasSubstr("copy_window_to_shared of 4 bytes"));
}

TEST_F(EmuFaults, MbarrierNeedsItsInitToBeSeen) {
    const std::string init = "if (thread == 0) mbarrier_init(shared, 64);\n";
    const std::string use = "mbarrier_arrive(shared); mbarrier_wait(shared, 0);\n";
    EXPECT_TRUE(run(init + "cta_sync();\n" + use, 64, {}, 1));
    EXPECT_THAT(fault(init + use), ContainsRegex("race|no mbarrier was initialised"));
    EXPECT_THAT(fault("cta_sync();" + use), HasSubstr("no mbarrier was initialised"));
}

TEST_F(EmuFaults, MbarrierOfTheWrongParity) {
    // Parity 1 passes before anybody has arrived, and what it should have guarded races; or it
    // comes too late for that and waits for a phase nobody completes.
    const std::string text =
        "if (thread == 0) mbarrier_init(shared, 32);\n"
        "cta_sync();\n"
        "if (warp == 0) { store_shared_f32(shared + 64, 1.0f * lane); mbarrier_arrive(shared); }\n"
        "else { mbarrier_wait(shared, PARITY); out[lane] = load_shared_f32(shared + 64); }\n";
    const auto with = [&](const std::string& parity, const std::string& store) {
        std::string changed = text;
        changed.replace(changed.find("PARITY"), 6, parity);
        return changed.replace(changed.find("store_shared_f32"), 0, store);
    };
    EXPECT_TRUE(run(with("0", "if (lane == 0) "), 64, {}, 64));
    EXPECT_THAT(fault(with("1", "if (lane == 0) ")), ContainsRegex("race|deadlock"));
    // Nobody completes a second phase.
    EXPECT_THAT(
        fault("if (thread == 0) mbarrier_init(shared, 64);\n"
              "cta_sync();\n"
              "mbarrier_arrive(shared); mbarrier_wait(shared, 0); mbarrier_wait(shared, 1);"),
        HasSubstr("thread 0 waits at mbarrier_wait(shared byte 0, parity 1) (64 threads)"));
}

TEST_F(EmuFaults, ArrivingWithCopiesReleasesNothingElse) {
    const std::string text =
        "if (thread == 0) mbarrier_init(shared, 32);\n"
        "cta_sync();\n"
        "if (warp == 0) { store_shared_f32(shared + 64 + 4 * lane, 1); ARRIVE(shared); }\n"
        "else { mbarrier_wait(shared, 0); out[lane] = load_shared_f32(shared + 64 + 4 * lane); }\n";
    EXPECT_TRUE(run("#define ARRIVE mbarrier_arrive\n" + text, 64, {}, 64));
    EXPECT_THAT(fault("#define ARRIVE mbarrier_arrive_cp_async\n" + text), HasSubstr("race"));
}

TEST_F(EmuFaults, BarrierDivergenceIsADeadlock) {
    EXPECT_THAT(fault("if (warp == 0) cta_sync();"),
                HasSubstr("deadlock: thread 32 has exited (32 threads), thread 0 waits at cta_sync "
                          "(32 threads)"));
}

TEST_F(EmuFaults, DivergentWarp) {
    EXPECT_THAT(fault("if (lane < 16) warp_sync(); else warp_any(true);"),
                HasSubstr("divergent warp"));
    EXPECT_THAT(fault("if (lane < 16) warp_sync(); else cta_sync();"),
                HasSubstr("waits at cta_sync"));
    EXPECT_THAT(fault("if (lane == 7) return; shuffle_xor(1.0f, 1);"),
                HasSubstr("thread 7: divergent warp: this lane has exited"));
}

TEST_F(EmuFaults, SharedOutOfBounds) {
    EXPECT_THAT(fault("store_shared_f32(shared + 4096 - 4 * 63 + 4 * thread, 0);"),
                HasSubstr("thread 63: store_shared of 4 bytes at shared byte 4096 is outside the "
                          "launch's 4096 bytes"));
    EXPECT_THAT(fault("load_shared_f32(0);"), HasSubstr("shared byte -1024"));
    EXPECT_THAT(fault("unsigned r[4]; ldmatrix_x4(r, shared + 128 * lane + 128);"),
                HasSubstr("ldmatrix_x4 of 16 bytes at shared byte 4096"));
    EXPECT_THAT(fault("unsigned r[4] = {}; stmatrix_x4(shared + 128 * lane + 128, r);"),
                HasSubstr("stmatrix_x4 of 16 bytes at shared byte 4096"));
    EXPECT_THAT(fault("cp_async_16(shared + 4096, in, true);"), HasSubstr("cp_async_16"));
}

TEST_F(EmuFaults, GlobalOutOfBounds) {
    EXPECT_THAT(fault("if (thread == 5) store_global_32(out + 64 + 2, 0);"),
                ContainsRegex("CTA 0, thread 5: store_global of 4 bytes at 0x[0-9a-f]+ is outside "
                              "every allocation: 8 bytes past the end of the 256 bytes at 0x"));
    EXPECT_THAT(fault("load_global_32(nullptr);"), HasSubstr("thread"));
    EXPECT_THAT(fault("cp_async_16(shared + 16 * thread, in + 64, true);"),
                HasSubstr("outside every allocation"));
    EXPECT_THAT(fault("load_global_128(out + 62);"), HasSubstr("outside every allocation"));
}

TEST_F(EmuFaults, Misaligned) {
    EXPECT_THAT(fault("load_global_128(out + 1);"), HasSubstr("not aligned to 16 bytes"));
    EXPECT_THAT(fault("load_shared_128(shared + 8);"), HasSubstr("not aligned to 16 bytes"));
    EXPECT_THAT(fault("load_shared_f32(shared + 2);"), HasSubstr("not aligned to 4 bytes"));
}

TEST_F(EmuFaults, TheFirstFaultyCtaIsNamedAndTheDeviceGoesOn) {
    const Result<void> ran =
        run("if (cta_index() >= 3 && thread == 40) store_global_32(out - 1, 0);", 64, {}, 1, 9);
    ASSERT_FALSE(ran);
    EXPECT_THAT(ran.error().text(), HasSubstr("CTA 3, thread 40"));
    EXPECT_THAT(ran.error().text(), HasSubstr("attune_kernel on emu:h200"));
    ASSERT_TRUE(run("out[thread] = thread;", 64, {}, 64));
    EXPECT_EQ(out[63], 63u);
}

TEST_F(EmuFaults, LaunchLimits) {
    EXPECT_THAT(fault("", 1056), HasSubstr("cannot run with 1056 threads"));
    EXPECT_THAT(fault("", 33), HasSubstr("cannot run with 33 threads"));
    EXPECT_THAT(fault("", 32, 1 << 20), HasSubstr("1048576 bytes of shared memory"));
    const Result<Binary> binary = compile("");
    ASSERT_TRUE(binary);
    const auto kernel = device->load(binary->bytes, binary->entry, 0);
    ASSERT_TRUE(kernel);
    const Result<void> ran = device->launch(*kernel, {1, 32, 0, 0}, "", 1);
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::invalid_argument);
    EXPECT_TRUE(device->unload(*kernel));
    EXPECT_EQ(device->launch(*kernel, {1, 32, 0, 0}, "", 1).error().code, Code::invalid_argument);
}

TEST_F(EmuFaults, NotAKernel) {
    const std::vector<std::byte> garbage(100);
    EXPECT_EQ(device->load(garbage, "attune_kernel", 0).error().code, Code::corrupt);
    const Result<Binary> binary = compile("");
    ASSERT_TRUE(binary);
    EXPECT_EQ(device->load(binary->bytes, "another", 0).error().code, Code::corrupt);
}

TEST_F(EmuFaults, WrongMemory) {
    std::uint32_t word = 0;
    EXPECT_EQ(device->copy_to_host(&word, 64, 4).error().code, Code::invalid_argument);
    const DevicePtr memory = *device->allocate(8);
    EXPECT_FALSE(device->fill(memory, 0, 12));
    EXPECT_FALSE(device->release(memory + 4));
    EXPECT_TRUE(device->release(memory));
    EXPECT_FALSE(device->release(memory));
    EXPECT_EQ(open_emulator("abacus").error().code, Code::not_found);
}

TEST(EmuBackend, IsADeviceForTheLoader) {
    attune_backend* backend = nullptr;
    ASSERT_EQ(attune_emu_backend("h200", &backend), ATTUNE_OK);
    EXPECT_EQ(backend->device->info().id, "emu:h200");
    attune_emu_discard(backend);
    EXPECT_EQ(attune_emu_backend("abacus", &backend), ATTUNE_NOT_FOUND);
    EXPECT_EQ(backend, nullptr);
    EXPECT_EQ(attune_emu_backend(nullptr, &backend), ATTUNE_INVALID_ARGUMENT);
}

TEST(HostCompiler, SaysWhatIsWrong) {
    auto compiler = open_host_compiler();
    ASSERT_TRUE(compiler);
    Source source;
    source.text = "#include \"target.h\"\nint x = unheard_of;";
    const auto binary = (*compiler)->compile(source, "sm_80");
    ASSERT_FALSE(binary);
    EXPECT_EQ(binary.error().code, Code::compile_failed);
    EXPECT_THAT(binary.error().text(), HasSubstr("unheard_of"));

    setenv("ATTUNE_CXX", "/nowhere/c++", 1);
    const auto missing = open_host_compiler();
    unsetenv("ATTUNE_CXX");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::library_missing);
    EXPECT_THAT(missing.error().text(), HasSubstr("/nowhere/c++"));
}

}  // namespace
}  // namespace attune
