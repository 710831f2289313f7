"""Tests of tools/peers: the pure parts, the binding against runtime/attune.h, and, where PyTorch is
installed, everything but the GPU."""

import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "tools" / "peers"
sys.path.insert(0, str(PEERS))

import loader
import report
from problem import CannotRun, Problem, load_preset

try:
    import torch
except ImportError:
    torch = None

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
        (long long)workspace, (long long)stream};
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


def a_row(problem, ours, fa2, error=1e-3):
    both = {"ours": ours, "fa2": fa2}
    return {
        "problem": problem,
        "us": both,
        "error": {"ours": ours and {"max": error, "rms": 0}, "fa2": None},
        "error_bar": 2e-3,
        "notes": {},
    }


class ProblemTest(unittest.TestCase):
    def test_text_round_trip(self):
        for text in (
            "bf16.d128.causal/b2.h16.kv16.q8192.k8192",
            "f16.d64.full.lse/b1.h8.kv2.q1.k131072",
        ):
            self.assertEqual(Problem.parse(text).text, text)

    def test_refuses_what_is_no_problem(self):
        good = "bf16.d128.causal/b2.h16.kv16.q1.k1"
        Problem.parse(good)
        for part, other in (
            ("bf16", "f32"),
            ("d128", "d20"),
            ("d128", "d264"),
            ("causal", "window"),
            ("h16", "h15"),
            ("q1", "q0"),
            ("b2", "b-2"),
            ("k1", "k1x"),
        ):
            with self.assertRaises(CannotRun, msg=other):
                Problem.parse(good.replace(part, other, 1))

    def test_pairs_are_counted_bottom_right(self):
        for q, k in ((5, 5), (3, 7), (7, 3), (1, 9), (9, 1)):
            problem = Problem.parse(f"f16.d8.causal/b2.h3.kv1.q{q}.k{k}")
            pairs = sum(j <= i + k - q for i in range(q) for j in range(k))
            self.assertEqual(problem.attended_pairs, 6 * pairs, (q, k))
            self.assertEqual(problem.flops, 4 * 8 * 6 * pairs)

    def test_presets_of_the_tree_load(self):
        presets = sorted((ROOT / "configs" / "shapes").glob("*.json"))
        self.assertTrue(presets)
        for path in presets:
            self.assertTrue(load_preset(path.stem))

    def test_refuses_malformed_presets(self):
        with tempfile.TemporaryDirectory() as folder:
            for text in (
                "{",
                "[]",
                "{}",
                '{"schema": "x", "problems": []}',
                '{"schema": "attune-shapes/1", "problems": []}',
                '{"schema": "attune-shapes/1", "problems": [7]}',
            ):
                (Path(folder) / "bad.json").write_text(text, encoding="utf-8")
                with self.assertRaises(CannotRun, msg=text):
                    load_preset("bad", Path(folder))
            with self.assertRaisesRegex(CannotRun, "there are bad"):
                load_preset("../bad", Path(folder))


class ReportTest(unittest.TestCase):
    ROWS = [
        a_row("bf16.d64.full/x", 10.0, 20.0),
        a_row("bf16.d128.full/x", 10.0, 5.0),
        a_row("bf16.d128.full/y", None, 5.0),
    ]

    def test_summary_takes_rows_that_both_have(self):
        summary = report.summarize(self.ROWS, ["fa2"])["fa2"]
        self.assertEqual(summary["all"], {"rows": 2, "geomean": 1.0, "min": 0.5})
        self.assertEqual(summary["d64"], {"rows": 1, "geomean": 2.0, "min": 2.0})

    def test_a_wrong_result_is_seen(self):
        self.assertFalse(report.over_bar(a_row("p", 10.0, None, 2e-3)))
        self.assertTrue(report.over_bar(a_row("p", 10.0, None, 2.1e-3)))
        self.assertTrue(report.over_bar(a_row("p", 10.0, None, None)))
        self.assertFalse(report.over_bar(a_row("p", None, None)))

    def test_rounding_and_names(self):
        self.assertEqual(report.round_to(123.456, 4), 123.5)
        self.assertIsNone(report.round_to(math.nan, 3))
        self.assertEqual(report.gpu_slug("NVIDIA GeForce RTX 4090"), "rtx-4090")
        self.assertEqual(report.gpu_slug("NVIDIA H200"), "h200")
        self.assertAlmostEqual(report.spread([1, 2, 3, 4, 5]), 2 / 3)

    def test_reasons_name_no_path_of_this_machine(self):
        reason = report.one_line("no file '/home/somebody/x.cu' for\n mma/q64 in bf16.d64.full/b1")
        self.assertEqual(reason, "no file '<path>' for mma/q64 in bf16.d64.full/b1")

    def test_partial_rows_leave_the_results_as_they_were(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a" / "r.json"
            report.write(path, {"b": 1, "a": 2})
            report.write(path, {"a": 3}, partial=True)
            self.assertEqual(path.read_text(encoding="utf-8"), '{\n "a": 2,\n "b": 1\n}\n')
            report.write(path, {"a": 4})
            self.assertEqual(json.loads(path.read_text(encoding="utf-8")), {"a": 4})
            self.assertEqual(list(path.parent.iterdir()), [path])

    def test_source_hash_covers_the_templates(self):
        self.assertRegex(report.source_hash(), "^[0-9a-f]{64}$")
        before = report.source_hash()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
            report, "ROOT", Path(folder)
        ):
            self.assertIsNone(report.source_hash())
            (Path(folder) / "templates").mkdir()
            (Path(folder) / "templates" / "a.h").write_text("x", encoding="utf-8")
            self.assertNotEqual(report.source_hash(), before)


