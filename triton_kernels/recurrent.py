"""The steps of recurrent layers: one launch a step forward, one a step backward.

Algorithm: the inputs' part of the gates' sums, W_ih x + b, is one product for all steps, made before (matmul.py). A
step's program owns BLOCK_M sequences and BLOCK_N units: it multiplies the states before with the rows of W_hh of all of
its units' gates, in accumulators side by side, and makes the gates, the cells and the new states of them at once.
Backward a program multiplies the sums' gradients of the step after with the columns of W_hh of its units, adds what
arrives from the outputs, and makes its own step's. What goes on from step to step is float32. A row is one step of one
sequence; where a step's rows begin, how many sequences it has, and the same of its neighbour stand in a table on the
device, so that packed sequences of unlike lengths and both directions are the same launches with other tables.

    LSTM  i f g o, sigmoid but g tanh;  c' = f c + i g;  h' = o tanh(c')
    GRU   r z n: n = tanh(x-part + r (h-part));  h' = (1 - z) n + z h. Four slots: r, z, n and its h-part
    RNN   h' = tanh or relu of the sum

Bytes moved, a step: W_hh (from the L2 cache, where it fits), the rows of sums, gates, cells and states. Operations:
2 sequences gates hidden**2, the same backward.
Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997); Cho et al., arXiv:1406.1078; Appleyard et al.,
arXiv:1604.01946, for making the inputs' part at once and fusing what is pointwise.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import BFLOAT16, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, empty, float64, normal, rounded
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

KINDS = {"lstm": 0, "gru": 1, "tanh": 2, "relu": 3}
DTYPES = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float32))
PLACE = (
    8  # integers of a step in the table: first row, sequences; the same of the step it takes a state or gradient from
)
SPACE = Space(
    [
        powers_of_two("BLOCK_M", 16, 32, default=16),
        powers_of_two("BLOCK_N", 16, 32, default=32),
        Tunable("BLOCK_K", (32,), default=32),
        Tunable("num_warps", (4,), default=4),
    ],
    [Constraint("as many units as sequences, or more", lambda c: c["BLOCK_M"] <= c["BLOCK_N"])],
)
_INTERPRETED_TILE = 128
_launches: Memo = Memo()


def slots(kind: str) -> int:
    """Return how many sums a unit has.

    >>> slots("gru"), slots("tanh")
    (4, 1)
    """
    return 4 if KINDS[kind] < 2 else 1


@triton.jit
def _gate(w_ptr, gate, unit, k, hidden, wr, wc):
    """The weights of a gate of the units, from some of the states: (states, units)."""
    at = (gate * hidden + unit).to(tl.int64) * wr
    return tl.load(w_ptr + (at[None, :] + (k.to(tl.int64) * wc)[:, None]),
                   mask=(k < hidden)[:, None] & (unit < hidden)[None, :], other=0.0)  # fmt: skip


@triton.jit
def rnn_step_kernel(
    sums_ptr, w_ptr, bias_ptr, h0_ptr, cell_ptr, last_ptr, y_ptr, gates_ptr, cells_ptr, place_ptr,
    hidden, pitch, wr, wc, bias_stride,
    KIND: tl.constexpr, HAS_H0: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(hidden, BLOCK_N)
    unit = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    sequence = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    live = sequence < tl.load(place_ptr + 1)
    had = tl.load(place_ptr + 3)
    old = sequence < had  # the others begin at this step
    row = (tl.load(place_ptr) + sequence * pitch).to(tl.int64)
    before = (tl.load(place_ptr + 2) + sequence * pitch).to(tl.int64)
    lane = tl.arange(0, BLOCK_K)
    acc0 = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    acc1 = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    acc2 = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    acc3 = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    depth = hidden
    if not HAS_H0:
        depth = tl.where(had > 0, hidden, 0)
    for begin in range(0, depth, BLOCK_K):
        k = begin + lane
        inside = (k < hidden)[None, :]
        h = tl.load(y_ptr + (before[:, None] * hidden + k[None, :]), mask=(old & live)[:, None] & inside, other=0.0)
        if HAS_H0:
            h += tl.load(h0_ptr + (sequence.to(tl.int64)[:, None] * hidden + k[None, :]),
                         mask=(live & (sequence >= had))[:, None] & inside, other=0.0)  # fmt: skip
        acc0 = tl.dot(h, _gate(w_ptr, 0, unit, k, hidden, wr, wc), acc0, input_precision=PRECISION)
        if KIND < 2:
            acc1 = tl.dot(h, _gate(w_ptr, 1, unit, k, hidden, wr, wc), acc1, input_precision=PRECISION)
            acc2 = tl.dot(h, _gate(w_ptr, 2, unit, k, hidden, wr, wc), acc2, input_precision=PRECISION)
        if KIND == 0:
            acc3 = tl.dot(h, _gate(w_ptr, 3, unit, k, hidden, wr, wc), acc3, input_precision=PRECISION)
    mask = live[:, None] & (unit < hidden)[None, :]
    own = sequence.to(tl.int64)[:, None] * hidden + unit[None, :]
    at = row[:, None] * hidden + unit[None, :]
    wide = row[:, None] * (4 * hidden) + unit[None, :]
    if KIND == 0:
        i = scalar.sigmoid(acc0 + tl.load(sums_ptr + wide, mask=mask, other=0.0))
        f = scalar.sigmoid(acc1 + tl.load(sums_ptr + wide + hidden, mask=mask, other=0.0))
        g = scalar.tanh(acc2 + tl.load(sums_ptr + wide + 2 * hidden, mask=mask, other=0.0))
        o = scalar.sigmoid(acc3 + tl.load(sums_ptr + wide + 3 * hidden, mask=mask, other=0.0))
        c = f * tl.load(cell_ptr + own, mask=mask, other=0.0) + i * g
        new = o * scalar.tanh(c)
        tl.store(cell_ptr + own, c, mask=mask)
        tl.store(cells_ptr + at, c.to(cells_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide, i.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + hidden, f.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + 2 * hidden, g.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + 3 * hidden, o.to(gates_ptr.dtype.element_ty), mask=mask)
    elif KIND == 1:
        three = row[:, None] * (3 * hidden) + unit[None, :]
        if HAS_BIAS:
            there = unit < hidden
            bias_at = bias_ptr + unit * bias_stride
            acc0 += tl.load(bias_at, mask=there, other=0.0).to(tl.float32)[None, :]
            acc1 += tl.load(bias_at + hidden * bias_stride, mask=there, other=0.0).to(tl.float32)[None, :]
            acc2 += tl.load(bias_at + 2 * hidden * bias_stride, mask=there, other=0.0).to(tl.float32)[None, :]
        r = scalar.sigmoid(acc0 + tl.load(sums_ptr + three, mask=mask, other=0.0))
        z = scalar.sigmoid(acc1 + tl.load(sums_ptr + three + hidden, mask=mask, other=0.0))
        n = scalar.tanh(tl.load(sums_ptr + three + 2 * hidden, mask=mask, other=0.0) + r * acc2)
        h = tl.load(cell_ptr + own, mask=mask, other=0.0)  # the state before, not rounded
        new = n + z * (h - n)
        tl.store(cell_ptr + own, new, mask=mask)
        tl.store(gates_ptr + wide, r.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + hidden, z.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + 2 * hidden, n.to(gates_ptr.dtype.element_ty), mask=mask)
        tl.store(gates_ptr + wide + 3 * hidden, acc2.to(gates_ptr.dtype.element_ty), mask=mask)
    else:
        s = acc0 + tl.load(sums_ptr + at, mask=mask, other=0.0)
        if KIND == 2:
            new = scalar.tanh(s)
        else:
            new = tl.where(s < 0.0, 0.0, s)  # NaN stays
    tl.store(y_ptr + at, new.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(last_ptr + own, new.to(last_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rnn_step_backward_kernel(
    g_ptr, w_ptr, states_ptr, initial_ptr, gates_ptr, y_ptr, dh_ptr, dc_ptr, dz_ptr, place_ptr,
    hidden, pitch, wr, wc,
    KIND: tl.constexpr, HAS_INITIAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    GATES: tl.constexpr = 4 if KIND == 0 else 3 if KIND == 1 else 1
    SLOTS: tl.constexpr = 4 if KIND < 2 else 1
    columns = tl.cdiv(hidden, BLOCK_N)
    unit = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    sequence = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    live = sequence < tl.load(place_ptr + 1)
    row = (tl.load(place_ptr) + sequence * pitch).to(tl.int64)
    after = (tl.load(place_ptr + 2) + sequence * pitch).to(tl.int64)
    going_on = sequence < tl.load(place_ptr + 3)  # the others end at this step
    before = (tl.load(place_ptr + 4) + sequence * pitch).to(tl.int64)
    had = tl.load(place_ptr + 5)
    lane = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    blocks = tl.where(tl.load(place_ptr + 3) > 0, tl.cdiv(hidden, BLOCK_K), 0)
    for step in range(GATES * blocks):
        gate = step // blocks
        k = step % blocks * BLOCK_K + lane
        slot = gate
        if KIND == 1:  # the h-part of n has a slot of its own
            slot = tl.where(gate == 2, 3, gate)
        dz = tl.load(dz_ptr + (after[:, None] * (SLOTS * hidden) + (slot * hidden + k)[None, :]),
                     mask=(going_on & live)[:, None] & (k < hidden)[None, :], other=0.0)  # fmt: skip
        w = tl.load(w_ptr + (((gate * hidden + k).to(tl.int64) * wr)[:, None] + (unit.to(tl.int64) * wc)[None, :]),
                    mask=(k < hidden)[:, None] & (unit < hidden)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(dz, w, acc, input_precision=PRECISION)
    mask = live[:, None] & (unit < hidden)[None, :]
    own = sequence.to(tl.int64)[:, None] * hidden + unit[None, :]
    at = row[:, None] * hidden + unit[None, :]
    wide = row[:, None] * (SLOTS * hidden) + unit[None, :]
    d = acc + tl.load(dh_ptr + own, mask=mask, other=0.0) + tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if KIND < 2:
        past = tl.load(states_ptr + (before[:, None] * hidden + unit[None, :]),
                       mask=mask & (sequence < had)[:, None], other=0.0).to(tl.float32)  # fmt: skip
        if HAS_INITIAL:
            past += tl.load(initial_ptr + own, mask=mask & (sequence >= had)[:, None], other=0.0).to(tl.float32)
        s0 = tl.load(gates_ptr + wide, mask=mask, other=0.0).to(tl.float32)
        s1 = tl.load(gates_ptr + wide + hidden, mask=mask, other=0.0).to(tl.float32)
        s2 = tl.load(gates_ptr + wide + 2 * hidden, mask=mask, other=0.0).to(tl.float32)
        s3 = tl.load(gates_ptr + wide + 3 * hidden, mask=mask, other=0.0).to(tl.float32)
        if KIND == 0:  # i f g o
            t = scalar.tanh(tl.load(states_ptr + at, mask=mask, other=0.0).to(tl.float32))
            dc = tl.load(dc_ptr + own, mask=mask, other=0.0) + d * s3 * (1 - t * t)
            z0 = dc * s2 * s0 * (1 - s0)
            z1 = dc * past * s1 * (1 - s1)
            z2 = dc * s0 * (1 - s2 * s2)
            z3 = d * t * s3 * (1 - s3)
            tl.store(dc_ptr + own, dc * s1, mask=mask)
            d = d * 0.0
        else:  # r z n and n's h-part
            z2 = d * (1 - s1) * (1 - s2 * s2)
            z0 = z2 * s3 * s0 * (1 - s0)
            z1 = d * (past - s2) * s1 * (1 - s1)
            z3 = z2 * s0
            d = d * s1
        tl.store(dz_ptr + wide, z0.to(dz_ptr.dtype.element_ty), mask=mask)
        tl.store(dz_ptr + wide + hidden, z1.to(dz_ptr.dtype.element_ty), mask=mask)
        tl.store(dz_ptr + wide + 2 * hidden, z2.to(dz_ptr.dtype.element_ty), mask=mask)
        tl.store(dz_ptr + wide + 3 * hidden, z3.to(dz_ptr.dtype.element_ty), mask=mask)
    else:
        y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
        if KIND == 2:
            d = d * (1 - y * y)
        else:
            d = tl.where(y <= 0.0, 0.0, d)
        tl.store(dz_ptr + wide, d.to(dz_ptr.dtype.element_ty), mask=mask)
        d = d * 0.0
    tl.store(dh_ptr + own, d, mask=mask)


def steps_forward(
    kind: str, sums: Any, weight: Any, bias: Any, h0: Any, state: Any, last: Any, y: Any, gates: Any, cells: Any,
    places: Any, pitch: int, config: Config | None = None, input_precision: str = "ieee",
) -> None:  # fmt: skip
    """All steps of a layer, in the order of `places` (steps, PLACE), an int32 table on the device.

    `sums` (rows, gates hidden) is float32, W_ih x with all biases, but for a GRU's `bias` of its state; `weight` is
    W_hh with any strides; `h0` (sequences, hidden) or None. Written: `state` (sequences, hidden), float32 and first
    the LSTM's cells or the GRU's states, at the end the last; `last`, the last states; `y` (rows, hidden), `gates`
    (rows, slots hidden) and `cells` (rows, hidden), of which a plain RNN has neither. A row's sequences are `pitch`
    rows apart.
    """
    arrays = (sums, weight, y if bias is None else bias, y if h0 is None else h0, state, last, y, gates, cells)
    key = ("forward", kind, *runtime.key_of(*arrays), bias is None, h0 is None, pitch, input_precision,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        _check(kind, weight, (y, last, gates, cells) if h0 is None else (y, last, gates, cells, h0), (sums, state))
        ints = [y.shape[1], pitch, *runtime.element_strides(weight)]
        ints.append(0 if bias is None else runtime.element_strides(bias)[0])
        constants = {"KIND": KINDS[kind], "HAS_H0": h0 is not None, "HAS_BIAS": bias is not None}
        launch = _launches[key] = _prepare(rnn_step_kernel, last.shape, y.dtype, ints, constants, config,
                                           input_precision)  # fmt: skip
    _walk(launch, arrays, places)


def steps_backward(
    kind: str, g: Any, weight: Any, states: Any, initial: Any, gates: Any, y: Any, dh: Any, dc: Any, dz: Any,
    places: Any, pitch: int, config: Config | None = None, input_precision: str = "ieee",
) -> None:  # fmt: skip
    """The gradients `dz` (rows, slots hidden) of all sums, from that of the outputs `g` (rows, hidden).

    `states` and `initial` are the LSTM's cells, else the outputs, and what they were at first (or None). `dh` and `dc`
    (sequences, hidden), float32, are first the gradients of the last states and cells; then `dc` is that of the first
    cells, and `dh` what of the first states' does not go through the sums of the first step.
    """
    arrays = (g, weight, states, states if initial is None else initial, gates, y, dh, dc, dz)
    key = ("backward", kind, *runtime.key_of(*arrays), initial is None, pitch, input_precision,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        _check(kind, weight, (g, y, dz, states, gates), (dh, dc))
        ints = [y.shape[1], pitch, *runtime.element_strides(weight)]
        constants = {"KIND": KINDS[kind], "HAS_INITIAL": initial is not None}
        launch = _launches[key] = _prepare(rnn_step_backward_kernel, dh.shape, y.dtype, ints, constants, config,
                                           input_precision)  # fmt: skip
    _walk(launch, arrays, places)


def _walk(launch: Launch, arrays: tuple[Any, ...], places: Iterable[Any]) -> None:
    for place in places:
        launch((*arrays, place))


def _check(kind: str, weight: Any, arrays: tuple[Any, ...], wide: tuple[Any, ...]) -> None:
    right = weight.dtype in DTYPES and all(a.dtype == weight.dtype for a in arrays)
    right = right and all(a.dtype == np.float32 for a in wide)
    if not right or not all(runtime.is_contiguous(a) for a in (*arrays, *wide)):
        came = ", ".join(f"{a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}" for a in (weight, *arrays, *wide))
        raise TypeError(f"{kind}: takes row-major arrays, of float16, bfloat16 or float32 as the weight is, the last "
                        f"{len(wide)} of float32; got {came}")  # fmt: skip


def _prepare(
    kernel: Any, shape: tuple[int, int], dtype: Any, ints: list[int], constants: dict[str, Any],
    config: Config | None, precision: str,
) -> Launch:  # fmt: skip
    config = config or runtime.tuned(kernel, SPACE, shape, dtype)
    settings = SPACE.complete(config) if config else default_for(shape, dtype)
    if INTERPRET and not config:
        for name, size in zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), (*shape, shape[1]), strict=True):
            settings[name] = min(max(triton.next_power_of_2(max(size, 1)), 16), _INTERPRETED_TILE)
    warps = settings.pop("num_warps")
    grid = (triton.cdiv(shape[0], settings["BLOCK_M"]) * triton.cdiv(shape[1], settings["BLOCK_N"]),)
    return Launch(kernel, grid, ints, {**constants, "PRECISION": precision, **settings}, num_warps=warps)


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned; `shape` is (sequences, hidden)."""
    return {**SPACE.default, "BLOCK_M": 32 if shape[0] * shape[1] >= 16 * 32 * 264 else 16}


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    if dtype == "fp64":
        return []
    p, cases = f"*{dtype}", []
    arguments: tuple[Any, ...]
    for kind, number in KINDS.items():
        space = SPACE if number < 2 else Space.of([SPACE.default])
        arguments = ("*fp32", p, p, p, "*fp32", p, p, p, p, "*i32", 512, 1, 512, 1, 1)
        constants = {"KIND": number, "HAS_H0": True, "HAS_BIAS": kind == "gru", "PRECISION": "ieee"}
        cases.append(Case(f"{kind}_step", rnn_step_kernel, arguments, constants, space))
        arguments = (p, p, p, p, p, p, "*fp32", "*fp32", p, "*i32", 512, 1, 512, 1)
        constants = {"KIND": number, "HAS_INITIAL": True, "PRECISION": "ieee"}
        cases.append(Case(f"{kind}_step_backward", rnn_step_backward_kernel, arguments, constants, space))
    if dtype == "fp32":
        for case in cases[:2]:
            constants = {**case.constexprs, "PRECISION": "tf32"}
            cases.append(Case(f"{case.name}_tf32", case.kernel, case.arguments, constants, Space.of([SPACE.default])))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: two steps of an LSTM, each a launch."""

    def made(shape: Any, dtype: str, rng: Any) -> Any:
        """Return the sums of the inputs, the weight, the first states and cells."""
        n, hidden = shape
        found = [normal(rng, size, kind) for size, kind in (((2 * n, 4 * hidden), "float32"),
                 ((4 * hidden, hidden), dtype), ((n, hidden), dtype), ((n, hidden), "float32"))]  # fmt: skip
        if rng is not None:
            found[1] *= found[1].dtype.type(hidden**-0.5)
        return found

    def places(shape: Any, forward: bool) -> Any:
        n = shape[0]
        steps = [[0, n, 0, 0, 0, 0, 0, 0], [n, n, 0, n, 0, 0, 0, 0]]
        back = [[n, n, 0, 0, 0, n, 0, 0], [0, n, n, n, 0, 0, 0, 0]]
        return np.array(steps if forward else back, np.int32)

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        n, hidden = shape
        sums, weight, h0, c0 = made(shape, dtype, rng)
        outputs = [empty(s, dtype) for s in ((n, hidden), (2 * n, hidden), (2 * n, 4 * hidden), (2 * n, hidden))]
        return [sums, weight, h0, places(shape, True), c0], [empty((n, hidden), "float32"), *outputs]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        n, hidden = shape
        sums, weight, h0, c0 = made(shape, dtype, rng)
        known = [empty(s, dtype) for s in ((2 * n, hidden), (2 * n, hidden), (2 * n, 4 * hidden))]
        if rng is not None:
            for out, value in zip(known, references.lstm(*float64([sums, weight, h0, c0])), strict=False):
                out[...] = value
        y, cells, gates = known
        first = rounded(lambda: c0, rng, c0.shape, dtype)
        given = [normal(rng, (2 * n, hidden), dtype), weight, cells, first, gates, y, places(shape, False),
                 *(normal(rng, (n, hidden), "float32") for _ in range(2))]  # fmt: skip
        return given, [empty((n, hidden), "float32"), empty((n, hidden), "float32"), empty((2 * n, 4 * hidden), dtype)]

    def expected(inputs: Any) -> Any:
        sums, weight, h0, _, c0 = float64(inputs)
        y, cells, gates, last = references.lstm(sums, weight, h0, c0)
        size = 2.0 + np.abs(sums).max() + np.abs(weight).sum(1).max() + np.abs(c0).max()
        return [(a, np.full(a.shape, size), weight.shape[1]) for a in (cells[len(h0) :], last, y, gates, cells)]

    def gradient(inputs: Any) -> Any:
        g, weight, cells, c0, gates, _, _, dh, dc = float64(inputs)
        dz, first = references.lstm_gradients(g, weight, cells, c0, gates, dh, dc)
        size = (np.abs(g).max() + np.abs(dh).max() + np.abs(dc).max()) * (2.0 + np.abs(cells).max())
        size *= 1.0 + np.abs(weight).sum(0).max()
        terms = len(weight)
        return [np.zeros_like(first), *((a, np.full(a.shape, size), terms) for a in (first, dz))]

    def begin_forward(i: Any, o: Any) -> None:
        o[0][...] = i[4]

    def begin_backward(i: Any, o: Any) -> None:
        o[0][...], o[1][...] = i[7], i[8]

    def run_forward(i: Any, o: Any, c: Any) -> None:
        call(steps_forward, "lstm", *i[:2], None, i[2], *o, i[3], 1, c)

    def run_backward(i: Any, o: Any, c: Any) -> None:
        call(steps_backward, "lstm", *i[:6], *o, i[6], 1, c)

    def work(s: Any, size: int, c: Config) -> Any:
        n, hidden = s
        return 16.0 * n * hidden * hidden, size * 2.0 * (4 * hidden * hidden + 12 * n * hidden)

    common: Any = {"axes": ("sequences", "hidden"), "space": SPACE, "small": (5, 50), "dtypes": SINGLES, "work": work,
                   "default": lambda shape, dtype, target: default_for(shape)}  # fmt: skip
    return [
        TritonKernel(rnn_step_kernel, arrays=forward, reference=expected, launch=run_forward, begin=begin_forward,
                     **common),
        TritonKernel(rnn_step_backward_kernel, arrays=backward, reference=gradient, launch=run_backward,
                     begin=begin_backward, **common),
    ]  # fmt: skip
