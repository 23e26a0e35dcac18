"""Cross-entropy of class scores against class numbers, forward and backward, without storing the probabilities.

Algorithm: ``loss = logsumexp(x) - x[target]``; a program owns ROWS rows and walks each once with a running maximum and
sum (as softmax.py). With class weights w and label smoothing s over C classes it is
``(1 - s) w[t] (lse - x[t]) + s / C sum(w (lse - x))``, whose second sum is taken in the same walk. The backward pass
needs the scores, the saved logsumexp and the target: ``dx = g (exp(x - lse) sum(m) - m)`` where the mass m of a class
is ``s / C w + (1 - s) w [class == t]``. A row whose target is `ignore_index` costs 0 and passes no gradient. A target
that is no class gives NaN and is noted (notes.py), since a kernel cannot raise.

The classes may stand in the middle, (n, C, m): the rows of a tile are then the neighbours in memory, and nothing is
transposed. float16 and bfloat16 are computed in float32.

Bytes moved: forward n m elements, backward 2 n m. Operations: an exp and 4 others an element, 3 more with smoothing.
Source: Milakov and Gimelshein (2018); the fusion is that of Liger-Kernel's cross entropy; Szegedy et al., Rethinking
the Inception architecture (2015), for the smoothing.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import notes, runtime, scalar, softmax
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .softmax import SPACE as SPACE
from .softmax import settings_for
from .tune import references
from .tune.declared import TritonKernel, call, empty, float64, integers, normal, of_rows, rounded, wide
from .tune.space import Config, Constraint, Space, powers_of_two

MIDDLE_SPACE = Space(  # classes in the middle: many rows, which lie side by side, and few classes at a time
    [
        powers_of_two("BLOCK", 16, 32, default=16),
        powers_of_two("ROWS", 64, 256, default=128),
        powers_of_two("num_warps", 4, 8, default=4),
    ],
    [Constraint("8 to 16 elements a thread", lambda c: 256 <= c["BLOCK"] * c["ROWS"] / c["num_warps"] <= 512)],
)  # fmt: skip
_MIDDLE_WIDE = {"BLOCK": 16, "ROWS": 64, "num_warps": 4}  # float64 takes two registers an element
_INTERPRETED_TILE = 1 << 16
_launches: Memo = Memo()


@triton.jit
def _row_offset(row, inner, outer_stride, inner_stride, MIDDLE: tl.constexpr):
    """Where row `row` begins: rows are (n, inner) where the classes stand in the middle."""
    if MIDDLE:
        offset = (row // inner) * outer_stride + (row % inner) * inner_stride
    else:
        offset = row * outer_stride
    return offset


@triton.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, weight_ptr, loss_ptr, lse_ptr, fault_ptr, smoothing: tl.float64,
    rows, columns, inner, x_outer, x_inner, x_column, ignore_index, slot,
    HAS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, MIDDLE: tl.constexpr, ONE_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < rows
    column = tl.arange(0, BLOCK)
    begins = x_ptr + _row_offset(row, inner, x_outer, x_inner, MIDDLE)
    x_at = begins[:, None]
    even = tl.zeros([ROWS], COMPUTE)
    if ONE_BLOCK:
        mask = live[:, None] & (column < columns)[None, :]
        x = tl.load(x_at + (column.to(tl.int64) * x_column)[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
        top = tl.max(x, 1)
        off = x - top[:, None]
        log_sum = tl.log(tl.sum(scalar.exp(off), 1))
        if SMOOTH:
            terms = log_sum[:, None] - off
            if HAS_WEIGHT:
                terms = terms * tl.load(weight_ptr + column, mask=column < columns, other=0.0).to(COMPUTE)[None, :]
            even = tl.sum(tl.where(mask, terms, 0.0), 1)
    else:
        peak = tl.full([ROWS, BLOCK], -float("inf"), COMPUTE)
        share = tl.zeros([ROWS, BLOCK], COMPUTE)
        mass = tl.zeros([ROWS, BLOCK], COMPUTE)
        moment = tl.zeros([ROWS, BLOCK], COMPUTE)
        first = tl.load(begins, mask=live, other=0.0).to(COMPUTE)
        base = tl.where(tl.abs(first) < float("inf"), first, 0.0)  # so that the sum of the scores keeps its digits
        for begin in range(0, columns, BLOCK):
            at = (begin + column).to(tl.int64)
            mask = live[:, None] & (at < columns)[None, :]
            x = tl.load(x_at + (at * x_column)[None, :], mask=mask, other=-float("inf")).to(COMPUTE)
            higher = tl.maximum(peak, x)
            from_here = tl.where(higher == -float("inf"), 0.0, higher)
            share = share * scalar.exp(peak - from_here) + scalar.exp(x - from_here)
            peak = higher
            if SMOOTH:
                if HAS_WEIGHT:
                    w = tl.load(weight_ptr + at, mask=at < columns, other=0.0).to(COMPUTE)[None, :]
                    mass += tl.where(mask, w, 0.0)
                    moment += tl.where(mask, w * (x - base[:, None]), 0.0)
                else:
                    mass += mask.to(COMPUTE)
                    moment += tl.where(mask, x - base[:, None], 0.0)
        top = tl.max(peak, 1)
        from_here = tl.where(top == -float("inf"), 0.0, top)
        log_sum = tl.log(tl.sum(share * scalar.exp(peak - from_here[:, None]), 1))
        if SMOOTH:
            even = tl.sum(mass, 1) * (log_sum + (top - base)) - tl.sum(moment, 1)
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    counted = target != ignore_index
    valid = (target >= 0) & (target < columns)
    notes.note(live & counted & (valid == 0), target, fault_ptr, slot)
    chosen = tl.load(begins + target * x_column, mask=live & valid, other=0.0).to(COMPUTE)
    loss = log_sum - (chosen - top)  # keeps digits that lse - x would lose
    if HAS_WEIGHT:
        loss = loss * tl.load(weight_ptr + target, mask=live & valid, other=0.0).to(COMPUTE)
    if SMOOTH:
        s = smoothing.to(COMPUTE)
        loss = loss * (1.0 - s) + even * scalar.div(s, tl.zeros([ROWS], COMPUTE) + columns)
    loss = tl.where(valid, loss, float("nan"))
    loss = tl.where(counted, loss, 0.0)
    tl.store(loss_ptr + row, loss.to(loss_ptr.dtype.element_ty), mask=live)
    tl.store(lse_ptr + row, (log_sum + top).to(lse_ptr.dtype.element_ty), mask=live)


@triton.jit
def cross_entropy_backward_kernel(
    g_ptr, x_ptr, lse_ptr, target_ptr, weight_ptr, total_ptr, out_ptr, smoothing: tl.float64,
    rows, columns, inner, g_stride, x_outer, x_inner, x_column, out_outer, out_inner, out_column, ignore_index,
    HAS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, MIDDLE: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < rows
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = live[:, None] & (column < columns)[None, :]
    g = tl.load(g_ptr + row * g_stride, mask=live, other=0.0).to(COMPUTE)
    lse = tl.load(lse_ptr + row, mask=live, other=0.0).to(COMPUTE)
    target = tl.load(target_ptr + row, mask=live, other=ignore_index)
    x_at = x_ptr + _row_offset(row, inner, x_outer, x_inner, MIDDLE)
    x = tl.load(x_at[:, None] + (column * x_column)[None, :], mask=mask, other=0.0).to(COMPUTE)
    p = scalar.exp(x - lse[:, None])
    hit = (column[None, :] == target[:, None]).to(COMPUTE)
    if HAS_WEIGHT:
        valid = (target >= 0) & (target < columns)
        own = tl.load(weight_ptr + target, mask=live & valid, other=0.0).to(COMPUTE)
        hit = hit * own[:, None]
    if SMOOTH:
        s = smoothing.to(COMPUTE)
        each = scalar.div(s, tl.zeros([ROWS], COMPUTE) + columns)
        if HAS_WEIGHT:
            w = tl.load(weight_ptr + column, mask=column < columns, other=0.0).to(COMPUTE)
            mass = hit * (1.0 - s) + each[:, None] * w[None, :]
            whole = own * (1.0 - s) + each * tl.load(total_ptr).to(COMPUTE)
            dx = p * whole[:, None] - mass
        else:
            dx = p - (hit * (1.0 - s) + each[:, None])
    else:
        if HAS_WEIGHT:
            dx = p * own[:, None] - hit
        else:
            dx = p - hit
    dx = tl.where((target == ignore_index)[:, None], 0.0, dx * g[:, None])
    out_at = out_ptr + _row_offset(row, inner, out_outer, out_inner, MIDDLE)
    tl.store(out_at[:, None] + (column * out_column)[None, :], dx.to(out_ptr.dtype.element_ty), mask=mask)


def cross_entropy_forward(
    x: Any, target: Any, losses: Any, lse: Any, ignore_index: int = -100, config: Config | None = None,
    weight: Any | None = None, label_smoothing: float = 0.0, fault: int = 0,
) -> None:  # fmt: skip
    """Losses and logsumexps of the rows of `x` (N, C), or (n, C, m) with N = n m rows, with `target` (N,) int64.

    `weight` (C,) is the classes' own; `fault` the slot (`notes.slot`) for a target that is no class.
    """
    arrays = (x, target, x if weight is None else weight, losses, lse)
    _run("cross_entropy", arrays, (x,), weight, label_smoothing, ignore_index, config, fault)


def cross_entropy_backward(
    g: Any, x: Any, lse: Any, target: Any, out: Any, ignore_index: int = -100, config: Config | None = None,
    weight: Any | None = None, label_smoothing: float = 0.0, total: Any | None = None,
) -> None:  # fmt: skip
    """The gradient at `x` from the gradient `g` (N,) at the losses; `g` may have stride 0 (a broadcast scalar).

    With class weights and smoothing it needs `total`, their sum, as an array of one element.
    """
    arrays = (g, x, lse, target, x if weight is None else weight, x if total is None else total, out)
    if weight is not None and label_smoothing and total is None:
        raise ValueError("cross_entropy_backward: class weights with label smoothing need `total`, the weights' sum")
    _run("cross_entropy_backward", arrays, (x, out), weight, label_smoothing, ignore_index, config, 0)


def _run(
    name: str, arrays: tuple[Any, ...], scores: tuple[Any, ...], weight: Any, label_smoothing: float,
    ignore_index: int, config: Config | None, fault: int,
) -> None:  # fmt: skip
    if scores[0].size == 0:
        return
    smooth = bool(label_smoothing)
    key = (name, *runtime.key_of(*arrays), weight is None, smooth, ignore_index, fault,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(name, arrays, scores, weight, smooth, ignore_index, config, fault)
    if name.endswith("backward"):
        launch(arrays, (float(label_smoothing),))
        return
    launch((*arrays, notes.array()), (float(label_smoothing),))
    notes.launched()


def _strides(name: str, a: Any) -> list[int]:
    """Return the strides from row to row, outside and inside, and from class to class."""
    steps = runtime.element_strides(a)
    return [steps[0], 0, steps[1]] if a.ndim == 2 else [steps[0], steps[2], steps[1]]


def _prepare(
    name: str, arrays: tuple[Any, ...], scores: tuple[Any, ...], weight: Any, smooth: bool, ignore_index: int,
    config: Config | None, fault: int,
) -> Launch:  # fmt: skip
    x, backward = scores[0], name.endswith("backward")
    vectors = (arrays[0], *arrays[2:4]) if backward else (arrays[1], *arrays[3:])
    target = arrays[3] if backward else arrays[1]
    if x.ndim not in (2, 3) or any(s.shape != x.shape for s in scores):
        raise ValueError(f"{name}: expected scores (N, C) or (n, C, m), got {[tuple(s.shape) for s in scores]}")
    columns, inner = x.shape[1], math.prod(x.shape[2:])
    rows = x.shape[0] * inner
    if any(tuple(v.shape) != (rows,) for v in vectors) or (weight is not None and tuple(weight.shape) != (columns,)):
        raise ValueError(
            f"{name}: expected scores (N, C) and vectors (N,), weights (C,); got {tuple(x.shape)} and "
            + ", ".join(str(tuple(v.shape)) for v in (*vectors, *(() if weight is None else (weight,))))
        )
    dense = [*vectors[1 if backward else 0 :], *(() if weight is None else (weight,))]
    if target.dtype != np.int64 or not all(runtime.is_contiguous(v) for v in dense):
        raise TypeError(f"{name}: target must be int64 (got {target.dtype}) and the vectors contiguous")
    if x.dtype not in FLOATING:
        raise TypeError(f"{name}: takes floating-point scores, got {x.dtype}")
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    kernel = cross_entropy_backward_kernel if backward else cross_entropy_kernel
    settings = _settings(x.shape[0], columns, inner if x.ndim == 3 else 0, kernel, x.dtype, config)
    warps = settings.pop("num_warps")
    constants = {"HAS_WEIGHT": weight is not None, "SMOOTH": smooth, "MIDDLE": x.ndim == 3, "COMPUTE": compute}
    programs = triton.cdiv(rows, settings["ROWS"])
    ints = [rows, columns, inner]
    if not backward:
        ints += [*_strides(name, x), ignore_index, fault]
        constants |= {"ONE_BLOCK": columns <= settings["BLOCK"], **settings}
        return Launch(cross_entropy_kernel, (programs,), ints, constants, num_warps=warps)
    ints += [runtime.element_strides(arrays[0])[0], *_strides(name, x), *_strides(name, scores[1]), ignore_index]
    grid = (programs, triton.cdiv(columns, settings["BLOCK"]))
    return Launch(cross_entropy_backward_kernel, grid, ints, {**constants, **settings}, num_warps=warps)


def _settings(outer: int, columns: int, inner: int, kernel: Any, dtype: Any, config: Config | None) -> Config:
    if not inner:
        return settings_for(columns, outer, config or runtime.tuned(kernel, SPACE, (outer, columns), dtype))
    name = kernel.fn.__name__.replace("cross_entropy", "cross_entropy_middle")
    config = config or runtime.tuned(kernel, MIDDLE_SPACE, (outer, columns, inner), dtype, name)
    rows = outer * inner
    if config is not None:
        return MIDDLE_SPACE.complete(config)
    if INTERPRET:
        block = min(triton.next_power_of_2(columns), 1024)
        return {"BLOCK": block, "ROWS": min(triton.next_power_of_2(rows), _INTERPRETED_TILE // block), "num_warps": 4}
    return _settings_middle(dtype)


def _settings_middle(dtype: Any) -> Config:
    """Return what is launched on a GPU for classes in the middle where nothing was tuned."""
    return dict(_MIDDLE_WIDE) if dtype == np.float64 else MIDDLE_SPACE.default


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    exact = "*fp64" if dtype == "fp64" else "*fp32"
    cases = []
    for name, weighted, smooth, middle in [
        ("", False, False, False), ("_smooth", False, True, False), ("_weighted", True, True, False),
        ("_middle", True, True, True),
    ]:  # fmt: skip
        constants = {"HAS_WEIGHT": weighted, "SMOOTH": smooth, "MIDDLE": middle, "COMPUTE": compute}
        layout = (50, 50000, 1, 50) if middle else (1, 1000, 0, 1)
        forward = (pointer, "*i64", pointer, pointer, exact, "*i64", 0.1, 999, 1000, *layout, -100, 3)
        backward = (pointer, pointer, exact, "*i64", pointer, pointer, pointer, 0.1, 999, 1000, layout[0], 1,
                    *layout[1:], *layout[1:], -100)  # fmt: skip
        space, one = MIDDLE_SPACE if middle else SPACE, {"ONE_BLOCK": False}
        default = _MIDDLE_WIDE if middle and dtype == "fp64" else {}
        cases += [
            Case(f"cross_entropy{name}", cross_entropy_kernel, forward, {**constants, **one}, space, default),
            Case(f"cross_entropy{name}_backward", cross_entropy_backward_kernel, backward, constants, space, default),
        ]
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: with the classes last, and under names of their own in the middle."""

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        rows = shape[0] * math.prod(shape[2:])
        given = [normal(rng, shape, dtype), integers(rng, shape[1], rows)]
        return given, [empty(rows, dtype), empty(rows, wide(dtype))]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        (x, target), (losses, lse) = forward(shape, dtype, rng)
        known = rounded(lambda: references.logsumexp(_last(x.astype(np.float64))), rng, lse.shape, wide(dtype))
        return [normal(rng, losses.shape, dtype), x, known, target], [empty(shape, dtype)]

    def expected(inputs: Any) -> Any:
        x, target = _last(float64(inputs)[0]), inputs[1]
        lse, scale = references.logsumexp(x), 4.0 + np.abs(x).max(1)
        return [(lse - x[np.arange(len(x)), target], scale, x.shape[1]), (lse, scale, x.shape[1])]

    def gradient(inputs: Any) -> Any:
        g, scores, lse = float64(inputs[:3])
        x = _last(scores)
        p, hit = np.exp(x - lse[:, None]), np.arange(x.shape[1]) == inputs[3][:, None]
        size = np.abs(g)[:, None] * (p * (1.0 + np.abs(x)) + hit) + 1e-7
        return [(_back((p - hit) * g[:, None], scores.shape), _back(size, scores.shape), 4)]

    def middle(kernel: Any, **more: Any) -> TritonKernel:
        name = kernel.fn.__name__.replace("cross_entropy", "cross_entropy_middle")
        return TritonKernel(kernel, ("images", "classes", "places"), MIDDLE_SPACE, small=(2, 70, 70), alias=name,
                            default=lambda s, dtype, target: _settings_middle(dtype), **more)  # fmt: skip

    def last(kernel: Any, **more: Any) -> TritonKernel:
        return TritonKernel(kernel, ("rows", "columns"), SPACE, small=(5, 4099),
                            default=lambda shape, dtype, target: softmax.default_for(shape), **more)  # fmt: skip

    made: Any = {"arrays": forward, "reference": expected, "work": of_rows(1, 1, 6),
                 "launch": lambda i, o, c: call(cross_entropy_forward, *i, *o, config=c)}  # fmt: skip
    back: Any = {"arrays": backward, "reference": gradient, "work": of_rows(2, 2, 5),
                 "launch": lambda i, o, c: call(cross_entropy_backward, *i, *o, config=c)}  # fmt: skip
    return [last(cross_entropy_kernel, **made), middle(cross_entropy_kernel, **made),
            last(cross_entropy_backward_kernel, **back), middle(cross_entropy_backward_kernel, **back)]  # fmt: skip


def _last(x: Any) -> Any:
    """Scores (n, C, m) as rows with the classes last."""
    return np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])


def _back(rows: Any, shape: Any) -> Any:
    return np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
