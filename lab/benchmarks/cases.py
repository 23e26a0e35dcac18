"""The benchmarks' cases on a CPU: one text for both libraries, at the sizes people use.

A case names its section (a command of its own), what it does, how large, and, where one was set, the ratio to PyTorch
eager that it must not exceed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Forward = Callable[..., Any]


@dataclass(frozen=True)
class Whole:
    """An input of integers from 0 to `most` - 1, for class numbers and indices."""

    shape: tuple[int, ...]
    most: int


@dataclass(frozen=True)
class Case:
    """A text for core and PyTorch.

    make : from the library and the dtype's name, the `Run`. numpy : the same on the inputs' arrays, where NumPy has it.
    target : the ratio to PyTorch eager that was set. compiles : whether `torch.compile` has something to do.
    """

    section: str
    name: str
    size: str
    make: Callable[[Any, str], Any]
    target: float | None = None
    numpy: Callable[..., Any] | None = None
    compiles: bool = True


class Run:
    """Forward over inputs, and backward where they want gradients; gives the output and the gradients.

    `forward` may be replaced by a compiled one. The gradient that comes in is made once, before anything is timed.
    """

    def __init__(self, lib: Any, forward: Forward, inputs: Sequence[Any]) -> None:
        self.lib, self.forward, self.inputs = lib, forward, tuple(inputs)
        self.leaves = [x for x in inputs if x.requires_grad]
        self.seed: Any = None

    def __call__(self) -> Sequence[Any]:
        for x in self.leaves:
            x.grad = None
        y = self.forward(*self.inputs)
        if not self.leaves:
            return (y,)
        if self.seed is None:
            self.seed = normal(self.lib, y.dtype, tuple(y.shape), 99)
        y.backward(self.seed)
        return (y, *[x.grad for x in self.leaves])

    def compile(self, compiler: Callable[..., Any]) -> None:
        """Run as `compiler` makes it from now on."""
        self.forward = compiler(self.forward)


def normal(lib: Any, dtype: Any, shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Any:
    """Return the same normal numbers in either library and in every type."""
    values = np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
    made = lib.from_numpy(np.asarray(values))
    return made.to(dtype)


def whole(lib: Any, shape: tuple[int, ...], most: int, seed: int = 1) -> Any:
    """Return the same whole numbers in either library."""
    return lib.from_numpy(np.random.default_rng(seed).integers(0, most, shape))


def case(section: str, name: str, forward: Forward, *inputs: tuple[int, ...] | Whole, both: bool = False,
         target: float | None = None, numpy: Callable[..., Any] | None = None, size: str = "",
         scale: float = 1.0) -> Case:  # fmt: skip
    """Return a case of a function of the library and its inputs, which are given by their shapes; `both`: both ways."""

    def make(lib: Any, dtype: str) -> Run:
        made = [whole(lib, x.shape, x.most) if isinstance(x, Whole)
                else normal(lib, getattr(lib, dtype), x, k, scale).requires_grad_(both)
                for k, x in enumerate(inputs)]  # fmt: skip
        return Run(lib, lambda *given: forward(lib, *given), made)

    first = inputs[0]
    size = size or "x".join(map(str, first.shape if isinstance(first, Whole) else first))
    return Case(section, name + (", both ways" if both else ""), size, make, target, None if both else numpy)


# -- 1. what an op costs whatever it computes --------------------------------------------------------------------------

_S = (8, 8)


def _chain(lib: Any, x: Any, c: Any) -> Any:
    for _ in range(50):
        x = (x * 0.5 + c).tanh()
    return x


def _numpy_chain(x: Any, c: Any) -> Any:
    for _ in range(50):
        x = np.tanh(x * 0.5 + c)
    return x


def _overhead() -> list[Case]:
    small: list[tuple[str, Forward, tuple[Any, ...], Any]] = [
        ("a + b", lambda lib, a, b: a + b, (_S, _S), lambda a, b: a + b),
        ("a * b", lambda lib, a, b: a * b, (_S, _S), lambda a, b: a * b),
        ("a * 2", lambda lib, a: a * 2.0, (_S,), lambda a: a * 2.0),
        ("a ** 2", lambda lib, a: a**2, (_S,), lambda a: a**2),
        ("a + bias", lambda lib, a, b: a + b, (_S, (8,)), lambda a, b: a + b),
        ("exp", lambda lib, a: a.exp(), (_S,), np.exp),
        ("relu", lambda lib, a: lib.relu(a), (_S,), lambda a: np.maximum(a, 0)),
        ("sum", lambda lib, a: a.sum(), (_S,), np.sum),
        ("mean over a dimension", lambda lib, a: a.mean(-1), (_S,), lambda a: a.mean(-1)),
        ("a @ b", lambda lib, a, b: a @ b, (_S, _S), lambda a, b: a @ b),
        ("linear", lambda lib, a, w, b: lib.nn.functional.linear(a, w, b), (_S, _S, (8,)), lambda a, w, b: a @ w.T + b),
        ("softmax", lambda lib, a: lib.softmax(a, -1), (_S,), None),
        ("layer_norm", lambda lib, a, w, b: lib.nn.functional.layer_norm(a, (8,), w, b), (_S, (8,), (8,)), None),
        ("cross_entropy", lambda lib, a, t: lib.nn.functional.cross_entropy(a, t), (_S, Whole((8,), 8)), None),
        ("reshape", lambda lib, a: a.reshape(64), (_S,), lambda a: a.reshape(64)),
        ("transpose", lambda lib, a: a.transpose(0, 1), (_S,), lambda a: a.transpose(1, 0)),
        ("a[2]", lambda lib, a: a[2], (_S,), lambda a: a[2]),
        ("a[:, 1:3]", lambda lib, a: a[:, 1:3], (_S,), lambda a: a[:, 1:3]),
        ("cat", lambda lib, a, b: lib.cat([a, b]), (_S, _S), lambda a, b: np.concatenate([a, b])),
        ("a ** 3", lambda lib, a: a**3, (_S,), lambda a: a**3),
        ("clamp", lambda lib, a: a.clamp(-1, 1), (_S,), lambda a: np.clip(a, -1, 1)),
        ("where", lambda lib, a, b: lib.where(a > b, a, b), (_S, _S), lambda a, b: np.where(a > b, a, b)),
        ("masked_fill", lambda lib, a, b: a.masked_fill(b > 0, 0.0), (_S, _S), None),
        ("max over a dimension", lambda lib, a: a.max(-1)[0], (_S,), lambda a: a.max(-1)),
        ("var", lambda lib, a: a.var(), (_S,), lambda a: a.var(ddof=1)),
        ("a[index]", lambda lib, a, i: a[i], (_S, Whole((8,), 8)), None),
        ("gather", lambda lib, a, i: a.gather(1, i), (_S, Whole(_S, 8)), None),
        ("embedding", lambda lib, w, i: lib.nn.functional.embedding(i, w), (_S, Whole((8,), 8)), None),
        ("add_", lambda lib, a, b: a.clone().add_(b), (_S, _S), None),
        ("stack", lambda lib, a, b: lib.stack([a, b]), (_S, _S), lambda a, b: np.stack([a, b])),
        ("einsum", lambda lib, a, b: lib.einsum("ij,jk->ik", a, b), (_S, _S), lambda a, b: a @ b),
        ("mse_loss", lambda lib, a, b: lib.nn.functional.mse_loss(a, b), (_S, _S), None),
        ("max_pool2d", lambda lib, a: lib.nn.functional.max_pool2d(a, 2), ((2, 3, 8, 8),), None),
        ("avg_pool2d", lambda lib, a: lib.nn.functional.avg_pool2d(a, 2), ((2, 3, 8, 8),), None),
        ("conv2d", lambda lib, a, w: lib.nn.functional.conv2d(a, w), ((2, 3, 8, 8), (4, 3, 3, 3)), None),
    ]  # fmt: skip
    found = []
    for name, forward, inputs, numpy in small:
        for both in (False, True):
            floats = [x for x in inputs if not isinstance(x, Whole)]
            made = case("overhead", name, forward, *inputs, both=both and bool(floats), target=0.4, numpy=numpy)
            found.append(_mixed(made, forward, inputs) if both and len(floats) < len(inputs) else made)
    found += [case("overhead", "chain of 150 ops", _chain, _S, _S, both=both, target=0.35, numpy=_numpy_chain)
              for both in (False, True)]  # fmt: skip
    return found


def _mixed(made: Case, forward: Forward, inputs: Sequence[Any]) -> Case:
    """Return a case both ways some of whose inputs are whole numbers."""
    return Case(made.section, made.name, made.size, lambda lib, dtype: Run(lib, lambda *given: forward(lib, *given), [
        whole(lib, x.shape, x.most) if isinstance(x, Whole) else normal(lib, getattr(lib, dtype), x, k).requires_grad_()
        for k, x in enumerate(inputs)]), made.target)  # fmt: skip


# -- 2. memory, and the kernels that run over rows ---------------------------------------------------------------------


def _adamw(total: int) -> Case:
    """Return a step over twelve parameters of unlike sizes; PyTorch's side is its fused kernel."""

    def make(lib: Any, dtype: str) -> Any:
        share = total // 24
        sizes = [share * k for k in (1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)]
        parameters = [lib.nn.Parameter(normal(lib, getattr(lib, dtype), (n,), k)) for k, n in enumerate(sizes)]
        for k, p in enumerate(parameters):
            p.grad = normal(lib, getattr(lib, dtype), tuple(p.shape), 50 + k)
        optimizer = lib.optim.AdamW(parameters, lr=1e-3, fused=True)

        def step() -> Sequence[Any]:
            optimizer.step()
            return parameters

        return step

    return Case("ops", "AdamW, beside fused=True", str(total), make, 0.6, compiles=False)


