"""Sums, means, products, norms, counts, extremes and their positions over any axes of any strided array.

Algorithm: the axes are merged into kept and reduced ones, four of each at most. A program owns BLOCK_KEPT results and
walks the reduced elements BLOCK_REDUCE at a time into as many partial results, which a fixed tree joins at the end.
Where results are too few to fill a GPU, the reduced elements are split among programs; a second launch joins the parts
in order. No atomics: the bits depend on shape, strides and config alone.
float16 and bfloat16 are summed in float32, counts and int64 in int64. NaN wins max, min, argmax and argmin; ties go to
the first position.

Bytes moved: the array once (and 8 KiB or so of parts). Operations: one an element. Source: Blelloch, Prefix sums and
their applications (1990), for the tree; Triton's tutorial on fused softmax for the layout of a row.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, float64, normal
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        Tunable("BLOCK_KEPT", (1, 4, 16), default=4),
        powers_of_two("BLOCK_REDUCE", 256, 1024, default=512),
        powers_of_two("num_warps", 4, 8, default=4),
    ],
    [
        Constraint(
            "at most 32 elements a thread", lambda c: c["BLOCK_KEPT"] * c["BLOCK_REDUCE"] <= 1024 * c["num_warps"]
        ),
        Constraint(
            "at least 8 elements a thread", lambda c: c["BLOCK_KEPT"] * c["BLOCK_REDUCE"] >= 256 * c["num_warps"]
        ),
    ],
)
# What joins two elements, and what each is made into before; the result of nothing at all, where there is one.
FORMS: dict[str, tuple[str, str, Any]] = {
    "sum": ("sum", "", 0.0), "mean": ("sum", "", float("nan")), "prod": ("prod", "", 1.0), "max": ("max", "", None),
    "min": ("min", "", None), "any": ("max", "nonzero", 0), "all": ("min", "nonzero", 1),
    "count": ("sum", "nonzero", 0), "norm0": ("sum", "nonzero", 0.0), "norm1": ("sum", "abs", 0.0),
    "norm2": ("sum", "square", 0.0), "norminf": ("max", "abs", 0.0), "norm-inf": ("min", "abs", None),
}  # fmt: skip
KINDS = (*FORMS, "argmax", "argmin")
_ANY_TYPE = ("any", "all", "count")  # bools and integers too; a sum takes int64
_PLACE_SPACE = Space([Tunable("BLOCK", (1024,), default=1024), Tunable("num_warps", (4,), default=4)])
_DIMENSIONS = 4
_INTERPRETED_TILE = 1 << 16
_FILL_PROGRAMS = 264  # two for each of the 132 multiprocessors of an H100
_launches: Memo = Memo()


@triton.jit
def _offset(i, n1, n2, n3, s0, s1, s2, s3, DIMS: tl.constexpr):
    """The offset of element `i` of up to four merged dimensions."""
    if DIMS == 1:
        offset = i * s0
    elif DIMS == 2:
        offset = (i % n1) * s1 + (i // n1) * s0
    else:
        offset = (i % n3) * s3 + (i // n3 % n2) * s2 + (i // (n3 * n2) % n1) * s1 + (i // (n3 * n2 * n1)) * s0
    return offset


@triton.jit
def _extreme(acc, KIND: tl.constexpr):
    """The largest or smallest along the last axis; NaN where there is one (tl.max alone drops it)."""
    nans = tl.max((acc != acc).to(tl.int32), 1)
    if KIND == "max":
        value = tl.max(tl.where(acc != acc, -float("inf"), acc), 1)
    else:
        value = tl.min(tl.where(acc != acc, float("inf"), acc), 1)
    return tl.where(nans > 0, float("nan"), value)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def reduce_kernel(
    x_ptr, out_ptr,
    kept, reduced, part,
    k1, k2, k3, ks0, ks1, ks2, ks3,
    r1, r2, r3, rs0, rs1, rs2, rs3,
    o1, o2, o3, os0, os1, os2, os3,
    out_part_stride,
    KIND: tl.constexpr, MADE: tl.constexpr, ROOT: tl.constexpr, COMPUTE: tl.constexpr, MEAN_OF: tl.constexpr,
    INDEX: tl.constexpr, KEPT_DIMS: tl.constexpr, REDUCED_DIMS: tl.constexpr, OUT_DIMS: tl.constexpr,
    BLOCK_KEPT: tl.constexpr, BLOCK_REDUCE: tl.constexpr,
):  # fmt: skip
    """Reduce the elements [part_index * part, ...) of BLOCK_KEPT results.

    MADE: "nonzero", "abs" or "square" of each first. MEAN_OF divides a sum, where it is not 0; ROOT takes its root.
    """
    row = tl.program_id(0).to(INDEX) * BLOCK_KEPT + tl.arange(0, BLOCK_KEPT)
    live = row < kept
    start = tl.program_id(1).to(INDEX) * part
    stop = tl.minimum(start + part, reduced)
    base = x_ptr + _offset(row, k1, k2, k3, ks0, ks1, ks2, ks3, KEPT_DIMS)[:, None]
    if KIND == "sum":
        acc = tl.zeros([BLOCK_KEPT, BLOCK_REDUCE], COMPUTE)
    elif KIND == "prod":
        acc = tl.full([BLOCK_KEPT, BLOCK_REDUCE], 1.0, COMPUTE)
    elif KIND == "max":
        acc = tl.full([BLOCK_KEPT, BLOCK_REDUCE], -float("inf"), COMPUTE)
    else:
        acc = tl.full([BLOCK_KEPT, BLOCK_REDUCE], float("inf"), COMPUTE)
    for begin in range(start, stop, BLOCK_REDUCE):
        i = begin + tl.arange(0, BLOCK_REDUCE)
        mask = live[:, None] & (i < stop)[None, :]
        at = base + _offset(i, r1, r2, r3, rs0, rs1, rs2, rs3, REDUCED_DIMS)[None, :]
        x = tl.load(at, mask=mask, other=0)
        if MADE == "nonzero":
            x = (x != 0).to(COMPUTE)
        else:
            x = x.to(COMPUTE)
            if MADE == "abs":
                x = tl.abs(x)
            elif MADE == "square":
                x = x * x
        if KIND == "sum":
            acc += x
        elif KIND == "prod":
            acc *= tl.where(mask, x, 1.0)
        elif KIND == "max":
            acc = scalar.maximum(acc, tl.where(mask, x, -float("inf")))
        else:
            acc = scalar.minimum(acc, tl.where(mask, x, float("inf")))
    if KIND == "sum":
        result = tl.sum(acc, 1)
        if MEAN_OF != 0:
            result = scalar.div(result, tl.full([BLOCK_KEPT], MEAN_OF, COMPUTE))
        if ROOT:
            result = scalar.sqrt(result)
    elif KIND == "prod":
        result = tl.reduce(acc, 1, _times)
    else:
        result = _extreme(acc, KIND)
    to = out_ptr + _offset(row, o1, o2, o3, os0, os1, os2, os3, OUT_DIMS) + tl.program_id(1) * out_part_stride
    tl.store(to, result.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def arg_kernel(
    x_ptr, out_ptr, values_ptr,
    kept, reduced, reduce_stride,
    k1, k2, k3, ks0, ks1, ks2, ks3,
    o1, o2, o3, os0, os1, os2, os3,
    KIND: tl.constexpr, VALUES: tl.constexpr, COMPUTE: tl.constexpr, INDEX: tl.constexpr,
    KEPT_DIMS: tl.constexpr, OUT_DIMS: tl.constexpr, BLOCK_KEPT: tl.constexpr, BLOCK_REDUCE: tl.constexpr,
):  # fmt: skip
    """The position of the extreme along one axis. Each lane keeps its first best; the lanes' firsts are then joined.

    With VALUES the extreme itself goes to values_ptr, which is laid out like out_ptr.
    """
    row = tl.program_id(0).to(INDEX) * BLOCK_KEPT + tl.arange(0, BLOCK_KEPT)
    live = row < kept
    base = x_ptr + _offset(row, k1, k2, k3, ks0, ks1, ks2, ks3, KEPT_DIMS)[:, None]
    worst = tl.full([BLOCK_KEPT, BLOCK_REDUCE], -float("inf"), COMPUTE)
    best = worst
    where = tl.full([BLOCK_KEPT, BLOCK_REDUCE], 2147483647, tl.int32)
    for begin in range(0, reduced, BLOCK_REDUCE):
        i = begin + tl.arange(0, BLOCK_REDUCE)
        mask = live[:, None] & (i < reduced)[None, :]
        x = tl.load(base + (i.to(INDEX) * reduce_stride)[None, :], mask=mask, other=0).to(COMPUTE)
        if KIND == "argmin":
            x = x * -1.0
        better = mask & ((where == 2147483647) | (x > best) | ((x != x) & (best == best)))
        best = tl.where(better, x, best)
        where = tl.where(better, i[None, :], where)
    nan = best != best
    any_nan = tl.max(nan.to(tl.int32), 1)
    top = tl.max(tl.where(nan, worst, best), 1)
    candidate = tl.where(any_nan[:, None] > 0, nan, best == top[:, None])
    index = tl.min(tl.where(candidate, where, 2147483647), 1)
    to = _offset(row, o1, o2, o3, os0, os1, os2, os3, OUT_DIMS)
    tl.store(out_ptr + to, index.to(out_ptr.dtype.element_ty), mask=live)
    if VALUES:
        if KIND == "argmin":
            top = top * -1.0
        top = tl.where(any_nan > 0, float("nan"), top)
        tl.store(values_ptr + to, top.to(values_ptr.dtype.element_ty), mask=live)


@triton.jit
def place_kernel(g_ptr, index_ptr, out_ptr, numel, length, inner, BLOCK: tl.constexpr):
    """The gradient of a chosen element goes to its place; the places around it get 0."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < numel
    of = i // (inner * length) * inner + i % inner
    here = tl.load(index_ptr + of, mask=mask, other=-1) == i // inner % length
    g = tl.load(g_ptr + of, mask=mask & here, other=0.0)
    tl.store(out_ptr + i, g, mask=mask)


