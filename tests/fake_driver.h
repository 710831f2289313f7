// What the fake drivers (fake_libcuda.cpp, fake_libamdhip64.cpp) and the tests that load them
// share.
#pragma once

#include <cstdint>

struct FakeLaunch {
    unsigned ctas, threads, shared_bytes;
    std::uint64_t stream;
    const void* params;
};

/// A fake's state, reached through its symbol `fake_control`.
struct FakeControl {
    int fail_at;      // the nth call from now on fails; 0 = none
    int fail_with;    // with this result
    char failed[64];  // name of the entry point that failed; "" = none did
    char gpu[32];     // id of known_targets() that the next initialisation finds; "" = the default
    char arch[32];    // what HIP calls its arch; "" = its own

    int calls;           // since the last reset
    char log[1 << 16];   // their names, each followed by a space
    int live;            // allocations, modules, events, pinned words and retained contexts
    int bound;           // CUDA: depth of the context stack; HIP: the thread's current device
    double now_ms;       // what an event records; launches advance it
    int dynamic_shared;  // of the last cuFuncSetAttribute
    char fault[512];     // what was wrong with the last image or launch
    /// Stands for the launches of a blank image, which is any that starts with a 0.
    void (*on_launch)(void* user, const FakeLaunch& launch);
    void* user;
};

/// The same for fakes that worker processes load, in the environment:
///   FAKE_GPU      as FakeControl::gpu
///   FAKE_L2       bytes of L2, for fewer inputs to rotate over; CUDA alone is asked for them
///   FAKE_CALLS    a file, to which each call adds a line; calls go on counting where it ends
///   FAKE_FAIL     "17:719": the 17th call fails with 719
///   FAKE_TWINS    a folder in which kernels compiled for the emulator are kept
