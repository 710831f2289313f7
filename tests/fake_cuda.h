// Tests over the fake driver: cuda:0 is a GPU that runs what the test says.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/fake_libcuda.h"
#include "tuner/compiler.h"

namespace attune {

class FakeCuda : public testing::Test {
protected:
    void SetUp() override {
        setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_LIBCUDA, 1);
        void* library = dlopen(ATTUNE_FAKE_LIBCUDA, RTLD_NOW | RTLD_NODELETE);
        ASSERT_NE(library, nullptr) << dlerror();
        fake = reinterpret_cast<FakeControl* (*)()>(dlsym(library, "fake_control"))();
        *fake = FakeControl{};
    }
    void TearDown() override { unsetenv("ATTUNE_LIBCUDA"); }
    void forget_calls() {
        fake->calls = 0;
        fake->log[0] = '\0';
    }
    FakeControl* fake = nullptr;
};

/// The fake driver loads any bytes.
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