def place(g: Any, index: Any, dim: int, out: Any) -> None:
    """``out = g where index is the place along dim, else 0``: contiguous arrays, g and index without dim or with 1."""
    length = out.shape[dim]
    if out.size == 0:
        return
    if g.size * length != out.size or index.size != g.size or g.dtype != out.dtype or index.dtype != np.int64:
        came = f"{g.dtype} {tuple(g.shape)} and {index.dtype} {tuple(index.shape)}"
        raise ValueError(f"place: {came} do not go to places along {dim} of {out.dtype} {tuple(out.shape)}")
    if not all(runtime.is_contiguous(a) for a in (g, index, out)):
        raise ValueError("place: the arrays must be contiguous. Remedy: copy what is not first.")
    block = min(triton.next_power_of_2(out.size), _INTERPRETED_TILE) if INTERPRET else 1024
    inner = int(np.prod(out.shape[dim % out.ndim + 1 :], dtype=np.int64))
    scalars = [out.size, length, inner]
    runtime.launch(place_kernel, (triton.cdiv(out.size, block),), (g, index, out), scalars, {"BLOCK": block})


def reduce_forward(kind: str, x: Any, axes: Sequence[int] | int | None, out: Any, config: Config | None = None,
                   values: Any = None) -> None:  # fmt: skip
    """Reduce `x` over `axes` (None: all) into `out`, whose shape is x's without those axes or with ones in their place.

    `kind` is one of `KINDS`; argmax and argmin take one axis (or None: the position in the flattened array, for a
    contiguous `x`), an int64 `out`, and `values` like it for the extremes. An empty sum is 0 and an empty mean NaN; an
    empty extreme raises ValueError.
    """
    axes_key = axes if axes is None or isinstance(axes, int) else tuple(axes)
    more = () if values is None else (values,)
    key = (kind, axes_key, *runtime.key_of(x, out, *more), config and tuple(config.items()))
    launches = _launches.get(key)
    if launches is None:
        launches = _launches[key] = _prepare(kind, x, axes, out, config, *more)
    launches(x, out, *more)


