// Tests over a fake driver: cuda:0 and hip:0 are GPUs that run what the test says, or the
// emulator's kernels (tests/fake_gpu.h).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/fake_driver.h"
#include "tuner/compiler.h"

namespace attune {

inline void forget_calls(FakeControl& fake) {
    fake.calls = 0;
    fake.log[0] = '\0';
}

class FakeDriver : public testing::Test {
protected:
    /// `variable` names the library that Attune opens.
    FakeDriver(const char* variable, const char* library)
        : variable_(variable), library_(library) {}
    void SetUp() override {
        setenv(variable_, library_, 1);
        void* library = dlopen(library_, RTLD_NOW | RTLD_NODELETE);
        ASSERT_NE(library, nullptr) << dlerror();
        fake = reinterpret_cast<FakeControl* (*)()>(dlsym(library, "fake_control"))();
        *fake = FakeControl{};
    }
    void TearDown() override { unsetenv(variable_); }
    void forget_calls() { attune::forget_calls(*fake); }
    FakeControl* fake = nullptr;

private:
    const char* variable_;
    const char* library_;
};

#ifdef ATTUNE_FAKE_LIBCUDA
class FakeCuda : public FakeDriver {
protected:
    FakeCuda() : FakeDriver("ATTUNE_LIBCUDA", ATTUNE_FAKE_LIBCUDA) {}
};
#endif
#ifdef ATTUNE_FAKE_LIBAMDHIP64
class FakeHip : public FakeDriver {
protected:
    explicit FakeHip(const char* library = ATTUNE_FAKE_LIBAMDHIP64)
        : FakeDriver("ATTUNE_LIBAMDHIP64", library) {}
};
#endif

/// A blank image: a launch is what FakeControl::on_launch says.
inline std::vector<std::byte> any_binary() {
    return std::vector<std::byte>(64);
}

/// Compiles nothing.
class NoCompiler final : public Compiler {
public:
    std::string toolchain() const override { return "none"; }
    Result<Binary> compile(const Source& source, const std::string&) override {
        Binary made;
        made.bytes = any_binary();
        made.entry = source.entry;
        return made;
    }
};

}  // namespace attune
