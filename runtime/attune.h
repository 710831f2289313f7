/* Attune's loader: look up the fastest known attention kernel for a problem on this GPU, and launch
 * it.
 *
 * Conventions
 *   - Plain C. Opaque handles. No globals: everything hangs off an attune_context.
 *   - Every function that can fail returns attune_status; attune_last_error gives one sentence and
 * the next step.
 *   - Sizes are bytes unless the name says elements; strides are elements; times are microseconds.
 *   - Never compiles and never tunes. Nothing is allocated by attune_launch, which may be captured
 * into a CUDA or HIP graph.
 *   - attune_find is thread-safe on one context; attune_launch may be called from any thread on a
 * kernel.
 *   - Structs begin with struct_bytes, their size as the caller knows it. A smaller one than this
 * library's is refused; a larger one is accepted where its unknown rest is zero.
 *   - Attention is O = softmax(scale * Q K^T + mask) V, forward. A row that no key may attend gives
 * O = 0, LSE = -inf.
 */
#ifndef ATTUNE_RUNTIME_ATTUNE_H
#define ATTUNE_RUNTIME_ATTUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define ATTUNE_API
#else
#define ATTUNE_API __attribute__((visibility("default")))
#endif

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

/* The same list as generator/status.h, in the same order. */
typedef enum attune_status {
    ATTUNE_OK = 0,
    ATTUNE_INVALID_ARGUMENT,
    ATTUNE_UNSUPPORTED,
    ATTUNE_NOT_FOUND,
    ATTUNE_LIBRARY_MISSING,
    ATTUNE_COMPILE_FAILED,
    ATTUNE_DEVICE_ERROR,
    ATTUNE_OUT_OF_MEMORY,
    ATTUNE_IO_ERROR,
    ATTUNE_CORRUPT,
    ATTUNE_VERSION_MISMATCH,
    ATTUNE_WRONG_RESULT,
    ATTUNE_TIMED_OUT,
    ATTUNE_INTERNAL
} attune_status;

/* Of Q, K and V. O has the same type, but bf16 where they are e4m3 (OCP FP8: one byte, 4 bits of
 * exponent, largest 448). */
typedef enum attune_dtype { ATTUNE_F16 = 0, ATTUNE_BF16 = 1, ATTUNE_E4M3 = 2 } attune_dtype;
/* Causal is bottom-right: query i attends keys j <= i + seqlen_kv - seqlen_q. */
typedef enum attune_mask { ATTUNE_MASK_FULL = 0, ATTUNE_MASK_CAUSAL = 1 } attune_mask;

typedef struct attune_context attune_context; /* a device and a store, opened */
typedef struct attune_kernel
    attune_kernel; /* a loaded kernel; owned by its context, valid until attune_close */
typedef struct attune_backend
    attune_backend; /* another device implementation, e.g. the emulator's (emu.h) */

typedef struct attune_options {
    size_t struct_bytes; /* sizeof(attune_options) */
    const char* device;  /* "cuda:0", "hip:0"; NULL = the first GPU that opens, cuda:0 before hip:0.
                            Ignored where backend is given */
    const char*
        store_path; /* SQLite file; NULL = $ATTUNE_STORE, else $XDG_DATA_HOME/attune/store.sqlite,
                       else ~/.local/share/attune/store.sqlite */
    attune_backend* backend;  /* NULL, or a device from another library; the context owns it from a
                                 successful attune_open on */
    int strict;               /* 1: records made with another driver are not used. Default 0 */
    const char* family;       /* NULL, or "mma", ...: only records of `attune tune --family` */
    int32_t max_shared_bytes; /* 0, or bytes: only records of `attune tune --max-smem` with the
                                 same number. Records of a sweep without either answer only where
                                 neither is given */
} attune_options;

typedef struct attune_tensor_strides {
    int64_t batch;
    int64_t head;
    int64_t row; /* the head_dim stride is 1 */
} attune_tensor_strides;

/* What to compute. Head dims are multiples of 8 (16 in e4m3), 8..256. heads_q is a multiple of
 * heads_kv. */
typedef struct attune_problem {
    size_t struct_bytes; /* sizeof(attune_problem) */
    attune_dtype dtype;
    attune_mask mask;
    int32_t head_dim; /* of Q and K */
    int32_t batch;
    int32_t heads_q;
    int32_t heads_kv;
    int32_t seqlen_q;
    int32_t seqlen_kv;
    int32_t want_lse;   /* 1: also write the natural-log sum of exponentials, fp32 [batch, heads_q,
                           seqlen_q] */
    int32_t head_dim_v; /* of V and O; 0 = head_dim */
} attune_problem;

