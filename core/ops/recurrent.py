"""Recurrent layers as ops: one layer in one direction over all its steps.

`x` is (steps, batch, inputs), with `batch_first` (batch, steps, inputs), or, where `sizes` says how many sequences have
each step, the packed rows (sum(sizes), inputs). The weights are PyTorch's: the gates' rows behind one another. The C
kernels do a layer in one call (core/native/kernels/rnn.c); the gradient's text in ops is that of the steps one by one.
Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997); Cho et al., arXiv:1406.1078; Sak et al.,
arXiv:1402.1128 for the projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import gradients
from ..base.modes import enable_grad
from ..base.modes import state as mode
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor
from .creation import zeros
from .elementwise import relu, sigmoid, tanh
from .joining import cat, stack
from .linalg import linear

Sizes = tuple[int, ...] | None


def count_steps(shape: Sequence[int], batch_first: bool, sizes: Sizes) -> tuple[int, int]:
    """Steps and sequences."""
    if sizes is not None:
        return len(sizes), sizes[0]
    return (shape[1], shape[0]) if batch_first else (shape[0], shape[1])


# -- the reference -----------------------------------------------------------------------------------------------------


def _sigmoid(xp: Any, x: Any) -> Any:
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _places(shape: Sequence[int], reverse: bool, batch_first: bool, sizes: Sizes) -> list[tuple[Any, int]]:
    """Return where each step's rows are, and how many, in the order in which they are gone through."""
    steps, batch = count_steps(shape, batch_first, sizes)
    if sizes is None:
        places: list[tuple[Any, int]] = [((slice(None), t) if batch_first else t, batch) for t in range(steps)]
    else:
        ends = np.cumsum(sizes)
        places = [(slice(int(end) - n, int(end)), n) for end, n in zip(ends, sizes, strict=True)]
    return places[::-1] if reverse else places


def _prepared(xp: Any, x: Any, arrays: Sequence[Any], batch: int, hidden: int) -> tuple[Any, list[Any], Any]:
    """All arrays in the type to compute in (half-precision types in float32); a state of zeros."""
    wide = np.float32 if x.dtype.itemsize < 4 else x.dtype
    return wide, [None if a is None else a.astype(wide) for a in arrays], xp.zeros((batch, hidden), wide)


def _lstm_forward(xp: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any,
                  weight_hr: Any, reverse: bool, batch_first: bool, sizes: Sizes) -> Any:  # fmt: skip
    n_hidden, n_out = weight_hh.shape[0] // 4, weight_hh.shape[1]
    batch = count_steps(x.shape, batch_first, sizes)[1]
    given = (x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, weight_hr)
    wide, (rows, w_ih, w_hh, b_ih, b_hh, h0, c0, w_hr), c = _prepared(xp, x, given, batch, n_hidden)
    h = xp.zeros((batch, n_out), wide) if h0 is None else h0.copy()
    c = c if c0 is None else c0.copy()
    bias = 0 if b_ih is None else b_ih + b_hh
    sums = rows @ w_ih.T + bias
    lead = x.shape[:-1]
    y, cells = xp.empty((*lead, n_out), wide), xp.empty((*lead, n_hidden), wide)
    gates = xp.empty((*lead, 4 * n_hidden), wide)
    for at, n in _places(x.shape, reverse, batch_first, sizes):
        z = sums[at] + h[:n] @ w_hh.T
        i, f, g, o = (z[:, k * n_hidden : (k + 1) * n_hidden] for k in range(4))
        i, f, g, o = _sigmoid(xp, i), _sigmoid(xp, f), xp.tanh(g), _sigmoid(xp, o)
        c[:n] = f * c[:n] + i * g
        out = o * xp.tanh(c[:n])
        h[:n] = out if w_hr is None else out @ w_hr.T
        gates[at], cells[at], y[at] = xp.concatenate((i, f, g, o), 1), c[:n], h[:n]
    return tuple(a.astype(x.dtype, copy=False) for a in (y, h, c, gates, cells))


def _gru_forward(xp: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any,
                 reverse: bool, batch_first: bool, sizes: Sizes) -> Any:  # fmt: skip
    hidden = weight_hh.shape[1]
    batch = count_steps(x.shape, batch_first, sizes)[1]
    given = (x, weight_ih, weight_hh, bias_ih, bias_hh, h0)
    wide, (rows, w_ih, w_hh, b_ih, b_hh, h0), h = _prepared(xp, x, given, batch, hidden)
    h = h if h0 is None else h0.copy()
    sums = rows @ w_ih.T + (0 if b_ih is None else b_ih)
    y, gates = xp.empty((*x.shape[:-1], hidden), wide), xp.empty((*x.shape[:-1], 4 * hidden), wide)
    for at, n in _places(x.shape, reverse, batch_first, sizes):
        zx, zh = sums[at], h[:n] @ w_hh.T + (0 if b_hh is None else b_hh)
        r = _sigmoid(xp, zx[:, :hidden] + zh[:, :hidden])
        z = _sigmoid(xp, zx[:, hidden : 2 * hidden] + zh[:, hidden : 2 * hidden])
        inner = zh[:, 2 * hidden :]
        new = xp.tanh(zx[:, 2 * hidden :] + r * inner)
        h[:n] = new + z * (h[:n] - new)
        gates[at], y[at] = xp.concatenate((r, z, new, inner), 1), h[:n]
    return tuple(a.astype(x.dtype, copy=False) for a in (y, h, gates))


