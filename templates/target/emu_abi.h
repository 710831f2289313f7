// What a kernel compiled for the emulator and the emulator hand each other. A kernel object needs
// no symbol of its host: its entry is a KernelObject, through which it is given the Operations.
#pragma once

namespace attune {
struct TensorMap;
}

namespace attune::emu {

using SharedAddress = unsigned;

/// Where a CTA's dynamic shared memory starts; not 0, so that an address nobody computed is caught.
constexpr SharedAddress shared_base = 1024;

enum class Element { f16, bf16, e4m3 };

/// A wgmma as one of its threads gives it. `a` null: a by descriptor. b's rows lie along the depth,
/// or across it.
struct WgmmaCall {
    float* d;
    const unsigned* a;
    unsigned long long a_descriptor;
    unsigned long long b_descriptor;
    int n;
    Element element;
    bool across;
    bool accumulate;
};

/// Matrix instructions of AMD's, in the order of runtime/emu/matrix_cores.cpp.
enum class Matrix { mfma_32x32x8, mfma_16x16x16, wmma_gfx11, wmma_gfx12 };

/// One lane's part of d += a b. Operands are 16-bit.
struct MatrixCall {
    Matrix shape;
    bool bf16;
    float* d;
    const unsigned* a;
    const unsigned* b;
};

/// The first element of a box of a tensor.
struct TensorPoint {
    int column, row, head, batch;
};

/// The contract's names (contract.md) as calls. Sizes in bytes; `to` and `from` are the kernel's
/// own variables unless they are called global.
struct Operations {
    int (*thread_index)();
    int (*cta_index)();
    int (*cta_count)();

    void (*cta_sync)();
    bool (*cta_any)(bool vote);
    void (*warp_sync)();
    unsigned (*shuffle)(unsigned value, int lane);
    bool (*vote_any)(bool vote);
    bool (*vote_all)(bool vote);

    void (*load_shared)(void* to, SharedAddress at, int bytes);
    void (*store_shared)(SharedAddress at, const void* from, int bytes);
    void (*ldmatrix_x4)(unsigned* to, SharedAddress at);
    void (*ldmatrix_x4_trans)(unsigned* to, SharedAddress at);
    void (*stmatrix_x4)(SharedAddress at, const unsigned* from);

    void (*load_global)(void* to, const void* global, int bytes);
    void (*store_global)(void* global, const void* from, int bytes);
    unsigned (*atomic_add_global)(unsigned* global, unsigned value);

    void (*cp_async_16)(SharedAddress to, const void* global, bool valid);
    void (*copy_to_shared)(SharedAddress to, const void* global, int bytes);  // likewise; null: NaN
    void (*cp_async_commit)();
    void (*cp_async_wait)(int pending_groups);
    void (*mbarrier_init)(SharedAddress at, int count);
    void (*mbarrier_arrive)(SharedAddress at);
    void (*mbarrier_arrive_cp_async)(SharedAddress at);
    void (*mbarrier_wait)(SharedAddress at, int parity);

    void (*mbarrier_arrive_expect)(SharedAddress at, int bytes);
    void (*mbarrier_fence_init)();
    void (*fence_async)();
    void (*tensor_load)(SharedAddress to, const TensorMap* map, SharedAddress barrier,
                        const TensorPoint* from);
    void (*named_sync)(int barrier, int threads);
    void (*named_arrive)(int barrier, int threads);

    void (*wgmma)(const WgmmaCall* call);
    void (*wgmma_fence)();
    void (*wgmma_commit)();
    void (*wgmma_wait)(int pending_batches);
    void (*registers_grow)(int registers);
    void (*registers_shrink)(int registers);

    void (*mma_f16)(float* d, const unsigned* a, unsigned b0, unsigned b1);
    void (*mma_bf16)(float* d, const unsigned* a, unsigned b0, unsigned b1);
    void (*matrix)(const MatrixCall* call);
    float (*exp2)(float x);
    float (*log2)(float x);
    float (*fma)(float a, float b, float c);
    unsigned long long (*ticks)();
};

constexpr int abi_version = 7;

struct KernelObject {
    int abi_version;
    int max_threads;                                 // per CTA
    unsigned long long params_bytes;                 // of the kernel's parameter
    void (*bind)(const Operations*, int wave_size);  // once, before any run
    void (*run)(const void* params);                 // one GPU thread
};

}  // namespace attune::emu
