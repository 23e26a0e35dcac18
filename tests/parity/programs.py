"""Random programs: lines of PyTorch with views, in-place changes, branches and loops, and running them line by line."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (1, 3), (2, 1, 3), (0, 3), (3, 3), (4,)]
DTYPES = ["float64", "float64", "float64", "float32", "int64"]

# A is any variable so far, B another; D a dimension, I an index, K a small number, S a shape.
MAPS = [
    "-A",
    "A.abs()",
    "A.exp()",
    "A.tanh()",
    "A.sin()",
    "A.sigmoid()",
    "A.relu()",
    "A.square()",
    "A ** 2",
    "A ** K",
    "A * 0.5",
    "1 / A",
    "A.log1p()",
    "A.sqrt()",
    "A.clamp(-0.5, 1)",
    "A.log()",
    "lib.nn.functional.softplus(A.float())",
    "A.clone()",
    "A.sign()",
    "A.floor()",
    "A + K",
    "K - A",
    "A.expm1()",
    "A.float()",
    "A.double()",
]
PAIRS = [
    "A + B",
    "A - B",
    "A * B",
    "A / B",
    "lib.maximum(A, B)",
    "lib.minimum(A, B)",
    "lib.where(A > B, A, B)",
    "A @ B",
    "A * B + A",
    "lib.cat([A, B])",
    "lib.cat([A, B], D)",
    "lib.stack([A, B])",
    "lib.where(A > 0, B, 0.0)",
    "A.atan2(B)",
    "A.outer(B)",
    "A.matmul(B.t())",
    "A.masked_fill(A > 0, K)",
    "A.expand_as(B)",
    "A.reshape(B.shape)",
]
REDUCTIONS = [
    "A.sum()",
    "A.sum(D)",
    "A.sum(D, keepdim=True)",
    "A.mean()",
    "A.mean(D)",
    "A.amax(D)",
    "A[A == A].max()",
    "A.max(D).values",
    "A.prod()",
    "A.prod(D)",
    "A.var(D)",
    "A.std()",
    "A.softmax(D, dtype=lib.float64)",
    "A.log_softmax(D, dtype=lib.float64)",
    "A.cumsum(D)",
    "A.logsumexp(D)",
    "A.norm()",
    "A.argmax(D)",
    "A.min(D)[0]",
]
VIEWS = [
    "A.t()",
    "A.transpose(D, E)",
    "A.unsqueeze(D)",
    "A.squeeze()",
    "A.squeeze(D)",
    "A[I]",
    "A[I:]",
    "A[:I]",
    "A[::2]",
    "A[..., I]",
    "A[..., None]",
    "A[None]",
    "A.reshape(-1)",
    "A.view(-1)",
    "A.flatten()",
    "A.expand(S)",
    "A.flip(D)",
    "A.select(D, I)",
    "A.narrow(D, 0, 1)",
    "A.diagonal()",
    "A.detach()",
    "A.chunk(2)[0]",
    "A.split(1)[-1]",
    "A.unbind(D)[0]",
    "A.contiguous()",
    "A.view(S)",
    "A.T",
    "A.view_as(A)",
    "A.movedim(D, E)",
    "A.unfold(D, 1, 1)",
    "A[..., 1:]",
    "A.data",
    "A.real",
]
WRITES = [
    "A.add_(K)",
    "A.mul_(B.clone())",
    "A.add_(B.clone())",
    "A.zero_()",
    "A.fill_(K)",
    "A.exp_()",
    "A.tanh_()",
    "A.sigmoid_()",
    "A.relu_()",
    "A[I] = K",
    "A[I] = B.clone()",
    "A[..., I] = B.clone()",
    "A[A > 0] = K",
    "A.copy_(B.clone())",
    "A.neg_()",
    "A.div_(B.clone())",
    "A.clamp_(-1, 1)",
    "A += B.clone()",
    "A *= K",
    "A -= B.clone()",
    "A[:I] += B.clone()",
    "A[:I].mul_(B.clone())",
    "A.t_()",
    "A.detach_()",
    "A.masked_fill_(A > 0, K)",
    "A.sqrt_()",
    "A.unsqueeze_(D)",
    "A.pow_(2)",
    "A.squeeze_()",
    "A.retain_grad()",
    "A[1:] = A[:-1].clone()",
    "A.sub_(A.mean())",
]
BLOCKS = [
    "with lib.no_grad(): X = A * B",
    "with lib.no_grad(): A.mul_(K)",
    "with lib.no_grad(): X = A.narrow(D, 0, 1).clone()",
    "if A.sum() > 0: X = A * B\nelse: X = A - B",
    "X = A\nfor _ in range(3): X = X * 0.5 + B",
    "X = A\nfor row in B: X = X + row.sum()",
    "X = A\nwhile X.abs().sum() > 10: X = X / 3",
    "X = lib.zeros_like(A)\nX += A\nX *= B.clone()",
    "X = A.clone()\nX[I] = B.clone()\nX = X * A",
    "X = lib.stack([r * 2 for r in A])",
    "with lib.no_grad(): A.zero_()",
    "X, = lib.autograd.grad(A.sum(), V, create_graph=True)\nX = X + V",
    "X, = lib.autograd.grad((A * A).sum(), V, retain_graph=True)",
    "(A ** 2).sum().backward(retain_graph=True)",
    "X = A * 1\nX.register_hook(lambda g: g * 2)",
    "A.sum().backward()",
    "X = A.exp()\nX[I] = 0",
    "X = A * 2\nY = X[I:]\nY.mul_(B.clone())",
    "X = A * 2\nY = X.view(-1)\nX.add_(B.clone())",
    "X = A.sigmoid()\nX.mul_(2)",
]

KINDS = [(MAPS, "X = "), (PAIRS, "X = "), (REDUCTIONS, "X = "), (VIEWS, "X = "), (WRITES, ""), (BLOCKS, "")]
LINES = [prefix + template for templates, prefix in KINDS for template in templates]


@st.composite
def programs(draw: Any) -> tuple[list[tuple[Any, bool]], list[str]]:
    """Inputs (an array, whether it requires a gradient), and statements over v0, v1, ..."""
    inputs = []
    for _ in range(draw(st.integers(2, 4))):
        shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
        values = np.random.default_rng(draw(st.integers(0, 50))).integers(-8, 9, shape) / 4
        inputs.append((np.asarray(values, dtype), dtype != "int64" and draw(st.booleans())))
    lines: list[str] = []
    n = len(inputs)
    for _ in range(draw(st.integers(3, 14))):
        # the newest variables are the likeliest, so that programs grow deep
        old = [max(0, n - 1 - draw(st.integers(0, 3))) for _ in range(2)]
        dims = [draw(st.integers(-2, 2)) for _ in range(2)]
        line = _filled(draw(st.sampled_from(LINES)), {
            "A": f"v{old[0]}", "B": f"v{old[1]}", "X": f"v{n}", "V": f"v{draw(st.integers(0, len(inputs) - 1))}",
            "D": str(dims[0]), "E": str(dims[1]), "I": str(draw(st.integers(-1, 2))),
            "K": str(draw(st.sampled_from([2, -1, 0.5, 3.0, 0]))), "S": str(draw(st.sampled_from(SHAPES))),
            "Y": f"w{n}",
        })  # fmt: skip
        lines.append(line)
        if f"v{n} = " in line or f"v{n}, = " in line:
            n += 1
    return inputs, lines


def _filled(template: str, names: dict[str, str]) -> str:
    out, word = "", ""
    for ch in template + " ":
        if ch.isalnum() or ch in "_.":
            word += ch
            continue
        head, dot, tail = word.partition(".")
        out += names.get(head, head) + dot + tail + ch
        word = ""
    return out.rstrip()


class Run:
    """A program run under a library: what every line gave, and the gradients at the end."""

    def __init__(self, lib: Any, inputs: list[tuple[Any, bool]], lines: list[str]) -> None:
        self.names: dict[str, Any] = {"lib": lib}
        for k, (a, wanted) in enumerate(inputs):
            self.names[f"v{k}"] = lib.from_numpy(a.copy()).requires_grad_(wanted)
        self.leaves = list(self.names)[1:]
        self.log: list[str] = []  # the class of the error of every line, or "ok"
        for line in lines:
            self.log.append(self._attempt(line))
        final = [v for k, v in self.names.items() if k[0] == "v" and hasattr(v, "is_floating_point")]
        live = [v for v in final if v.is_floating_point() and described(v) is not None and v.requires_grad]
        self.names["live"] = live
        self.log.append(self._attempt("sum((t * t.detach().cos()).sum() for t in live).backward()" if live else "pass"))
        self.values = {k: described(v) for k, v in self.names.items() if k[0] in "vw" and hasattr(v, "dtype")}
        self.grads = {k: described(v.grad) for k, v in self.names.items()
                      if k[0] == "v" and hasattr(v, "dtype") and described(v) is not None
                      and (v.is_leaf or v.retains_grad)}  # fmt: skip

    def _attempt(self, line: str) -> str:
        try:
            exec(line, self.names)
        except Exception as e:
            self.names["last"] = None
            return f"{type(e).__name__}: {e}"
        return "ok"


def described(t: Any) -> Any:
    """(shape, dtype, requires_grad, values), or None: also for a view that may not be looked at any more."""
    try:
        if t is None or t.is_leaf is None:
            return None
    except RuntimeError:
        return None
    return (tuple(t.shape), str(t.dtype).rsplit(".", 1)[-1], bool(t.requires_grad),
            np.array(t.detach().tolist(), dtype=np.float64).reshape(tuple(t.shape)))  # fmt: skip