def _ops() -> list[Case]:
    found = []
    for m in (1, 4, 16):
        n, label = m << 20, f"{m} M"
        memory_bound: list[tuple[str, Forward, tuple[Any, ...], Any]] = [
            ("a + b", lambda lib, a, b: a + b, ((n,), (n,)), lambda a, b: a + b),
            ("a * 2", lambda lib, a: a * 2.0, ((n,),), lambda a: a * 2.0),
            ("relu", lambda lib, a: lib.relu(a), ((n,),), lambda a: np.maximum(a, 0)),
            ("clone", lambda lib, a: a.clone(), ((n,),), np.copy),
            ("sum", lambda lib, a: a.sum(), ((n,),), np.sum),
        ]  # fmt: skip
        for name, forward, inputs, numpy in memory_bound:
            found += [case("ops", name, forward, *inputs, both=both, target=0.35, numpy=numpy, size=label)
                      for both in (False, True)]  # fmt: skip
        found.append(case("ops", "transposed copy", lambda lib, a: a.t().contiguous(), (n // 1024, 1024), target=0.35,
                          numpy=lambda a: np.ascontiguousarray(a.T), size=label))  # fmt: skip
    for rows, columns in ((64, 256), (1024, 768), (8192, 1024)):
        c, shape = columns, (rows, columns)
        for both in (False, True):
            found += [
                case("ops", "softmax", lambda lib, a: lib.softmax(a, -1), shape, both=both, target=0.5),
                case("ops", "layer_norm",
                     lambda lib, a, w, b, c=c: lib.nn.functional.layer_norm(a, (c,), w, b), shape, (c,), (c,),
                     both=both, target=0.5),
                case("ops", "gelu", lambda lib, a: lib.nn.functional.gelu(a), shape, both=both, target=0.5),
            ]  # fmt: skip
            entropy = lambda lib, a, t: lib.nn.functional.cross_entropy(a, t)
            classes = Whole((rows,), columns)
            made = case("ops", "cross_entropy" + ", both ways" * both, entropy, shape, classes, target=0.5)
            found.append(_mixed(made, entropy, (shape, classes)) if both else made)
        found.append(_adamw(rows * columns))
    return found


# -- 3. layers ---------------------------------------------------------------------------------------------------------

RESNET_18 = [  # channels in and out, kernel, stride, side of the image: every unlike convolution of the network
    (3, 64, 7, 2, 224), (64, 64, 3, 1, 56), (64, 128, 3, 2, 56), (64, 128, 1, 2, 56), (128, 128, 3, 1, 28),
    (128, 256, 3, 2, 28), (128, 256, 1, 2, 28), (256, 256, 3, 1, 14), (256, 512, 3, 2, 14), (256, 512, 1, 2, 14),
    (512, 512, 3, 1, 7),
]  # fmt: skip


def _recurrent(kind: str, steps: int, batch: int, hidden: int, target: float | None) -> Case:
    def make(lib: Any, dtype: str) -> Any:
        lib.manual_seed(0)
        layer = getattr(lib.nn, kind)(hidden, hidden)
        with lib.no_grad():
            for k, p in enumerate(layer.parameters()):
                p.copy_(normal(lib, p.dtype, tuple(p.shape), k, hidden**-0.5))
        layer = layer.to(getattr(lib, dtype))
        x = normal(lib, getattr(lib, dtype), (steps, batch, hidden), 7).requires_grad_()
        return _Layer(lib, lambda x: layer(x)[0], [x], layer.parameters())

    return Case("layers", f"{kind}, both ways", f"{steps} steps, batch {batch}, {hidden} wide", make, target)


class _Layer(Run):
    """A run whose parameters have gradients too."""

    def __init__(self, lib: Any, forward: Forward, inputs: Sequence[Any], parameters: Any) -> None:
        super().__init__(lib, forward, inputs)
        self.leaves += list(parameters)


def _layers() -> list[Case]:
    found = [case("layers", "a @ b", lambda lib, a, b: a @ b, (n, n), (n, n), target=1.0, numpy=lambda a, b: a @ b)
             for n in (64, 128, 256, 512, 1024, 2048)]  # fmt: skip
    for rows, k, n in ((64, 256, 256), (512, 768, 3072), (2048, 1024, 1024)):
        found += [case("layers", "linear, bias and gelu",
                       lambda lib, x, w, b: lib.nn.functional.gelu(lib.nn.functional.linear(x, w, b)),
                       (rows, k), (n, k), (n,), both=both, target=0.8, size=f"{rows}x{k} to {n}", scale=k**-0.25)
                  for both in (False, True)]  # fmt: skip
    for tokens in (64, 256, 1024):
        shape = (max(1, 512 // tokens), 8, tokens, 64)
        found += [case("layers", f"attention{' causal' if causal else ''}",
                       lambda lib, q, k, v, causal=causal: lib.nn.functional.scaled_dot_product_attention(
                           q, k, v, is_causal=causal), shape, shape, shape, both=both, target=0.7)
                  for causal, both in ((False, False), (False, True), (True, False), (True, True))]  # fmt: skip
    for a, b, k, stride, side in RESNET_18:
        shape = (2, a, side, side)
        found += [case("layers", "conv2d",
                       lambda lib, x, w, k=k, stride=stride: lib.nn.functional.conv2d(x, w, stride=stride,
                                                                                      padding=k // 2),
                       shape, (b, a, k, k), both=both, target=1.0, scale=(a * k * k) ** -0.25,
                       size=f"{a} to {b}, {k}x{k}/{stride}, {side}x{side}, batch 2")
                  for both in (False, True)]  # fmt: skip
    return [*found, _recurrent("LSTM", 50, 32, 128, 0.6), _recurrent("LSTM", 16, 8, 32, 0.6),
            _recurrent("GRU", 50, 32, 128, None)]  # fmt: skip


SECTIONS = {"overhead": _overhead, "ops": _ops, "layers": _layers}
"""The functions that give the cases of a section."""
