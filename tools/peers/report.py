"""What a run leaves: the table, the summary and the results file. Pure but for write()."""

import hashlib
import json
import math
import os
import re
import statistics

from problem import ROOT

SCHEMA = "attune-peers/1"


def round_to(value, digits):
    """`value` to so many significant digits; None stays None, what is not finite becomes None."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def spread(samples):
    """(p75 - p25) / median."""
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle


def gpu_slug(name):
    """The first part of a results file's name: NVIDIA GeForce RTX 4090 is rtx-4090."""
    name = re.sub(r"\b(nvidia|geforce|tesla)\b", "", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def one_line(text, limit=240):
    """A reason fit for a results file: one line, no paths of this machine."""
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]*", "<path>", " ".join(str(text).split()))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def source_hash():
    """SHA-256 over what kernels are made of in this tree: names and contents below templates/ and
    generator/. None where the script does not lie in such a tree."""
    files = sorted(
        path
        for folder in ("templates", "generator")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".h", ".cpp")
    )
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest() if files else None


def speedup(row, peer):
    """How many times faster ours is than `peer`; None where either has no time or ours is wrong."""
    ours, theirs = row["us"].get("ours"), row["us"].get(peer)
    return theirs / ours if ours and theirs and not over_bar(row) else None


def summarize(rows, peers):
    """{peer: {"all" | "d64" | ...: {"rows", "geomean", "min"}}} of ours over the peer."""
    summary = {}
    for peer in peers:
        groups = {}
        for row in rows:
            if (factor := speedup(row, peer)) is not None:
                head_dim = row["problem"].split(".")[1]
                groups.setdefault("all", []).append(factor)
                groups.setdefault(head_dim, []).append(factor)
        summary[peer] = {
            group: {
                "rows": len(factors),
                "geomean": round_to(geomean(factors), 4),
                "min": round_to(min(factors), 4),
            }
            for group, factors in groups.items()
        }
    return summary


def over_bar(row):
    """Whether our result is wrong: not finite, or its error above the bar."""
    if row["us"]["ours"] is None:
        return False
    error = row["error"]["ours"]["max"]
    return error is None or error > row["error_bar"]


def header(peers):
    titles = "".join(f"{name:>8}" for name in ("ours", *peers))
    factors = "".join(f"{'x ' + name:>9}" for name in peers)
    return (
        f"{'problem':<42}{'us':>10} |{titles} TFLOP/s |{factors} | {'error':>8} {'MHz':>5}  kernel"
    )


def line(row, peers):
    def cell(value, width, form):
        return f"{'-':>{width}}" if value is None else f"{value:>{width}{form}}"

    rates = "".join(cell(row["tflops"].get(name), 8, ".1f") for name in ("ours", *peers))
    factors = "".join(cell(speedup(row, name), 9, ".3f") for name in peers)
    error = (row["error"]["ours"] or {}).get("max")
    return (
        f"{row['problem']:<42}{cell(row['us']['ours'], 10, '.2f')} |{rates} TFLOP/s |{factors}"
        f" | {cell(error, 8, '.1e')} {cell(row['sm_clock_mhz']['ours'], 5, '.0f')}"
        f"  {row['match']} {row['kernel'] or ''}{' WRONG' if over_bar(row) else ''}"
    )


def summary_lines(summary):
    for peer, groups in summary.items():
        parts = [
            f"{name} {group['geomean']:.3f} ({group['rows']} rows, min {group['min']:.3f})"
            for name, group in sorted(groups.items())
        ]
        yield f"ours / {peer}, geomean: {', '.join(parts) or 'no row has both'}"


def check(results):
    """What is wrong with the results, as sentences; empty if nothing."""
    keys = "schema gpu driver versions source_hash policy peers rows summary".split()
    if wrong := [f"'{key}' is missing" for key in keys if key not in results]:
        return wrong
    names = {"ours", *results["peers"]}
    for row in results["rows"]:
        for key in ("us", "tflops", "spread", "error", "sm_clock_mhz"):
            if set(row[key]) != names:
                wrong.append(f"{row['problem']}: '{key}' names {sorted(row[key])}")
        for name in names:
            if row["us"].get(name) is None and not row["notes"].get(name):
                wrong.append(f"{row['problem']}: {name} has neither a time nor a reason")
    return wrong


def write(path, results, partial=False):
    """Publishes atomically. While `partial`, rows gather beside `path` and `path` stays as it was."""
    text = json.dumps(results, indent=1, sort_keys=True, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".partial")
    beside.write_text(text, encoding="utf-8")
    if not partial:
        os.replace(beside, path)