class ScriptTest(unittest.TestCase):
    def script(self, *arguments):
        command = [sys.executable, str(PEERS / "peers.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_self_test(self):
        done = self.script("--self-test")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("self-test passed", done.stdout)

    def test_what_cannot_run_says_why(self):
        for arguments, reason in (
            (["--preset", "nope"], "no preset 'nope'"),
            (["--problems", "nope"], "'nope' is not a problem"),
            (["--preset", "smoke", "--peers", "nope"], "no peer 'nope'"),
            (["--preset", "smoke", "--bursts", "0"], "--bursts is 1 or more"),
        ):
            done = self.script(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(reason, done.stderr)


class LoaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.library = build_fake_library(folder.name)

    def test_structs_arrive_as_the_header_lays_them_out(self):
        attune = loader.Attune(self.library, "cuda:3")
        self.assertEqual(attune.version(), "9.8.7")
        problem = Problem.parse("bf16.d64.causal.lse/b2.h6.kv3.q5.k7")
        answer = attune.find(problem)
        self.assertEqual(loader.MATCHES[answer.match], "bucket")
        self.assertEqual(
            (answer.distance, answer.workspace_bytes, answer.expected_us), (1.5, 48, 2.5)
        )
        self.assertEqual(
            (answer.measured, answer.config, answer.record_shape), (1, b"mma/q64", b"b1")
        )
        self.assertEqual(answer.advice, b"run attune tune")
        seen = (ctypes.c_int64 * 20)()
        strides = loader.Strides
        tensors = loader.Tensors(
            ctypes.sizeof(loader.Tensors), 21, 22, 23, ctypes.addressof(seen), 24,
            strides(31, 0, 0), strides(0, 32, 0), strides(0, 0, 33), strides(34, 0, 0), 0.125,
        )  # fmt: skip
        attune.launch(answer.kernel, loader.c_problem(problem), tensors, 1 << 40, 1 << 41)
        self.assertEqual(
            list(seen),
            [1, 1, 64, 2, 6, 3, 5, 7, 1, 21, 22, 23, 24, 31, 32, 33, 34, 1, 1 << 40, 1 << 41],
        )
        attune.close()

    def test_errors_carry_the_librarys_message(self):
        with self.assertRaisesRegex(loader.AttuneError, "^io_error: no store; run tune$"):
            loader.Attune(self.library, "cuda:3", "missing")
        attune = loader.Attune(self.library, "cuda:3")
        with self.assertRaisesRegex(loader.AttuneError, "^other: of context$"):
            attune.find(Problem.parse("bf16.d72.full/b1.h1.kv1.q1.k1"))
        with self.assertRaisesRegex(CannotRun, "--library"):
            loader.Attune("/nowhere/libattune.so", "cuda:3")

    def test_library_search_order(self):
        with mock.patch.dict(os.environ, {"ATTUNE_LIBRARY": "env.so"}):
            self.assertEqual(loader.find_library("given.so"), "given.so")
            self.assertEqual(loader.find_library(), "env.so")


if __name__ == "__main__":
    unittest.main()
