/* Looks one attention problem up, launches the kernel found on random inputs, and compares with
 * attention computed in fp64.
 *
 *   launch [device [problem]]      launch emu:h200 bf16.d64.causal/b1.h2.kv1.q64.k64
 *
 * The store is $ATTUNE_STORE, else the default one. Exit code 0 only if the error is under the bar:
 * 2 x the error of plain attention in the inputs' own precision + 1e-5. Plain means: scores and
 * exponentials in fp32, the exponentials rounded to the dtype before they meet V, sums in fp32, the
 * output rounded to the dtype. */
#include <attune/attune.h>
#include <attune/attune_emu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Q, K, V and O as contiguous [batch, heads, seqlen, head_dim]. */
enum { Q, K, V, O, TENSORS };

typedef struct tensor {
    size_t count;   /* elements */
    uint16_t* host; /* as the dtype's bits */
    void* device;
    attune_tensor_strides strides;
} tensor;

typedef struct errors {
    double ours, bar;
} errors;

static uint16_t narrow_f16(float value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    if (isnan(value)) return 0x7e00;
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 0x1p-14f) return sign | (uint16_t)rintf(size * 0x1p24f);
    int exponent;
    const float mantissa = frexpf(size, &exponent); /* in [0.5, 1) */
    /* A mantissa that rounds up to 2048 carries into the exponent, as it should. */
    return sign | (uint16_t)(((exponent + 14) << 10) + (int)rintf(mantissa * 2048) - 1024);
}

static float widen_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = ldexpf((float)(fraction + 1024), exponent - 25);
    if (exponent == 0) size = ldexpf((float)fraction, -24);
    if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
    return bits & 0x8000 ? -size : size;
}