/* Device pointers and strides. q, k, v, o and their strides keep every row on 16 bytes. */
typedef struct attune_tensors {
    size_t struct_bytes; /* sizeof(attune_tensors) */
    const void* q;
    const void* k;
    const void* v;
    void* o;
    float* lse; /* NULL unless want_lse */
    attune_tensor_strides q_strides;
    attune_tensor_strides k_strides;
    attune_tensor_strides v_strides;
    attune_tensor_strides o_strides;
    float scale; /* > 0; 0 = 1/sqrt(head_dim) */
    /* e4m3 alone: what a head's stored numbers are multiplied with, on the device, contiguous fp32:
     * [batch, heads_q], and twice [batch, heads_kv]. Each > 0 and finite. NULL = 1. */
    const float* q_scale;
    const float* k_scale;
    const float* v_scale;
} attune_tensors;

typedef enum attune_match {
    ATTUNE_MATCH_NONE = 0, /* nothing fits; `advice` names the command that would make it */
    ATTUNE_MATCH_ESTIMATE, /* nothing fits; `config` is the default one for it, not compiled */
    ATTUNE_MATCH_BUCKET, /* a kernel tuned for another shape of this signature; right for this one,
                            its speed a guess */
    ATTUNE_MATCH_EXACT
} attune_match;

/* Why a look-up returned what it did. Strings live as long as the context. */
typedef struct attune_answer {
    size_t struct_bytes; /* sizeof(attune_answer) */
    attune_match match;
    double distance;          /* 0 for exact; see attune_find */
    attune_kernel* kernel;    /* NULL unless bucket or exact */
    size_t workspace_bytes;   /* for this problem, all zero: see attune_launch; 0 = none */
    double expected_us;       /* bucket: of the record's own shape; 0 = unknown */
    int measured;             /* 1: expected_us was measured on a GPU; 0: estimated */
    const char* config;       /* "mma/q128.kv64.w4..." */
    const char* record_shape; /* the shape the record was tuned for */
    const char* advice;       /* next step; empty when exact */
} attune_answer;

/* "0.1.0" */
ATTUNE_API const char* attune_version(void);
ATTUNE_API const char* attune_status_name(attune_status status);

/* Opens a device and a store; NULL options are the defaults. *context is NULL on failure, and
 * attune_last_error(NULL) describes it (per thread). */
ATTUNE_API attune_status attune_open(const attune_options* options, attune_context** context);
/* Unloads every kernel: wait for what was launched first. NULL is fine. */
ATTUNE_API void attune_close(attune_context* context);

/* Looks the problem up among the records of this very GPU (vendor, name, arch, SM count), in this
 * order: exact shape; bucket, the record of the same signature with the least distance; estimate;
 * none. ATTUNE_OK for all four. distance = |log2 batch*heads_q ratio| + |log2 seqlen_q ratio| +
 * |log2 seqlen_kv ratio| + 0.5 [another heads_q / heads_kv], lengths of 0 counting as 1; ties go to
 * the lexically first shape. A bucket is no kernel that would be too inexact for the problem (e4m3
 * that leaves sums over more than 128 keys to the MMAs) or whose packed heads are none there. The
 * kernel is loaded on its first look-up. Answers are kept: the second look-up of a problem is cheap
 * and gives the same. With ATTUNE_LOG=1 in the environment at attune_open, the first one prints a
 * line to stderr. */
ATTUNE_API attune_status attune_find(attune_context* context, const attune_problem* problem,
                                     attune_answer* answer);

/* Enqueues the kernel on `stream` (a CUstream or hipStream_t; NULL = the default stream).
 * `workspace` holds the answer's workspace_bytes and may be NULL if that is 0. It must be all zero
 * at first; every launch leaves it so, for the next one of any kernel. Launches that may run at the
 * same time (on two streams) need one each. Sizes of 0 are legal: O is zeroed where seqlen_kv is 0,
 * nothing is launched where there is no query. */
ATTUNE_API attune_status attune_launch(attune_kernel* kernel, const attune_problem* problem,
                                       const attune_tensors* tensors, void* workspace,
                                       void* stream);

/* Device memory, for programs that have no allocator of their own. Any pointer of
 * CUDA's primary context, or of HIP, does as well; the emulator runs on memory from attune_alloc
 * only. Copies return when they are done; attune_synchronize waits for all that was enqueued. Free
 * before attune_close; freeing NULL is fine. */
ATTUNE_API attune_status attune_alloc(attune_context* context, size_t bytes, void** memory);
ATTUNE_API attune_status attune_free(attune_context* context, void* memory);
ATTUNE_API attune_status attune_copy_to_device(attune_context* context, void* to, const void* from,
                                               size_t bytes);
ATTUNE_API attune_status attune_copy_to_host(attune_context* context, void* to, const void* from,
                                             size_t bytes);
ATTUNE_API attune_status attune_synchronize(attune_context* context);

/* The latest failure on this context by the calling thread, with the next step; "" if none. */
ATTUNE_API const char* attune_last_error(const attune_context* context);

#ifdef __cplusplus
}
#endif
#endif