def _prepare(kind: str, x: Any, axes: Sequence[int] | int | None, out: Any, config: Config | None,
             values: Any = None) -> Any:  # fmt: skip
    if kind not in KINDS:
        raise ValueError(f"reduce_forward: kind is one of {', '.join(KINDS)}, not {kind!r}")
    if x.dtype not in FLOATING and kind not in _ANY_TYPE and not (kind == "sum" and x.dtype == out.dtype == np.int64):
        raise TypeError(f"{kind}: takes float16, bfloat16, float32 and float64, got {x.dtype}. Remedy: convert first.")
    every = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    over = sorted({a + x.ndim if a < 0 else a for a in every})
    keep = [a for a in range(x.ndim) if a not in over]
    if any(not 0 <= a < x.ndim for a in over) or len(over) != len(tuple(every)):
        raise ValueError(f"{kind}: axes {tuple(every)} are not distinct axes of an array of {x.ndim} dimensions")
    kept_shape, reduced_shape = [x.shape[a] for a in keep], [x.shape[a] for a in over]
    if tuple(n for n in out.shape if n != 1) != tuple(n for n in kept_shape if n != 1):
        raise ValueError(f"{kind}: out has shape {tuple(out.shape)}, but x {tuple(x.shape)} leaves {tuple(kept_shape)}")
    count = int(np.prod(reduced_shape, dtype=np.int64))
    if out.size == 0:
        return _nothing
    if count == 0:
        if kind not in FORMS or FORMS[kind][2] is None:
            raise ValueError(
                f"{kind}(): Expected reduction dim to be specified for input.numel() == 0: shape {tuple(x.shape)} has "
                f"no element along {tuple(over)}, so there is no extreme. Remedy: check for the empty array before."
            )
        return _Fill(FORMS[kind][2])
    if kind.startswith("arg"):
        return _prepare_arg(kind, x, keep, over, out, config, values)
    name, made, _ = FORMS[kind]
    whole = kind == "count" or (kind == "sum" and x.dtype == np.int64)
    compute = tl.int64 if whole else tl.float64 if x.dtype == np.float64 else tl.float32
    kept_dims, kept = _axes(kind, x, keep)
    reduced_dims, reduced = _axes(kind, x, over)
    out_dims, target = _axes(kind, out, range(out.ndim))
    tuned = config or runtime.tuned(reduce_kernel, SPACE, (out.size, count), x.dtype)
    settings = _settings(tuned, out.size, count)
    warps = settings.pop("num_warps")
    programs = triton.cdiv(out.size, settings["BLOCK_KEPT"])
    wanted = triton.cdiv(_FILL_PROGRAMS, programs)
    parts = 1 if INTERPRET else min(wanted, triton.cdiv(count, 8 * settings["BLOCK_REDUCE"]))
    step = triton.cdiv(triton.cdiv(count, parts), settings["BLOCK_REDUCE"]) * settings["BLOCK_REDUCE"]
    parts = triton.cdiv(count, step)
    constants = {"KIND": name, "COMPUTE": compute, "INDEX": _index_type(x, out), **settings}
    finish = {"MEAN_OF": count if kind == "mean" else 0, "ROOT": kind == "norm2"}
    if parts == 1:
        ints = [out.size, count, step, *kept, *reduced, *target, 0]
        dims = {"KEPT_DIMS": kept_dims, "REDUCED_DIMS": reduced_dims, "OUT_DIMS": out_dims}
        one = Launch(reduce_kernel, (programs, 1), ints, {**constants, **dims, **finish, "MADE": made}, num_warps=warps)
        return lambda x, out: one((x, out))
    scratch_rows = [1, 1, 1, parts, 0, 0, 0]  # the parts of result k begin at k * parts
    first = Launch(
        reduce_kernel,
        (programs, parts),
        [out.size, count, step, *kept, *reduced, *scratch_rows, 1],
        {
            **constants,
            "MADE": made,
            "ROOT": False,
            "MEAN_OF": 0,
            "KEPT_DIMS": kept_dims,
            "REDUCED_DIMS": reduced_dims,
            "OUT_DIMS": 1,
        },
        num_warps=warps,
    )
    second = Launch(
        reduce_kernel,
        (programs, 1),
        [out.size, parts, parts, *scratch_rows, 1, 1, 1, 1, 0, 0, 0, *target, 0],
        {**constants, **finish, "MADE": "", "KEPT_DIMS": 1, "REDUCED_DIMS": 1, "OUT_DIMS": out_dims},
        num_warps=warps,
    )
    scratch_type = np.dtype(np.int64 if whole else np.float64 if compute == tl.float64 else np.float32)
    shape = (out.size, parts)

    def both(x: Any, out: Any) -> None:
        scratch = runtime.empty(shape, scratch_type)
        first((x, scratch))
        second((scratch, out))

    return both


