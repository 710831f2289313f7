#!/usr/bin/env python3
"""Times our looked-up attention kernels beside PyTorch's backends, in one process, on one GPU.

The policy and what the columns mean are in README.md beside this file.
Exit codes: 0 done; 1 a result of ours is over its error bar; 2 cannot run, with the reason.
"""

import argparse
import sys
from pathlib import Path

import report
from loader import AttuneError
from problem import CannotRun, Problem, load_preset
from self_test import self_test

RESULTS = Path(__file__).resolve().parent / "results"
PEERS = ("fa2", "cudnn", "cudnn_bf16", "flex")


def run(gpu, problems, peers, path_of):
    """Measures all rows, prints the table and writes the results to path_of(gpu's name), if that is a
    path. Returns how many rows of ours are wrong."""
    results = {
        "schema": report.SCHEMA,
        "source_hash": report.source_hash(),
        "peers": list(peers),
        **gpu.describe(),
        "rows": [],
    }
    path = path_of(results["gpu"])
    print(f"{results['gpu']}, driver {results['driver']}, {results['versions']}")
    print(report.header(peers))
    for problem in problems:
        row = gpu.measure(problem)
        results["rows"].append(row)
        print(report.line(row, peers), flush=True)
        for name, note in sorted(row["notes"].items()):
            print(f"    {name}: {note}")
        results["summary"] = report.summarize(results["rows"], peers)
        if path:
            report.write(path, results, partial=True)
    print(*report.summary_lines(results["summary"]), sep="\n")
    if malformed := report.check(results):
        raise AssertionError("; ".join(malformed))
    if path:
        report.write(path, results)
    return sum(map(report.over_bar, results["rows"]))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="\n".join(__doc__.split("\n")[2:])
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--preset", help="name of a file of configs/shapes")
    what.add_argument("--problems", nargs="+", metavar="TEXT", help="problems, written out")
    what.add_argument("--self-test", action="store_true", help="dry run: no torch, no GPU")
    parser.add_argument(
        "--peers", help=f"of {','.join(PEERS)} (fa2,cudnn; where all is e4m3 cudnn,cudnn_bf16)"
    )
    parser.add_argument("--library", help="libattune.so ($ATTUNE_LIBRARY, else the newest build's)")
    parser.add_argument("--store", help="store of records (as the library: $ATTUNE_STORE, ...)")
    parser.add_argument("--device", default="cuda:0", help="(%(default)s)")
    parser.add_argument("--family", help="our records of `attune tune --family`")
    parser.add_argument(
        "--max-smem", type=int, default=0, metavar="BYTES", help="our records of `attune tune --max-smem`"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="results file (results/<gpu>.<preset>[.<family>][.<bytes>].json; none for --problems)",
    )
    parser.add_argument("--bursts", type=int, default=6, help="per candidate (%(default)s)")
    parser.add_argument("--gap-ms", type=float, default=60, help="idle before each (%(default)s)")
    parser.add_argument(
        "--sustained",
        type=float,
        nargs="?",
        const=0.5,
        default=0,
        metavar="SECONDS",
        help="also time launches back to back for so long (%(const)s)",
    )
    options = parser.parse_args(arguments)
    if options.peers is not None:
        options.peers = [name for name in options.peers.split(",") if name]
        if unknown := set(options.peers) - set(PEERS):
            parser.error(f"no peer '{unknown.pop()}': there are {', '.join(PEERS)}")
    if options.bursts < 1 or min(options.gap_ms, options.sustained, options.max_smem) < 0:
        parser.error("--bursts is 1 or more, --gap-ms, --sustained and --max-smem are 0 or more")
    return options


def default_peers(problems):
    bytes_alone = all(problem.dtype == "e4m3" for problem in problems)
    return ["cudnn", "cudnn_bf16"] if bytes_alone else ["fa2", "cudnn"]


def open_gpu(options):
    try:
        import torch  # noqa: F401: gives the reason before the modules that need it
    except ImportError as error:
        raise CannotRun(f"{error}: install PyTorch with CUDA (pip install torch)") from error
    from gpu import Gpu
    from timing import Policy

    policy = Policy(bursts=options.bursts, idle_gap_ms=options.gap_ms)
    return Gpu(
        options.device,
        options.library,
        options.store,
        policy,
        options.peers,
        (options.family, options.max_smem),
        options.sustained,
    )


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.self_test:
        self_test(run)
        print("self-test passed")
        return 0

    def path_of(gpu_name):
        if options.out or not options.preset:
            return options.out
        parts = (report.gpu_slug(gpu_name), options.preset, options.family, options.max_smem, "json")
        return RESULTS / ".".join(str(part) for part in parts if part)

    try:
        if options.preset:
            problems = load_preset(options.preset)
        else:
            problems = list(map(Problem.parse, options.problems))
        if options.peers is None:
            options.peers = default_peers(problems)
        wrong = run(open_gpu(options), problems, options.peers, path_of)
    except (CannotRun, AttuneError) as error:
        print(f"peers.py: {error}", file=sys.stderr)
        return 2
    if wrong:
        print(f"peers.py: {wrong} of our results are over the error bar", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
