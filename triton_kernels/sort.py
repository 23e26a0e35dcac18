"""Sorting rows with the indices that their elements had, stably, and the first k of the order.

Algorithm: an element becomes an integer that orders as it does (NaN last, both zeros equal), and together with its
index a 64-bit key: no two keys are equal, so any network sorts stably. A program sorts a block with a bitonic network
(`tl.sort`). Longer rows are sorted in blocks and merged pass by pass: an element's place in the union of two runs is
its place in its own and, by binary search, the number of smaller keys in the other. For the first k, each block keeps
its own k, and the survivors are blocks again until one is left. Values are read anew by index at the end, so they keep
their bits. Types of 64 bits are sorted twice, by the low half of that integer and then by the high one.

Bytes moved: the row once, values and indices once, 16 bytes an element for each merge. Operations: n log2(n)**2 / 4
exchanges a block, log2(run) comparisons an element for each merge.
Source: Batcher, Sorting networks and their applications (1968); Satish, Harris and Garland, Designing efficient sorting
algorithms for manycore GPUs (2009), for the merges.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import indexing, runtime
from .cases import Case
from .runtime import INTERPRET, TYPE_NAMES, Launch, Memo
from .tune.declared import SINGLES, TritonKernel, call, empty, normal
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [powers_of_two("TILE", 512, 1024, default=512), powers_of_two("num_warps", 4, 8, default=4)],
    [Constraint("4 to 8 keys a thread", lambda c: 4 <= c["TILE"] / (32 * c["num_warps"]) <= 8)],
)
MERGE_SPACE = Space([Tunable("TILE", (256, 512), default=256), Tunable("num_warps", (4,), default=4)])
SORTED_TYPES = ("fp32", "fp16", "bf16", "i8", "i16", "i32", "u8", "i64", "fp64")
LONGEST = 1 << 20  # above, the passes of a radix sort are fewer than the merges
_INTERPRETED_TILE = 1 << 12
_launches: Memo = Memo()


@triton.jit
def _key(x, index, DESCENDING: tl.constexpr):
    """The element's order in the high half, its index in the low half."""
    if x.dtype.is_floating():
        y = x.to(tl.float32)
        y = tl.where(y == 0, 0.0, y)
        bits = y.to(tl.int32, bitcast=True)
        order = tl.where(y != y, 2147483647, bits ^ ((bits >> 31) & 2147483647))
    else:
        order = x.to(tl.int32)
    if DESCENDING:
        order = ~order
    return (order.to(tl.int64) << 32) | index.to(tl.int64)


