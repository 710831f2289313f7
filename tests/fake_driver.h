// What the fake driver (tests/fake_libcuda.cpp) and the tests that load it share.
#pragma once

#include <cstdint>

struct FakeLaunch {
    unsigned ctas, threads, shared_bytes;
    std::uint64_t stream;
    const void* params;
};

/// The fake's state, reached through its symbol `fake_control`.
struct FakeControl {
    int fail_at;      // the nth call from now on fails; 0 = none
    int fail_with;    // with this CUresult
    char failed[64];  // name of the entry point that failed; "" = none did

    int calls;           // since the last reset
    char log[1 << 16];   // their names, each followed by a space
    int live;            // allocations, modules, events, pinned words and retained contexts
    int bound;           // depth of the context stack
    double now_ms;       // what an event records; launches advance it through on_launch
    int dynamic_shared;  // of the last cuFuncSetAttribute
    void (*on_launch)(void* user, const FakeLaunch& launch);
    void* user;
};
