"""Errors of an output against fp64 attention on a seeded sample of heads."""

import math
import random

import torch

CHUNK_SCORES = 1 << 24  # scores held at once: 128 MB of fp64, so that any length fits


def sample_heads(problem, count, seed):
    """(batch, query head) pairs, at most `count`."""
    heads = problem.batch * problem.heads_q
    chosen = random.Random(seed).sample(range(heads), min(count, heads))
    return [divmod(index, problem.heads_q) for index in sorted(chosen)]


def softmax(scores):
    return torch.softmax(scores, dim=1)


def e4m3_softmax(scores):
    """As a plain fp8 kernel has it: 256 times the exponentials rounded to e4m3, their sum not."""
    weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    rounded = (256 * weights).to(torch.float8_e4m3fn).to(scores.dtype) / 256
    return rounded / weights.sum(dim=1, keepdim=True)


def attention(q, k, v, causal, compute, softmax=softmax):
    """One head, [seqlen, head dim] each, in the precision `compute`, row chunk by row chunk. Every
    step rounds to `compute`. A row that sees no key is 0."""
    q, k, v = q.to(compute), k.to(compute), v.to(compute)
    shift, scale = k.shape[0] - q.shape[0], 1 / math.sqrt(q.shape[1])
    rows = max(1, CHUNK_SCORES // k.shape[0])
    keys = torch.arange(k.shape[0], device=q.device)
    out = v.new_empty((q.shape[0], v.shape[1]))
    for first in range(0, q.shape[0], rows):
        part = slice(first, first + rows)
        scores = (q[part] @ k.T) * scale
        if causal:
            last_key = torch.arange(first, first + scores.shape[0], device=q.device) + shift
            scores.masked_fill_(keys[None, :] > last_key[:, None], -math.inf)
        probabilities = softmax(scores)
        if causal and first + shift < 0:
            probabilities = probabilities.nan_to_num(0.0)
        out[part] = probabilities @ v
    return out


def plain_attention(q, k, v, causal):
    """The plain computation in the tensors' dtype."""
    if q.dtype == torch.float8_e4m3fn:
        return attention(q, k, v, causal, torch.float32, e4m3_softmax).to(torch.bfloat16)
    return attention(q, k, v, causal, q.dtype)


class Reference:
    """fp64 results of the sampled heads, and the bar: twice the error of the plain computation in the
    problem's dtype, plus 1e-5."""

    def __init__(self, problem, q, k, v, head_count=4, seed=0):
        group = problem.heads_q // problem.heads_kv
        self._heads = sample_heads(problem, head_count, seed)
        self._exact, plain_error = [], 0.0
        for b, h in self._heads:
            head = (q[b, h], k[b, h // group], v[b, h // group])
            self._exact.append(attention(*head, problem.causal, torch.float64))
            plain = plain_attention(*head, problem.causal)
            plain_error = max(plain_error, (plain - self._exact[-1]).abs().max().item())
        self.bar = 2 * plain_error + 1e-5

    def errors(self, out):
        """(max, RMS) of `out` [batch, heads_q, seqlen_q, head_dim_v]; NaN where it holds one."""
        worst, squares, count = 0.0, 0.0, 0
        for (b, h), exact in zip(self._heads, self._exact):
            difference = (out[b, h].double() - exact).abs()
            largest = difference.max().item()
            worst = largest if math.isnan(largest) else max(largest, worst)
            squares += difference.square().sum().item()
            count += difference.numel()
            if math.isnan(worst):
                return math.nan, math.nan
        return worst, math.sqrt(squares / count)
