"""ONNX's RNN, GRU and LSTM: one step of each, run along the sequence in one direction or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .table import Call, F, row, t

_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: F.elu(x, a),
    "hardsigmoid": lambda x, a, b: (a * x + b).clamp(0, 1),
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, a),
    "relu": lambda x, a, b: t.relu(x),
    "scaledtanh": lambda x, a, b: a * t.tanh(b * x),
    "sigmoid": lambda x, a, b: t.sigmoid(x),
    "softplus": lambda x, a, b: F.softplus(x),
    "softsign": lambda x, a, b: F.softsign(x),
    "tanh": lambda x, a, b: t.tanh(x),
    "thresholdedrelu": lambda x, a, b: t.where(x > a, x, t.zeros_like(x)),
}
_ALPHA = {"affine": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "leakyrelu": 0.01, "scaledtanh": 1.0, "thresholdedrelu": 1.0}
_BETA = {"affine": 0.0, "hardsigmoid": 0.5, "scaledtanh": 1.0}


class _Way:
    """One direction: its weights, its activations and how far its values go."""

    def __init__(self, w: Any, r: Any, bias: Any, peepholes: Any, functions: Any, clip: Any, options: Any) -> None:
        self.w, self.r, self.functions, self.clip, self.options = w, r, functions, clip, options
        half = w.shape[0]
        zeros = t.zeros(2 * half, dtype=w.dtype, device=w.device)
        self.wb, self.rb = (zeros if bias is None else bias).split([half, half])
        self.peepholes = peepholes

    def act(self, k: int, x: Any) -> Any:
        """Return an activation of clipped values."""
        function, alpha, beta = self.functions[k]
        return function(x if self.clip is None else x.clamp(-self.clip, self.clip), alpha, beta)


def _rnn_step(way: _Way, x: Any, h: Any) -> tuple[Any, ...]:
    return (way.act(0, x @ way.w.t() + way.wb + h @ way.r.t() + way.rb),)


def _gru_step(way: _Way, x: Any, h: Any) -> tuple[Any, ...]:
    """The gates stand as update, reset, new."""
    n = h.shape[-1]
    gates = x @ way.w.t() + way.wb
    inner = h @ way.r[: 2 * n].t() + way.rb[: 2 * n]
    z = way.act(0, gates[:, :n] + inner[:, :n])
    r = way.act(0, gates[:, n : 2 * n] + inner[:, n:])
    if way.options["linear_before_reset"]:
        last = r * (h @ way.r[2 * n :].t() + way.rb[2 * n :])
    else:
        last = (r * h) @ way.r[2 * n :].t() + way.rb[2 * n :]
    new = way.act(1, gates[:, 2 * n :] + last)
    return ((1 - z) * new + z * h,)


def _lstm_step(way: _Way, x: Any, h: Any, c: Any) -> tuple[Any, ...]:
    """The gates stand as input, output, forget, cell; peepholes let the gates see the cell."""
    i, o, f, g = (x @ way.w.t() + way.wb + h @ way.r.t() + way.rb).chunk(4, -1)
    seen = way.peepholes.chunk(3) if way.peepholes is not None else None
    if seen is not None:
        i, f = i + seen[0] * c, f + seen[2] * c
    i = way.act(0, i)
    f = 1 - i if way.options["input_forget"] else way.act(0, f)
    c = f * c + i * way.act(1, g)
    if seen is not None:
        o = o + seen[1] * c
    return way.act(0, o) * way.act(2, c), c


def _along(way: _Way, step: Any, x: Any, lengths: Any, state: tuple[Any, ...], backward: bool) -> Any:
    """Return the hidden states (steps, batch, hidden) and the last state of each sequence."""
    count = x.shape[0]
    outputs: list[Any] = [None] * count
    for k in reversed(range(count)) if backward else range(count):
        new = step(way, x[k], *state)
        if lengths is not None:  # what is over keeps its state and gives 0
            on = (lengths > k).unsqueeze(-1)
            new = tuple(t.where(on, a, b) for a, b in zip(new, state, strict=True))
            outputs[k] = t.where(on, new[0], t.zeros_like(new[0]))
        else:
            outputs[k] = new[0]
        state = new
    return t.stack(outputs), state


def _recurrent(call: Call, step: Any, states: int, defaults: tuple[str, ...], x: Any, w: Any, r: Any, bias: Any,
               lengths: Any, initial: tuple[Any, ...], peepholes: Any = None, hidden_size: Any = None,
               direction: str = "forward", layout: int = 0, clip: Any = None, activations: Any = None,
               activation_alpha: Any = None, activation_beta: Any = None, output_sequence: int = 0,
               **options: Any) -> Any:  # fmt: skip
    x = x.transpose(0, 1) if layout else x
    ways = w.shape[0]
    names = [n.lower() for n in activations] if activations else list(defaults) * ways
    alphas, betas = iter(activation_alpha or ()), iter(activation_beta or ())
    functions = [(_ACTIVATIONS[n], next(alphas, _ALPHA[n]) if n in _ALPHA else 0.0,
                  next(betas, _BETA[n]) if n in _BETA else 0.0) for n in names]  # fmt: skip
    each = len(names) // ways
    hidden = r.shape[-1]
    found, last = [], []
    for d in range(ways):
        way = _Way(w[d], r[d], None if bias is None else bias[d], None if peepholes is None else peepholes[d],
                   functions[d * each : (d + 1) * each], clip, options)  # fmt: skip
        state = []
        for s in initial[:states]:
            if s is None:
                state.append(t.zeros((x.shape[1], hidden), dtype=x.dtype, device=x.device))
            else:
                state.append((s.transpose(0, 1) if layout else s)[d])
        backward = direction == "reverse" or d == 1
        y, end = _along(way, step, x, lengths, tuple(state), backward)
        found.append(y)
        last.append(end)
    y = t.stack(found, 1)  # steps, directions, batch, hidden
    ends = [t.stack([end[k] for end in last], 0) for k in range(states)]
    if layout:
        y, ends = y.permute((2, 0, 1, 3)), [e.transpose(0, 1) for e in ends]
    return (y, *ends)[: max(call.outputs, 1)]


@row("RNN")
def _rnn(call: Call, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h: Any = None, **how: Any) -> Any:
    return _recurrent(call, _rnn_step, 1, ("tanh",), x, w, r, bias, lengths, (h,), **how)


@row("GRU")
def _gru(call: Call, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h: Any = None,
         linear_before_reset: int = 0, **how: Any) -> Any:  # fmt: skip
    return _recurrent(call, _gru_step, 1, ("sigmoid", "tanh"), x, w, r, bias, lengths, (h,),
                      linear_before_reset=linear_before_reset, **how)  # fmt: skip


@row("LSTM")
def _lstm(call: Call, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
          peepholes: Any = None, input_forget: int = 0, **how: Any) -> Any:  # fmt: skip
    return _recurrent(call, _lstm_step, 2, ("sigmoid", "tanh", "tanh"), x, w, r, bias, lengths, (h, c), peepholes,
                      input_forget=input_forget, **how)  # fmt: skip
