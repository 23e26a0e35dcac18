"""Softmax and log-softmax over the last axis, forward and backward.

Algorithm: a program owns ROWS rows. A row of at most BLOCK elements is read once and kept in registers. A longer one is
walked twice, with a running maximum and a running sum in each lane (Milakov and Gimelshein), joined after the first
walk. Backward: dx = y (g - sum(g y)) for softmax, dx = g - exp(y) sum(g) for log-softmax.
float16 and bfloat16 are computed in float32. A row of -inf alone, or with +inf or NaN in it, gives NaN as in PyTorch.

Bytes moved: forward 2 n m elements (3 n m for long rows), backward 3 n m (5 n m). Operations: 4 an element and one exp.
Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018); Triton's fused softmax tutorial.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import TritonKernel, call, empty, float64, normal, of_rows, rounded
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        powers_of_two("BLOCK", 128, 4096, default=1024),
        Tunable("ROWS", (1, 4), default=1),
        powers_of_two("num_warps", 4, 8, default=4),
    ],
    [
        Constraint("at most 16 elements a thread", lambda c: c["BLOCK"] * c["ROWS"] <= 512 * c["num_warps"]),
        Constraint("at least 4 elements a thread", lambda c: c["BLOCK"] * c["ROWS"] >= 128 * c["num_warps"]),
        Constraint("several rows only where they are short", lambda c: c["ROWS"] == 1 or c["BLOCK"] <= 256),
        Constraint("8 warps only for long rows", lambda c: c["num_warps"] == 4 or c["BLOCK"] >= 1024),
    ],
)
_INTERPRETED_TILE = 1 << 16
_launches: Memo = Memo()


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, rows, columns, x_stride, out_stride,
    LOG: tl.constexpr, ONE_BLOCK: tl.constexpr, COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < rows)[:, None]
    column = tl.arange(0, BLOCK)
    x_at = x_ptr + (row * x_stride)[:, None]
    out_at = out_ptr + (row * out_stride)[:, None]
    if ONE_BLOCK:
        mask = live & (column < columns)[None, :]
        x = tl.load(x_at + column[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
        top = tl.max(x, 1)[:, None]
        shifted = x - top
        e = scalar.exp(shifted)
        total = tl.sum(e, 1)[:, None]
        if LOG:
            y = shifted - tl.log(total)
        else:
            y = scalar.div(e, total)
        tl.store(out_at + column[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        peak = tl.full([ROWS, BLOCK], -float("inf"), COMPUTE)
        share = tl.zeros([ROWS, BLOCK], COMPUTE)
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            x = tl.load(x_at + (begin + column)[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
            higher = tl.maximum(peak, x)
            at = tl.where(higher == -float("inf"), 0.0, higher)  # a lane that has seen -inf alone adds zeros, not NaN
            share = share * scalar.exp(peak - at) + scalar.exp(x - at)
            peak = higher
        top = tl.max(peak, 1)[:, None]
        at = tl.where(top == -float("inf"), 0.0, top)
        total = tl.sum(share * scalar.exp(peak - at), 1)[:, None]
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            x = tl.load(x_at + (begin + column)[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
            if LOG:
                y = (x - top) - tl.log(total)
            else:
                y = scalar.div(scalar.exp(x - top), total)
            tl.store(out_at + (begin + column)[None, :], y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_backward_kernel(
    g_ptr, y_ptr, out_ptr, rows, columns, g_stride, y_stride, out_stride,
    LOG: tl.constexpr, ONE_BLOCK: tl.constexpr, COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < rows)[:, None]
    column = tl.arange(0, BLOCK)
    g_at = g_ptr + (row * g_stride)[:, None]
    y_at = y_ptr + (row * y_stride)[:, None]
    out_at = out_ptr + (row * out_stride)[:, None]
    if ONE_BLOCK:
        mask = live & (column < columns)[None, :]
        g = tl.load(g_at + column[None, :], mask=mask, other=0.0).to(COMPUTE)
        y = tl.load(y_at + column[None, :], mask=mask, other=0.0).to(COMPUTE)
        if LOG:
            dx = g - scalar.exp(y) * tl.sum(g, 1)[:, None]
        else:
            dx = y * (g - tl.sum(g * y, 1)[:, None])
        tl.store(out_at + column[None, :], dx.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        acc = tl.zeros([ROWS, BLOCK], COMPUTE)
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            g = tl.load(g_at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
            if LOG:
                acc += g
            else:
                acc += g * tl.load(y_at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
        total = tl.sum(acc, 1)[:, None]
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            g = tl.load(g_at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
            y = tl.load(y_at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
            if LOG:
                dx = g - scalar.exp(y) * total
            else:
                dx = y * (g - total)
            tl.store(out_at + (begin + column)[None, :], dx.to(out_ptr.dtype.element_ty), mask=mask)


def softmax_forward(x: Any, out: Any, config: Config | None = None) -> None:
    """``out = softmax(x)`` over the last axis, whose elements lie side by side; the axes before it merge into rows."""
    _run("softmax", softmax_kernel, False, (x, out), config)


def log_softmax_forward(x: Any, out: Any, config: Config | None = None) -> None:
    """``out = log(softmax(x))`` over the last axis."""
    _run("log_softmax", softmax_kernel, True, (x, out), config)


def softmax_backward(g: Any, y: Any, out: Any, config: Config | None = None) -> None:
    """The gradient at softmax's input, from the gradient `g` at its output `y`."""
    _run("softmax_backward", softmax_backward_kernel, False, (g, y, out), config)


