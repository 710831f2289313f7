"""What tools/peers talks to, made up: the library behind the C API, and the queue of a GPU."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A library with the C API: finds a kernel for head_dim 64 only, and its "launch" copies what it was
# handed to O, so that the test sees the structs as C sees them.
FAKE_LIBRARY = r"""
#include <string.h>
#include "runtime/attune.h"
static int kernel;
const char* attune_version(void) { return "9.8.7"; }
const char* attune_status_name(attune_status status) { return status == ATTUNE_IO_ERROR ? "io_error" : "other"; }
const char* attune_last_error(const attune_context* context) { return context ? "of context" : "no store; run tune"; }
void attune_close(attune_context* context) { (void)context; }
attune_status attune_open(const attune_options* o, attune_context** context) {
    *context = NULL;
    if (o->struct_bytes != sizeof *o || strcmp(o->device, "cuda:3") || o->backend || o->strict) return ATTUNE_INTERNAL;
    if (o->family ? strcmp(o->family, "wgmma") || o->max_shared_bytes != 101376 : o->max_shared_bytes != 0)
        return ATTUNE_NOT_FOUND;
    if (o->store_path && !strcmp(o->store_path, "missing")) return ATTUNE_IO_ERROR;
    *context = (attune_context*)&kernel;
    return ATTUNE_OK;
}
attune_status attune_find(attune_context* context, const attune_problem* p, attune_answer* a) {
    if (context != (attune_context*)&kernel || p->struct_bytes != sizeof *p || a->struct_bytes != sizeof *a)
        return ATTUNE_INTERNAL;
    if (p->head_dim == 72) return ATTUNE_CORRUPT;
    a->match = p->head_dim == 64 ? ATTUNE_MATCH_BUCKET : ATTUNE_MATCH_NONE;
    a->kernel = p->head_dim == 64 ? (attune_kernel*)&kernel : NULL;
    a->distance = 1.5;
    a->workspace_bytes = 48;
    a->expected_us = 2.5;
    a->measured = 1;
    a->config = p->head_dim == 64 ? "mma/q64" : "";
    a->record_shape = "b1";
    a->advice = "run attune tune";
    return ATTUNE_OK;
}
attune_status attune_launch(attune_kernel* k, const attune_problem* p, const attune_tensors* t, void* workspace, void* stream) {
    if (k != (attune_kernel*)&kernel || t->struct_bytes != sizeof *t || !workspace) return ATTUNE_INTERNAL;
    const long long seen[] = {p->dtype, p->mask, p->head_dim, p->batch, p->heads_q, p->heads_kv, p->seqlen_q,
        p->seqlen_kv, p->want_lse, (long long)t->q, (long long)t->k, (long long)t->v, (long long)t->lse,
        t->q_strides.batch, t->k_strides.head, t->v_strides.row, t->o_strides.batch, (long long)(t->scale * 8),
        (long long)workspace, (long long)stream, (long long)t->q_scale, (long long)t->k_scale, (long long)t->v_scale};
    memcpy(t->o, seen, sizeof seen);
    return ATTUNE_OK;
}
"""


def build_fake_library(folder):
    source, library = Path(folder) / "fake.c", Path(folder) / "libfake.so"
    source.write_text(FAKE_LIBRARY, encoding="utf-8")
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-I{ROOT}", str(source), "-o", str(library)], check=True
    )
    return str(library)


class FakeQueue:
    """What tools/peers uses of torch.cuda, over a clock of its own: the queue runs at 1600 MHz, and the
    host needs host_us to queue a launch."""

    def __init__(self, host_us=0.0):
        self.gpu_us = self.host_us = 0.0
        self.host_us_per_launch = host_us
        self.sleeps = []
        self.Event = lambda enable_timing: FakeEvent(self)

    def _sleep(self, cycles):
        self.sleeps.append(cycles)
        self.work(cycles / 1600)

    def launch(self, us):
        self.host_us += self.host_us_per_launch
        self.work(us)

    def work(self, us):
        self.gpu_us = max(self.gpu_us, self.host_us) + us


class FakeEvent:
    def __init__(self, queue):
        self._queue = queue

    def record(self):
        self.us = self._queue.gpu_us

    def query(self):
        return self._queue.host_us >= self.us

    def synchronize(self):
        self._queue.host_us = max(self._queue.host_us, self.us)

    def elapsed_time(self, other):
        return (other.us - self.us) / 1000