def _rnn_forward(xp: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, h0: Any,
                 nonlinearity: str, reverse: bool, batch_first: bool, sizes: Sizes) -> Any:  # fmt: skip
    hidden = weight_hh.shape[1]
    batch = count_steps(x.shape, batch_first, sizes)[1]
    given = (x, weight_ih, weight_hh, bias_ih, bias_hh, h0)
    wide, (rows, w_ih, w_hh, b_ih, b_hh, h0), h = _prepared(xp, x, given, batch, hidden)
    h = h if h0 is None else h0.copy()
    sums = rows @ w_ih.T + (0 if b_ih is None else b_ih + b_hh)
    y = xp.empty((*x.shape[:-1], hidden), wide)
    for at, n in _places(x.shape, reverse, batch_first, sizes):
        z = sums[at] + h[:n] @ w_hh.T
        y[at] = h[:n] = xp.tanh(z) if nonlinearity == "tanh" else xp.maximum(z, 0)
    return y.astype(x.dtype, copy=False), h.astype(x.dtype, copy=False)


# -- the same in ops, step by step -------------------------------------------------------------------------------------


def _lstm_step(x: Tensor, state: Any, w_hh: Tensor, b_hh: Any, w_hr: Any) -> Any:
    h, c = state
    i, f, g, o = (x + linear(h, w_hh, b_hh)).chunk(4, 1)  # type: ignore[attr-defined]
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if w_hr is None else linear(h, w_hr)), c


def _gru_step(x: Tensor, state: Any, w_hh: Tensor, b_hh: Any, w_hr: Any) -> Any:
    (h,) = state
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), linear(h, w_hh, b_hh).chunk(3, 1)  # type: ignore[attr-defined]
    new = tanh(xn + sigmoid(xr + hr) * hn)
    return (new + sigmoid(xz + hz) * (h - new),)


def _tanh_step(x: Tensor, state: Any, w_hh: Tensor, b_hh: Any, w_hr: Any) -> Any:
    return (tanh(x + linear(state[0], w_hh, b_hh)),)


def _relu_step(x: Tensor, state: Any, w_hh: Tensor, b_hh: Any, w_hr: Any) -> Any:
    return (relu(x + linear(state[0], w_hh, b_hh)),)


def _in_steps(step: Any, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any, states: Sequence[Any],
              w_hr: Any, reverse: bool, batch_first: bool, sizes: Sizes) -> tuple[Tensor, ...]:  # fmt: skip
    """y and the last states; where sequences end sooner than others, their states wait at the side."""
    steps, batch = count_steps(x.shape, batch_first, sizes)
    sums = linear(x, w_ih, b_ih)
    pieces = sums.unbind(1 if batch_first else 0) if sizes is None else sums.split(list(sizes))  # type: ignore[attr-defined]
    counts = (batch,) * steps if sizes is None else sizes
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    state = tuple(s[: counts[order[0]]] for s in states)
    ended: list[tuple[Tensor, ...]] = []
    outs: list[Any] = [None] * steps
    for t in order:
        n, have = counts[t], state[0].shape[0]
        if n > have:
            state = tuple(cat((s, s0[have:n])) for s, s0 in zip(state, states, strict=True))
        elif n < have:
            ended.append(tuple(s[n:] for s in state))
            state = tuple(s[:n] for s in state)
        state = step(pieces[t], state, w_hh, b_hh, w_hr)
        outs[t] = state[0]
    if ended:
        state = tuple(cat(parts) for parts in zip(state, *reversed(ended), strict=True))
    return (stack(outs, 1 if batch_first else 0) if sizes is None else cat(outs)), *state