/* A 16-bit float's bits: rounds to nearest, ties to even. */
static uint16_t narrow(attune_dtype dtype, float value) {
    uint32_t bits;
    if (dtype == ATTUNE_F16) return narrow_f16(value);
    if (isnan(value)) return 0x7fc0;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(attune_dtype dtype, uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    if (dtype == ATTUNE_F16) return widen_f16(bits);
    memcpy(&value, &wide, sizeof value);
    return value;
}

static int fail(const char* what, const attune_context* context) {
    fprintf(stderr, "%s: %s\n", what, attune_last_error(context));
    return 1;
}

/* "bf16.d64.causal/b1.h2.kv1.q64.k64"; 0 if it is none. */
static int parse_problem(const char* text, attune_problem* p) {
    char dtype[5], mask[7];
    const int fields =
        sscanf(text, "%4[^.].d%d.%6[^/]/b%d.h%d.kv%d.q%d.k%d", dtype, &p->head_dim, mask, &p->batch,
               &p->heads_q, &p->heads_kv, &p->seqlen_q, &p->seqlen_kv);
    const int f16 = fields > 0 && strcmp(dtype, "f16") == 0;
    const int causal = fields > 2 && strcmp(mask, "causal") == 0;
    p->struct_bytes = sizeof *p;
    p->dtype = f16 ? ATTUNE_F16 : ATTUNE_BF16;
    p->mask = causal ? ATTUNE_MASK_CAUSAL : ATTUNE_MASK_FULL;
    p->want_lse = 0;
    return fields == 8 && (f16 || strcmp(dtype, "bf16") == 0) &&
           (causal || strcmp(mask, "full") == 0);
}

static int open_device(const char* device, attune_context** context) {
    attune_options options = {.struct_bytes = sizeof options, .device = device};
    if (strncmp(device, "emu:", 4) == 0 &&
        attune_emu_backend(device + 4, &options.backend) != ATTUNE_OK) {
        fprintf(stderr, "%s: there is no such GPU to emulate\n", device);
        return 0;
    }
    if (attune_open(&options, context) == ATTUNE_OK) return 1;
    fail("attune_open", NULL);
    attune_emu_discard(options.backend);
    return 0;
}

static float random_normal(void) {
    const double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (RAND_MAX + 1.0);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Random normals on the host and on the device; O holds NaN until the kernel has written it. */
static int make_tensor(attune_context* context, const attune_problem* p, int which, tensor* t) {
    const int64_t heads = which == Q || which == O ? p->heads_q : p->heads_kv;
    const int64_t rows = which == Q || which == O ? p->seqlen_q : p->seqlen_kv;
    t->strides.row = p->head_dim;
    t->strides.head = rows * t->strides.row;
    t->strides.batch = heads * t->strides.head;
    t->count = (size_t)(p->batch * t->strides.batch);
    t->host = malloc(t->count * sizeof *t->host + 1);
    if (t->host == NULL) return 0;
    for (size_t i = 0; i < t->count; ++i)
        t->host[i] = narrow(p->dtype, which == O ? NAN : random_normal());
    const size_t bytes = t->count * sizeof *t->host;
    return attune_alloc(context, bytes, &t->device) == ATTUNE_OK &&
           attune_copy_to_device(context, t->device, t->host, bytes) == ATTUNE_OK;
}

/* All zero, as a kernel wants it and leaves it. */
static int make_workspace(attune_context* context, size_t bytes, void** workspace) {
    *workspace = NULL;
    if (bytes == 0) return 1;
    void* zeros = calloc(bytes, 1);
    const int made = zeros != NULL && attune_alloc(context, bytes, workspace) == ATTUNE_OK &&
                     attune_copy_to_device(context, *workspace, zeros, bytes) == ATTUNE_OK;
    free(zeros);
    return made;
}

static int run(attune_context* context, const attune_problem* p, const attune_answer* answer,
               tensor* t) {
    void* workspace;
    const attune_tensors tensors = {.struct_bytes = sizeof tensors,
                                    .q = t[Q].device,
                                    .k = t[K].device,
                                    .v = t[V].device,
                                    .o = t[O].device,
                                    .q_strides = t[Q].strides,
                                    .k_strides = t[K].strides,
                                    .v_strides = t[V].strides,
                                    .o_strides = t[O].strides};
    const int done =
        make_workspace(context, answer->workspace_bytes, &workspace) &&
        attune_launch(answer->kernel, p, &tensors, workspace, NULL) == ATTUNE_OK &&
        attune_synchronize(context) == ATTUNE_OK &&
        attune_copy_to_host(context, t[O].host, t[O].device, t[O].count * 2) == ATTUNE_OK;
    attune_free(context, workspace);
    return done;
}

/* Query row `row` of head `head`, in fp64 (`exact`) and in the dtype (`plain`); `scores` is room
 * for seqlen_kv numbers. */
static void attend(const attune_problem* p, const tensor* t, int64_t batch, int64_t head,
                   int64_t row, double* scores, double* exact, float* plain) {
    const int d = p->head_dim;
    const int64_t kv =
        batch * t[K].strides.batch + head / (p->heads_q / p->heads_kv) * t[K].strides.head;
    const uint16_t* q = t[Q].host + batch * t[Q].strides.batch + head * t[Q].strides.head + row * d;
    int64_t keys = p->seqlen_kv;
    if (p->mask == ATTUNE_MASK_CAUSAL) keys = row + 1 + p->seqlen_kv - p->seqlen_q;
    if (keys > p->seqlen_kv) keys = p->seqlen_kv;
    double largest = -INFINITY, sum = 0;
    float plain_sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
        scores[j] = 0;
        for (int i = 0; i < d; ++i)
            scores[j] += (double)widen(p->dtype, q[i]) * widen(p->dtype, t[K].host[kv + j * d + i]);
        scores[j] /= sqrt(d);
        if (scores[j] > largest) largest = scores[j];
    }
    for (int i = 0; i < d; ++i) exact[i] = plain[i] = 0;
    for (int64_t j = 0; j < keys; ++j) {
        const double weight = exp(scores[j] - largest);
        const float plain_weight = expf((float)scores[j] - (float)largest);
        const float rounded = widen(p->dtype, narrow(p->dtype, plain_weight));
        sum += weight;
        plain_sum += plain_weight;
        for (int i = 0; i < d; ++i) {
            const float v = widen(p->dtype, t[V].host[kv + j * d + i]);
            exact[i] += weight * v;
            plain[i] += rounded * v;
        }
    }
    for (int i = 0; i < d && keys > 0; ++i) {
        exact[i] /= sum;
        plain[i] = widen(p->dtype, narrow(p->dtype, plain[i] / plain_sum));
    }
}

/* The larger of two numbers; NaN if either is one. */
static double worse(double a, double b) {
    return a >= b || isnan(a) ? a : b;
}

static errors compare(const attune_problem* p, const tensor* t) {
    errors e = {0, 0};
    double exact[256];
    float plain[256];
    double* scores = malloc(((size_t)p->seqlen_kv + 1) * sizeof *scores);
    for (size_t i = 0; scores != NULL && i < t[O].count; i += (size_t)p->head_dim) {
        const int64_t row = (int64_t)i / p->head_dim, head = row / p->seqlen_q;
        attend(p, t, head / p->heads_q, head % p->heads_q, row % p->seqlen_q, scores, exact, plain);
        for (int c = 0; c < p->head_dim; ++c) {
            const double ours = widen(p->dtype, t[O].host[i + (size_t)c]);
            e.ours = worse(fabs(ours - exact[c]), e.ours);
            e.bar = worse(fabs(plain[c] - exact[c]), e.bar);
        }
    }
    if (scores == NULL) e.ours = NAN;
    free(scores);
    e.bar = 2 * e.bar + 1e-5;
    return e;
}

static int launch_and_check(attune_context* context, const attune_problem* p,
                            const attune_answer* answer) {
    tensor t[TENSORS] = {{0}};
    int good = 1;
    for (int which = 0; good && which < TENSORS; ++which)
        good = make_tensor(context, p, which, &t[which]);
    good = good && run(context, p, answer, t);
    if (good) {
        const errors e = compare(p, t);
        good = e.ours <= e.bar;
        printf("max error %.3g, bar %.3g: %s\n", e.ours, e.bar, good ? "good" : "WRONG");
    } else {
        fail("launch", context);
    }
    for (int which = 0; which < TENSORS; ++which) {
        attune_free(context, t[which].device);
        free(t[which].host);
    }
    return good;
}

int main(int argc, char** argv) {
    static const char* const matches[] = {"none", "estimate", "bucket", "exact"};
    const char* device = argc > 1 ? argv[1] : "cuda:0";
    const char* text = argc > 2 ? argv[2] : "bf16.d64.causal/b1.h2.kv2.q128.k128";
    attune_problem problem;
    if (!parse_problem(text, &problem)) {
        fprintf(stderr, "'%s' is not a problem like bf16.d64.causal/b1.h2.kv1.q64.k64\n", text);
        return 2;
    }
    attune_context* context = NULL;
    if (!open_device(device, &context)) return 1;
    attune_answer answer = {.struct_bytes = sizeof answer};
    int good = attune_find(context, &problem, &answer) == ATTUNE_OK;
    if (!good) fail("attune_find", context);
    if (good) {
        printf("attune %s, %s, %s\n", attune_version(), device, text);
        printf("match %s, distance %.2f, kernel %s\n", matches[answer.match], answer.distance,
               answer.config);
        if (answer.expected_us > 0)
            printf("expected %.1f us (%s)\n", answer.expected_us,
                   answer.measured ? "measured" : "estimated");
        if (answer.advice[0] != '\0') printf("advice: %s\n", answer.advice);
        good = answer.kernel != NULL && launch_and_check(context, &problem, &answer);
    }
    attune_close(context);
    return good ? 0 : 1;
}
