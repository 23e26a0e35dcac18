"""Cross-entropy of class scores against class numbers, forward and backward, without storing the probabilities.

Algorithm: ``loss = logsumexp(x) - x[target]``; a program owns ROWS rows and walks each once with a running maximum and
sum (as softmax.py). The backward pass needs the scores, the saved logsumexp and the target:
``dx = g (exp(x - lse) - [column == target])``. A row whose target is `ignore_index` costs 0 and passes no gradient; a
target outside [0, columns) gives NaN, since a kernel cannot raise.

Bytes moved: forward n m elements, backward 2 n m. Operations: an exp and 4 others an element.
Source: Milakov and Gimelshein (2018); the fusion is that of Liger-Kernel's cross entropy.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import Launch, Memo
from .softmax import SPACE as SPACE
from .softmax import rows_of, settings_for
from .tune.space import Config

_launches: Memo = Memo()


@triton.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, loss_ptr, lse_ptr, rows, columns, x_stride, ignore_index,
    ONE_BLOCK: tl.constexpr, COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < rows
    column = tl.arange(0, BLOCK)
    x_at = x_ptr + (row * x_stride)[:, None]
    if ONE_BLOCK:
        mask = live[:, None] & (column < columns)[None, :]
        x = tl.load(x_at + column[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
        top = tl.max(x, 1)
        total = tl.sum(scalar.exp(x - top[:, None]), 1)
    else:
        peak = tl.full([ROWS, BLOCK], -float("inf"), COMPUTE)
        share = tl.zeros([ROWS, BLOCK], COMPUTE)
        for begin in range(0, columns, BLOCK):
            mask = live[:, None] & (begin + column < columns)[None, :]
            x = tl.load(x_at + (begin + column)[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
            higher = tl.maximum(peak, x)
            at = tl.where(higher == -float("inf"), 0.0, higher)
            share = share * scalar.exp(peak - at) + scalar.exp(x - at)
            peak = higher
        top = tl.max(peak, 1)
        at = tl.where(top == -float("inf"), 0.0, top)
        total = tl.sum(share * scalar.exp(peak - at[:, None]), 1)
    lse = tl.log(total) + top
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    valid = (target >= 0) & (target < columns)
    chosen = tl.load(x_ptr + row * x_stride + target, mask=live & valid, other=0.0).to(COMPUTE)
    loss = tl.where(valid, lse - chosen, float("nan"))
    loss = tl.where(target == ignore_index, 0.0, loss)
    tl.store(loss_ptr + row, loss.to(loss_ptr.dtype.element_ty), mask=live)
    tl.store(lse_ptr + row, lse.to(lse_ptr.dtype.element_ty), mask=live)


@triton.jit
def cross_entropy_backward_kernel(
    g_ptr, x_ptr, lse_ptr, target_ptr, out_ptr, rows, columns, g_stride, x_stride, out_stride, ignore_index,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < rows
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = live[:, None] & (column < columns)[None, :]
    g = tl.load(g_ptr + row * g_stride, mask=live, other=0.0).to(COMPUTE)
    lse = tl.load(lse_ptr + row, mask=live, other=0.0).to(COMPUTE)
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    x = tl.load(x_ptr + (row * x_stride)[:, None] + column[None, :], mask=mask, other=0.0).to(COMPUTE)
    hit = (column[None, :] == target[:, None]).to(COMPUTE)
    dx = (scalar.exp(x - lse[:, None]) - hit) * g[:, None]
    dx = tl.where((target == ignore_index)[:, None], 0.0, dx)
    tl.store(out_ptr + (row * out_stride)[:, None] + column[None, :], dx.to(out_ptr.dtype.element_ty), mask=mask)


def cross_entropy_forward(
    x: Any, target: Any, losses: Any, lse: Any, ignore_index: int = -100, config: Config | None = None
) -> None:
    """Losses and logsumexps of the rows of `x` (N, C), with `target` (N,) int64."""
    _run("cross_entropy", (x, target, losses, lse), (x,), target, ignore_index, config)


def cross_entropy_backward(
    g: Any, x: Any, lse: Any, target: Any, out: Any, ignore_index: int = -100, config: Config | None = None
) -> None:
    """The gradient at `x` from the gradient `g` (N,) at the losses; `g` may have stride 0 (a broadcast scalar)."""
    _run("cross_entropy_backward", (g, x, lse, target, out), (x, out), target, ignore_index, config)


def _run(
    name: str, arrays: tuple[Any, ...], scores: tuple[Any, ...], target: Any, ignore_index: int, config: Config | None
) -> None:
    if scores[0].size == 0:
        return
    key = (name, *runtime.key_of(*arrays), ignore_index, config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(name, arrays, scores, target, ignore_index, config)
    launch(arrays)


def _prepare(
    name: str, arrays: tuple[Any, ...], scores: tuple[Any, ...], target: Any, ignore_index: int, config: Config | None
) -> Launch:
    x = scores[0]
    vectors = [a for a in arrays if not any(a is s for s in scores)]
    backward = name.endswith("backward")
    dense = vectors[1:] if backward else vectors
    if x.ndim != 2 or any(s.shape != x.shape for s in scores) or any(tuple(v.shape) != x.shape[:1] for v in vectors):
        raise ValueError(
            f"{name}: expected scores (N, C) and vectors (N,), got {', '.join(str(tuple(a.shape)) for a in arrays)}"
        )
    if target.dtype != np.int64 or not all(runtime.is_contiguous(v) for v in dense):
        raise TypeError(f"{name}: target must be int64 (got {target.dtype}) and the vectors contiguous")
    rows, columns, strides = rows_of(name, scores)
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    kernel = cross_entropy_backward_kernel if backward else cross_entropy_kernel
    settings = settings_for(columns, rows, config or runtime.tuned(kernel, SPACE, (rows, columns), x.dtype))
    warps = settings.pop("num_warps")
    constants = {"COMPUTE": compute, **settings}
    programs = triton.cdiv(rows, settings["ROWS"])
    if not backward:
        ints = [rows, columns, *strides, ignore_index]
        constants = {"ONE_BLOCK": columns <= settings["BLOCK"], **constants}
        return Launch(cross_entropy_kernel, (programs,), ints, constants, num_warps=warps)
    ints = [rows, columns, runtime.element_strides(arrays[0])[0], *strides, ignore_index]
    grid = (programs, triton.cdiv(columns, settings["BLOCK"]))
    return Launch(cross_entropy_backward_kernel, grid, ints, constants, num_warps=warps)


def compile_cases(dtype: str) -> list[Case]:
    """What the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    backward = (pointer, pointer, pointer, "*i64", pointer, 999, 1000, 1, 1000, 1000, -100)
    return [
        Case(
            "cross_entropy",
            cross_entropy_kernel,
            (pointer, "*i64", pointer, pointer, 999, 1000, 1000, -100),
            {"ONE_BLOCK": False, "COMPUTE": compute},
            SPACE,
        ),
        Case("cross_entropy_backward", cross_entropy_backward_kernel, backward, {"COMPUTE": compute}, SPACE),
    ]