def _prepare_arg(kind: str, x: Any, keep: list[int], over: list[int], out: Any, config: Config | None,
                 values: Any) -> Any:  # fmt: skip
    if values is not None and (values.shape != out.shape or values.dtype != x.dtype
                               or runtime.element_strides(values) != runtime.element_strides(out)):  # fmt: skip
        raise ValueError(f"{kind}: values are laid out like the positions, {tuple(out.shape)}, and of x's {x.dtype}")
    sizes, strides = _merge(x, over)
    if len(sizes) > 1:
        raise ValueError(
            f"{kind}: takes one axis, or all axes of a contiguous array; got axes {tuple(over)} of shape "
            f"{tuple(x.shape)} strides {tuple(x.strides)}. Remedy: make it contiguous first."
        )
    count, stride = (sizes[0], strides[0]) if sizes else (1, 0)
    settings = _settings(config or runtime.tuned(arg_kernel, SPACE, (out.size, count), x.dtype), out.size, count)
    warps = settings.pop("num_warps")
    kept_dims, kept = _axes(kind, x, keep)
    out_dims, target = _axes(kind, out, range(out.ndim))
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    one = Launch(
        arg_kernel,
        (triton.cdiv(out.size, settings["BLOCK_KEPT"]),),
        [out.size, count, stride, *kept, *target],
        {
            "KIND": kind,
            "VALUES": values is not None,
            "COMPUTE": compute,
            "INDEX": _index_type(x, out),
            "KEPT_DIMS": kept_dims,
            "OUT_DIMS": out_dims,
            **settings,
        },
        num_warps=warps,
    )
    return lambda x, out, values=None: one((x, out, out if values is None else values))