def log_softmax_backward(g: Any, y: Any, out: Any, config: Config | None = None) -> None:
    """The gradient at log-softmax's input, from the gradient `g` at its output `y`."""
    _run("log_softmax_backward", softmax_backward_kernel, True, (g, y, out), config)


def _run(name: str, kernel: Any, log: bool, arrays: tuple[Any, ...], config: Config | None) -> None:
    if arrays[-1].size == 0:
        return
    key = (name, *runtime.key_of(*arrays), config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(name, kernel, log, arrays, config)
    launch(arrays)


def _prepare(name: str, kernel: Any, log: bool, arrays: tuple[Any, ...], config: Config | None) -> Launch:
    shape = arrays[0].shape
    rows, columns, strides = rows_of(name, arrays)
    if any(a.shape != shape for a in arrays):
        raise ValueError(
            f"{name}: the arrays must have one shape, got {', '.join(str(tuple(a.shape)) for a in arrays)}"
        )
    compute = tl.float64 if any(a.dtype == np.float64 for a in arrays) else tl.float32
    tuned = config or runtime.tuned(kernel, SPACE, (rows, columns), arrays[0].dtype)
    settings = settings_for(columns, rows, tuned)
    warps = settings.pop("num_warps")
    constants = {"LOG": log, "ONE_BLOCK": columns <= settings["BLOCK"], "COMPUTE": compute, **settings}
    grid = (triton.cdiv(rows, settings["ROWS"]),)
    return Launch(kernel, grid, [rows, columns, *strides], constants, num_warps=warps)


def settings_for(columns: int, rows: int, config: Config | None) -> Config:
    """Return the config for rows of this length: one block where a row fits."""
    if config is not None:
        return SPACE.complete(config)
    if INTERPRET:
        block = min(triton.next_power_of_2(max(columns, 1)), _INTERPRETED_TILE)
        fitting = max(_INTERPRETED_TILE // block, 1)
        return {"BLOCK": block, "ROWS": min(triton.next_power_of_2(max(rows, 1)), fitting), "num_warps": 4}
    return default_for((rows, columns))


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU for rows of this length where nothing was tuned."""
    block = min(max(triton.next_power_of_2(max(shape[1], 1)), 128), 4096)
    return {"BLOCK": block, "ROWS": 4 if block <= 256 else 1, "num_warps": 8 if block > 2048 else 4}


def rows_of(name: str, arrays: tuple[Any, ...]) -> tuple[int, int, list[int]]:
    """Rows, columns and each array's row stride, for arrays whose last axis is dense and whose other axes merge."""
    rows, columns, strides = 1, 1, []
    for a in arrays:
        if a.dtype not in FLOATING or a.ndim == 0:
            raise TypeError(f"{name}: takes floating-point arrays of at least one dimension, got {a.dtype} {a.shape}")
        steps = runtime.element_strides(a)
        columns = a.shape[-1]
        rows, stride = 1, columns
        for n, s in zip(reversed(a.shape[:-1]), reversed(steps[:-1]), strict=True):
            if n == 1:
                continue
            if rows == 1:
                stride = s
            elif s != stride * rows:
                stride = None
                break
            rows *= n
        if stride is None or (columns > 1 and steps[-1] != 1):
            raise ValueError(
                f"{name}: the last axis must be dense and the axes before it must merge, got shape {tuple(a.shape)} "
                f"strides {tuple(a.strides)}. Remedy: make the array contiguous."
            )
        strides.append(stride)
    return rows, columns, strides


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    cases = []
    for log, one_block in itertools.product((False, True), (False, True)):
        constants = {"LOG": log, "ONE_BLOCK": one_block, "COMPUTE": compute}
        name = ("log_" if log else "") + "softmax" + ("" if one_block else "_long")
        cases.append(Case(name, softmax_kernel, (pointer, pointer, 999, 1000, 1000, 1000), constants, SPACE))
        arguments = (pointer, pointer, pointer, 999, 1000, 1000, 1000, 1000)
        cases.append(Case(name + "_backward", softmax_backward_kernel, arguments, constants, SPACE))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told."""

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape, dtype)]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        y = rounded(lambda: references.softmax(rng.standard_normal(shape)), rng, shape, dtype)
        return [normal(rng, shape, dtype), y], [empty(shape, dtype)]

    def expected(inputs: Any) -> Any:
        y = references.softmax(float64(inputs)[0])
        return [(y, y + 1e-7, y.shape[1])]

    def gradient(inputs: Any) -> Any:
        g, y = float64(inputs)
        scale = y * (np.abs(g) + np.abs(g * y).sum(1, keepdims=True)) + 1e-7
        return [(y * (g - (g * y).sum(1, keepdims=True)), scale, g.shape[1])]

    common: Any = {"axes": ("rows", "columns"), "space": SPACE, "small": (5, 4099),
                   "default": lambda shape, dtype, target: default_for(shape)}  # fmt: skip
    return [
        TritonKernel(softmax_kernel, arrays=forward, reference=expected, work=of_rows(2, 3, 6),
                     launch=lambda i, o, c: call(softmax_forward, *i, *o, config=c), **common),
        TritonKernel(softmax_backward_kernel, arrays=backward, reference=gradient, work=of_rows(3, 5, 4),
                     launch=lambda i, o, c: call(softmax_backward, *i, *o, config=c), **common),
    ]  # fmt: skip
