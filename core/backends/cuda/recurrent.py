"""Rows of the recurrent layers: one product for the inputs, then a launch a step (triton_kernels/recurrent.py)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import Row
from . import devices
from .matmul import input_precision
from .shared import array_library, empty, name

_TYPES = ("float16", "bfloat16", "float32")


class _Steps(NamedTuple):
    """Where the rows of a layer's steps are. The tables lie on the device."""

    sequences: int
    pitch: int  # rows from one sequence to the next
    forward: Any  # (steps, 8), in the order in which they are gone through
    backward: Any  # the other way
    before: Any  # for every row that of the same sequence's step before, beyond all rows for the initial states
    first: Any  # for every sequence the row of the step it begins with


@lru_cache(maxsize=256)
def _steps(
    lead: tuple[int, ...], batch_first: bool, sizes: tuple[int, ...] | None, reverse: bool, device: int
) -> _Steps:
    if sizes is not None:
        counts = np.array(sizes, np.int64)
        starts, pitch = np.cumsum(counts) - counts, 1
    else:
        steps, batch = (lead[1], lead[0]) if batch_first else lead
        starts = np.arange(steps, dtype=np.int64) * (1 if batch_first else batch)
        counts, pitch = np.full(steps, batch, np.int64), steps if batch_first else 1
    if reverse:
        starts, counts = starts[::-1], counts[::-1]
    here = np.stack([starts, counts], 1)
    none = np.zeros((1, 2), np.int64)
    earlier, later = np.concatenate([none, here[:-1]]), np.concatenate([here[1:], none])
    spare = np.zeros_like(here)
    sequences, rows = int(counts.max()), int(counts.sum())
    before, first = np.empty(rows, np.int64), np.full(sequences, -1, np.int64)
    for (start, count), (last, had) in zip(here, earlier, strict=True):
        who = np.arange(count)
        at = start + who * pitch
        before[at] = np.where(who < had, last + who * pitch, rows + who)
        new = who[first[who] < 0]
        first[new] = start + new * pitch
    place = array_library().asarray

    def table(*columns: Any) -> Any:
        return place(np.concatenate(columns, 1).astype(np.int32))

    forward, backward = table(here, earlier, spare, spare), table(here, later, earlier, spare)[::-1]
    return _Steps(sequences, pitch, forward, backward, place(before), place(first))


def _declines(x: Any, *others: Any) -> str | None:
    if x.dtype.name not in _TYPES:
        return f"takes {', '.join(_TYPES)}, got {x.dtype}"
    if any(a is not None and a.dtype != x.dtype for a in others):
        return "takes one floating type"
    return "takes no empty arrays" if not x.size or any(a is not None and not a.size for a in others) else None


def _kind(op: str, nonlinearity: str) -> str:
    return nonlinearity if op == "rnn" else op


def _dense(a: Any) -> Any:
    return None if a is None else array_library().ascontiguousarray(a)


def _product(a: Any, b: Any, dtype: Any, bias: Any = None) -> Any:
    from triton_kernels import matmul

    out = empty((a.shape[0], b.shape[1]), dtype)
    matmul.matmul_forward(a, b, out, bias=bias, input_precision=input_precision())
    return out


def _widened(a: Any, shape: tuple[int, int]) -> Any:
    """Return a row-major float32 copy to go on from, zeros for None."""
    xp = array_library()
    return xp.zeros(shape, np.float32) if a is None else a.astype(np.float32, order="C")


def _forward(op: str) -> Row:
    def declines(x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
                 weight_hr: Any = None, **params: Any) -> str | None:  # fmt: skip
        if weight_hr is not None:
            return "does no projection"
        return _declines(x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0)

    def run(x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
            weight_hr: Any = None, nonlinearity: str = "", reverse: bool = False, batch_first: bool = False,
            sizes: Any = None) -> Any:  # fmt: skip
        from triton_kernels import recurrent

        kind, hidden, lead = _kind(op, nonlinearity), weight_hh.shape[1], x.shape[:-1]
        steps = _steps(lead, batch_first, sizes, reverse, devices.current())
        rows, shape = x.reshape(-1, x.shape[-1]), (steps.sequences, hidden)
        bias = bias_ih
        if bias_ih is not None and op != "gru":  # a GRU's gate n takes the two apart
            bias = bias_ih.astype(np.float32) + bias_hh
        sums = _product(rows, weight_ih.T, np.float32, bias)
        state = _widened(c0 if op == "lstm" else h0, shape)
        y, last = empty((len(rows), hidden), x.dtype), empty(shape, x.dtype)
        gates = y if op == "rnn" else empty((len(rows), 4 * hidden), x.dtype)
        cells = empty((len(rows), hidden), x.dtype) if op == "lstm" else y
        recurrent.steps_forward(kind, sums, weight_hh, bias_hh if op == "gru" else None, _dense(h0), state, last, y,
                                gates, cells, steps.forward, steps.pitch,
                                input_precision=input_precision())  # fmt: skip
        found = y.reshape(*lead, hidden), last
        if op == "rnn":
            return found
        gates = gates.reshape(*lead, 4 * hidden)
        return (*found, state.astype(x.dtype), gates, cells.reshape(*lead, hidden)) if op == "lstm" else (*found, gates)

    return Row("rnn_step_kernel", name, run, declines)