def _settings(config: Config | None, kept: int, count: int) -> Config:
    settings = SPACE.complete(config)
    if config is None and INTERPRET:
        reduce = min(triton.next_power_of_2(count), _INTERPRETED_TILE)
        settings["BLOCK_REDUCE"] = reduce
        settings["BLOCK_KEPT"] = min(triton.next_power_of_2(kept), max(_INTERPRETED_TILE // reduce, 1))
    elif config is None:
        settings |= default_for((kept, count))
    return settings


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned, in so far as the shape decides it."""
    return {"BLOCK_REDUCE": 256, "BLOCK_KEPT": 16} if shape[1] < 512 else {}  # short rows: more of them a program


def _merge(array: Any, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes and strides of these axes in their order, neighbours merged where memory allows."""
    sizes: list[int] = []
    strides: list[int] = []
    steps = runtime.element_strides(array)
    for a in axes:
        n, s = array.shape[a], steps[a]
        if n == 1:
            continue
        if sizes and strides[-1] == s * n:
            sizes[-1], strides[-1] = sizes[-1] * n, s
        else:
            sizes.append(n)
            strides.append(s)
    return sizes, strides


def _axes(kind: str, array: Any, axes: Sequence[int]) -> tuple[int, list[int]]:
    """Return how many dimensions the merged axes are (1, 2 or, for any more, 4), their sizes 1 to 3 and strides 0 to
    3."""
    sizes, strides = _merge(array, axes)
    if len(sizes) > _DIMENSIONS:
        raise ValueError(
            f"{kind}: {len(sizes)} separate dimensions remain after merging (shape {tuple(array.shape)}, strides "
            f"{tuple(array.strides)}), the kernel takes {_DIMENSIONS}. Remedy: make the array contiguous."
        )
    padding = _DIMENSIONS - len(sizes)
    dims = len(sizes) if len(sizes) == 2 else 1 if len(sizes) < 2 else _DIMENSIONS
    return dims, [*(sizes + [1] * padding)[1:], *strides, *[0] * padding]


def _index_type(*arrays: Any) -> Any:
    """64 bits only where an offset needs them: division by run-time sizes is several times slower."""
    spans = [sum(abs(s) * (n - 1) for n, s in zip(a.shape, runtime.element_strides(a), strict=True)) for a in arrays]
    return tl.int64 if max([*spans, *(a.size for a in arrays)]) >= 2**31 - 2**20 else tl.int32


class _Fill:
    """What an empty reduction gives: no launch."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, x: Any, out: Any, values: Any = None) -> None:
        out[...] = self.value


def _nothing(x: Any, out: Any, values: Any = None) -> None:
    """No result is asked for."""


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    shared = {"COMPUTE": compute, "INDEX": tl.int32, "KEPT_DIMS": 1, "OUT_DIMS": 1}
    ones, four = (1, 1, 1, 1000, 0, 0, 0), (5, 6, 7, 5000, 800, 100, 9)
    cases = [
        Case(
            f"reduce_{kind}" + ("" if dims == 1 else "_axes"),
            reduce_kernel,
            (pointer, pointer, 999, 1000, 1000, *ones, *(ones if dims == 1 else four), *ones, 0),
            {"KIND": FORMS[kind][0], "MADE": FORMS[kind][1], "ROOT": kind == "norm2", "MEAN_OF": 0,
             "REDUCED_DIMS": dims, **shared},
            SPACE,
        )
        for kind, dims in (("sum", 1), ("max", 1), ("sum", 4), ("prod", 1), ("norm2", 1), ("any", 1))
    ]  # fmt: skip
    arguments = (pointer, "*i64", pointer, 999, 1000, 1, *ones, *ones)
    constants = {"KIND": "argmax", "VALUES": True, **shared}
    place = Case("place", place_kernel, (pointer, "*i64", pointer, 99_000, 99, 10), {}, _PLACE_SPACE)
    return [*cases, Case("reduce_argmax", arg_kernel, arguments, constants, SPACE), place]


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: of the kinds the sum, and of the places that of the greatest."""

    def summed(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape[:1], dtype)]

    def placed(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape[:1], "int64"), empty(shape[:1], dtype)]

    def total(inputs: Any) -> Any:
        (x,) = float64(inputs)
        return [(x.sum(1), np.abs(x).sum(1), x.shape[1])]

    def greatest(inputs: Any) -> Any:
        (x,) = float64(inputs)
        return [x.argmax(1).astype(np.float64), x.max(1)]

    common: Any = {"axes": ("rows", "columns"), "space": SPACE, "small": (5, 4099), "work": each(1, 1),
                   "default": lambda shape, dtype, target: default_for(shape)}  # fmt: skip
    return [
        TritonKernel(reduce_kernel, arrays=summed, reference=total,
                     launch=lambda i, o, c: call(reduce_forward, "sum", *i, 1, *o, config=c), **common),
        TritonKernel(arg_kernel, arrays=placed, reference=greatest,
                     launch=lambda i, o, c: call(reduce_forward, "argmax", *i, 1, o[0], c, o[1]), **common),
    ]  # fmt: skip