@triton.jit
def _network(keys, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Batcher's bitonic network with exchanges through memory: what the interpreter runs fastest."""
    lane = tl.arange(0, BLOCK)[None, :] + tl.zeros([ROWS, BLOCK], tl.int32)
    size = 2
    while size <= BLOCK:
        step = size // 2
        while step > 0:
            other = tl.gather(keys, lane ^ step, 1)
            smaller = ((lane & step) == 0) == ((lane & size) == 0)
            keys = tl.where(smaller == (keys < other), keys, other)
            step = step // 2
        size = size * 2
    return keys


@triton.jit
def sort_kernel(
    x_ptr, values_ptr, indices_ptr, keys_ptr, rows, n, blocks, kept, x_stride, keys_stride,
    FROM_KEYS: tl.constexpr, LAST: tl.constexpr, DESCENDING: tl.constexpr, SHUFFLE: tl.constexpr,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sort blocks of rows of n elements (or keys) and keep the first `kept` of each; LAST: as values and indices."""
    ROWS: tl.constexpr = TILE // BLOCK
    unit = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = unit // blocks
    begin = (unit % blocks) * BLOCK
    live = (row < rows)[:, None]
    lane = tl.arange(0, BLOCK)
    at = begin[:, None] + lane[None, :]
    mask = live & (at < n)
    if FROM_KEYS:
        keys = tl.load(x_ptr + (row * x_stride)[:, None] + at, mask=mask, other=9223372036854775807)
    else:
        x = tl.load(x_ptr + (row * x_stride)[:, None] + at, mask=mask, other=0)
        keys = tl.where(mask, _key(x, at, DESCENDING), 9223372036854775807)
    if SHUFFLE:
        keys = tl.sort(keys)
    else:
        keys = _network(keys, ROWS, BLOCK)
    if LAST:
        to = (row * kept)[:, None] + lane[None, :]
        chosen = live & (lane[None, :] < kept) & (lane[None, :] < n)
        tl.store(indices_ptr + to, keys & 4294967295, mask=chosen)
        if not FROM_KEYS:
            y = tl.load(x_ptr + (row * x_stride)[:, None] + (keys & 4294967295), mask=chosen, other=0)
            tl.store(values_ptr + to, y, mask=chosen)
    else:
        place = (unit % blocks * kept)[:, None] + lane[None, :]
        kept_keys = live & (lane < kept)[None, :] & (place < keys_stride)
        tl.store(keys_ptr + (row * keys_stride)[:, None] + place, keys, mask=kept_keys)


@triton.jit
def merge_kernel(keys_ptr, out_ptr, size, n, run, steps, TILE: tl.constexpr):
    """Merge the sorted runs of each row of n keys by twos: every key finds its place in the union."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    row = e // n
    p = e - row * n
    keys = tl.load(keys_ptr + e, mask=live, other=0)
    mine = p // run
    begin = tl.minimum((mine ^ 1) * run, n)
    low = begin
    high = tl.minimum(begin + run, n)
    for _ in range(steps):
        middle = (low + high) // 2
        open = live & (low < high)
        less = open & (tl.load(keys_ptr + row * n + middle, mask=open, other=0) < keys)
        low = tl.where(less, middle + 1, low)
        high = tl.where(open & (less == 0), middle, high)
    to = (mine & -2) * run + (p - mine * run) + (low - begin)
    tl.store(out_ptr + row * n + to, keys, mask=live)


@triton.jit
def unpack_kernel(keys_ptr, x_ptr, values_ptr, indices_ptr, size, kept, keys_stride, x_stride, TILE: tl.constexpr):
    """The first `kept` keys of each row as indices, and the values that stand there."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    row = e // kept
    index = tl.load(keys_ptr + row * keys_stride + (e - row * kept), mask=live, other=0) & 4294967295
    tl.store(indices_ptr + e, index, mask=live)
    tl.store(values_ptr + e, tl.load(x_ptr + row * x_stride + index, mask=live, other=0), mask=live)


@triton.jit
def halves_kernel(x_ptr, low_ptr, high_ptr, size, DESCENDING: tl.constexpr, TILE: tl.constexpr):
    """Elements of 64 bits as pairs of 32-bit integers, which order as they do."""
    e = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    live = e < size
    x = tl.load(x_ptr + e, mask=live, other=0)
    if x.dtype.is_floating():
        y = tl.where(x == 0, 0.0, x)
        bits = y.to(tl.int64, bitcast=True)
        order = tl.where(y != y, 9223372036854775807, bits ^ ((bits >> 63) & 9223372036854775807))
    else:
        order = x
    if DESCENDING:
        order = ~order
    tl.store(low_ptr + e, ((order & 4294967295) - 2147483648).to(tl.int32), mask=live)
    tl.store(high_ptr + e, (order >> 32).to(tl.int32), mask=live)


def declined(dtype: Any, n: int) -> str | None:
    """Why rows of this type and length are not sorted here; None where they are."""
    if TYPE_NAMES.get(np.dtype(dtype)) not in SORTED_TYPES:
        return f"sorts floating-point numbers, integers and bools, got {np.dtype(dtype)}"
    return f"sorts rows of at most {LONGEST}, got {n}" if n > LONGEST else None


def sort_forward(x: Any, values: Any, indices: Any, descending: bool = False, config: Config | None = None,
                 merge_config: Config | None = None) -> None:  # fmt: skip
    """Sort each row of `x` (rows, n) into `values`, with the int64 `indices` that the elements had; stable.

    NaN counts as the greatest, and equal elements keep their order, also when descending. `merge_config` is for the
    kernels that join sorted blocks.
    """
    _order("sort", x, values, indices, x.shape[-1], descending, config, merge_config)


def topk_forward(x: Any, values: Any, indices: Any, largest: bool = True, config: Config | None = None) -> None:
    """The first k of each row of `x` (rows, n) in order, the greatest first (or the least); k is that of `values`."""
    _order("topk", x, values, indices, values.shape[-1], largest, config)


def _order(name: str, x: Any, values: Any, indices: Any, k: int, descending: bool, config: Config | None,
           merge_config: Config | None = None) -> None:  # fmt: skip
    if x.ndim != 2 or not 0 <= k <= x.shape[1] or any(tuple(a.shape) != (x.shape[0], k) for a in (values, indices)):
        raise ValueError(f"{name}: rows {tuple(x.shape)} do not go into values {tuple(values.shape)} and indices "
                         f"{tuple(indices.shape)}")  # fmt: skip
    reason = declined(x.dtype, x.shape[1])
    if reason or indices.dtype != np.int64 or values.dtype != x.dtype:
        raise TypeError(f"{name}: {reason or 'values have the dtype of x and indices int64'}; got {x.dtype}, "
                        f"{values.dtype} and {indices.dtype}")  # fmt: skip
    if not all(runtime.is_contiguous(a) for a in (x, values, indices)):
        raise ValueError(f"{name}: takes contiguous arrays")
    if values.size == 0:
        return
    if x.itemsize == 8:
        _by_halves(x, values, indices, descending, config, merge_config)
        return
    key = (descending, *runtime.key_of(x, values, indices), config and tuple(config.items()),
           merge_config and tuple(merge_config.items()))  # fmt: skip
    run = _launches.get(key)
    if run is None:
        run = _launches[key] = _prepare(x, k, descending, config, merge_config)
    run(x, values, indices)


def _by_halves(x: Any, values: Any, indices: Any, descending: bool, config: Config | None,
               merge_config: Config | None) -> None:  # fmt: skip
    """Two sorts, each stable: the second leaves in the first one's order what its half does not tell apart."""
    rows, k = values.shape
    low, high, passed = (runtime.empty(x.shape, np.dtype(np.int32)) for _ in range(3))
    before, after = (runtime.empty((rows, n), np.dtype(np.int64)) for n in (x.shape[1], k))
    tile = min(triton.next_power_of_2(x.size), 1 << 14) if INTERPRET else 1024
    runtime.launch(halves_kernel, (triton.cdiv(x.size, tile),), (x, low, high), (x.size,),
                   {"DESCENDING": descending, "TILE": tile})  # fmt: skip
    _order("sort", low, passed, before, x.shape[1], False, config, merge_config)
    _follow(high, before, low)
    _order("topk", low, passed.reshape(-1)[: rows * k].reshape(rows, k), after, k, False, config, merge_config)
    _follow(before, after, indices)
    _follow(x, indices, values)


def _follow(x: Any, index: Any, out: Any) -> None:
    """``out[row, j] = x[row, index[row, j]]``."""
    indexing.gather_forward(x[..., None], index[..., None], out[..., None])


def _prepare(x: Any, k: int, descending: bool, config: Config | None, merge_config: Config | None) -> Any:
    """Return the passes for rows of this length: a function of x, values and indices."""
    rows, n = x.shape
    config = config or runtime.tuned(sort_kernel, SPACE, (rows, n), x.dtype)
    settings = SPACE.complete(config)
    wide = triton.next_power_of_2(max(n, 2))
    if INTERPRET and config is None:
        settings["TILE"] = min(wide * triton.next_power_of_2(rows), max(wide, _INTERPRETED_TILE), 1 << 13)
    tile, warps = settings["TILE"], settings["num_warps"]
    block = min(wide, tile)

    def sorting(n: int, kept: int, last: bool, from_keys: bool, stride: int, keys_stride: int) -> Launch:
        blocks = triton.cdiv(n, block)
        constants = {"FROM_KEYS": from_keys, "LAST": last, "DESCENDING": descending, "SHUFFLE": not INTERPRET,
                     "TILE": tile, "BLOCK": block}  # fmt: skip
        ints = [rows, n, blocks, kept, stride, keys_stride]
        grid = (triton.cdiv(rows * blocks, tile // block),)
        return Launch(sort_kernel, grid, ints, constants, num_warps=warps)

    if n <= block:
        one = sorting(n, k, True, False, n, 0)
        return lambda x, values, indices: one((x, values, indices, indices))
    merge_config = merge_config or runtime.tuned(merge_kernel, MERGE_SPACE, (rows, n), x.dtype)
    merge = MERGE_SPACE.complete(merge_config)
    if INTERPRET and merge_config is None:
        merge["TILE"] = min(triton.next_power_of_2(rows * n), 1 << 14)
    passes: list[Any] = []
    if 2 * k <= block:  # survivors of survivors
        length, stride, first = n, n, True
        while True:
            blocks = triton.cdiv(length, block)
            passes.append((sorting(length, k, False, not first, stride, blocks * k), blocks * k))
            length, stride, first = blocks * k, blocks * k, False
            if blocks == 1:
                break
    else:
        passes.append((sorting(n, block, False, False, n, n), n))
        run = block
        while run < n:
            passes.append((_merging(rows, n, run, merge), n))
            run *= 2
    tiled = merge["TILE"]
    keys_stride = passes[-1][1]
    unpack = Launch(unpack_kernel, (triton.cdiv(rows * k, tiled),), [rows * k, k, keys_stride, n], {"TILE": tiled},
                    num_warps=merge["num_warps"])  # fmt: skip
    merges = 2 * k > block

    def run_all(x: Any, values: Any, indices: Any) -> None:
        source: Any = x
        for i, (launch, width) in enumerate(passes):
            target = runtime.empty((rows, width), np.dtype(np.int64))
            if merges and i:
                launch((source, target))
            else:
                launch((source, values, indices, target))
            source = target
        unpack((source, x, values, indices))

    return run_all


def _merging(rows: int, n: int, run: int, settings: Config) -> Launch:
    tile = settings["TILE"]
    return Launch(merge_kernel, (triton.cdiv(rows * n, tile),), [rows * n, n, run, run.bit_length()], {"TILE": tile},
                  num_warps=settings["num_warps"])  # fmt: skip


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype; the keys are int64 whatever it is, so one type does for
    most."""
    pointer = f"*{dtype}"
    halves = {"DESCENDING": True, "TILE": 1024}
    if dtype == "fp64":
        return [Case(f"sort_halves_{x[1:]}", halves_kernel, (x, "*i32", "*i32", 99999), halves,
                     Space.of([{"num_warps": 4}])) for x in ("*fp64", "*i64")]  # fmt: skip
    sort = {"FROM_KEYS": False, "LAST": True, "DESCENDING": True, "SHUFFLE": True}
    arguments = (pointer, pointer, "*i64", "*i64", 999, 500, 1, 500, 500, 500)
    cases = [
        Case("sort", sort_kernel, arguments, {**sort, "BLOCK": 512}, SPACE),
        Case(
            "unpack_keys", unpack_kernel, ("*i64", pointer, pointer, "*i64", 99999, 1000, 1000, 1000), {}, MERGE_SPACE
        ),
    ]
    if dtype == "fp32":
        keys = ("*i64", pointer, "*i64", "*i64", 999, 9000, 9, 20, 9000, 180)
        cases += [
            Case("sort_short", sort_kernel, arguments, {**sort, "BLOCK": 32}, SPACE),
            Case("sort_keys", sort_kernel, keys, {**sort, "FROM_KEYS": True, "LAST": False, "BLOCK": 512}, SPACE),
            Case("merge_keys", merge_kernel, ("*i64", "*i64", 99999, 9000, 512, 10), {}, MERGE_SPACE),
        ]
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told; the merges' choice is that of the last pass too, which looks the values up."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape, dtype), empty(shape, "int64")]

    def expected(inputs: Any) -> Any:
        x = inputs[0].astype(np.float64)
        order = x.argsort(1, kind="stable")
        return [np.take_along_axis(x, order, 1), order.astype(np.float64)]

    def passes(shape: Any) -> int:
        return max(triton.next_power_of_2(shape[1]).bit_length() - 10, 0)

    def sorting(s: Any, size: int, c: Config) -> Any:
        return 0.25 * s[0] * s[1] * c["TILE"].bit_length() ** 2, s[0] * s[1] * (2.0 * size + 8 + 16 * passes(s))

    def merging(s: Any, size: int, c: Config) -> Any:
        return 1.0 * s[0] * s[1] * s[1].bit_length() * passes(s), 16.0 * s[0] * s[1] * passes(s)

    common: Any = {"axes": ("rows", "columns"), "arrays": arrays, "reference": expected, "dtypes": SINGLES}
    return [
        TritonKernel(sort_kernel, space=SPACE, work=sorting,
                     launch=lambda i, o, c: call(sort_forward, *i, *o, config=c),
                     small=(3, 700), limits={"columns": (1, LONGEST)}, **common),
        TritonKernel(merge_kernel, space=MERGE_SPACE, launch=lambda i, o, c: call(sort_forward, *i, *o, merge_config=c),
                     work=merging, small=(1, 1500), limits={"columns": (1025, LONGEST)}, **common),
    ]  # fmt: skip
