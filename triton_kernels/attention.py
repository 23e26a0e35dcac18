"""Scaled dot product attention that never stores the scores: softmax(q kT scale + mask) v, row by row of q.

Algorithm: a program owns BLOCK_M rows of q and walks the keys BLOCK_N at a time with a running maximum and sum in base
2; blocks that need no test (wholly before the diagonal, wholly inside the keys) are walked first, without one. Besides
the result each row's log-sum-exp is stored, from which the gradients' kernels make the weights again. Heads of queries
may share one of keys and values. A row that may look at nothing gives 0, and +inf as its log-sum-exp. Sequences of
several lengths lie one behind the other, with the places where they begin. Dropped weights are told by Philox from
their place among all weights, (batch, head, row, column) in row-major order, as core's dropout tells them: no mask is
stored. float16 and bfloat16 multiply in 16 bits and sum in float32; float32 multiplies as `input_precision` says.

Bytes moved: q, k, v and the result once where the keys of a head fit the L2 cache. Operations: 4 L S D a head, half of
it where causal; an exp2 a score. Sources: Dao, FlashAttention-2 (2023); Milakov and Gimelshein (2018); Triton's
tutorial on fused attention; Salmon et al. (2011) for Philox.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .runtime import INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, empty, float64, normal
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        powers_of_two("BLOCK_M", 64, 128, default=128),
        powers_of_two("BLOCK_N", 32, 128, default=64),
        powers_of_two("num_warps", 4, 8, default=8),
        Tunable("num_stages", (2, 3), default=2),
    ],
    [
        Constraint("8 warps for 128 rows, 4 for 64", lambda c: (c["BLOCK_M"] == 128) == (c["num_warps"] == 8)),
        Constraint(
            "64 rows walk 32 or 64 keys at a time, 128 rows 64 or 128",
            lambda c: c["BLOCK_N"] in (c["BLOCK_M"] // 2, c["BLOCK_M"]),
        ),
    ],
)
# float32 multiplied exactly runs on the ordinary units, where small tiles are as good as large ones.
SPACE_FLOAT32 = Space(
    [
        powers_of_two("BLOCK_M", 16, 32, default=32),
        powers_of_two("BLOCK_N", 16, 32, default=32),
        powers_of_two("num_warps", 4, 8, default=4),
        Tunable("num_stages", (2,), default=2),
    ],
    [
        Constraint("8 warps for tiles of 32 x 32 alone",
                   lambda c: c["num_warps"] == 4 or c["BLOCK_M"] * c["BLOCK_N"] == 1024),
        Constraint("no more keys than rows", lambda c: c["BLOCK_N"] <= c["BLOCK_M"]),
    ],
)  # fmt: skip
DTYPES = ("float16", "bfloat16", "float32")
MOST = 256  # items in a row of q, k or v
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
_INTERPRETED_TILE = 128
_launches: Memo = Memo()


class Dropout(NamedTuple):
    """The probability of a weight to be dropped, and the Philox counters: weight i's number is that of offset + i.

    place : two int64 in device memory, a seed that is taken instead, and what is added to the offset.
    """

    p: float = 0.0
    seed: int = 0
    offset: int = 0
    place: Any | None = None

    def floats(self) -> tuple[float, ...]:
        """As kernels take it: what changes from call to call comes as floats, 32 bits of an integer in each."""
        words = [w >> s & 0xFFFFFFFF for w in (self.seed, self.offset) for s in (0, 32)]
        return (float(np.float32(self.p)), 1 / (1 - self.p) if self.p < 1 else 0.0, *map(float, words))


class Lengths(NamedTuple):
    """Where sequences that lie one behind the other begin and end (int32, n + 1 places), and the longest of each."""

    q: Any
    k: Any
    longest_q: int
    longest_k: int


@triton.jit
def counter(low, high):
    """A 64-bit integer from the floats that bring its halves."""
    return (high.to(tl.int64) << 32) | low.to(tl.int64)


@triton.jit
def numbers(place_ptr, seed_0, seed_1, offset_0, offset_1, PLACED: tl.constexpr):
    """The seed of dropped weights and the counter of the first of all weights."""
    if PLACED:
        seed = tl.load(place_ptr)
        offset = counter(offset_0, offset_1) + tl.load(place_ptr + 1)
    else:
        seed = counter(seed_0, seed_1)
        offset = counter(offset_0, offset_1)
    return seed, offset


@triton.jit
def kept(seed, first, row, column, S, p):
    """Which of the weights at `row` and `column` (blocks that broadcast) are kept; weight 0 of the head is `first`."""
    return tl.rand(seed, first + row.to(tl.int64) * S + column) >= p


@triton.jit
def bounds(places_q, places_k, batch, L, S, VARIABLE: tl.constexpr):
    """A batch's first row of q and of k, its numbers of rows, and how far its diagonal lies to the right."""
    if VARIABLE:
        q_first = tl.load(places_q + batch).to(tl.int64)
        k_first = tl.load(places_k + batch).to(tl.int64)
        rows = (tl.load(places_q + batch + 1) - q_first).to(tl.int32)
        keys = (tl.load(places_k + batch + 1) - k_first).to(tl.int32)
        shift = keys - rows  # the last row of a sequence looks at its last key
    else:
        q_first = batch * 0
        k_first = batch * 0
        rows = L
        keys = S
        shift = 0
    return q_first, k_first, rows, keys, shift


