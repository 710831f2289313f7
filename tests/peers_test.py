"""Tests of tools/peers: the pure parts, the binding against runtime/attune.h, and, where PyTorch is
installed, everything but the GPU."""

import ctypes
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "tools" / "peers"
sys.path.insert(0, str(PEERS))

import loader
import report
from peers_fakes import FakeQueue, build_fake_library
from problem import CannotRun, Problem, load_preset

try:
    import torch
except ImportError:
    torch = None


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
            "e4m3.d64.causal/b1.h8.kv2.q1.k131072",
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
        a_row("bf16.d128.full/z", 1.0, 5.0, error=1.0),
    ]

    def test_summary_takes_right_rows_that_both_have(self):
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
        seen = (ctypes.c_int64 * 23)()
        strides = loader.Strides
        tensors = loader.Tensors(
            ctypes.sizeof(loader.Tensors), 21, 22, 23, ctypes.addressof(seen), 24,
            strides(31, 0, 0), strides(0, 32, 0), strides(0, 0, 33), strides(34, 0, 0), 0.125,
            41, 42, 43,
        )  # fmt: skip
        attune.launch(answer.kernel, loader.c_problem(problem), tensors, 1 << 40, 1 << 41)
        self.assertEqual(
            list(seen),
            [1, 1, 64, 2, 6, 3, 5, 7, 1, 21, 22, 23, 24, 31, 32, 33, 34, 1, 1 << 40, 1 << 41]
            + [41, 42, 43],
        )
        attune.close()

    def test_restrictions_arrive(self):
        loader.Attune(self.library, "cuda:3", family="wgmma", max_shared_bytes=101376).close()
        with self.assertRaises(loader.AttuneError):
            loader.Attune(self.library, "cuda:3", family="wgmma")

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


