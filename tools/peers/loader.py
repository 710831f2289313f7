"""The C API of runtime/attune.h through ctypes. Structs and enums are spelled as in that header."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_void_p, sizeof

from problem import ROOT, CannotRun

DTYPES = {"f16": 0, "bf16": 1, "e4m3": 2}
MASKS = {"full": 0, "causal": 1}
MATCHES = ("none", "estimate", "bucket", "exact")


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("device", c_char_p),
        ("store_path", c_char_p),
        ("backend", c_void_p),
        ("strict", c_int),
        ("family", c_char_p),
        ("max_shared_bytes", c_int32),
    ]


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class CProblem(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("dtype", c_int), ("mask", c_int)] + [
        (name, c_int32)
        for name in "head_dim batch heads_q heads_kv seqlen_q seqlen_kv want_lse head_dim_v".split()
    ]


class Tensors(ctypes.Structure):
    _fields_ = (
        [("struct_bytes", c_size_t)]
        + [(name, c_void_p) for name in "q k v o lse".split()]
        + [(name + "_strides", Strides) for name in "q k v o".split()]
        + [("scale", c_float)]
        + [(name + "_scale", c_void_p) for name in "q k v".split()]
    )


class Answer(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("match", c_int),
        ("distance", c_double),
        ("kernel", c_void_p),
        ("workspace_bytes", c_size_t),
        ("expected_us", c_double),
        ("measured", c_int),
        ("config", c_char_p),
        ("record_shape", c_char_p),
        ("advice", c_char_p),
    ]


class AttuneError(RuntimeError):
    """A call of the library failed; the text is its own message with the next step."""


def find_library(path=None):
    """`path`, else $ATTUNE_LIBRARY, else the newest libattune.so of a build folder of this tree."""
    if path := path or os.environ.get("ATTUNE_LIBRARY"):
        return path
    built = sorted(ROOT.glob("build*/**/libattune.so"), key=lambda file: file.stat().st_mtime)
    if not built:
        raise CannotRun("no build*/**/libattune.so: build the project, or give --library PATH")
    return str(built[-1])


def c_problem(problem):
    return CProblem(
        sizeof(CProblem),
        DTYPES[problem.dtype],
        MASKS[problem.mask],
        problem.head_dim,
        problem.batch,
        problem.heads_q,
        problem.heads_kv,
        problem.seqlen_q,
        problem.seqlen_kv,
        int(problem.lse),
        problem.head_dim_v,
    )


class Attune:
    """A device and a store, opened. Kernels live as long as this object."""

    def __init__(self, library, device, store=None, family=None, max_shared_bytes=0):
        self._context = c_void_p()
        try:
            self._library = _declare(ctypes.CDLL(library))
        except (OSError, AttributeError) as error:
            raise CannotRun(f"cannot load {library}: {error}; give --library PATH") from error
        options = Options(
            sizeof(Options),
            device.encode(),
            store.encode() if store else None,
            family=family.encode() if family else None,
            max_shared_bytes=max_shared_bytes,
        )
        self._check(self._library.attune_open(byref(options), byref(self._context)))

    def version(self):
        return self._library.attune_version().decode()

    def find(self, problem):
        """The answer to a look-up; `kernel` is None unless match is bucket or exact."""
        answer = Answer(sizeof(Answer))
        asked = c_problem(problem)
        self._check(self._library.attune_find(self._context, byref(asked), byref(answer)))
        return answer

    def launch(self, kernel, problem, tensors, workspace, stream):
        """Enqueues; `problem` is a CProblem, pointers and the stream are integers (0 = null)."""
        self._check(
            self._library.attune_launch(
                kernel, byref(problem), byref(tensors), workspace or None, stream or None
            )
        )

    def close(self):
        self._library.attune_close(self._context)
        self._context = c_void_p()

    def _check(self, status):
        if status != 0:
            name = self._library.attune_status_name(status).decode()
            raise AttuneError(f"{name}: {self._library.attune_last_error(self._context).decode()}")


def _declare(library):
    signatures = {
        "attune_version": (c_char_p, []),
        "attune_status_name": (c_char_p, [c_int]),
        "attune_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
        "attune_close": (None, [c_void_p]),
        "attune_find": (c_int, [c_void_p, POINTER(CProblem), POINTER(Answer)]),
        "attune_launch": (
            c_int,
            [c_void_p, POINTER(CProblem), POINTER(Tensors), c_void_p, c_void_p],
        ),
        "attune_last_error": (c_char_p, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
