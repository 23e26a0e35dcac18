"""Sums of slices by place, always in the same order: the backward passes of look-ups, scatter_add, index_add.

The places come sorted, stably, with the order that sorted them. Algorithm, in two launches and without atomics: the
sorted positions are cut into chunks of LENGTH, which are walked one position at a time, many chunks and columns side by
side. The first launch sums each chunk's head: the positions that belong to a place that the chunk before began. The
second sums the places that begin in a chunk, adds the heads of the chunks that they reach into, and writes each once.
So a place that occurs everywhere (a padding token) is summed by as many programs as it has chunks.
float16 and bfloat16 are summed in float32, integers in int64. Places below 0 or past the end, and `skip`, are left out.

Bytes moved: each slice once, two indices a slice, the results once. Operations: one an element.
Source: the reduce-by-key of Sengupta, Harris, Zhang and Owens, Scan primitives for GPU computing (2007).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .indexing import block_for
from .runtime import INTERPRET, TYPE_NAMES, Launch, Memo
from .tune.declared import TritonKernel, call, empty, float64, integers, normal, zeroed
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        powers_of_two("TILE", 128, 512, default=256),
        Tunable("LENGTH", (16, 64), default=16),
        powers_of_two("num_warps", 2, 4, default=2),
    ],
    [Constraint("2 to 8 elements a thread", lambda c: 2 <= c["TILE"] / (32 * c["num_warps"]) <= 8)],
)
_INTERPRETED_TILE = 1 << 14
_launches: Memo = Memo()


@triton.jit
def segment_heads_kernel(
    rows_ptr, order_ptr, place_ptr, head_ptr, m, columns, inner, rows_outer,
    FLAT: tl.constexpr, COMPUTE: tl.constexpr, LENGTH: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """head[c] = the sum of the slices of chunk c that belong to the place of the position before it."""
    CHUNKS: tl.constexpr = TILE // BLOCK
    chunk = tl.program_id(0).to(tl.int64) * CHUNKS + tl.arange(0, CHUNKS)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    begin = chunk * LENGTH
    if FLAT:
        from_column = column
    else:
        from_column = column // inner * rows_outer + column % inner
    there = begin < m
    place = tl.load(place_ptr + begin - 1, mask=there & (begin > 0), other=-1)
    acc = tl.zeros([CHUNKS, BLOCK], COMPUTE)
    running = there & (begin > 0) & (tl.load(place_ptr + begin, mask=there, other=-2) == place)
    step = 0
    while tl.max(running.to(tl.int32), 0) > 0:
        row = tl.load(order_ptr + begin + step, mask=running, other=0).to(tl.int64)
        mask = running[:, None] & (column < columns)[None, :]
        acc += tl.load(rows_ptr + (row * inner)[:, None] + from_column[None, :], mask=mask, other=0).to(COMPUTE)
        step += 1
        running = running & (step < LENGTH) & (begin + step < m)
        running = running & (tl.load(place_ptr + begin + step, mask=running, other=-2) == place)
    mask = there[:, None] & (column < columns)[None, :]
    tl.store(head_ptr + (chunk * columns)[:, None] + column[None, :], acc, mask=mask)


@triton.jit
def _write(acc, place, writes, out_ptr, column, to_column, columns, n, inner, skip, ADD: tl.constexpr):
    mask = (writes & (place >= 0) & (place < n) & (place != skip))[:, None] & (column < columns)[None, :]
    to = out_ptr + (place * inner)[:, None] + to_column[None, :]
    if ADD:
        acc += tl.load(to, mask=mask, other=0).to(acc.dtype)
    tl.store(to, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def segment_sum_kernel(
    rows_ptr, order_ptr, place_ptr, head_ptr, out_ptr, m, n, columns, inner, rows_outer, out_outer, skip,
    ADD: tl.constexpr, FLAT: tl.constexpr, COMPUTE: tl.constexpr, LENGTH: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[place] = the sum of the place's slices (ADD: +=), for the places that begin in these chunks."""
    CHUNKS: tl.constexpr = TILE // BLOCK
    chunk = tl.program_id(0).to(tl.int64) * CHUNKS + tl.arange(0, CHUNKS)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    begin = chunk * LENGTH
    if FLAT:
        from_column = column
        to_column = column
    else:
        from_column = column // inner * rows_outer + column % inner
        to_column = column // inner * out_outer + column % inner
    before = tl.load(place_ptr + begin - 1, mask=(begin < m) & (begin > 0), other=-1)
    place = tl.where(begin == 0, -2, before)  # -2 is no place, -1 is what an index out of range gave
    started = begin < 0  # none has
    acc = tl.zeros([CHUNKS, BLOCK], COMPUTE)
    for step in range(LENGTH):
        here = begin + step < m
        found = tl.load(place_ptr + begin + step, mask=here, other=-1)
        new = here & (found != place)
        _write(acc, place, new & started, out_ptr, column, to_column, columns, n, inner, skip, ADD)
        acc = tl.where(new[:, None], 0, acc)
        place = tl.where(new, found, place)
        started = started | new
        taken = here & started
        row = tl.load(order_ptr + begin + step, mask=taken, other=0).to(tl.int64)
        mask = taken[:, None] & (column < columns)[None, :]
        acc += tl.load(rows_ptr + (row * inner)[:, None] + from_column[None, :], mask=mask, other=0).to(COMPUTE)
    after = chunk + 1
    reaches = started & (after * LENGTH < m)
    reaches = reaches & (tl.load(place_ptr + after * LENGTH, mask=reaches, other=-3) == place)
    while tl.max(reaches.to(tl.int32), 0) > 0:
        mask = reaches[:, None] & (column < columns)[None, :]
        acc += tl.load(head_ptr + (after * columns)[:, None] + column[None, :], mask=mask, other=0)
        after += 1
        reaches = reaches & (after * LENGTH < m)
        reaches = reaches & (tl.load(place_ptr + after * LENGTH, mask=reaches, other=-3) == place)
    _write(acc, place, started, out_ptr, column, to_column, columns, n, inner, skip, ADD)


