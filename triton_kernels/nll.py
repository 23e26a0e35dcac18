"""The negative log likelihood of class numbers, and the weights of their classes.

Algorithm: a look-up a row, ``-w[t] x[t]``; the gradient is ``-w[t] g`` in the class's column and 0 elsewhere. Rows
whose target is `ignore_index` cost 0. A target that is no class gives NaN and is noted (notes.py).

Bytes moved: forward 3 n elements, backward n m (it writes zeros). Operations: 2 a row.
Source: the definition.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import notes, runtime
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, float64, integers, normal
from .tune.space import Config, Constraint, Space, powers_of_two

SPACE = Space(
    [powers_of_two("BLOCK", 128, 1024, default=256), powers_of_two("num_warps", 2, 4, default=4)],
    [Constraint("1 to 8 elements a thread", lambda c: 1 <= c["BLOCK"] / (32 * c["num_warps"]) <= 8)],
)
_INTERPRETED_TILE = 1 << 14
_launches: Memo = Memo()


@triton.jit
def nll_kernel(
    x_ptr, target_ptr, weight_ptr, out_ptr, fault_ptr, rows, columns, x_row, x_column, ignore_index, slot,
    HAS_X: tl.constexpr, HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = -w[t] x[t]; without x, the weights w[t] themselves; with neither, 1 for a row that counts."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = row < rows
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    counted = target != ignore_index
    valid = (target >= 0) & (target < columns)
    if HAS_X or HAS_WEIGHT:
        notes.note(live & counted & (valid == 0), target, fault_ptr, slot)
    else:
        valid = counted
    at = live & counted & valid
    if HAS_X:
        y = tl.load(x_ptr + row * x_row + target * x_column, mask=at, other=0.0) * -1.0
        if HAS_WEIGHT:
            y = y * tl.load(weight_ptr + target, mask=at, other=0.0)
    elif HAS_WEIGHT:
        y = tl.load(weight_ptr + target, mask=at, other=0.0)
    else:
        y = tl.full([BLOCK], 1.0, tl.float32)
    y = tl.where(valid, y, float("nan"))
    y = tl.where(counted, y, 0.0)
    tl.store(out_ptr + row, y.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def nll_backward_kernel(
    g_ptr, target_ptr, weight_ptr, out_ptr, rows, columns, g_stride, ignore_index,
    HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // columns
    live = row < rows
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    hit = live & (target == at - row * columns) & (target != ignore_index)
    dx = tl.load(g_ptr + row * g_stride, mask=hit, other=0.0) * -1.0
    if HAS_WEIGHT:
        dx = dx * tl.load(weight_ptr + target, mask=hit, other=0.0)
    tl.store(out_ptr + at, dx.to(out_ptr.dtype.element_ty), mask=live)


def nll_forward(x: Any | None, target: Any, weight: Any | None, out: Any, ignore_index: int = -100,
                config: Config | None = None, fault: int = 0) -> None:  # fmt: skip
    """``out = -w[target] x[row, target]`` for `x` (N, C) of any strides; without `x`, ``out = w[target]``.

    With neither, ``out`` is 1 where the target is not `ignore_index`, whatever it is.
    """
    columns = x.shape[1] if x is not None else weight.shape[0] if weight is not None else 0
    steps = (0, 0) if x is None else runtime.element_strides(x)
    given = out if x is None and weight is None else weight if x is None else x
    arrays = (given, target, given if weight is None else weight, out)
    _check("nll", x, target, weight, out)
    key = ("nll", *runtime.key_of(*arrays), x is None, weight is None, ignore_index, fault, _key(config))
    launch = _launches.get(key)
    if launch is None:
        ints = [target.size, columns, *steps, ignore_index, fault]
        constants = {"HAS_X": x is not None, "HAS_WEIGHT": weight is not None}
        shape = (target.size, max(columns, 1))
        launch = _launches[key] = _launch(nll_kernel, target.size, shape, out.dtype, ints, constants, config)
    launch((*arrays, notes.array()))
    notes.launched()


def nll_backward(g: Any, target: Any, weight: Any | None, out: Any, ignore_index: int = -100,
                 config: Config | None = None) -> None:  # fmt: skip
    """The gradient at the scores, (N, C), from `g` (N,) of any stride."""
    _check("nll_backward", out, target, weight, g)
    if not runtime.is_contiguous(out):
        raise ValueError(f"nll_backward: out must be contiguous, got strides {tuple(out.strides)}")
    arrays = (g, target, out if weight is None else weight, out)
    key = ("nll_backward", *runtime.key_of(*arrays), weight is None, ignore_index, _key(config))
    launch = _launches.get(key)
    if launch is None:
        ints = [*out.shape, runtime.element_strides(g)[0], ignore_index]
        constants = {"HAS_WEIGHT": weight is not None}
        launch = _launch(nll_backward_kernel, out.size, tuple(out.shape), out.dtype, ints, constants, config)
        _launches[key] = launch
    launch(arrays)


def _key(config: Config | None) -> Any:
    return config and tuple(config.items())


def _check(name: str, x: Any, target: Any, weight: Any, vector: Any) -> None:
    rows = target.shape[0] if target.ndim == 1 else -1
    if (x is not None and (x.ndim != 2 or x.shape[0] != rows)) or tuple(vector.shape) != (rows,):
        raise ValueError(f"{name}: expected scores (N, C) and vectors (N,), got {tuple(vector.shape)}, "
                         f"{tuple(target.shape)} and scores {None if x is None else tuple(x.shape)}")  # fmt: skip
    if target.dtype != np.int64 or not runtime.is_contiguous(target):
        raise TypeError(f"{name}: target must be contiguous int64, got {target.dtype}")
    for a in (x, weight, vector):
        if a is not None and a.dtype not in FLOATING:
            raise TypeError(f"{name}: takes floating-point arrays, got {a.dtype}")
    if weight is not None and (weight.ndim != 1 or not runtime.is_contiguous(weight)):
        raise ValueError(f"{name}: weights must be a contiguous vector, got shape {tuple(weight.shape)}")


def _launch(kernel: Any, size: int, shape: tuple[int, int], dtype: Any, ints: list[int], constants: dict[str, Any],
            config: Config | None) -> Launch:  # fmt: skip
    config = config or runtime.tuned(kernel, SPACE, shape, dtype)
    settings = SPACE.complete(config)
    if INTERPRET and config is None:
        settings["BLOCK"] = min(triton.next_power_of_2(max(size, 1)), _INTERPRETED_TILE)
    warps = settings.pop("num_warps")
    return Launch(kernel, (triton.cdiv(size, settings["BLOCK"]),), ints, {**constants, **settings}, num_warps=warps)


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer = f"*{dtype}"
    forward = (pointer, "*i64", pointer, pointer, "*i64", 999, 1000, 1000, 1, -100, 3)
    return [
        Case("nll", nll_kernel, forward, {"HAS_X": True, "HAS_WEIGHT": True}, SPACE),
        Case("nll_counted", nll_kernel, forward, {"HAS_X": False, "HAS_WEIGHT": False}, Space.of([SPACE.default])),
        Case("nll_backward", nll_backward_kernel, (pointer, "*i64", pointer, pointer, 999, 1000, 1, -100),
             {"HAS_WEIGHT": True}, SPACE),
    ]  # fmt: skip


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told."""

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype), integers(rng, shape[1], shape[0])], [empty(shape[0], dtype)]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        given = [normal(rng, shape[0], dtype), integers(rng, shape[1], shape[0]), np.array(shape[1])]
        return given, [empty(shape, dtype)]

    def expected(inputs: Any) -> Any:
        return [-float64(inputs)[0][np.arange(len(inputs[1])), inputs[1]]]

    def zeros(inputs: Any, columns: int) -> Any:
        return np.where(np.arange(columns) == inputs[1][:, None], -float64(inputs)[0][:, None], 0.0)

    common: Any = {"axes": ("rows", "columns"), "space": SPACE, "small": (300, 9)}
    return [
        TritonKernel(nll_kernel, arrays=forward, reference=expected,
                     launch=lambda i, o, c: call(nll_forward, *i, None, *o, config=c),
                     work=lambda s, size, c: (2.0 * s[0], (2.0 * size + 8) * s[0]), **common),
        TritonKernel(nll_backward_kernel, arrays=backward, reference=lambda i: [zeros(i, int(i[2]))],
                     launch=lambda i, o, c: call(nll_backward, *i[:2], None, *o, config=c), work=each(1, 1), **common),
    ]  # fmt: skip
