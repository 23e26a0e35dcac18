"""The Triton kernels that can be tuned by name: their arrays at a shape, their launcher, a float64 reference.

Importing this imports no triton: a problem is made of names, and its worker imports what they stand for, in the mode
(compiling or interpreting) that it needs.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import availability
from .problem import Problem, Shape, Unknown, fit_axes
from .space import Config, Space

DTYPES = ("float16", "bfloat16", "float32", "float64")
Arrays = tuple[list[np.ndarray], list[np.ndarray]]
Reference = list[tuple[np.ndarray, np.ndarray, int]]
host = "core.backends.cuda:array_library"
"""Where a worker gets the library of a GPU's arrays from, as ``module:function``."""


@dataclass(frozen=True)
class TritonKernel:
    """A kernel with its launcher.

    arrays : inputs and unwritten outputs. launch : calls the launcher of `module`. reference : for each output the
    result in float64, the scale of errors, the terms of a sum. small : a shape for the interpreter that still needs
    several blocks. default : the config that the launcher takes by itself. work : floating-point operations and bytes
    that a config moves.
    """

    axes: tuple[str, ...]
    module: str
    arrays: Callable[[Shape, str, np.random.Generator], Arrays]
    launch: Callable[[Any, list[Any], list[Any], Config], None]
    reference: Callable[[Sequence[np.ndarray]], Reference]
    small: Callable[[Shape], Shape]
    work: Callable[[Shape, int, Config], tuple[float, float]]


