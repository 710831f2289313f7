/* The installed API as a C program sees it, on the emulated H200 with the store of make_store.cpp.
 * Every check that fails is printed; the exit code is their number. */
#include <attune/attune.h>
#include <attune/attune_emu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            ++failures;                                                     \
        }                                                                   \
    } while (0)

enum { D = 64, HEADS_Q = 4, HEADS_KV = 2, SEQLEN_Q = 40, SEQLEN_KV = 100 };
enum { Q_COUNT = HEADS_Q * SEQLEN_Q * D, KV_COUNT = HEADS_KV * SEQLEN_KV * D };
enum { F16_ONE = 0x3c00, F16_TWO = 0x4000, F16_NAN = 0x7e00 };

static const attune_problem tuned = {.struct_bytes = sizeof(attune_problem),
                                     .dtype = ATTUNE_F16,
                                     .mask = ATTUNE_MASK_CAUSAL,
                                     .head_dim = D,
                                     .batch = 1,
                                     .heads_q = HEADS_Q,
                                     .heads_kv = HEADS_KV,
                                     .seqlen_q = SEQLEN_Q,
                                     .seqlen_kv = SEQLEN_KV,
                                     .want_lse = 1};

static attune_context* open_context(const char* store) {
    attune_context* context = NULL;
    attune_options options = {.struct_bytes = sizeof options, .store_path = store};
    CHECK(attune_emu_backend("no-gpu", &options.backend) == ATTUNE_NOT_FOUND);
    CHECK(attune_emu_backend("h200", &options.backend) == ATTUNE_OK);
    options.store_path = "/no/such/store";
    CHECK(attune_open(&options, &context) == ATTUNE_NOT_FOUND);
    CHECK(strstr(attune_last_error(NULL), "/no/such/store") != NULL);
    options.store_path = store; /* the backend is still ours after a failure */
    CHECK(attune_open(&options, &context) == ATTUNE_OK);
    return context;
}

static attune_answer find(attune_context* context, attune_problem problem) {
    attune_answer answer = {.struct_bytes = sizeof answer};
    if (attune_find(context, &problem, &answer) == ATTUNE_OK) return answer;
    fprintf(stderr, "attune_find: %s\n", attune_last_error(context));
    ++failures;
    answer.advice = "";
    return answer;
}

/* Device memory of `count` 16-bit values, all `value`. */
static void* filled(attune_context* context, size_t count, uint16_t value) {
    void* memory = NULL;
    uint16_t* host = malloc(count * sizeof *host);
    for (size_t i = 0; i < count; ++i) host[i] = value;
    CHECK(attune_alloc(context, count * sizeof *host, &memory) == ATTUNE_OK);
    CHECK(attune_copy_to_device(context, memory, host, count * sizeof *host) == ATTUNE_OK);
    free(host);
    return memory;
}

static attune_tensors make_tensors(attune_context* context) {
    attune_tensors t = {.struct_bytes = sizeof t};
    t.q = filled(context, Q_COUNT, F16_ONE);
    t.k = filled(context, KV_COUNT, F16_ONE);
    t.v = filled(context, KV_COUNT, F16_TWO);
    t.o = filled(context, Q_COUNT, F16_NAN);
    t.lse = filled(context, 2 * HEADS_Q * SEQLEN_Q, F16_NAN);
    t.q_strides = t.o_strides = (attune_tensor_strides){Q_COUNT, SEQLEN_Q * D, D};
    t.k_strides = t.v_strides = (attune_tensor_strides){KV_COUNT, SEQLEN_KV * D, D};
    return t;
}

/* Every element of O is `o`, and LSE of each row the logarithm of its keys plus the one score. */
static void check_output(attune_context* context, const attune_tensors* t, uint16_t o, int keys) {
    static uint16_t out[Q_COUNT];
    static float lse[HEADS_Q * SEQLEN_Q];
    int wrong_o = 0, wrong_lse = 0;
    CHECK(attune_synchronize(context) == ATTUNE_OK);
    CHECK(attune_copy_to_host(context, out, t->o, sizeof out) == ATTUNE_OK);
    CHECK(attune_copy_to_host(context, lse, t->lse, sizeof lse) == ATTUNE_OK);
    for (int i = 0; i < Q_COUNT; ++i) wrong_o += out[i] != o;
    for (int i = 0; i < HEADS_Q * SEQLEN_Q; ++i) {
        const int attended = keys == 0 ? 0 : i % SEQLEN_Q + 1 + keys - SEQLEN_Q;
        const float expected = attended == 0 ? -INFINITY : logf((float)attended) + 8.0f;
        wrong_lse += !(lse[i] == expected || fabsf(lse[i] - expected) < 1e-3f);
    }
    CHECK(wrong_o == 0);
    CHECK(wrong_lse == 0);
}