def load_timing(queue):
    """tools/peers/timing.py over a fake torch, whether or not there is a real one."""
    spec = importlib.util.spec_from_file_location("timing_over_fake", PEERS / "timing.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"torch": SimpleNamespace(cuda=queue), spec.name: module}):
        spec.loader.exec_module(module)
    return module


class TimingTest(unittest.TestCase):
    def interleave(self, queue, candidates, **policy):
        timing = load_timing(queue)
        return timing.interleave(candidates, timing.Policy(idle_gap_ms=0, **policy))

    def test_medians_clocks_and_order(self):
        queue, order = FakeQueue(), []
        costs = {"a": iter([90.0, 10.0, 12.0, 11.0] * 3), "b": iter([20.0] * 12)}

        def launch_of(name):
            def launch():
                order.append(name)
                queue.launch(next(costs[name]))

            return launch

        samples = self.interleave(
            queue, {name: launch_of(name) for name in "ab"}, bursts=3, launches_per_burst=4
        )
        self.assertEqual("".join(order), "aaaabbbb" "bbbbaaaa" "aaaabbbb")
        self.assertEqual(len(samples["a"].times_us), 9)  # the 90 us of first launches are dropped
        self.assertAlmostEqual(samples["a"].median_us, 11)
        self.assertAlmostEqual(samples["b"].median_us, 20)
        for clock in samples["a"].clocks_mhz:
            self.assertAlmostEqual(clock, 1600)

    def test_a_hold_that_ends_early_is_made_longer(self):
        queue = FakeQueue(host_us=800)  # 8 launches: 6.4 ms, past the first hold of 2.5 ms
        samples = self.interleave(queue, {"a": lambda: queue.launch(5.0)}, bursts=2)["a"]
        holds = [cycles for cycles in queue.sleeps if cycles >= 4_000_000]
        self.assertEqual(holds, [4_000_000, 8_000_000, 16_000_000, 16_000_000])
        self.assertEqual(samples.times_us, [mock.ANY] * 14)
        self.assertAlmostEqual(max(samples.times_us), 5.0)

    def test_a_launch_that_waits_for_the_gpu_has_no_time(self):
        queue = FakeQueue()

        def launch():
            queue.launch(5.0)
            queue.host_us = queue.gpu_us

        samples = self.interleave(queue, {"a": launch, "b": lambda: queue.launch(7.0)})
        self.assertIn("longest hold", samples["a"].failure)
        self.assertEqual(samples["a"].times_us, [])
        self.assertAlmostEqual(samples["b"].median_us, 7)

    def test_sustained_needs_a_host_that_is_ahead(self):
        queue = FakeQueue(host_us=4)
        timing = load_timing(queue)
        self.assertAlmostEqual(timing.sustained_us(lambda: queue.launch(50.0), 50, 0.01), 50, 0)
        queue = FakeQueue(host_us=60)
        timing = load_timing(queue)
        with self.assertRaises(timing.CannotTime):
            timing.sustained_us(lambda: queue.launch(50.0), 50, 0.01)


@unittest.skipUnless(torch, "PyTorch is not installed: accuracy.py, candidates.py, gpu.py untested")
class TorchTest(unittest.TestCase):
    """Real PyTorch on the CPU under a fake queue; PyTorch's plain backend plays the peer."""

    def reference(self, text, **changes):
        from accuracy import Reference
        from candidates import Inputs

        problem = Problem.parse(text)
        inputs = Inputs(problem, "cpu", 0, 0)
        with mock.patch("accuracy.CHUNK_SCORES", 40):
            return problem, inputs, Reference(problem, *inputs.at(0), **changes)

    def test_reference_is_attention_bottom_right(self):
        for shape in ("b2.h6.kv3.q9.k9", "b1.h4.kv4.q5.k13", "b1.h4.kv2.q13.k5"):
            problem, inputs, reference = self.reference(
                f"bf16.d16.causal/{shape}", head_count=4, seed=7
            )
            q, k, v = (x.double() for x in inputs.at(0))
            rows, keys = problem.seqlen_q, problem.seqlen_kv
            seen = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
            exact = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, enable_gqa=True
            ).nan_to_num(0)
            self.assertLess(reference.errors(exact)[0], 1e-12, shape)
            self.assertLess(reference.errors(exact.bfloat16())[0], reference.bar)
            worst, rms = reference.errors(exact + 0.5)
            self.assertAlmostEqual(worst, 0.5)
            self.assertAlmostEqual(rms, 0.5)
            self.assertLess(reference.bar, 0.1)
            exact[0, :, 0] = math.nan
            exact[-1] = math.nan
            self.assertTrue(math.isnan(reference.errors(exact)[0]))

    def test_reference_of_bytes(self):
        from accuracy import attention

        problem, inputs, reference = self.reference("e4m3.d16.causal/b1.h2.kv1.q9.k13")
        q, k, v = inputs.at(0)
        self.assertEqual(q.dtype, torch.float8_e4m3fn)
        heads = [attention(q[0, h], k[0, 0], v[0, 0], True, torch.float64) for h in range(2)]
        self.assertEqual(reference.errors(torch.stack(heads)[None])[0], 0)
        self.assertGreater(reference.bar, 1e-3)
        self.assertLess(reference.bar, 0.3)
        wide = inputs.as_bf16().at(0)
        for byte, two in zip(inputs.at(0), wide):
            self.assertTrue(torch.equal(byte.float(), two.float()))

    def test_inputs_rotate_over_enough_bytes(self):
        from candidates import Inputs

        problem = Problem.parse("bf16.d64.full/b1.h2.kv1.q8.k8")
        inputs = Inputs(problem, "cpu", 3 * problem.input_bytes + 1, 0)
        self.assertEqual([inputs.next_index() for _ in range(5)], [0, 1, 2, 3, 0])
        self.assertEqual(sum(t.numel() * 2 for t in inputs.at(3)), problem.input_bytes)
        self.assertFalse(torch.equal(inputs.at(0)[0], inputs.at(1)[0]))

    def measure(self, texts, **options):
        import gpu
        from candidates import PEERS as factories
        from candidates import sdpa
        from timing import Policy

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        queue = FakeQueue()
        properties = SimpleNamespace(name="NVIDIA Fake", L2_cache_size=1000)
        queue.current_stream = lambda: SimpleNamespace(cuda_stream=0)
        queue.get_device_properties = lambda device: properties
        queue.is_available = lambda: True
        queue.set_device = queue.init = queue.synchronize = queue.empty_cache = lambda *_: None
        math_peer = sdpa(torch.nn.attention.SDPBackend.MATH, bottom_right=False)

        def timed(problem, inputs):
            run = math_peer(problem, inputs)
            return lambda index: (queue.launch(20.0), run(index))[1]

        attune = loader.Attune(build_fake_library(folder.name), "cuda:3")
        launch = attune.launch
        attune.launch = lambda *arguments: (launch(*arguments), queue.launch(10.0))
        policy = Policy(bursts=2, idle_gap_ms=0)
        with mock.patch.object(torch, "cuda", queue), mock.patch.object(
            gpu, "Attune", lambda *_: attune
        ), mock.patch.dict(factories, {"fa2": timed}), mock.patch.object(
            torch.backends.cudnn, "version", lambda: 91900
        ):
            device = gpu.Gpu("cpu", "given.so", None, policy, ["fa2", "cudnn"], **options)
            return device.describe(), [device.measure(Problem.parse(text)) for text in texts]

    def test_rows(self):
        described, rows = self.measure(
            [
                "bf16.d64.causal.lse/b1.h4.kv2.q16.k16",
                "bf16.d8.causal/b1.h4.kv4.q8.k12",
                "bf16.d72.full/b1.h4.kv4.q8.k12",
            ],
            sustained_s=1e-3,
        )
        bucket, none, corrupt = rows
        self.assertEqual(described["versions"]["attune"], "9.8.7")
        self.assertEqual((bucket["match"], bucket["kernel"]), ("bucket", "mma/q64"))
        self.assertEqual(bucket["bucket"], {"distance": 1.5, "shape": "b1"})
        self.assertTrue(report.over_bar(bucket))  # the fake writes no attention
        self.assertEqual((bucket["us"]["ours"], bucket["us"]["fa2"]), (10.0, 20.0))
        self.assertEqual(bucket["sustained_us"]["fa2"], 20.0)
        self.assertLess(bucket["error"]["fa2"]["max"], bucket["error_bar"])
        self.assertEqual(bucket["sm_clock_mhz"]["fa2"], 1600)
        self.assertIsNone(bucket["us"]["cudnn"])
        self.assertEqual((none["match"], none["us"]["ours"]), ("none", None))
        self.assertIn("run attune tune", none["notes"]["ours"])
        self.assertIn("top-left", none["notes"]["fa2"])
        self.assertIn("of context", corrupt["notes"]["ours"])
        results = {**described, "schema": 1, "source_hash": None, "summary": {}, "rows": rows}
        self.assertEqual(report.check({**results, "peers": ["fa2", "cudnn"]}), [])

    def test_a_restriction_reaches_the_library(self):
        import gpu

        opened = []
        with mock.patch.object(gpu, "Attune", lambda *given: opened.append(given)):
            queue = FakeQueue()
            queue.is_available = lambda: True
            queue.set_device = queue.init = lambda *_: None
            queue.get_device_properties = lambda _: None
            with mock.patch.object(torch, "cuda", queue):
                gpu.Gpu("cuda:3", "given.so", None, None, [], ("wgmma", 101376))
        self.assertEqual(opened, [("given.so", "cuda:3", None, "wgmma", 101376)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