def dtype_of(name: str) -> np.dtype:
    """NumPy's dtype, ml_dtypes' for bfloat16."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def normal(rng: np.random.Generator, shape: Shape, dtype: str) -> np.ndarray:
    """Numbers of the normal distribution, rounded to the dtype."""
    return rng.standard_normal(shape, np.float32).astype(dtype_of(dtype))


def _rows(shape: Shape) -> Shape:
    return (min(shape[0], 5), min(shape[1], 4099))


def _softmax_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    return [normal(rng, shape, dtype)], [np.empty(shape, dtype_of(dtype))]


def _softmax_reference(inputs: Sequence[np.ndarray]) -> Reference:
    x = inputs[0].astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    return [(y, y + 1e-7, x.shape[1])]


def _backward_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    y = _softmax_reference([rng.standard_normal(shape)])[0][0].astype(dtype_of(dtype))
    return [normal(rng, shape, dtype), y], [np.empty(shape, dtype_of(dtype))]


def _backward_reference(inputs: Sequence[np.ndarray]) -> Reference:
    g, y = (a.astype(np.float64) for a in inputs)
    scale = y * (np.abs(g) + np.abs(g * y).sum(1, keepdims=True)) + 1e-7
    return [(y * (g - (g * y).sum(1, keepdims=True)), scale, g.shape[1])]


def _matmul_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    m, n, k = shape
    return [normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)], [np.empty((m, n), dtype_of(dtype))]


def _matmul_reference(inputs: Sequence[np.ndarray]) -> Reference:
    a, b = (x.astype(np.float64) for x in inputs)
    return [(a @ b, np.abs(a) @ np.abs(b), a.shape[1])]


def _matmul_work(shape: Shape, itemsize: int, c: Config) -> tuple[float, float]:
    m, n, k = (
        math.ceil(size / c[f"BLOCK_{axis}"]) * c[f"BLOCK_{axis}"] for size, axis in zip(shape, "MNK", strict=True)
    )
    least = shape[0] * shape[2] + shape[2] * shape[1] + shape[0] * shape[1]
    through_l2 = m * n * k * (1 / c["BLOCK_M"] + 1 / c["BLOCK_N"])
    return 2.0 * m * n * k, itemsize * max(least, through_l2 / 3.0)  # the L2 cache gives some three times as much


def _sum_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    return [normal(rng, shape, dtype)], [np.empty(shape[:1], dtype_of(dtype))]


def _sum_reference(inputs: Sequence[np.ndarray]) -> Reference:
    x = inputs[0].astype(np.float64)
    return [(x.sum(1), np.abs(x).sum(1), x.shape[1])]


def _loss_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    target = rng.integers(0, shape[1], shape[0])
    vector = dtype_of(dtype)
    lse = np.empty(shape[0], np.float64 if dtype == "float64" else np.float32)
    return [normal(rng, shape, dtype), target], [np.empty(shape[0], vector), lse]


def _lse(x: np.ndarray) -> np.ndarray:
    top = x.max(1)
    return np.log(np.exp(x - top[:, None]).sum(1)) + top


def _loss_reference(inputs: Sequence[np.ndarray]) -> Reference:
    x, target = inputs[0].astype(np.float64), inputs[1]
    lse, scale, n = _lse(x), 4.0 + np.abs(x).max(1), x.shape[1]
    return [(lse - x[np.arange(len(x)), target], scale, n), (lse, scale, n)]


def _loss_backward_arrays(shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
    (x, target), (_, lse) = _loss_arrays(shape, dtype, rng)
    lse[:] = _lse(x.astype(np.float64))
    return [normal(rng, shape[:1], dtype), x, lse, target], [np.empty(shape, x.dtype)]


def _loss_backward_reference(inputs: Sequence[np.ndarray]) -> Reference:
    g, x, lse = (a.astype(np.float64) for a in inputs[:3])
    p = np.exp(x - lse[:, None])
    hit = np.arange(x.shape[1]) == inputs[3][:, None]
    size = np.abs(g)[:, None]
    return [((p - hit) * g[:, None], size * (p * (1.0 + np.abs(x)) + hit) + 1e-7, 4)]


def _row_work(reads: int, reads_long: int, flops: int) -> Callable[[Shape, int, Config], tuple[float, float]]:
    """A kernel that reads its rows once where a block holds one, else again."""

    def work(shape: Shape, itemsize: int, c: Config) -> tuple[float, float]:
        count = reads if shape[1] <= c["BLOCK"] else reads_long
        # lanes beyond the end of a row's last block do the arithmetic too
        lanes = math.ceil(shape[1] / c["BLOCK"]) * c["BLOCK"]
        return float(flops * shape[0] * lanes), float(itemsize * math.prod(shape) * count)

    return work


KERNELS = {
    "softmax_kernel": TritonKernel(
        ("rows", "columns"), "softmax", _softmax_arrays, lambda m, i, o, c: m.softmax_forward(*i, *o, config=c),
        _softmax_reference, _rows, _row_work(2, 3, 6),
    ),
    "softmax_backward_kernel": TritonKernel(
        ("rows", "columns"), "softmax", _backward_arrays, lambda m, i, o, c: m.softmax_backward(*i, *o, config=c),
        _backward_reference, _rows, _row_work(3, 5, 4),
    ),
    "matmul_kernel": TritonKernel(
        ("M", "N", "K"), "matmul", _matmul_arrays, lambda m, i, o, c: m.matmul_forward(*i, *o, config=c),
        _matmul_reference, lambda s: tuple(min(n, 150) for n in s), _matmul_work,
    ),
    "reduce_kernel": TritonKernel(
        ("rows", "columns"), "reduce", _sum_arrays, lambda m, i, o, c: m.reduce_forward("sum", *i, 1, *o, config=c),
        _sum_reference, _rows, lambda s, size, c: (float(math.prod(s)), float(size * math.prod(s))),
    ),
    "cross_entropy_kernel": TritonKernel(
        ("rows", "columns"), "loss", _loss_arrays, lambda m, i, o, c: m.cross_entropy_forward(*i, *o, config=c),
        _loss_reference, _rows, _row_work(1, 1, 6),
    ),
    "cross_entropy_backward_kernel": TritonKernel(
        ("rows", "columns"), "loss", _loss_backward_arrays,
        lambda m, i, o, c: m.cross_entropy_backward(*i, *o, config=c), _loss_backward_reference, _rows,
        _row_work(2, 2, 5),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """An elementwise kernel that core printed: the arguments of `elementwise.build`. It pickles."""

    name: str
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    lines: tuple[str, ...]
    result: str
    out_kind: str = "same"
    bools: tuple[str, ...] = ()
    values: tuple[float, ...] = ()  # of the parameters
    domain: tuple[float, float] = (-3.0, 3.0)

    def kernel(self) -> TritonKernel:
        """As `KERNELS` has the others. Its reference is the same text in float64, at the default config."""
        return TritonKernel(("items",), "elementwise", self._arrays, self._launch, self._reference,
                            lambda s: (min(s[0], 5000),), self._work)  # fmt: skip

    def _build(self, module: Any) -> Any:
        return module.build(self.name, self.inputs, self.params, self.lines, self.result, self.out_kind, self.bools)

    def _arrays(self, shape: Shape, dtype: str, rng: np.random.Generator) -> Arrays:
        kind = dtype_of(dtype)
        inputs = [rng.random(shape) < 0.5 if n in self.bools else rng.uniform(*self.domain, shape).astype(kind)
                  for n in self.inputs]  # fmt: skip
        return inputs, [np.empty(shape, bool if self.out_kind == "bool" else kind)]

    def _launch(self, module: Any, inputs: list[Any], outputs: list[Any], config: Config) -> None:
        self._build(module)(inputs, self.values, outputs[0], config)

    def _reference(self, inputs: Sequence[np.ndarray]) -> Reference:
        from .. import elementwise

        wide = [x if x.dtype == bool else x.astype(np.float64) for x in inputs]
        out = np.empty(inputs[0].shape, bool if self.out_kind == "bool" else np.float64)
        self._build(elementwise)(wide, self.values, out)
        scale = 1.0 + np.abs(out.astype(np.float64)) + sum(np.abs(x.astype(np.float64)) for x in wide)
        return [(out.astype(np.float64), scale, 4)]

    def _work(self, shape: Shape, itemsize: int, c: Config) -> tuple[float, float]:
        return float(len(self.lines) * shape[0]), float(itemsize * shape[0] * (len(self.inputs) + 1))


def problem(name: str, shape: Shape, dtype: str, target: str | None, printed: Printed | None = None) -> Problem:
    """A Triton kernel's problem: on a GPU where one is connected, else compiled for `target`. *Raises*: Unknown."""
    from .devices import DEVICES
    from .measure_static import StaticMeasure
    from .measure_triton import TritonMeasure

    kernel = printed.kernel() if printed else KERNELS[name]
    if dtype not in DTYPES:
        raise Unknown(f"{name} takes {', '.join(DTYPES)}, not {dtype}")
    able = availability()
    if not able.importable:
        raise Unknown(f"{name} is a Triton kernel, and {able.reason}")
    shape = fit_axes(name, kernel.axes, shape)
    if target not in (None, "cuda", *DEVICES):
        raise Unknown(f"no target is called {target}; there are cuda and, to compile for, {', '.join(DEVICES)}")
    from .. import runtime

    gpu = runtime.mode() == "cuda"
    if target == "cuda" and not gpu:
        raise Unknown("no GPU is connected in this process: leave --target out, or name one to compile for (sm_90)")
    space, source = _space_of(name, kernel, shape, dtype, printed)
    check = TritonMeasure(name, kernel.small(shape), dtype, printed, "interpret")
    if gpu and target in (None, "cuda"):
        measure = TritonMeasure(name, shape, dtype, printed, "cuda", host)
        return Problem(name, shape, dtype, space, measure, source, runtime.device_name(), "cuda, cold L2")
    where = DEVICES[target or "sm_90"]
    why = "" if target else "no GPU is connected here: "
    notes = (f"{why}compiled for {where.target} ({where.product}) and estimated, not timed",)
    return Problem(name, shape, dtype, space, StaticMeasure(name, shape, dtype, printed, where.target), source,
                   f"{where.target} ({where.product})", f"static {where.target}", notes, check)  # fmt: skip


def _space_of(name: str, kernel: TritonKernel, shape: Shape, dtype: str, printed: Printed | None) -> tuple[Space, str]:
    """The kernel's space with what its launcher takes for this shape as the default, and the hash of its text."""
    from .sources import source_of

    module = importlib.import_module(f"..{kernel.module}", __package__)
    if printed:
        built = printed._build(module)
        return built.space, source_of(built.kernel((), frozenset(printed.bools), 0))
    space: Space = module.space_for(dtype_of(dtype)) if hasattr(module, "space_for") else module.SPACE
    config = module.default_for(shape, dtype_of(dtype)) if hasattr(module, "default_for") else {}
    return space.with_default({**space.default, **config}), source_of(getattr(module, name))
