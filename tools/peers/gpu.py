"""Measures rows on a CUDA device: look-up, accuracy, times."""

import ctypes
import statistics
import warnings

import torch

from accuracy import Reference
from candidates import PEERS, Inputs, ours
from loader import MATCHES, Answer, Attune, AttuneError, find_library
from problem import CannotRun
from report import one_line, round_to, spread
from timing import CannotTime, interleave, sustained_us


def driver_version():
    """Such as 580.159.03; None where NVML does not say."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(80)
        if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, 80):
            return None
        return text.value.decode()
    except OSError:
        return None


class Gpu:
    def __init__(self, device, library, store, policy, peers, restriction=(None, 0), sustained_s=0):
        if not torch.cuda.is_available():
            raise CannotRun("PyTorch sees no CUDA device: run this on a machine with one")
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.cuda.init()
        self._device, self._policy, self._peers = device, policy, peers
        self._sustained_s = sustained_s
        self._properties = torch.cuda.get_device_properties(device)
        self._attune = Attune(find_library(library), device, store, *restriction)

    def describe(self):
        return {
            "gpu": self._properties.name,
            "driver": driver_version(),
            "policy": self._policy.describe(),
            "versions": {
                "attune": self._attune.version(),
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(),
                "torch": torch.__version__,
            },
        }

    def measure(self, problem):
        """One row of the results."""
        torch.cuda.empty_cache()
        policy = self._policy
        cold_bytes = policy.cold_l2_factor * self._properties.L2_cache_size
        inputs = Inputs(problem, self._device, cold_bytes, policy.seed)
        reference = Reference(problem, *inputs.at(0), policy.error_heads, policy.seed)
        answer = self._look_up(problem)
        runs, errors, notes = {}, {}, {}
        for name in ("ours", *self._peers):
            try:
                runs[name], errors[name] = self._prepare(name, answer, problem, inputs, reference)
            except (CannotTime, RuntimeError, ImportError) as reason:
                torch.cuda.synchronize()  # a broken context must end the run, not become a note
                notes[name] = one_line(reason)
        launches = {name: (lambda run=run: run(inputs.next_index())) for name, run in runs.items()}
        samples = interleave(launches, policy)
        for name, taken in samples.items():
            if taken.failure:
                notes[name] = taken.failure
                del launches[name]
        row = {
            "problem": problem.text,
            "match": MATCHES[answer.match],
            "kernel": text_of(answer.config),
            "error_bar": round_to(reference.bar, 3),
            "notes": notes,
        }
        if MATCHES[answer.match] == "bucket":
            row["bucket"] = {
                "distance": round_to(answer.distance, 3),
                "shape": text_of(answer.record_shape),
            }
        timed = {name: samples[name] for name in launches}
        self._add_columns(row, problem, timed, errors)
        if self._sustained_s:
            self._add_sustained(row, problem, launches)
        return row

    def _look_up(self, problem):
        try:
            return self._attune.find(problem)
        except AttuneError as reason:  # a record that cannot be loaded costs its row, not the run
            return Answer(advice=str(reason).encode())

    def _prepare(self, name, answer, problem, inputs, reference):
        """A candidate that has run on set 0, warm, and its (max, RMS) error there."""
        if name == "ours":
            run = ours(self._attune, answer, problem, inputs)
        else:
            run = PEERS[name](problem, inputs)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                error = reference.errors(run(0))
            except RuntimeError as failure:
                # SDPA says in warnings why a backend refuses, and in the error only that it does.
                reasons = [str(w.message).split(" (Triggered")[0] for w in said]
                raise CannotTime("; ".join([str(failure).split("\n")[0], *reasons])) from failure
        for index in range(3):
            run(index % inputs.count)
        torch.cuda.synchronize()
        return run, error

    def _add_columns(self, row, problem, samples, errors):
        columns = {key: {} for key in ("us", "tflops", "spread", "sm_clock_mhz", "error")}
        for name in ("ours", *self._peers):
            taken = samples.get(name)
            us = taken.median_us if taken else None
            columns["us"][name] = round_to(us, 5)
            columns["tflops"][name] = round_to(problem.flops / us / 1e6, 4) if us else None
            columns["spread"][name] = round_to(spread(taken.times_us), 3) if taken else None
            columns["sm_clock_mhz"][name] = (
                round_to(statistics.median(taken.clocks_mhz), 4) if taken else None
            )
            columns["error"][name] = (
                {key: round_to(x, 3) for key, x in zip(("max", "rms"), errors[name])}
                if taken
                else None
            )
        row.update(columns)

    def _add_sustained(self, row, problem, launches):
        row["sustained_us"] = dict.fromkeys(row["us"])
        row["sustained_tflops"] = dict.fromkeys(row["us"])
        for name, launch in launches.items():
            try:
                us = sustained_us(launch, row["us"][name], self._sustained_s)
            except CannotTime as reason:
                row["notes"][name] = str(reason)
                continue
            row["sustained_us"][name] = round_to(us, 5)
            row["sustained_tflops"][name] = round_to(problem.flops / us / 1e6, 4)


def text_of(value):
    return value.decode() if value else None