def segment_sum(rows: Any, places: Any, order: Any, out: Any, add: bool = False, skip: int = -1,
                config: Config | None = None) -> None:  # fmt: skip
    """``out[o, places[j]] += rows[o, order[j]]`` for `rows` (outer, m, inner) and `out` (outer, n, inner), contiguous.

    `places` (m,) int64 are sorted, `order` says where each was before. With `add` the sums are added to `out`; else
    `out` must hold zeros, and places that do not occur keep them. The place `skip` is left out.
    """
    (outer, m, inner), n = rows.shape, out.shape[1]
    if tuple(out.shape) != (outer, n, inner) or tuple(places.shape) != (m,) or tuple(order.shape) != (m,):
        raise ValueError(f"segment_sum: rows {tuple(rows.shape)} by places {tuple(places.shape)} in the order "
                         f"{tuple(order.shape)} do not go into out {tuple(out.shape)}")  # fmt: skip
    if places.dtype != np.int64 or order.dtype != np.int64 or rows.dtype not in TYPE_NAMES or out.dtype != rows.dtype:
        raise TypeError(f"segment_sum: takes int64 places and order, and one real dtype; got {places.dtype}, "
                        f"{order.dtype}, {rows.dtype} and {out.dtype}")  # fmt: skip
    if not all(runtime.is_contiguous(a) for a in (rows, places, order, out)):
        raise ValueError("segment_sum: takes contiguous arrays")
    if rows.size == 0:
        return
    key = (add, skip, *runtime.key_of(rows, places, order, out), config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(rows, out, add, skip, config)
    launch(rows, places, order, out)


def _prepare(rows: Any, out: Any, add: bool, skip: int, config: Config | None) -> Any:
    (outer, m, inner), n = rows.shape, out.shape[1]
    columns = outer * inner
    config = config or runtime.tuned(segment_sum_kernel, SPACE, (m, columns), rows.dtype)
    settings = SPACE.complete(config)
    if INTERPRET and config is None:
        settings["TILE"] = min(
            triton.next_power_of_2(triton.cdiv(m, settings["LENGTH"])) * triton.next_power_of_2(columns),
            _INTERPRETED_TILE,
        )
    warps = settings.pop("num_warps")
    block = block_for(columns, settings["TILE"])
    chunks = triton.cdiv(m, settings["LENGTH"])
    grid = (triton.cdiv(chunks, settings["TILE"] // block), triton.cdiv(columns, block))
    compute = _compute(rows.dtype)
    constants = {"FLAT": outer == 1, "COMPUTE": compute, **settings, "BLOCK": block}
    heads = Launch(segment_heads_kernel, grid, [m, columns, inner, m * inner], constants, num_warps=warps)
    sums = Launch(segment_sum_kernel, grid, [m, n, columns, inner, m * inner, n * inner, skip],
                  {"ADD": add, **constants}, num_warps=warps)  # fmt: skip
    scratch = np.dtype({tl.float64: np.float64, tl.float32: np.float32, tl.int64: np.int64}[compute])

    def both(rows: Any, places: Any, order: Any, out: Any) -> None:
        head = runtime.empty((chunks, columns), scratch)
        heads((rows, order, places, head))
        sums((rows, order, places, head, out))

    return both


def _compute(dtype: Any) -> Any:
    name = TYPE_NAMES[dtype]
    return tl.float64 if name == "fp64" else tl.float32 if name in ("fp32", "fp16", "bf16") else tl.int64


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer = f"*{dtype}"
    exact, compute = ("*fp64", tl.float64) if dtype == "fp64" else ("*fp32", tl.float32)
    cases = []
    for name, block, columns in (("", 128, 768), ("_elements", 1, 1)):
        constants = {"FLAT": True, "COMPUTE": compute, "BLOCK": block}
        heads = (pointer, "*i64", "*i64", exact, 99999, columns, columns, 99999 * columns)
        sums = (
            pointer,
            "*i64",
            "*i64",
            exact,
            pointer,
            99999,
            1000,
            columns,
            columns,
            99999 * columns,
            1000 * columns,
            -1,
        )
        cases += [
            Case(f"segment_heads{name}", segment_heads_kernel, heads, constants, SPACE),
            Case(f"segment_sum{name}", segment_sum_kernel, sums, {**constants, "ADD": True}, SPACE),
        ]
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: four slices a place; the heads' kernel goes with that of the sums."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        m, columns = shape
        places, n = integers(rng, m // 4 + 1, m), m // 4 + 1
        order = empty(m, "int64") if rng is None else rng.permutation(m)
        places.sort()
        return [normal(rng, (1, m, columns), dtype), places, order], [empty((1, n, columns), dtype)]

    def expected(inputs: Any) -> Any:
        rows, places, order = float64(inputs)
        sums, sizes = np.zeros((2, 1, len(places) // 4 + 1, rows.shape[2]))
        np.add.at(sums[0], places, rows[0, order])
        np.add.at(sizes[0], places, np.abs(rows[0, order]))
        return [(sums, sizes, 64)]

    def work(s: Any, size: int, c: Config) -> Any:
        return 1.0 * s[0] * s[1], size * 1.25 * s[0] * s[1] + 32.0 * s[0]

    return [TritonKernel(segment_sum_kernel, ("slices", "columns"), SPACE, arrays,
                         lambda i, o, c: call(segment_sum, *i, *o, config=c), expected, work, (70, 33),
                         begin=zeroed)]  # fmt: skip
