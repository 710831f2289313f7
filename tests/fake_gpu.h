// FakeGpu = what both fake drivers do behind their entry points. It records calls, fails the nth
// one on demand and counts what is not given back. Launches run on the emulator: a code object is
// known by the string `attune source <hash> ...` in it, its source is emitted again and compiled
// for the host. They run as late as the interface allows, when somebody waits for them; a fault of
// one of them is what every later call returns.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/emu/emu.h"
#include "tests/fake_driver.h"

namespace attune {

/// Results that CUDA and HIP number alike.
namespace fake_result {
enum {
    invalid_value = 1,
    out_of_memory = 2,
    invalid_image = 200,
    invalid_context = 201,
    no_binary_for_gpu = 209,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600,
    launch_failure = 719,
};
}

class FakeGpu {
public:
    /// `gpu` is the one it is unless told otherwise.
    explicit FakeGpu(const char* gpu);

    /// Logs a call: 0, or what it shall return at once. A call that only `binds` the thread to a
    /// device works on a lost one too.
    int begin(const char* name, bool binds = false);
    /// Afresh where another GPU is asked for by now.
    int initialize();
    const Target& target() const { return target_; }
    Device& emulator() { return *emulator_; }

    int allocate(void** memory, std::size_t bytes);
    int release(void* memory);
    int copy_to_device(void* to, const void* from, std::size_t bytes);
    int copy_to_host(void* to, const void* from, std::size_t bytes);
    int fill(void* to, std::uint32_t pattern, std::size_t words);

    int load(void** module, const void* image);
    int unload(void* module);
    int function(void** function, void* module, const char* name) const;
    int launch(void* function, const FakeLaunch& launch);
    int synchronize();

    int create_event(void** event);
    int record(void* event);
    int elapsed(float* milliseconds, const void* start, const void* stop) const;
    int destroy_event(void* event);

    FakeControl control{};

private:
    struct Module {
        std::string image;  // empty: blank
        Kernel kernel = 0;
        std::size_t params_bytes = 0;
    };
    /// Says what was wrong.
    int fail(int result, const std::string& why);
    /// Now where nothing waits, else behind what does.
    void in_order(std::function<void()> work);

    const char* default_gpu_;
    std::string calls_file_;
    Target target_;
    std::unique_ptr<EmuDevice> emulator_;
    Event start_ = 0, stop_ = 0;  // of the emulator, round a launch
    std::uintptr_t last_handle_ = 0;
    std::map<void*, Module> modules_;  // by handle, which is its function's too
    std::map<void*, std::unique_ptr<double>> events_;
    std::deque<std::function<void()>> queue_;
    int lost_ = 0;
};

}  // namespace attune

#define FAKE_API extern "C" __attribute__((visibility("default")))
#define FAKE_CALL(name) \
    if (const int result = gpu().begin(#name)) return result
#define FAKE_BINDING(name) \
    if (const int result = gpu().begin(#name, true)) return result
/// A release that is made to fail releases all the same.
#define FAKE_RELEASE(name, release)        \
    const int failed = gpu().begin(#name); \
    const int result = release;            \
    return failed ? failed : result
