"""Running sums, products, extremes and log-sums along any dimension, and the gradients of all but the first.

Algorithm: a program owns ROWS rows and walks them BLOCK elements at a time; a block is scanned by a tree, and what the
walk has gathered so far is joined to all of it. Where rows are too few to fill a GPU they are cut into chunks: one
launch gathers each chunk, a second one scans it after joining what the chunks before it gathered. The log-sum goes with
its greatest element, (m, s) standing for exp(m) s, so that nothing overflows. The gradients are linear recurrences
R_j = g_j + a_j R_(j+1), scanned from the end as pairs (a, b): a is x_(j+1) for products, so that nothing is divided and
zeros do no harm; exp(y_j - y_(j+1)), at most 1, for log-sums; for extremes whether both have one place.
No atomics: the bits depend on shape and config alone. Half types are computed in float32.

Bytes moved: 2 n elements (3 n in chunks), backward 3 n or 4 n. Operations: about 2 log2(BLOCK) an element.
Sources: Blelloch, Prefix sums and their applications (1990); Merrill and Garland, Single-pass parallel prefix scan
(2016), whose chunks are here joined by a second launch.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, float64, normal, rounded
from .tune.space import Config, Space

SPACE = Space.of([
    {"BLOCK": 1024, "ROWS": 1, "num_warps": 4},
    {"BLOCK": 2048, "ROWS": 1, "num_warps": 8},
    {"BLOCK": 128, "ROWS": 4, "num_warps": 4},
    {"BLOCK": 32, "ROWS": 32, "num_warps": 4},
    {"BLOCK": 512, "ROWS": 1, "num_warps": 4},
])  # fmt: skip
_LOG = {"BLOCK": 512, "ROWS": 1, "num_warps": 4}  # exponentials take registers: what the others use spills on sm_80
KINDS = ("sum", "prod", "max", "min", "logsumexp")
BACKWARD_KINDS = ("prod", "extreme", "logsumexp")
_FILL_PROGRAMS = 528  # four for each of the 132 multiprocessors of an H100
_MOST_CHUNKS = 256
_launches: Memo = Memo()
_INT64 = np.dtype(np.int64)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _later_max(v1, i1, v2, i2):
    """Of equals the later one, and of NaN."""
    later = (v2 >= v1) | (v2 != v2)
    return tl.where(later, v2, v1), tl.where(later, i2, i1)


@triton.jit
def _later_min(v1, i1, v2, i2):
    later = (v2 <= v1) | (v2 != v2)
    return tl.where(later, v2, v1), tl.where(later, i2, i1)


@triton.jit
def _log_sum(m1, s1, m2, s2):
    """(m, s) stands for exp(m) s. Equal m are not subtracted: both may be infinite."""
    m = scalar.maximum(m1, m2)
    left = tl.where(m1 == m, s1, s1 * scalar.exp(m1 - m))
    right = tl.where(m2 == m, s2, s2 * scalar.exp(m2 - m))
    return m, left + right


@triton.jit
def _affine(a1, b1, a2, b2):
    """First R -> a1 R + b1, then R -> a2 R + b2. A zero cuts off what may be infinite."""
    return a1 * a2, b2 + tl.where(a2 == 0, 0.0, a2 * b1)


@triton.jit
def _rows_of(rows, inner, length, INNER: tl.constexpr, ROWS: tl.constexpr):
    """Where the program's rows begin, which of them are there, their number and the step from element to element."""
    if INNER:  # neighbouring rows lie side by side
        blocks = tl.cdiv(inner, ROWS)
        outer = (tl.program_id(0) // blocks).to(tl.int64)
        row = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
        live = row < inner
        base = outer * length * inner + row
        number = outer * inner + row
    else:
        row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        live = row < rows
        base = row * length
        number = row
    return base, live, number


@triton.jit
def scan_kernel(
    x_ptr, y_ptr, index_ptr, total_ptr, total_index_ptr,
    rows, inner, length, stretch,
    KIND: tl.constexpr, REVERSE: tl.constexpr, INNER: tl.constexpr, PHASE: tl.constexpr, CHUNKS: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """PHASE 0: whole rows; 1: gather chunk program_id(1) of `stretch` elements; 2: scan it after those before it."""
    base, live, number = _rows_of(rows, inner, length, INNER, ROWS)
    start = tl.program_id(1) * stretch
    stop = tl.minimum(start + stretch, length)
    if KIND == "prod":
        empty = 1.0
    elif KIND == "min":
        empty = float("inf")
    elif KIND == "sum":
        empty = 0
    else:
        empty = -float("inf")
    gathered = tl.full([ROWS, 1], empty, COMPUTE)
    second = tl.zeros([ROWS, 1], tl.int64 if KIND == "max" or KIND == "min" else COMPUTE)
    if PHASE == 2:
        chunk = tl.arange(0, CHUNKS)
        before = live[:, None] & (chunk < tl.program_id(1))[None, :]
        from_at = number[:, None] * CHUNKS + chunk[None, :]
        totals = tl.load(total_ptr + from_at, mask=before, other=empty)
        if KIND == "sum":
            gathered = tl.sum(totals, 1)[:, None]
        elif KIND == "prod":
            gathered = tl.reduce(totals, 1, _times)[:, None]
        elif KIND == "logsumexp":
            front, front_share = tl.reduce((totals, tl.where(before, 1.0, 0.0).to(COMPUTE)), 1, _log_sum)
            gathered = front[:, None]
            second = front_share[:, None]
        else:
            found = tl.load(total_index_ptr + from_at, mask=before, other=0)
            if KIND == "max":
                best, best_place = tl.reduce((totals, found), 1, _later_max)
            else:
                best, best_place = tl.reduce((totals, found), 1, _later_min)
            gathered = best[:, None]
            second = best_place[:, None]
    last = (tl.arange(0, BLOCK) == BLOCK - 1)[None, :]
    for begin in range(start, stop, BLOCK):
        k = begin + tl.arange(0, BLOCK)
        j = length - 1 - k if REVERSE else k
        mask = live[:, None] & (k < stop)[None, :]
        at = base[:, None] + (j.to(tl.int64) * inner)[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=empty).to(COMPUTE)
        if KIND == "sum":
            y = tl.cumsum(x, 1) + gathered
        elif KIND == "prod":
            y = tl.cumprod(x, 1) * gathered
        elif KIND == "logsumexp":
            top, share = tl.associative_scan((x, tl.where(mask, 1.0, 0.0).to(COMPUTE)), 1, _log_sum)
            so_far = gathered + tl.zeros([ROWS, BLOCK], COMPUTE)
            top, share = _log_sum(so_far, second + tl.zeros([ROWS, BLOCK], COMPUTE), top, share)
            y = top + tl.log(share)
            gathered = tl.sum(tl.where(last, top, 0.0), 1)[:, None]
            second = tl.sum(tl.where(last, share, 0.0), 1)[:, None]
        else:
            places = j.to(tl.int64)[None, :] + tl.zeros([ROWS, BLOCK], tl.int64)
            so_far = gathered + tl.zeros([ROWS, BLOCK], COMPUTE)
            held = second + tl.zeros([ROWS, BLOCK], tl.int64)
            if KIND == "max":
                y, where = tl.associative_scan((x, places), 1, _later_max)
                y, where = _later_max(so_far, held, y, where)
            else:
                y, where = tl.associative_scan((x, places), 1, _later_min)
                y, where = _later_min(so_far, held, y, where)
            second = tl.sum(tl.where(last, where, 0), 1)[:, None]
            if PHASE != 1:
                tl.store(index_ptr + at, where, mask=mask)
        if KIND != "logsumexp":
            gathered = tl.sum(tl.where(last, y, 0), 1)[:, None]
        if PHASE != 1:
            tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)
    if PHASE == 1:
        to = (number * CHUNKS + tl.program_id(1))[:, None]
        if KIND == "logsumexp":
            gathered = gathered + tl.log(second)
        tl.store(total_ptr + to, gathered, mask=live[:, None])
        if KIND == "max" or KIND == "min":
            tl.store(total_index_ptr + to, second, mask=live[:, None])


@triton.jit
def scan_backward_kernel(
    g_ptr, x_ptr, y_ptr, out_ptr, total_ptr,
    rows, inner, length, stretch,
    KIND: tl.constexpr, INNER: tl.constexpr, PHASE: tl.constexpr, CHUNKS: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The recurrence R_j = g_j + a_j R_(j+1), walked from the end; `x_ptr` has the places for KIND "extreme"."""
    base, live, number = _rows_of(rows, inner, length, INNER, ROWS)
    start = tl.program_id(1) * stretch
    stop = tl.minimum(start + stretch, length)
    slope = tl.full([ROWS, 1], 1.0, COMPUTE)
    gathered = tl.zeros([ROWS, 1], COMPUTE)
    if PHASE == 2:
        chunk = tl.arange(0, CHUNKS)
        before = live[:, None] & (chunk < tl.program_id(1))[None, :]
        from_at = number[:, None] * CHUNKS + chunk[None, :]
        # a chunk that does not count is the identity, R -> 1 R + 0
        their_slopes = tl.load(total_ptr + 2 * from_at, mask=before, other=1.0)
        _, found = tl.reduce((their_slopes, tl.load(total_ptr + 2 * from_at + 1, mask=before, other=0.0)), 1, _affine)
        gathered = found[:, None]
    last = (tl.arange(0, BLOCK) == BLOCK - 1)[None, :]
    for begin in range(start, stop, BLOCK):
        k = begin + tl.arange(0, BLOCK)
        j = length - 1 - k
        mask = live[:, None] & (k < stop)[None, :]
        after = mask & (k > 0)[None, :]
        at = base[:, None] + (j.to(tl.int64) * inner)[None, :]
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
        if KIND == "prod":
            a = tl.load(x_ptr + at + inner, mask=after, other=1.0).to(COMPUTE)
        elif KIND == "logsumexp":
            y = tl.load(y_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            a = scalar.exp(y - tl.load(y_ptr + at + inner, mask=after, other=0.0).to(COMPUTE))
            a = tl.where(after, a, 1.0)
        else:
            place = tl.load(x_ptr + at, mask=mask, other=0)
            a = tl.where(after, (tl.load(x_ptr + at + inner, mask=after, other=0) == place).to(COMPUTE), 1.0)
        slopes, values = tl.associative_scan((a, g), 1, _affine)
        slopes, values = _affine(slope + tl.zeros([ROWS, BLOCK], COMPUTE), gathered + tl.zeros([ROWS, BLOCK], COMPUTE),
                                 slopes, values)  # fmt: skip
        slope = tl.sum(tl.where(last, slopes, 0.0), 1)[:, None]
        gathered = tl.sum(tl.where(last, values, 0.0), 1)[:, None]
        if PHASE != 1:
            if KIND == "prod":
                out = values * tl.load(y_ptr + at - inner, mask=mask & (j > 0)[None, :], other=1.0).to(COMPUTE)
            elif KIND == "logsumexp":
                out = values * scalar.exp(tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE) - y)
            else:
                out = tl.where(place == j.to(tl.int64)[None, :], values, 0.0)
            tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=mask)
    if PHASE == 1:
        to = 2 * (number * CHUNKS + tl.program_id(1))[:, None]
        tl.store(total_ptr + to, slope, mask=live[:, None])
        tl.store(total_ptr + to + 1, gathered, mask=live[:, None])


def scan_forward(kind: str, x: Any, dim: int, y: Any, indices: Any = None, reverse: bool = False,
                 config: Config | None = None, chunks: int | None = None) -> None:  # fmt: skip
    """Scan contiguous `x` along `dim` into `y`; "max" and "min" also write the places to int64 `indices`.

    A sum takes int64 too. `reverse` begins at the end. `chunks`: into how many pieces a row is cut.
    """
    key = (kind, dim, reverse, chunks, config and tuple(config.items()), *runtime.key_of(x, y))
    run = _launches.get(key)
    if run is None:
        run = _launches[key] = _prepare(kind, x, dim, (y,), reverse, config, chunks)
    run((x, y, x if indices is None else indices))


def scan_backward(kind: str, g: Any, x: Any, y: Any, dim: int, out: Any, config: Config | None = None,
                  chunks: int | None = None) -> None:  # fmt: skip
    """The gradient of a scan: of "prod" and "logsumexp" from x and y, of "extreme" from the places `x`, without y."""
    key = (kind, "backward", dim, chunks, config and tuple(config.items()), *runtime.key_of(g, x, out))
    run = _launches.get(key)
    if run is None:
        run = _launches[key] = _prepare(kind, g, dim, (x, g if y is None else y, out), None, config, chunks)
    run((g, x, g if y is None else y, out))


def _prepare(kind: str, x: Any, dim: int, others: tuple[Any, ...], reverse: bool | None, config: Config | None,
             chunks: int | None) -> Any:  # fmt: skip
    backward = reverse is None
    _check(kind, x, others, BACKWARD_KINDS if backward else KINDS)
    length = x.shape[dim]
    inner = int(np.prod(x.shape[dim % x.ndim + 1 :], dtype=np.int64))
    rows = x.size // max(length, 1)
    if x.size == 0:
        return lambda arrays: None
    kernel = scan_backward_kernel if backward else scan_kernel
    config = config or runtime.tuned(kernel, SPACE, (rows // inner, length, inner), x.dtype)
    settings = settings_for((rows, length, inner), config)
    if config is None and not INTERPRET and kind == "logsumexp" and settings == SPACE.default:
        settings = dict(_LOG)
    warps = settings.pop("num_warps")
    lanes = settings["ROWS"]
    programs = rows // inner * triton.cdiv(inner, lanes) if inner > 1 else triton.cdiv(rows, lanes)
    if chunks is None:
        chunks = 1 if INTERPRET or 2 * programs >= _FILL_PROGRAMS else triton.cdiv(_FILL_PROGRAMS, programs)
        chunks = min(chunks, triton.cdiv(length, 4 * settings["BLOCK"]), _MOST_CHUNKS)
    stretch = triton.cdiv(length, chunks)
    chunks = triton.cdiv(length, stretch)
    most = triton.next_power_of_2(chunks)
    integer, double = x.dtype == _INT64, x.dtype == np.float64
    constants = {"KIND": kind, "INNER": inner > 1, "CHUNKS": most, **settings}
    constants["COMPUTE"] = tl.int64 if integer else tl.float64 if double else tl.float32
    if not backward:
        constants["REVERSE"] = reverse
    ints = [rows, inner, length, stretch]

    def launch(phase: int) -> Launch:
        return Launch(kernel, (programs, chunks), ints, {**constants, "PHASE": phase}, num_warps=warps)

    fill = 1 if backward else 2
    if chunks == 1:
        whole = launch(0)
        return lambda arrays: whole((*arrays, *(arrays[0],) * fill))
    first, second = launch(1), launch(2)
    scratch_type = _INT64 if integer else np.dtype(np.float64 if double else np.float32)
    pairs = kind in ("max", "min")

    def run(arrays: tuple[Any, ...]) -> None:
        totals = runtime.empty((rows, most, 2 if backward else 1), scratch_type)
        places = (runtime.empty((rows, most), _INT64) if pairs else totals,) if not backward else ()
        first((*arrays, totals, *places))
        second((*arrays, totals, *places))

    return run


def _check(kind: str, x: Any, others: tuple[Any, ...], kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise ValueError(f"scan: kind is one of {', '.join(kinds)}, not {kind!r}")
    if x.dtype not in FLOATING and not (x.dtype == _INT64 and kind == "sum"):
        raise TypeError(f"scan {kind}: takes floating-point arrays, a sum int64 too, got {x.dtype}")
    if x.ndim == 0 or any(a.shape != x.shape for a in others) or not all(map(runtime.is_contiguous, (x, *others))):
        shapes = ", ".join(f"{tuple(a.shape)} strides {tuple(a.strides)}" for a in (x, *others))
        raise ValueError(f"scan {kind}: takes contiguous arrays of one shape and a dimension, got {shapes}")


def settings_for(shape: tuple[int, ...], config: Config | None) -> Config:
    """Return the config for (rows, length, neighbours that lie side by side)."""
    if config is not None:
        return SPACE.complete(config)
    if INTERPRET:
        rows, length, inner = shape
        block = min(triton.next_power_of_2(length), 1024)
        lanes = triton.next_power_of_2(inner if inner > 1 else rows)
        return {"BLOCK": block, "ROWS": min(lanes, max((1 << 15) // block, 1)), "num_warps": 4}
    return default_for(shape)


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned."""
    configs = list(SPACE.configs())
    if shape[2] > 1:
        return configs[3]
    return configs[2] if shape[1] <= 512 else configs[0]


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    p, wide = f"*{dtype}", "fp64" if dtype == "fp64" else "fp32"
    compute, total = tl.float64 if wide == "fp64" else tl.float32, f"*{wide}"
    sizes = (999, 7, 1000, 250)
    cases = []
    for phase in (0, 1, 2):
        space = SPACE if phase == 0 else Space.of([SPACE.default])
        common = {"INNER": True, "PHASE": phase, "CHUNKS": 256, "COMPUTE": compute}
        for kind in KINDS:
            constants, arguments = {"KIND": kind, "REVERSE": False, **common}, (p, p, "*i64", total, "*i64", *sizes)
            default = _LOG if kind == "logsumexp" else {}
            cases.append(Case(f"scan_{kind} {phase}", scan_kernel, arguments, constants, space, default))
        for kind in BACKWARD_KINDS:
            arguments = (p, "*i64" if kind == "extreme" else p, p, p, total, *sizes)
            cases.append(
                Case(f"scan_{kind}_backward {phase}", scan_backward_kernel, arguments, {"KIND": kind, **common}, space)
            )
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: a running sum, and the gradient of a running log-sum."""

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape, dtype)]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        g, x = normal(rng, shape, dtype), normal(rng, shape, dtype)
        y = rounded(lambda: np.logaddexp.accumulate(x.astype(np.float64), 1), rng, shape, dtype)
        return [g, x, y], [empty(shape, dtype)]

    def expected(inputs: Any) -> Any:
        (x,) = float64(inputs)
        return [(x.cumsum(1), np.abs(x).cumsum(1), x.shape[1])]

    def gradient(inputs: Any) -> Any:
        g, x, y = float64(inputs)
        found = []
        for each_g in (g, np.abs(g)):
            after, out = np.zeros_like(g[:, 0]), np.empty_like(g)
            for j in reversed(range(x.shape[1])):
                after = each_g[:, j] + (np.exp(y[:, j] - y[:, j + 1]) * after if j + 1 < x.shape[1] else 0.0)
                out[:, j] = np.exp(x[:, j] - y[:, j]) * after
            found.append(out)
        return [(found[0], found[1] * (1.0 + np.abs(y)) + 1e-7, x.shape[1])]

    common: Any = {"axes": ("outer", "length", "inner"), "space": SPACE, "small": (2, 40, 3),
                   "default": lambda s, dtype, target: default_for((s[0] * s[2], *s[1:]))}  # fmt: skip
    return [
        TritonKernel(scan_kernel, arrays=forward, reference=expected, work=each(2, 20),
                     launch=lambda i, o, c: call(scan_forward, "sum", *i, 1, *o, config=c), **common),
        TritonKernel(scan_backward_kernel, arrays=backward, reference=gradient, work=each(4, 40),
                     launch=lambda i, o, c: call(scan_backward, "logsumexp", *i, 1, *o, c), **common),
    ]  # fmt: skip
