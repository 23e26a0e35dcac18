"""Looking up slices by index and writing them back: take, gather, put, one-hot, and the places of index tensors.

An array is seen as (outer, n, inner), with the index in the middle. A program owns a tile of TILE elements: BLOCK of a
slice, and as many slices as fit. An index outside its dimension reads nothing: the result is NaN (0 for integers), and
the index is noted (notes.py). Any dtype is copied as it is.

`put_forward` writes; where places repeat the last one stays, always: it takes the places sorted (stably, with the order
that sorted them) and only the last of equal ones writes.

Bytes moved: 2 elements and an index for each element or slice. Operations: none but addresses.
Source: the definitions; NumPy's rules of indexing.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import notes, runtime
from .cases import Case
from .runtime import INTERPRET, TYPE_NAMES, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, integers, normal
from .tune.space import Config, Constraint, Space, powers_of_two

SPACE = Space(
    [powers_of_two("TILE", 256, 2048, default=1024), powers_of_two("num_warps", 2, 8, default=4)],
    [Constraint("2 to 16 elements a thread", lambda c: 2 <= c["TILE"] / (32 * c["num_warps"]) <= 16)],
)
_INTERPRETED_TILE = 1 << 15
_MAX_BLOCK = 1024
_INDICES = ("i32", "i64")
_launches: Memo = Memo()


@triton.jit
def _nothing(element: tl.constexpr):
    """What an index outside its dimension gives: NaN where the type has it."""
    if element.is_floating():
        other = float("nan")
    else:
        other = 0
    return other


@triton.jit
def take_kernel(
    x_ptr, index_ptr, out_ptr, fault_ptr, outer, n, m, inner, slot,
    WRAP: tl.constexpr, FLAT: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[o, j] = x[o, index[j]], slices of `inner` elements; FLAT: there is one o."""
    ROWS: tl.constexpr = TILE // BLOCK
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = row < outer * m
    if FLAT:
        j = row
        base = tl.zeros_like(row)
    else:
        j = row % m
        base = row // m * n
    i = tl.load(index_ptr + j, mask=live, other=0).to(tl.int64)
    if WRAP:
        at = tl.where(i < 0, i + n, i)
    else:
        at = i
    inside = (at >= 0) & (at < n)
    notes.note(live & (inside == 0), i, fault_ptr, slot)
    mask = live[:, None] & (column < inner)[None, :]
    x_at = x_ptr + ((base + at) * inner)[:, None] + column[None, :]
    x = tl.load(x_at, mask=mask & inside[:, None], other=0)
    x = tl.where(inside[:, None], x, _nothing(x.dtype))
    tl.store(out_ptr + (row * inner)[:, None] + column[None, :], x.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gather_kernel(
    x_ptr, index_ptr, out_ptr, fault_ptr, size, n, m, inner, slot,
    FLAT: tl.constexpr, LAST: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """out[o, j, i] = x[o, index[o, j, i], i]; FLAT: there is one o; LAST: there is one i."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    i = tl.load(index_ptr + e, mask=live, other=0).to(tl.int64)
    inside = (i >= 0) & (i < n)
    notes.note(live & (inside == 0), i, fault_ptr, slot)
    x = tl.load(x_ptr + _place(e, i, n, m, inner, FLAT, LAST), mask=live & inside, other=0)
    x = tl.where(inside, x, _nothing(x.dtype))
    tl.store(out_ptr + e, x.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def _place(e, i, n, m, inner, FLAT: tl.constexpr, LAST: tl.constexpr):
    """The flat place of x[o, i, k] for the element e = (o, j, k) of the index."""
    if LAST:
        place = i
        row = e // m
    else:
        place = i * inner + e % inner
        row = e // (m * inner)
    if not FLAT:
        place += row * (n * inner)
    return place


@triton.jit
def along_kernel(
    index_ptr, out_ptr, fault_ptr, size, n, m, inner, slot, FLAT: tl.constexpr, LAST: tl.constexpr, TILE: tl.constexpr
):
    """The flat places in x (o, n, i) that an index tensor (o, j, i) names along the middle; -1 where there is none."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    i = tl.load(index_ptr + e, mask=live, other=0).to(tl.int64)
    inside = (i >= 0) & (i < n)
    notes.note(live & (inside == 0), i, fault_ptr, slot)
    tl.store(out_ptr + e, tl.where(inside, _place(e, i, n, m, inner, FLAT, LAST), -1), mask=live)


@triton.jit
def places_kernel(before_ptr, index_ptr, out_ptr, fault_ptr, size, n, slot, FIRST: tl.constexpr, TILE: tl.constexpr):
    """Places in one more dimension: before * n + index, where negative indices count from the end; -1 for none."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    i = tl.load(index_ptr + e, mask=live, other=0).to(tl.int64)
    at = tl.where(i < 0, i + n, i)
    inside = (at >= 0) & (at < n)
    notes.note(live & (inside == 0), i, fault_ptr, slot)
    if not FIRST:
        before = tl.load(before_ptr + e, mask=live, other=0)
        inside = inside & (before >= 0)
        at += before * n
    tl.store(out_ptr + e, tl.where(inside, at, -1), mask=live)


@triton.jit
def put_kernel(
    values_ptr, place_ptr, order_ptr, out_ptr, outer, n, m, inner, value_outer, value_row, value_column,
    SORTED: tl.constexpr, FLAT: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[o, place[j]] = values[o, j]; SORTED: values[o, order[j]], by the last of equal places alone."""
    ROWS: tl.constexpr = TILE // BLOCK
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = row < outer * m
    if FLAT:
        j = row
        o = tl.zeros_like(row)
    else:
        j = row % m
        o = row // m
    place = tl.load(place_ptr + j, mask=live, other=-1)
    writes = live & (place >= 0) & (place < n)
    if SORTED:
        follower = tl.load(place_ptr + j + 1, mask=live & (j + 1 < m), other=-1)
        writes = writes & (follower != place)
        j = tl.load(order_ptr + j, mask=live, other=0).to(tl.int64)
    mask = writes[:, None] & (column < inner)[None, :]
    at = values_ptr + (o * value_outer + j * value_row)[:, None] + (column * value_column)[None, :]
    value = tl.load(at, mask=mask, other=0)
    to = out_ptr + ((o * n + place) * inner)[:, None] + column[None, :]
    tl.store(to, value, mask=mask)


@triton.jit
def one_hot_kernel(index_ptr, out_ptr, fault_ptr, size, classes, slot, TILE: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    row = e // classes
    column = e - row * classes
    i = tl.load(index_ptr + row, mask=live, other=0).to(tl.int64)
    notes.note(live & (column == 0) & ((i < 0) | (i >= classes)), i, fault_ptr, slot)
    tl.store(out_ptr + e, (column == i).to(out_ptr.dtype.element_ty), mask=live)


# -- launchers: contiguous arrays, seen as (outer, n, inner) -----------------------------------------------------------


def take_forward(
    x: Any, index: Any, out: Any, wrap: bool = False, fault: int = 0, config: Config | None = None
) -> None:
    """``out[o, j] = x[o, index[j]]`` for `x` (outer, n, inner), `index` (m,) and `out` (outer, m, inner).

    With `wrap` negative indices count from the end. `fault` is the slot (`notes.slot`) of an index out of range.
    """
    _need("take", (x, index, out), index)
    (outer, n, inner), m = x.shape, index.shape[0]
    if tuple(out.shape) != (outer, m, inner) or out.dtype != x.dtype:
        raise ValueError(f"take: x {tuple(x.shape)} {x.dtype} at {m} indices gives ({outer}, {m}, {inner}) of it, "
                         f"not {tuple(out.shape)} {out.dtype}")  # fmt: skip

    def prepare() -> Launch:
        constants = {"WRAP": wrap, "FLAT": outer == 1}
        return _tiles(take_kernel, outer * m, inner, [outer, n, m, inner, fault], constants, config, x.dtype)

    _run("take", (x, index, out), (wrap, fault), config, prepare, out.size, noted=True)


def gather_forward(x: Any, index: Any, out: Any, fault: int = 0, config: Config | None = None) -> None:
    """``out[o, j, i] = x[o, index[o, j, i], i]`` for `x` (outer, n, inner), `index` and `out` (outer, m, inner)."""
    _need("gather", (x, index, out), index)
    (outer, n, inner), m = x.shape, index.shape[1]
    if tuple(index.shape) != (outer, m, inner) or out.shape != index.shape or out.dtype != x.dtype:
        raise ValueError(f"gather: x {tuple(x.shape)} {x.dtype}, index {tuple(index.shape)} and out {tuple(out.shape)} "
                         f"{out.dtype} do not go together")  # fmt: skip

    def prepare() -> Launch:
        constants = {"FLAT": outer == 1, "LAST": inner == 1}
        return _flat(gather_kernel, (out.size,), x.dtype, [out.size, n, m, inner, fault], constants, config)

    _run("gather", (x, index, out), (fault,), config, prepare, out.size, noted=True)


def along_places(index: Any, n: int, out: Any, fault: int = 0, config: Config | None = None) -> None:
    """The flat places in (outer, n, inner) that `index` (outer, m, inner) names; `out` is int64 of its shape."""
    _need("along_places", (index, out), index)
    outer, m, inner = index.shape

    def prepare() -> Launch:
        constants = {"FLAT": outer == 1, "LAST": inner == 1}
        return _flat(along_kernel, (out.size,), index.dtype, [out.size, n, m, inner, fault], constants, config)

    _run("along", (index, out), (n, fault), config, prepare, out.size, noted=True)


def place_step(before: Any | None, index: Any, n: int, out: Any, fault: int = 0, config: Config | None = None) -> None:
    """``out = before * n + index``: the places of several index vectors, a dimension of size n at a time."""
    _need("place_step", (index, out), index)

    def prepare() -> Launch:
        ints, constants = [out.size, n, fault], {"FIRST": before is None}
        return _flat(places_kernel, (out.size,), index.dtype, ints, constants, config)

    arrays = (out if before is None else before, index, out)
    _run("places", arrays, (before is None, n, fault), config, prepare, out.size, noted=True)


def put_forward(values: Any, places: Any, order: Any | None, out: Any, config: Config | None = None) -> None:
    """``out[o, places[j]] = values[o, j]`` for `out` (outer, n, inner) and `values` (outer, m, inner) of any strides.

    Where places may repeat they must come sorted, with the `order` that sorted them; the last one stays.
    """
    _need("put", (places, out), places)
    (outer, n, inner), m = out.shape, places.shape[0]
    if tuple(values.shape) != (outer, m, inner) or values.dtype != out.dtype:
        raise ValueError(f"put: {m} places of {tuple(out.shape)} {out.dtype} take values ({outer}, {m}, {inner}), got "
                         f"{tuple(values.shape)} {values.dtype}")  # fmt: skip

    def prepare() -> Launch:
        ints = [outer, n, m, inner, *runtime.element_strides(values)]
        constants = {"SORTED": order is not None, "FLAT": outer == 1}
        return _tiles(put_kernel, outer * m, inner, ints, constants, config, out.dtype)

    arrays = (values, places, places if order is None else order, out)
    _run("put", arrays, (order is None,), config, prepare, values.size, noted=False)


def one_hot_forward(index: Any, out: Any, fault: int = 0, config: Config | None = None) -> None:
    """``out[j, c] = (c == index[j])`` for `index` (m,) and `out` (m, classes)."""
    _need("one_hot", (index, out), index)

    def prepare() -> Launch:
        return _flat(one_hot_kernel, tuple(out.shape), index.dtype, [out.size, out.shape[1], fault], {}, config)

    _run("one_hot", (index, out), (fault,), config, prepare, out.size, noted=True)


def _need(name: str, arrays: tuple[Any, ...], index: Any) -> None:
    if not all(runtime.is_contiguous(a) and a.dtype in TYPE_NAMES for a in arrays):
        came = ", ".join(f"{a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}" for a in arrays)
        raise ValueError(f"{name}: takes contiguous real arrays, got {came}")
    if TYPE_NAMES[index.dtype] not in _INDICES:
        raise TypeError(f"{name}: takes int32 and int64 indices, got {index.dtype}")


def _run(name: str, arrays: tuple[Any, ...], more: tuple[Any, ...], config: Config | None, prepare: Any, size: int,
         noted: bool) -> None:  # fmt: skip
    if size == 0:
        return
    key = (name, *runtime.key_of(*arrays), more, config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = prepare()
    if not noted:
        launch(arrays)
        return
    launch((*arrays, notes.array()))
    notes.launched()


def _flat(kernel: Any, shape: tuple[int, ...], dtype: Any, ints: list[int], constants: dict[str, Any],
          config: Config | None) -> Launch:  # fmt: skip
    """Return a launch over the elements of this shape."""
    size = math.prod(shape)
    config = config or runtime.tuned(kernel, SPACE, shape, dtype)
    settings = SPACE.complete(config)
    if INTERPRET and config is None:
        settings["TILE"] = min(triton.next_power_of_2(size), _INTERPRETED_TILE)
    warps = settings.pop("num_warps")
    return Launch(kernel, (triton.cdiv(size, settings["TILE"]),), ints, {**constants, **settings}, num_warps=warps)


def _tiles(kernel: Any, rows: int, inner: int, ints: list[int], constants: dict[str, Any], config: Config | None,
           dtype: Any) -> Launch:  # fmt: skip
    """Return a launch over `rows` slices of `inner` elements."""
    config = config or runtime.tuned(kernel, SPACE, (rows, inner), dtype)
    settings = SPACE.complete(config)
    if INTERPRET and config is None:
        settings["TILE"] = min(triton.next_power_of_2(rows) * triton.next_power_of_2(inner), _INTERPRETED_TILE)
    warps = settings.pop("num_warps")
    block = block_for(inner, settings["TILE"])
    grid = (triton.cdiv(rows, settings["TILE"] // block), triton.cdiv(inner, block))
    return Launch(kernel, grid, ints, {**constants, "BLOCK": block, **settings}, num_warps=warps)


def block_for(inner: int, tile: int) -> int:
    """Return how much of a slice one tile takes."""
    return min(triton.next_power_of_2(max(inner, 1)), tile, _MAX_BLOCK)


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer = f"*{dtype}"
    take = {"WRAP": True, "FLAT": False}
    taken = (pointer, "*i64", pointer, "*i64", 7, 1000, 999, 768, 3)
    put = (pointer, "*i64", "*i64", pointer, 7, 1000, 999, 768, 767232, 768, 1)
    cases = [
        Case("take", take_kernel, taken, {**take, "BLOCK": 256}, SPACE),
        Case("take_elements", take_kernel, (*taken[:7], 1, 3), {**take, "BLOCK": 1}, SPACE),
        Case("gather", gather_kernel, (pointer, "*i64", pointer, "*i64", 69993, 1000, 999, 10, 3),
             {"FLAT": False, "LAST": False}, SPACE),
        Case("put", put_kernel, put, {"SORTED": True, "FLAT": False, "BLOCK": 256}, SPACE),
    ]  # fmt: skip
    if dtype == "fp32":  # these see indices alone
        cases += [
            Case("along_places", along_kernel, ("*i64", "*i64", "*i64", 69993, 1000, 999, 10, 3),
                 {"FLAT": False, "LAST": False}, SPACE),
            Case("place_step", places_kernel, (*["*i64"] * 4, 69993, 1000, 3), {"FIRST": False}, SPACE),
            Case("one_hot", one_hot_kernel, ("*i64", "*i64", "*i64", 69993, 10, 3), {}, SPACE),
        ]  # fmt: skip
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: slices taken anywhere, and put where each place comes once."""

    def taken(shape: Any, dtype: str, rng: Any) -> Any:
        m, inner = shape
        return [normal(rng, (1, m, inner), dtype), integers(rng, m, m)], [empty((1, m, inner), dtype)]

    def put(shape: Any, dtype: str, rng: Any) -> Any:
        m, inner = shape
        order = empty(m, "int64") if rng is None else rng.permutation(m)
        return [normal(rng, (1, m, inner), dtype), np.arange(m), order], [empty((1, m, inner), dtype)]

    def gathered(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, (1, shape[0], 1), dtype), integers(rng, shape[0], (1, shape[0], 1))], [
            empty((1, shape[0], 1), dtype)
        ]

    def indices(count: int, size: int = 7) -> Any:
        def made(shape: Any, dtype: str, rng: Any) -> Any:
            return [integers(rng, size, (1, shape[0], 1), dtype) for _ in range(count)], [
                empty((1, shape[0], 1), "int64")
            ]

        return made

    def classes(shape: Any, dtype: str, rng: Any) -> Any:
        return [integers(rng, shape[1], shape[0], dtype), np.zeros(shape[1])], [empty(shape, "int64")]

    def exact(value: Any) -> Any:
        return [np.asarray(value, np.float64)]

    def hot(i: Any) -> Any:
        return exact(np.arange(i[1].size) == i[0][:, None])

    common: Any = {"space": SPACE, "small": (5000,), "axes": ("items",), "work": each(2, 0)}
    slices: Any = {**common, "axes": ("slices", "inner"), "small": (70, 70)}
    whole: Any = {**common, "dtypes": ("int64",), "work": each(2, 2)}
    return [
        TritonKernel(take_kernel, arrays=taken, reference=lambda i: exact(i[0][:, i[1]]),
                     launch=lambda i, o, c: call(take_forward, *i, *o, config=c), **slices),
        TritonKernel(put_kernel, arrays=put, reference=lambda i: exact(i[0][:, i[2]]),
                     launch=lambda i, o, c: call(put_forward, *i, *o, config=c), **slices),
        TritonKernel(gather_kernel, arrays=gathered, reference=lambda i: exact(np.take_along_axis(i[0], i[1], 1)),
                     launch=lambda i, o, c: call(gather_forward, *i, *o, config=c), **{**common, "work": each(6, 0)}),
        TritonKernel(along_kernel, arrays=indices(1), reference=lambda i: exact(i[0]),
                     launch=lambda i, o, c: call(along_places, *i, 7, *o, config=c), **whole),
        TritonKernel(places_kernel, arrays=indices(2), reference=lambda i: exact(i[0] * 7 + i[1]),
                     launch=lambda i, o, c: call(place_step, *i, 7, *o, config=c), **whole),
        TritonKernel(one_hot_kernel, arrays=classes, reference=hot,
                     launch=lambda i, o, c: call(one_hot_forward, i[0], *o, config=c),
                     **{**whole, "axes": ("rows", "classes"), "small": (70, 9), "work": each(1, 1)}),
    ]  # fmt: skip
