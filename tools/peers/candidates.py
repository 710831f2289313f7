"""What is timed: our looked-up kernel and PyTorch's attention backends, on the same inputs.

A factory takes (problem, inputs) and returns run(index) -> output [batch, heads_q, seqlen_q,
head_dim_v], which enqueues one forward on the current stream; it raises CannotTime with the reason
where its kernel does not cover the problem. No factory expands K/V to heads_q: a backend takes the
grouped heads (enable_gqa) or has no time.
"""

import copy
import ctypes
import itertools
import math

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from loader import MATCHES, Strides, Tensors, c_problem
from timing import CannotTime

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


class Inputs:
    """Random normal Q, K, V, contiguous BHSD, in as many sets as cover `cold_bytes` together."""

    def __init__(self, problem, device, cold_bytes, seed):
        self.count = max(1, math.ceil(cold_bytes / problem.input_bytes))
        self._cursor = itertools.count()
        generator = torch.Generator(device).manual_seed(seed)

        def sets(heads, seqlen, head_dim):
            shape = (self.count, problem.batch, heads, seqlen, head_dim)
            # PyTorch draws no numbers of one byte.
            drawn = torch.float32 if problem.dtype == "e4m3" else DTYPES[problem.dtype]
            numbers = torch.randn(shape, device=device, dtype=drawn, generator=generator)
            return numbers.to(DTYPES[problem.dtype])

        self._q = sets(problem.heads_q, problem.seqlen_q, problem.head_dim)
        self._k = sets(problem.heads_kv, problem.seqlen_kv, problem.head_dim)
        self._v = sets(problem.heads_kv, problem.seqlen_kv, problem.head_dim_v)

    def at(self, index):
        return self._q[index], self._k[index], self._v[index]

    def as_bf16(self):
        """The same numbers in bf16, which holds every e4m3 number."""
        other = copy.copy(self)
        other._q, other._k, other._v = (x.to(torch.bfloat16) for x in (self._q, self._k, self._v))
        return other

    def next_index(self):
        """The set that was used longest ago, by whichever candidate."""
        return next(self._cursor) % self.count


def strides_of(tensor):
    return Strides(*tensor.stride()[:3])


def ours(attune, answer, problem, inputs):
    """The kernel of a look-up's answer."""
    if not answer.kernel:
        advice = (answer.advice or b"").decode()
        raise CannotTime(f"no record ({MATCHES[answer.match]}): {advice}")
    asked = c_problem(problem)
    q, k, v = inputs.at(0)
    of = torch.bfloat16 if problem.dtype == "e4m3" else q.dtype
    # What the kernel does not write shows as an error.
    o = torch.full((*q.shape[:3], problem.head_dim_v), math.nan, dtype=of, device=q.device)
    lse = torch.empty(q.shape[:3], device=q.device) if problem.lse else None
    workspace = torch.zeros(answer.workspace_bytes, dtype=torch.uint8, device=q.device)
    tensors = Tensors(
        ctypes.sizeof(Tensors),
        o=o.data_ptr(),
        q_strides=strides_of(q),
        k_strides=strides_of(k),
        v_strides=strides_of(v),
        o_strides=strides_of(o),
    )

    def run(index):
        q, k, v = inputs.at(index)
        tensors.q, tensors.k, tensors.v = q.data_ptr(), k.data_ptr(), v.data_ptr()
        tensors.lse = lse.data_ptr() if problem.lse else None
        stream = torch.cuda.current_stream().cuda_stream
        attune.launch(answer.kernel, asked, tensors, workspace.data_ptr(), stream)
        return o

    return run


def sdpa(backend, bottom_right):
    """scaled_dot_product_attention held to one backend. `bottom_right`: whether PyTorch reaches the
    backend with a bottom-right causal mask."""

    def factory(problem, inputs):
        gqa = problem.heads_q != problem.heads_kv
        causal = problem.causal and problem.seqlen_q > 1  # one bottom-right row sees every key
        mask = None
        if causal and problem.seqlen_q != problem.seqlen_kv:
            if not bottom_right:
                raise CannotTime("PyTorch gives this backend top-left causal masks only")
            from torch.nn.attention.bias import causal_lower_right

            mask = causal_lower_right(problem.seqlen_q, problem.seqlen_kv)

        def run(index):
            q, k, v = inputs.at(index)
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, attn_mask=mask, is_causal=causal and mask is None, enable_gqa=gqa
                )

        return run

    return factory


def flex(problem, inputs):
    """FlexAttention, compiled for this very shape."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # one shape a row: never an earlier row's code, never the recompile limit
    q, _, _ = inputs.at(0)
    shift, block_mask = problem.seqlen_kv - problem.seqlen_q, None
    if problem.causal:
        block_mask = create_block_mask(
            lambda b, h, i, j: i + shift >= j,
            None,
            None,
            problem.seqlen_q,
            problem.seqlen_kv,
            device=q.device,
        )
    compiled = torch.compile(flex_attention, dynamic=False)
    gqa = problem.heads_q != problem.heads_kv

    def run(index):
        return compiled(*inputs.at(index), block_mask=block_mask, enable_gqa=gqa)

    return run


def cudnn_bf16(problem, inputs):
    """What there is to compare e4m3 with where PyTorch's cuDNN backend takes none of it: the same
    numbers in bf16. Context, not the same work."""
    if problem.dtype != "e4m3":
        raise CannotTime("is for e4m3 problems; cudnn is the peer here")
    return sdpa(SDPBackend.CUDNN_ATTENTION, bottom_right=False)(problem, inputs.as_bf16())


PEERS = {
    "fa2": sdpa(SDPBackend.FLASH_ATTENTION, bottom_right=True),
    "cudnn": sdpa(SDPBackend.CUDNN_ATTENTION, bottom_right=False),
    "cudnn_bf16": cudnn_bf16,
    "flex": flex,
}