@triton.jit
def _walk(
    acc, total, top, q, k_ptr, v_ptr, mask_at, begin, end, keys, row, shift, k_row, k_item, v_row, v_item, mask_column,
    factor, p, inverse, seed, first, S, D, E,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, TEST: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr,
    HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Let a block of rows look at the keys from `begin` to `end`; with TEST some of them may be out of sight."""
    item = tl.arange(0, HEAD)
    value = tl.arange(0, VALUE)
    near = tl.arange(0, BLOCK_N)
    k_ptr += tl.cast(begin, tl.int64) * k_row  # one address moves on; a tile's offsets from it stay the same
    v_ptr += tl.cast(begin, tl.int64) * v_row
    for start in range(begin, end, BLOCK_N):
        column = start + near
        k_at = k_ptr + (near[None, :] * k_row + item[:, None] * k_item)
        v_at = v_ptr + (near[:, None] * v_row + value[None, :] * v_item)
        if TEST:
            k = tl.load(k_at, mask=(item < D)[:, None] & (column < keys)[None, :], other=0.0)
            v = tl.load(v_at, mask=(column < keys)[:, None] & (value < E)[None, :], other=0.0)
        else:
            k = tl.load(k_at, mask=(item < D)[:, None], other=0.0)
            v = tl.load(v_at, mask=(value < E)[None, :], other=0.0)
        x = tl.dot(q, k, input_precision=PRECISION) * factor
        if MASK != "":
            inside = (row >= 0)[:, None] & (column < keys)[None, :]
            m = tl.load(mask_at + column[None, :].to(tl.int64) * mask_column, mask=inside, other=0.0)
            if MASK == "bool":
                x = tl.where(m != 0, x, -float("inf"))
            else:
                x += m.to(tl.float32) * LOG2_E
        if TEST:
            x = tl.where((column < keys)[None, :], x, -float("inf"))
            if CAUSAL:
                x = tl.where(column[None, :] <= row[:, None] + shift, x, -float("inf"))
        higher = tl.maximum(top, tl.max(x, 1))
        at = tl.where(higher == -float("inf"), 0.0, higher)  # a row that has seen nothing yet adds zeros, not NaN
        weight = tl.exp2(x - at[:, None])
        fade = tl.exp2(top - at)
        total = total * fade + tl.sum(weight, 1)
        if DROPOUT:
            weight = tl.where(kept(seed, first, row[:, None], column[None, :], S, p), weight * inverse, 0.0)
        acc = tl.dot(weight.to(v.dtype), v, acc * fade[:, None], input_precision=PRECISION)
        top = higher
        k_ptr += BLOCK_N * k_row
        v_ptr += BLOCK_N * v_row
    return acc, total, top


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, places_q, places_k, out_ptr, logs_ptr, place_ptr,
    scale: tl.float64, p: tl.float64, inverse: tl.float64, seed_0: tl.float64, seed_1: tl.float64,
    offset_0: tl.float64, offset_1: tl.float64,
    L, S, D, E, heads, group, q0, q1, q2, q3, k0, k1, k2, k3, v0, v1, v2, v3, m0, m1, m2, m3, o0, o1, o2, o3,
    l0, l1, l2,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr, DROPOUT: tl.constexpr, PLACED: tl.constexpr,
    VARIABLE: tl.constexpr, PRECISION: tl.constexpr, HEAD: tl.constexpr, VALUE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    q_first, k_first, rows, keys, shift = bounds(places_q, places_k, batch, L, S, VARIABLE)
    start = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M  # under a diagonal the last rows have most to do
    if start < rows:
        near = tl.arange(0, BLOCK_M)
        row = start + near
        item = tl.arange(0, HEAD)
        value = tl.arange(0, VALUE)
        far = q_first + start
        live = row < rows
        q_at = q_ptr + batch * q0 + head * q1 + far * q2 + near[:, None] * q2 + item[None, :] * q3
        q = tl.load(q_at, mask=live[:, None] & (item < D)[None, :], other=0.0)
        k_base = k_ptr + batch * k0 + (head // group) * k1 + k_first * k2
        v_base = v_ptr + batch * v0 + (head // group) * v1 + k_first * v2
        mask_at = mask_ptr + batch * m0 + head * m1 + tl.minimum(row, rows - 1)[:, None].to(tl.int64) * m2
        factor = (scale * LOG2_E).to(tl.float32)
        thick = inverse.to(tl.float32)
        seed, first = numbers(place_ptr, seed_0, seed_1, offset_0, offset_1, PLACED)
        first += tl.program_id(1).to(tl.int64) * L * S
        acc = tl.zeros([BLOCK_M, VALUE], tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        top = tl.full([BLOCK_M], -float("inf"), tl.float32)
        clear = keys // BLOCK_N * BLOCK_N
        end = keys
        if CAUSAL:
            clear = tl.minimum(clear, tl.maximum(start + 1 + shift, 0) // BLOCK_N * BLOCK_N)
            end = tl.minimum(keys, tl.maximum(start + BLOCK_M + shift, 0))
        acc, total, top = _walk(
            acc, total, top, q, k_base, v_base, mask_at, tl.cast(0, tl.int32), clear, keys, row, shift, k2, k3, v2, v3,
            m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
            MASK, CAUSAL, False, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_N,
        )  # fmt: skip
        if not EVEN:
            acc, total, top = _walk(
                acc, total, top, q, k_base, v_base, mask_at, clear, end, keys, row, shift, k2, k3, v2, v3,
                m3, factor, p.to(tl.float32), thick, seed, first, S, D, E,
                MASK, CAUSAL, True, DROPOUT, PRECISION, HEAD, VALUE, BLOCK_N,
            )  # fmt: skip
        nothing = total == 0
        y = acc / tl.where(nothing, 1.0, total)[:, None]
        logs = tl.where(nothing, float("inf"), (top + tl.log2(total)) * LN_2)
        out_at = out_ptr + batch * o0 + head * o1 + far * o2 + near[:, None] * o2 + value[None, :] * o3
        tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=live[:, None] & (value < E)[None, :])
        tl.store(logs_ptr + batch * l0 + head * l1 + far * l2 + near * l2, logs, mask=live)


def attention_forward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    logs: Any,
    scale: float,
    causal: bool = False,
    mask: Any | None = None,
    dropout: Dropout | None = None,
    lengths: Lengths | None = None,
    config: Config | None = None,
    input_precision: str = "ieee",
) -> None:
    """``out = dropout(softmax(scale q kT + mask)) v`` and ``logs``, the log-sum-exp of each row before dropping.

    *Shapes*: q (batch, heads, L, D), k (batch, key heads, S, D), v (batch, key heads, S, E), out (batch, heads, L, E),
    logs (batch, heads, L) of float32, mask (batch, heads, L, S), bool (what may be seen) or floating (added); any
    strides, 0 where something is shared. The heads are a multiple of the key heads. With `lengths` batch is 1 in each
    array and rows of all sequences lie behind one another; causal sequences are then aligned at their ends.
    """
    dropout = dropout or Dropout()
    key = (*runtime.key_of(q, k, v, out), mask is not None and runtime.key_of(mask), causal, *flags_of(dropout),
           lengths and (runtime.key_of(*lengths[:2]), lengths[2:]), input_precision,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(q, k, v, out, logs, causal, mask, dropout, lengths, config,
                                           input_precision)  # fmt: skip
    if out.size:
        places = (logs, logs) if lengths is None else lengths[:2]
        drawn = logs if dropout.place is None else dropout.place
        launch((q, k, v, q if mask is None else mask, *places, out, logs, drawn), (float(scale), *dropout.floats()))


def _prepare(q: Any, k: Any, v: Any, out: Any, logs: Any, causal: bool, mask: Any, dropout: Dropout,
             lengths: Lengths | None, config: Config | None, input_precision: str) -> Launch:  # fmt: skip
    sizes, flags = checked(q, k, v, out, logs, mask, causal, dropout, lengths)
    batch, heads, group, length, keys, head, value = sizes
    asked = (batch * heads, length, keys, head)
    found = config or runtime.tuned(attention_kernel, space_for(q.dtype), asked, q.dtype)
    default = default_for((batch * heads, length, max(head, value)), q.dtype, dropout.p > 0)
    settings = settings_for(found, space_for(q.dtype), default, length, keys)
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    even = keys % settings["BLOCK_N"] == 0 and not causal and lengths is None
    constants = {**flags, "EVEN": even, "PRECISION": input_precision, **settings}
    ints = [length, keys, head, value, heads, group, *strides_of(lengths, q, k, v, mask, out, logs)]
    return Launch(attention_kernel, (triton.cdiv(length, settings["BLOCK_M"]), batch * heads), ints, constants,
                  num_warps=warps, num_stages=stages)  # fmt: skip


def checked(
    q: Any, k: Any, v: Any, out: Any, logs: Any, mask: Any, causal: bool, dropout: Dropout, lengths: Lengths | None
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the sizes (batch, heads, heads that share a key head, L, S, D, E) and the kernels' flags; errors in
    words."""
    came = f"q {q.dtype} {tuple(q.shape)}, k {k.dtype} {tuple(k.shape)}, v {v.dtype} {tuple(v.shape)}"
    if q.dtype.name not in DTYPES or k.dtype != q.dtype or v.dtype != q.dtype or logs.dtype != np.float32:
        raise TypeError(f"attention: takes one of {', '.join(DTYPES)} (and logs of float32), got {came}")
    batch, heads, length, head = q.shape
    shared, keys, value = k.shape[1], k.shape[2], v.shape[3]
    if k.shape != (batch, shared, keys, head) or v.shape != (batch, shared, keys, value) or heads % max(shared, 1):
        raise ValueError(f"attention: {came}: needs one batch, equal D of q and k, equal S of k and v, and a number of "
                         "heads that is a multiple of the key heads")  # fmt: skip
    if max(head, value) > MOST:
        raise ValueError(f"attention: {came}: rows of at most {MOST} items fit, got {max(head, value)}")
    if out.shape != (batch, heads, length, value) or logs.shape != (batch, heads, length):
        raise ValueError(f"attention: {came}: out is {tuple(out.shape)}, logs {tuple(logs.shape)}")
    if mask is not None and (lengths is not None or mask.shape != (batch, heads, length, keys)):
        raise ValueError(f"attention: {came}: a mask needs the shape of the scores and no lengths, got {mask.shape}")
    sequences = batch
    if lengths is not None:
        if batch != 1 or lengths.q.shape != lengths.k.shape:
            raise ValueError(f"attention: {came}: with lengths the batch is 1, and as many places for q as for k")
        sequences, length, keys = lengths.q.shape[0] - 1, lengths.longest_q, lengths.longest_k
    flags = {"MASK": "" if mask is None else "bool" if mask.dtype == bool else "added", "CAUSAL": bool(causal),
             **flags_of(dropout)._asdict(), "VARIABLE": lengths is not None,
             "HEAD": max(16, triton.next_power_of_2(head)),
             "VALUE": max(16, triton.next_power_of_2(value))}  # fmt: skip
    return (sequences, heads, heads // max(shared, 1), length, keys, head, value), flags


class _Flags(NamedTuple):
    DROPOUT: bool
    PLACED: bool


def flags_of(dropout: Dropout) -> _Flags:
    """Return what a kernel is compiled for, of what is dropped."""
    return _Flags(dropout.p > 0, dropout.p > 0 and dropout.place is not None)


def strides_of(lengths: Lengths | None, *arrays: Any) -> list[int]:
    """Return the strides of all arrays; where sequences lie behind one another the first says nothing. None is a
    mask."""
    found: list[int] = []
    for a in arrays:
        steps = (0, 0, 0, 0) if a is None else runtime.element_strides(a)
        found += steps if lengths is None else (0, *steps[1:])
    return found


def settings_for(config: Config | None, space: Space, default: Config, length: int, keys: int) -> Config:
    """Return the config in full; in the interpreter, whose cost is by tile, one tile where it fits."""
    if config is not None:
        return space.complete(config)
    settings = dict(default)
    if INTERPRET:
        for name, size in (("BLOCK_M", length), ("BLOCK_N", keys)):
            settings[name] = min(max(16, triton.next_power_of_2(max(size, 1))), _INTERPRETED_TILE)
    return settings


def space_for(dtype: Any) -> Space:
    """Return what may be tuned for this dtype."""
    return SPACE if np.dtype(dtype).itemsize == 2 else SPACE_FLOAT32


def default_for(shape: tuple[int, ...], dtype: Any, drops: bool = False) -> Config:
    """Return what is launched on a GPU where nothing was tuned; `shape` is (batch x heads, length, items in a row).

    `drops`: weights are dropped, and Philox needs registers.
    """
    settings = space_for(dtype).default
    if np.dtype(dtype).itemsize == 2:
        if shape[2] > 64:
            settings.update(BLOCK_M=64, BLOCK_N=64 if shape[2] <= 128 else 32, num_warps=4)
    elif shape[2] > 64:
        settings.update(BLOCK_M=32 if shape[2] <= 128 else 16, BLOCK_N=16)
    elif drops:
        settings.update(num_warps=8)
    return settings


def case(name: str, kernel: Any, dtype: str, others: list[str], head: int, space: Space, default: Config, strides: int,
         elsewhere: dict[str, Config] | None = None, **flags: Any) -> Case:  # fmt: skip
    """Return a kernel's case: 1000 rows of `head` items, in the layout (batch, row, head, item)."""
    pointer = f"*{dtype}"
    constants = {"MASK": "", "CAUSAL": True, "DROPOUT": False, "PLACED": False, "VARIABLE": False,
                 "PRECISION": "ieee", "HEAD": head, "VALUE": head, **flags}  # fmt: skip
    row = 16 * head
    masked = "*u8" if flags.get("MASK") == "bool" else pointer
    arguments = (pointer, pointer, pointer, masked, *["*i32"] * 2, *others, "*fp32", "*i64",
                 0.125, 0.0, 1.0, 7.0, 0.0, 0.0, 0.0, 1000, 1024, head, head, 16, 2,
                 *[1000 * row, head, row, 1] * strides, 16000, 1000, 1)  # fmt: skip
    return Case(name, kernel, arguments, constants, space, default, elsewhere or {})


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    if dtype == "fp64":
        return []  # float64 is the reference's
    of = np.float32 if dtype == "fp32" else np.float16
    cases = []
    variants: list[tuple[int, dict[str, Any]]] = [
        (128, {}), (16, {}), (64, {}), (256, {}), (64, {"MASK": "bool"}), (64, {"MASK": "added"}),
        (64, {"DROPOUT": True, "VARIABLE": True}),
    ]  # fmt: skip
    for head, flags in variants:
        default = default_for((64, 1000, head), of, "DROPOUT" in flags)
        whole = head == (64 if dtype == "fp32" else 128) and not flags
        space = space_for(of) if whole else Space.of([default])
        name = "_".join(
            ["attention", str(head), *[str(v if isinstance(v, str) else k).lower() for k, v in flags.items()]]
        )
        cases.append(case(name, attention_kernel, dtype, [f"*{dtype}"], head, space, default, 5, EVEN=False, **flags))
    return cases


AXES = ("heads", "rows", "keys", "items")
LIMITS = {"items": (1, MOST)}


def tuning_arrays(shape: Any, dtype: str, rng: Any) -> Any:
    """For the tuner q, k and v of AXES, and the places of the result and its rows' log-sum-exps."""
    count, rows, keys, items = shape
    given = [normal(rng, (1, count, n, items), dtype) for n in (rows, keys, keys)]
    return given, [empty((1, count, rows, items), dtype), empty((1, count, rows), "float32")]


def tuning_work(products: int, passes: int) -> Any:
    """So many products of the size of the scores, of which a causal mask leaves half, and so many arrays."""

    def work(s: Any, size: int, c: Config) -> Any:
        rows, keys = ((n + c[b] - 1) // c[b] * c[b] for n, b in ((s[1], "BLOCK_M"), (s[2], "BLOCK_N")))
        return 1.0 * products * s[0] * rows * keys * s[3], 1.0 * size * passes * s[0] * max(s[1], s[2]) * s[3]

    return work


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: causal, without a mask."""

    def expected(inputs: Any) -> Any:
        parts = list(references.attended(*float64(inputs)))
        logs = np.stack([p.logs for p in parts])[None]
        return [(*references.heads(parts, "out"), inputs[1].shape[2]), (logs, 4.0 + np.abs(logs), 64)]

    return [TritonKernel(attention_kernel, AXES, space_for, tuning_arrays,
                         lambda i, o, c: call(attention_forward, *i, *o, i[0].shape[3] ** -0.5, True, config=c),
                         expected, tuning_work(2, 4), (2, 70, 70, 24),
                         lambda s, dtype, target: default_for((s[0], s[1], s[3]), dtype), SINGLES, ("items",),
                         LIMITS)]  # fmt: skip