static void check_launches(attune_context* context, attune_kernel* kernel) {
    attune_tensors t = make_tensors(context);
    attune_problem problem = tuned;
    /* Scores are 64 * 1 * 1 / sqrt(64) = 8 everywhere, and every V is 2. */
    CHECK(attune_launch(kernel, &problem, &t, NULL, NULL) == ATTUNE_OK);
    check_output(context, &t, F16_TWO, SEQLEN_KV);
    problem.seqlen_kv = 0;
    CHECK(attune_launch(kernel, &problem, &t, NULL, NULL) == ATTUNE_OK);
    check_output(context, &t, 0, 0);

    problem = tuned;
    attune_tensors bad = t;
    bad.q = (const char*)t.q + 2;
    CHECK(attune_launch(kernel, &problem, &bad, NULL, NULL) == ATTUNE_INVALID_ARGUMENT);
    CHECK(strstr(attune_last_error(context), "16 bytes") != NULL);
    _Alignas(16) static uint16_t elsewhere[KV_COUNT];
    bad = t;
    bad.k = elsewhere; /* the emulator runs on its own memory only */
    CHECK(attune_launch(kernel, &problem, &bad, NULL, NULL) == ATTUNE_DEVICE_ERROR);
    CHECK(attune_launch(kernel, &problem, &t, NULL, NULL) == ATTUNE_OK);
    check_output(context, &t, F16_TWO, SEQLEN_KV);

    CHECK(attune_free(context, (void*)t.q) == ATTUNE_OK);
    CHECK(attune_free(context, (void*)t.k) == ATTUNE_OK);
    CHECK(attune_free(context, (void*)t.v) == ATTUNE_OK);
    CHECK(attune_free(context, t.o) == ATTUNE_OK);
    CHECK(attune_free(context, t.lse) == ATTUNE_OK);
}

/* One byte each: Q and K 1, V 2. Heads' scales multiply to 1 for the scores, and to 3 for V. */
static void check_bytes(attune_context* context) {
    enum { E4M3_ONES = 0x3838, E4M3_TWOS = 0x4040, BF16_TWO = 0x4000, BF16_THREE = 0x4040 };
    const float scales[] = {0.5f, 0.5f, 0.25f, 0.25f, 2, 4, 1.5f, 1.5f};
    void* on_device = NULL;
    attune_problem problem = tuned;
    problem.dtype = ATTUNE_E4M3;
    const attune_answer exact = find(context, problem);
    CHECK(exact.match == ATTUNE_MATCH_EXACT && exact.kernel != NULL);
    if (exact.kernel == NULL) return;
    attune_tensors t = make_tensors(context);
    CHECK(attune_free(context, (void*)t.q) == ATTUNE_OK);
    CHECK(attune_free(context, (void*)t.k) == ATTUNE_OK);
    CHECK(attune_free(context, (void*)t.v) == ATTUNE_OK);
    t.q = filled(context, Q_COUNT / 2, E4M3_ONES);
    t.k = filled(context, KV_COUNT / 2, E4M3_ONES);
    t.v = filled(context, KV_COUNT / 2, E4M3_TWOS);
    CHECK(attune_launch(exact.kernel, &problem, &t, NULL, NULL) == ATTUNE_OK);
    check_output(context, &t, BF16_TWO, SEQLEN_KV);
    CHECK(attune_alloc(context, sizeof scales, &on_device) == ATTUNE_OK);
    CHECK(attune_copy_to_device(context, on_device, scales, sizeof scales) == ATTUNE_OK);
    t.q_scale = on_device;
    t.k_scale = t.q_scale + HEADS_Q;
    t.v_scale = t.k_scale + HEADS_KV;
    CHECK(attune_launch(exact.kernel, &problem, &t, NULL, NULL) == ATTUNE_OK);
    check_output(context, &t, BF16_THREE, SEQLEN_KV);
    const void* memory[] = {t.q, t.k, t.v, t.o, t.lse, on_device};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i)
        CHECK(attune_free(context, (void*)memory[i]) == ATTUNE_OK);
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    CHECK(strcmp(attune_version(), "0.1.0") == 0);
    CHECK(strcmp(attune_status_name(ATTUNE_NOT_FOUND), "not_found") == 0);
    attune_context* context = open_context(argv[1]);
    if (context == NULL) return 1;

    const attune_answer exact = find(context, tuned);
    CHECK(exact.match == ATTUNE_MATCH_EXACT && exact.kernel != NULL);
    CHECK(exact.measured == 0);
    attune_problem problem = tuned;
    problem.seqlen_kv = 200;
    const attune_answer bucket = find(context, problem);
    CHECK(bucket.match == ATTUNE_MATCH_BUCKET && bucket.distance == 1);
    CHECK(bucket.kernel == exact.kernel);
    CHECK(strstr(bucket.advice, "attune tune --device emu:h200") != NULL);
    problem.head_dim = 128;
    CHECK(find(context, problem).match == ATTUNE_MATCH_ESTIMATE);
    if (exact.kernel != NULL) check_launches(context, exact.kernel);
    check_bytes(context);

    attune_close(context);
    return failures;
}
