"""Problems and presets: the same text forms and the same FLOP count as generator/problem.h."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ROOT / "configs" / "shapes"
_TEXT = re.compile(
    r"(f16|bf16|e4m3)\.d(\d+)(?:v(\d+))?\.(full|causal)(\.lse)?/b(\d+)\.h(\d+)\.kv(\d+)\.q(\d+)\.k(\d+)", re.ASCII
)


class CannotRun(Exception):
    """Nothing can be measured; the text says why and the next step."""


@dataclass(frozen=True)
class Problem:
    """One attention forward. Causal is bottom-right: row i sees keys j <= i + seqlen_kv - seqlen_q."""

    dtype: str
    head_dim: int  # of Q and K
    head_dim_v: int  # of V and O
    mask: str
    lse: bool
    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_kv: int

    @staticmethod
    def parse(text):
        match = _TEXT.fullmatch(text)
        if not match:
            raise CannotRun(
                f"'{text}' is not a problem: write it like bf16.d128.causal/b2.h16.kv16.q8192.k8192"
            )
        dtype, head_dim, head_dim_v, mask, lse, *shape = match.groups()
        dims = int(head_dim), int(head_dim_v or head_dim)
        problem = Problem(dtype, *dims, mask, lse is not None, *map(int, shape))
        if head_dim_v and dims[0] == dims[1]:
            raise CannotRun(f"'{text}': equal head dims are written once")
        if min(problem.batch, problem.heads_kv, problem.seqlen_q, problem.seqlen_kv) < 1:
            raise CannotRun(f"'{text}' has nothing to time: every size must be 1 or more")
        if problem.heads_q < 1 or problem.heads_q % problem.heads_kv:
            raise CannotRun(f"'{text}': heads_q must be a multiple of heads_kv")
        step = 16 if dtype == "e4m3" else 8
        for dim in dims:
            if not step <= dim <= 256 or dim % step:
                raise CannotRun(f"'{text}': head dims must be multiples of {step} from {step} to 256")
        return problem

    @property
    def text(self):
        value = "" if self.head_dim_v == self.head_dim else f"v{self.head_dim_v}"
        return (
            f"{self.dtype}.d{self.head_dim}{value}.{self.mask}{'.lse' if self.lse else ''}/b{self.batch}"
            f".h{self.heads_q}.kv{self.heads_kv}.q{self.seqlen_q}.k{self.seqlen_kv}"
        )

    @property
    def causal(self):
        return self.mask == "causal"

    @property
    def attended_pairs(self):
        """Query-key pairs that the mask keeps, over batch and heads_q."""
        pairs = self.seqlen_q * self.seqlen_kv
        if self.causal:
            rows = min(self.seqlen_q, self.seqlen_kv)  # the last rows; the others see no key
            pairs = rows * (2 * self.seqlen_kv - rows + 1) // 2
        return pairs * self.batch * self.heads_q

    @property
    def flops(self):
        return 2 * (self.head_dim + self.head_dim_v) * self.attended_pairs

    @property
    def input_bytes(self):
        q = self.heads_q * self.seqlen_q * self.head_dim
        kv = self.heads_kv * self.seqlen_kv * (self.head_dim + self.head_dim_v)
        return (1 if self.dtype == "e4m3" else 2) * self.batch * (q + kv)


def load_preset(name, folder=SHAPES):
    """The problems of configs/shapes/<name>.json, in its order."""
    names = sorted(path.stem for path in folder.glob("*.json"))
    if name not in names:
        raise CannotRun(f"no preset '{name}': there are {', '.join(names) or 'none'}")
    try:
        content = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        if content["schema"] != "attune-shapes/1":
            raise CannotRun(f"preset '{name}' has schema {content['schema']}, not attune-shapes/1")
        problems = [Problem.parse(text) for text in content["problems"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CannotRun(f"preset '{name}' is malformed: {error!r}") from error
    if not problems:
        raise CannotRun(f"preset '{name}' holds no problem")
    return problems
