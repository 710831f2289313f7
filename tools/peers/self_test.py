"""A dry run without torch or a GPU: the whole script over made-up times."""

import json
import math
import tempfile
from pathlib import Path

import report
from problem import Problem

PROBLEMS = ("bf16.d128.causal/b2.h16.kv16.q64.k96", "f16.d64.full.lse/b1.h8.kv2.q7.k5")


class MadeUpGpu:
    """Measures like gpu.Gpu. The second row has no record of ours; cudnn refuses both."""

    def describe(self):
        return {"gpu": "NVIDIA Made-Up 1", "driver": None, "policy": {}, "versions": {}}

    def measure(self, problem):
        found = problem.dtype == "bf16"
        us = {"ours": 10.0 if found else None, "fa2": 20.0, "cudnn": None}
        times = {name: t and report.round_to(problem.flops / t / 1e6, 4) for name, t in us.items()}
        return {
            "problem": problem.text,
            "match": "exact" if found else "none",
            "kernel": "mma/q128.kv64" if found else None,
            "us": us,
            "tflops": times,
            "spread": {name: t and 0.01 for name, t in us.items()},
            "sm_clock_mhz": {name: t and 1700.0 for name, t in us.items()},
            "error": {name: t and {"max": 1e-3, "rms": 1e-4} for name, t in us.items()},
            "error_bar": 2e-3,
            "notes": {name: "made up" for name, t in us.items() if t is None},
        }


def self_test(run):
    """`run` is peers.run. Raises AssertionError at the first thing that is not as it should be."""
    for text in PROBLEMS:
        problem = Problem.parse(text)
        assert problem.text == text, problem.text
        shift = problem.seqlen_kv - problem.seqlen_q
        pairs = sum(
            not problem.causal or j <= i + shift
            for i in range(problem.seqlen_q)
            for j in range(problem.seqlen_kv)
        )
        assert problem.attended_pairs == pairs * problem.batch * problem.heads_q, text
    assert math.isclose(report.geomean([1, 4]), 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results" / "made-up.json"
        wrong = run(
            MadeUpGpu(), list(map(Problem.parse, PROBLEMS)), ["fa2", "cudnn"], lambda _: path
        )
        results = json.loads(path.read_text(encoding="utf-8"))
        assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert wrong == 0 and report.check(results) == [], report.check(results)
    assert results["summary"]["fa2"]["all"] == {"rows": 1, "geomean": 2.0, "min": 2.0}
    assert results["summary"]["cudnn"] == {}