def _backward(op: str) -> Row:
    def declines(g: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
                 weight_hr: Any = None, **others: Any) -> str | None:  # fmt: skip
        if weight_hr is not None:
            return "does no projection"
        return _declines(x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, *g)

    def run(g: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, y: Any, needs: Any,
            reverse: bool, batch_first: bool, sizes: Any, c0: Any = None, weight_hr: Any = None, gates: Any = None,
            cells: Any = None, nonlinearity: str = "") -> Any:  # fmt: skip
        from triton_kernels import recurrent

        xp, kind, hidden = array_library(), _kind(op, nonlinearity), weight_hh.shape[1]
        steps = _steps(x.shape[:-1], batch_first, sizes, reverse, devices.current())
        rows, shape = x.reshape(-1, x.shape[-1]), (steps.sequences, hidden)
        flat = [None if a is None else xp.ascontiguousarray(a).reshape(len(rows), -1) for a in (g[0], y, gates, cells)]
        gy, y, gates, cells = flat
        dh = _widened(g[1], shape)
        dc = _widened(g[2], shape) if op == "lstm" else dh
        dz = empty((len(rows), recurrent.slots(kind) * hidden), x.dtype)
        recurrent.steps_backward(kind, gy, weight_hh, cells if op == "lstm" else y, _dense(c0 if op == "lstm" else h0),
                                 y if gates is None else gates, y, dh, dc, dz, steps.backward, steps.pitch,
                                 input_precision=input_precision())  # fmt: skip
        of_inputs, of_states = _parts(dz, op, hidden)
        gx = _product(of_inputs, weight_ih, x.dtype).reshape(x.shape) if needs[0] else None
        gw_ih = _product(of_inputs.T, rows, x.dtype) if needs[1] else None
        gw_hh = gb_ih = gb_hh = gh = None
        if needs[2]:
            initial = xp.zeros(shape, x.dtype) if h0 is None else h0
            past = xp.concatenate((y, initial))[steps.before]
            gw_hh = _joined([_product(part.T, past, x.dtype) for part in of_states])
        if bias_ih is not None:
            gb_ih, gb_hh = _sums(of_inputs), _joined([_sums(part) for part in of_states])
        if h0 is not None:
            begun, at = dz[steps.first], 0
            for part in _parts(begun, op, hidden)[1]:
                dh += _product(part, weight_hh[at : at + part.shape[1]], np.float32)
                at += part.shape[1]
            gh = dh.astype(x.dtype)
        found = (gx, gw_ih, gw_hh, gb_ih, gb_hh, gh)
        return (*found, dc.astype(x.dtype), None) if op == "lstm" else found

    return Row("rnn_step_backward_kernel", name, run, declines)


def _parts(dz: Any, op: str, hidden: int) -> tuple[Any, list[Any]]:
    """Return the sums' gradients as the inputs' weights have them, and as the states' have them: pieces, one after
    another."""
    if op == "gru":  # its fourth slot is the states' part of the third gate
        return dz[:, : 3 * hidden], [dz[:, : 2 * hidden], dz[:, 3 * hidden :]]
    return dz, [dz]


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else array_library().concatenate(parts)


def _sums(a: Any) -> Any:
    from triton_kernels import reduce

    out = empty((a.shape[1],), a.dtype)
    reduce.reduce_forward("sum", a, (0,), out)
    return out


ROWS = {op + suffix: make(op) for op in ("lstm", "gru", "rnn")
        for suffix, make in (("", _forward), (".backward", _backward))}  # fmt: skip