def _gradients(step: Any, g: Sequence[Tensor], needs: Sequence[bool], given: Sequence[Tensor | None], n_states: int,
               params: dict[str, Any]) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of x, the four weights, the states and the projection, by going through the steps again.

    Each input stands under a name of its own, so that the pass ends there; with `create_graph` its history is behind
    it, and the gradients have one.
    """
    again = mode.enabled
    with enable_grad():
        own: list[Any] = []
        for t, need in zip(given, needs, strict=True):
            if t is not None and need:
                t = t.view(t.shape) if again and t.requires_grad else t.detach().requires_grad_()  # type: ignore[attr-defined]
            own.append(t)
        x, w_ih, w_hh, b_ih, b_hh = own[:5]
        batch = count_steps(x.shape, params["batch_first"], params["sizes"])[1]
        w_hr = own[7] if n_states == 2 else None
        widths = (w_hh.shape[1], w_hh.shape[0] // 4)[:n_states]
        states = [zeros(batch, w, dtype=x.dtype, device=x.device) if s is None else s
                  for s, w in zip(own[5 : 5 + n_states], widths, strict=True)]  # fmt: skip
        outs = _in_steps(step, x, w_ih, w_hh, b_ih, b_hh, states, w_hr, **params)
        wanted = [t for t, need in zip(own, needs, strict=True) if need]
        pairs = [(o, go) for o, go in zip(outs, g, strict=True) if o.requires_grad]
        found = iter(gradients.grad([o for o, _ in pairs], wanted, [go for _, go in pairs], create_graph=again,
                                   allow_unused=True))  # fmt: skip
    return tuple(next(found) if need else None for need in needs)


# The hidden outputs `y`, `gates` and `cells` are what the C kernels' gradient starts from; the one in ops does not.
def _lstm_vjp(g: Any, x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Any, bias_hh: Any, h0: Any, c0: Any,
              weight_hr: Any, y: Tensor, gates: Tensor, cells: Tensor, needs: Any, reverse: bool, batch_first: bool,
              sizes: Sizes) -> Any:  # fmt: skip
    params = {"reverse": reverse, "batch_first": batch_first, "sizes": sizes}
    given = (x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, weight_hr)
    return _gradients(_lstm_step, g, needs, given, 2, params)


def _gru_vjp(g: Any, x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Any, bias_hh: Any, h0: Any, y: Tensor,
             gates: Tensor, needs: Any, reverse: bool, batch_first: bool, sizes: Sizes) -> Any:  # fmt: skip
    params = {"reverse": reverse, "batch_first": batch_first, "sizes": sizes}
    return _gradients(_gru_step, g, needs, (x, weight_ih, weight_hh, bias_ih, bias_hh, h0), 1, params)


def _rnn_vjp(g: Any, x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Any, bias_hh: Any, h0: Any, y: Tensor,
             needs: Any, nonlinearity: str, reverse: bool, batch_first: bool, sizes: Sizes) -> Any:  # fmt: skip
    params = {"reverse": reverse, "batch_first": batch_first, "sizes": sizes}
    step = _tanh_step if nonlinearity == "tanh" else _relu_step
    return _gradients(step, g, needs, (x, weight_ih, weight_hh, bias_ih, bias_hh, h0), 1, params)


def _samples(gates: int, states: int, extra: dict[str, Any] | None = None, projected: bool = False) -> Any:
    """Both directions, both layouts, packed rows, with and without biases and initial states."""

    def make(rng: Any) -> Any:
        def case(lead: tuple[int, ...], n_in: int, hidden: int, bias: bool, initial: bool, out: int = 0,
                 **params: Any) -> Any:  # fmt: skip
            def draw(*shape: int) -> Any:
                return rng.uniform(-0.5, 0.5, shape)

            batch = count_steps((*lead, n_in), params.get("batch_first", False), params.get("sizes"))[1]
            arrays = [2 * draw(*lead, n_in), draw(gates * hidden, n_in), draw(gates * hidden, out or hidden)]
            arrays += [draw(gates * hidden) if bias else None for _ in range(2)]
            arrays += [draw(batch, w) if initial else None for w in (out or hidden, hidden)[:states]]
            if states == 2:
                arrays.append(draw(out, hidden) if out else None)
            return tuple(arrays), {"reverse": False, "batch_first": False, "sizes": None, **(extra or {}), **params}

        cases = [case((3, 2), 2, 2, True, True), case((2, 2), 3, 1, True, False, batch_first=True, reverse=True),
                 case((4,), 1, 2, True, True, sizes=(3, 1)),
                 case((5,), 2, 1, False, True, sizes=(2, 2, 1), reverse=True)]  # fmt: skip
        return [*cases, case((2, 2), 1, 2, True, True, 1)] if projected else cases

    return make


_INPUTS = "x weight_ih weight_hh bias_ih? bias_hh? h0?"
_PARAMS: dict[str, Any] = {"reverse": False, "batch_first": False, "sizes": None}

lstm_layer = operation(
    "lstm", _lstm_forward, inputs=f"{_INPUTS} c0? weight_hr?", params=_PARAMS, outputs="y h c gates cells", returns=3,
    vjp=_lstm_vjp, samples=_samples(4, 2, projected=True),
    doc="An LSTM layer in one direction: (y, h, c). Gates in the order i, f, g, o.",
)  # fmt: skip
gru_layer = operation(
    "gru", _gru_forward, inputs=_INPUTS, params=_PARAMS, outputs="y h gates", returns=2, vjp=_gru_vjp,
    samples=_samples(3, 1), doc="A GRU layer in one direction: (y, h). Gates in the order r, z, n.",
)  # fmt: skip
rnn_layer = operation(
    "rnn", _rnn_forward, inputs=_INPUTS, params={"nonlinearity": "tanh", **_PARAMS}, outputs="y h", returns=2,
    vjp=_rnn_vjp, samples=_samples(1, 1, {"nonlinearity": "tanh"}),
    doc="A plain recurrent layer in one direction: (y, h).",
)  # fmt: skip
