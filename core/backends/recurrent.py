"""The rows of the recurrent layers: a layer's steps in one call of core/native/kernels/rnn.c."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel
from . import Row

c: Any = native.module

_LSTM, _GRU, _TANH, _RELU = range(4)


_LAYER = ("kind: int, reverse: flag, batch: int, stride: int, starts: int64[steps], sizes: int64[steps], "
          "x: real[*rows, inputs], h0: real[batch, hidden]?, c0: real[batch, hidden]?, w_ih: real[gates, inputs], "
          "w_hh: real[gates, hidden]")  # fmt: skip
_SHAPE = "struct('rnn_shape', kind, reverse, steps, batch, rows, inputs, hidden, stride, starts, sizes)"
_GIVEN = "x=x, w_ih=w_ih, w_hh=w_hh, h0=h0, c0=c0"
_FITS = ": rnn_steps_fit(starts, sizes, steps, batch, stride, rows)"
_LSTM_HAS, _SAVES_GATES = "kind == RNN_LSTM", "kind <= RNN_GRU"
_FITTING = ("0 <= kind <= RNN_RELU", "x.size", "hidden", "gates == rnn_gates(kind) * hidden")
kernel(
    "rnn",
    f"{_LAYER}, b_ih: real[gates]?, b_hh: real[gates]?",
    plan=_FITS,
    gives=f"y: real[*rows, hidden], hn: real[batch, hidden], cn: real[batch, hidden] only if {_LSTM_HAS}, "
    f"saved: real[*rows, 4 * hidden] only if {_SAVES_GATES}, cells: real[*rows, hidden] only if {_LSTM_HAS}",
    call=f"rnn_forward.T({_SHAPE}, struct('rnn_arrays', {_GIVEN}, b_ih=b_ih, b_hh=b_hh, y=y, hn=hn, cn=cn, gates=saved,"
    " cells=cells))",
    fails="memory",
    quiet="True",
    takes=(*_FITTING, "(b_ih is None) == (b_hh is None)"),
    run=False,
)
kernel(
    "rnn_backward",
    f"{_LAYER}, y: real[...], saved: real[...]?, cells: real[...]?, gy: real[...], ghn: real[...], gcn: real[...]?, "
    "wants_x: flag, has_bias: flag",
    plan=_FITS,
    gives="gx: real[*rows, inputs] if wants_x, gh0: real[batch, hidden], "
    f"gc0: real[batch, hidden] if {_LSTM_HAS}, gw_ih: real[gates, inputs], gw_hh: real[gates, hidden], "
    "gb_ih: real[gates] if has_bias, gb_hh: real[gates] if has_bias",
    call=f"rnn_backward.T({_SHAPE}, struct('rnn_arrays', {_GIVEN}, y=y, gates=saved, cells=cells, gy=gy, ghn=ghn,"
    " gcn=gcn, gx=gx, gh0=gh0, gc0=gc0, gw_ih=gw_ih, gw_hh=gw_hh, gb_ih=gb_ih, gb_hh=gb_hh))",
    fails="memory",
    quiet="True",
    takes=(*_FITTING, "y.size == rows * hidden", "gy.size == rows * hidden", "ghn.size == batch * hidden",
           f"not ({_SAVES_GATES}) or (saved is not None and saved.size == rows * 4 * hidden)",
           f"not ({_LSTM_HAS}) or (cells is not None and cells.size == rows * hidden)",
           f"not ({_LSTM_HAS}) or (gcn is not None and gcn.size == batch * hidden)"),
    run=False,
)  # fmt: skip


@lru_cache(maxsize=256)
def _steps(lead: tuple[int, ...], batch_first: bool, sizes: tuple[int, ...] | None) -> tuple[int, int, Any, Any]:
    """Return the sequences, the rows from one to the next, and for each step its first row and its number of
    sequences."""
    if sizes is not None:
        counts = np.array(sizes, np.int64)
        return sizes[0], 1, np.cumsum(counts) - counts, counts
    steps, batch = (lead[1], lead[0]) if batch_first else lead
    starts = np.arange(steps, dtype=np.int64) * (1 if batch_first else batch)
    return batch, steps if batch_first else 1, starts, np.full(steps, batch, np.int64)


def _declines(x: Any, *others: Any) -> str | None:
    if x.dtype.char not in "fd":
        return f"takes float32 and float64, got {x.dtype}"
    if any(a is not None and a.dtype != x.dtype for a in others):
        return "takes one floating type"
    if not x.size or any(a is not None and not a.size for a in others):
        return "takes no empty arrays"
    return None


def _kind(name: str, nonlinearity: str) -> int:
    return {"lstm": _LSTM, "gru": _GRU}.get(name, _TANH if nonlinearity == "tanh" else _RELU)


def _forward(name: str) -> Row:
    def declines(x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
                 weight_hr: Any = None, **params: Any) -> str | None:  # fmt: skip
        if weight_hr is not None:
            return "does no projection"
        return _declines(x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0)

    def run(x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
            weight_hr: Any = None, nonlinearity: str = "", reverse: bool = False, batch_first: bool = False,
            sizes: Any = None) -> Any:  # fmt: skip
        batch, stride, starts, counts = _steps(x.shape[:-1], batch_first, sizes)
        return c.kernels["rnn"](
            _kind(name, nonlinearity), reverse, batch, stride, starts, counts, x, h0, c0, weight_ih, weight_hh,
            bias_ih, bias_hh)  # fmt: skip

    return Row(f"{name}_forward", "C", run, declines)


def _backward(name: str) -> Row:
    def declines(g: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any = None,
                 weight_hr: Any = None, **others: Any) -> str | None:  # fmt: skip
        if weight_hr is not None:
            return "does no projection"
        return _declines(x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, *g)

    def run(g: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, y: Any, needs: Any,
            reverse: bool, batch_first: bool, sizes: Any, c0: Any = None, weight_hr: Any = None, gates: Any = None,
            cells: Any = None, nonlinearity: str = "") -> Any:  # fmt: skip
        batch, stride, starts, counts = _steps(x.shape[:-1], batch_first, sizes)
        gx, gh, gc, gw_ih, gw_hh, gb_ih, gb_hh = c.kernels["rnn_backward"](
            _kind(name, nonlinearity), reverse, batch, stride, starts, counts, x, h0, c0, weight_ih, weight_hh, y,
            gates, cells, g[0], g[1], g[2] if name == "lstm" else None, needs[0], bias_ih is not None)  # fmt: skip
        found = (gx, gw_ih, gw_hh, gb_ih, gb_hh, gh)
        return (*found, gc, None) if name == "lstm" else found

    return Row(f"{name}_backward", "C", run, declines)


_ROWS: dict[str, Callable[[str], Row]] = {"": _forward, ".backward": _backward}
rows: dict[str, Row] = {
    name + suffix: make(name) for name in ("lstm", "gru", "rnn") for suffix, make in _ROWS.items()
}  # fmt: skip
