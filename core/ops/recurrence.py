"""Recurrent networks as functions: layers above one another in one or both directions, and single steps.

They stand behind ``nn.LSTM``, ``nn.GRU``, ``nn.RNN`` and their cells, under PyTorch's names. A packed sequence is given
as its rows and the tensor that says how many sequences have each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..base.errors import text
from ..declare.kinds import Tensors
from ..dispatch import autocast
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .dropout import dropout as thin
from .joining import cat, stack
from .recurrent import Sizes, count_steps, gru_layer, lstm_layer, rnn_layer

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_LAYERS: dict[str, Any] = {
    "lstm": lstm_layer, "gru": gru_layer, "rnn_tanh": partial(rnn_layer, nonlinearity="tanh"),
    "rnn_relu": partial(rnn_layer, nonlinearity="relu"),
}  # fmt: skip
Weights = Sequence[Tensor | None]  # weight_ih, weight_hh, bias_ih, bias_hh, and of a projected LSTM weight_hr


def _cast(x: Tensor, states: Any, layers: Sequence[Weights]) -> Any:
    """All tensors in the type that autocast asks for, where it is on."""
    if not autocast.busy() or x.device.type not in autocast.state.on:
        return x, states, layers
    d = autocast.state.dtypes[x.device.type]

    def cast(t: Any) -> Any:
        return t.to(d) if t is not None else None

    return cast(x), states and [cast(s) for s in states], [[cast(w) for w in layer] for layer in layers]


def _check_layer(op: str, x: Tensor, weights: Weights, states: Sequence[Tensor | None], batch: int) -> None:
    """RuntimeError where a layer's input, weights and states do not belong together."""
    w_ih, w_hh = weights[0], weights[1]
    assert w_ih is not None
    assert w_hh is not None
    w_hr = weights[4] if len(weights) > 4 else None
    gates, width, n_in = GATES[op], w_hh._a.shape[1], x._a.shape[-1]
    hidden = width if w_hr is None else w_hr._a.shape[1]
    for t in (*weights, *states):
        if t is not None and t._kind is not x._kind:
            if t._kind.device is not x._kind.device:
                raise RuntimeError(text("Expected all tensors to be on the same device, but found at least two "
                                        f"devices, {x.device} and {t.device}!", op=op,
                                        remedy="layer.to(x.device)"))  # fmt: skip
            if t._kind.dtype is x._kind.dtype:
                continue  # one of them has a hidden dimension: a vmap runs
            raise RuntimeError(text("mat1 and mat2 must have the same dtype, but got "
                                    f"{x.dtype.scalar_type} and {t.dtype.scalar_type}", op=op,
                                    remedy="x.to(weight.dtype), or layer.to(x.dtype)"))  # fmt: skip
    if w_ih._a.shape[1] != n_in:
        rows = x._a.size // max(n_in, 1)
        raise RuntimeError(text(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{n_in} and {w_ih._a.shape[1]}x"
                                f"{w_ih._a.shape[0]})", op=op, came=f"an input of {n_in} features",
                                needed=f"{w_ih._a.shape[1]}, as weight_ih has columns"))  # fmt: skip
    if w_ih._a.shape[0] != gates * hidden or w_hh._a.shape[0] != gates * hidden:
        raise RuntimeError(text(f"weight_ih first dim must be {gates} * hidden_size = {gates * hidden}, but got "
                                f"{w_ih._a.shape[0]}", op=op,
                                came=f"weight_hh of shape {tuple(w_hh.shape)}"))  # fmt: skip
    for s, n in zip(states, (width, hidden), strict=False):
        if s is not None and tuple(s._a.shape) != (batch, n):
            raise RuntimeError(text(f"Expected hidden size {(batch, n)}, got {list(s._a.shape)}", op=op))


def run_layers(op: str, x: Tensor, states: Sequence[Tensor] | None, layers: Sequence[Weights], dropout: float,
               train: bool, bidirectional: bool, batch_first: bool, sizes: Sizes) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the outputs of the last layer and the last states of all, (layers * directions, batch, hidden) each.

    `states` has one tensor of that shape for each state, or is None for zeros; `layers` the weights, directions next
    to one another.
    """
    directions = 2 if bidirectional else 1
    run, n_states = _LAYERS[op], 2 if op == "lstm" else 1
    batch = count_steps(x._a.shape, batch_first, sizes)[1]
    x, states, layers = _cast(x, states, layers)
    if states is None:
        initial: list[Any] = [(None,) * n_states] * len(layers)
    else:
        for s in states:
            if s._a.ndim != 3 or s._a.shape[0] != len(layers):
                raise RuntimeError(text(f"Expected hidden size {(len(layers), batch, '*')}, got {list(s._a.shape)}",
                                        op=op))  # fmt: skip
        initial = list(zip(*(s.unbind(0) for s in states), strict=True))  # type: ignore[attr-defined]
    last: list[tuple[Tensor, ...]] = []
    for first in range(0, len(layers), directions):
        outs = []
        for i in range(first, first + directions):
            w_ih, w_hh, b_ih, b_hh, *projection = layers[i]
            _check_layer(op, x, layers[i], initial[i], batch)
            rest = (*initial[i], *(projection or [None])) if op == "lstm" else initial[i]
            y, *after = run(x, w_ih, w_hh, b_ih, b_hh, *rest, reverse=i > first, batch_first=batch_first, sizes=sizes)
            outs.append(y)
            last.append(tuple(after))
        x = outs[0] if directions == 1 else cat(outs, -1)
        if dropout > 0 and train and first + directions < len(layers):
            # PyTorch's layers run steps first, and so do its random numbers
            x = thin(x.transpose(0, 1), dropout).transpose(0, 1) if batch_first else thin(x, dropout)  # type: ignore[attr-defined]
    return (x, *(s[0].unsqueeze(0) if len(s) == 1 else stack(s) for s in zip(*last, strict=True)))  # type: ignore[attr-defined]


def _grouped(op: str, params: Sequence[Tensor], has_biases: bool, count: int, projected: bool) -> list[Weights]:
    """Return the flat list of parameters as the weights of each layer and direction."""
    n = (4 if has_biases else 2) + projected
    if len(params) != n * count:
        raise RuntimeError(text("got an incorrect number of RNN parameters", op=op, came=str(len(params)),
                                needed=f"{n * count}: {n} for each layer and direction"))  # fmt: skip
    groups: list[Weights] = []
    for i in range(0, len(params), n):
        group: list[Any] = list(params[i : i + n])
        if not has_biases:
            group[2:2] = [None, None]
        groups.append(group)
    return groups


_DENSE = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")


def _call(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    packed = "batch_sizes" in kwargs or "data" in kwargs or (len(args) > 3 and isinstance(args[3], list | tuple))
    names = _PACKED if packed else _DENSE
    given = dict(zip(names, args, strict=False))
    unknown = [k for k in kwargs if k not in names or k in given]
    given |= kwargs
    missing = [k for k in names if k not in given]
    if unknown or missing or len(args) > len(names):
        raise TypeError(f"{op}() received an invalid combination of arguments; it takes ({', '.join(_DENSE)}) or "
                        f"({', '.join(_PACKED)})")  # fmt: skip
    x, hx = given["data"] if packed else given["input"], given["hx"]
    if op == "lstm" and (isinstance(hx, Tensor) or len(hx) != 2):
        raise RuntimeError(text("lstm expects two hidden states", op=op, needed="hx=(h0, c0)"))
    states = list(hx) if op == "lstm" else [hx]
    projected = op == "lstm" and hx[0].shape[-1] != hx[1].shape[-1]
    directions = 2 if given["bidirectional"] else 1
    layers = _grouped(op, given["params"], given["has_biases"], given["num_layers"] * directions, projected)
    sizes = tuple(given["batch_sizes"]._a.tolist()) if packed else None
    return run_layers(op, x, states, layers, given["dropout"], given["train"], given["bidirectional"],
                      bool(given.get("batch_first")), sizes)  # fmt: skip


@public(method=False)
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """LSTM layers: ``lstm(input, (h0, c0), params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first)``, or for packed rows ``lstm(data, batch_sizes, (h0, c0), params, has_biases, num_layers, dropout,
    train, bidirectional)``.

    `params` lists weight_ih, weight_hh, bias_ih, bias_hh (and weight_hr) of each layer and direction. ``nn.LSTM`` keeps
    them for you.

    *Shapes*: (steps, batch, inputs) and (layers * directions, batch, hidden) -> the outputs, h_n, c_n.
    *Raises*: RuntimeError for a wrong number of states or parameters, or ones that do not fit.

    >>> import core
    >>> x, state = core.ones(5, 2, 3), core.zeros(1, 2, 4)
    >>> y, h, c = core.lstm(x, (state, state), [core.ones(16, 3), core.ones(16, 4)], False, 1, 0.0, False, False, False)
    >>> y.shape, h.shape
    (core.Size([5, 2, 4]), core.Size([1, 2, 4]))
    """
    return _call("lstm", args, kwargs)  # type: ignore[return-value]


@public(method=False)
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """GRU layers: as `lstm`, with one state ``hx``.

    >>> import core
    >>> x, state = core.ones(5, 2, 3), core.zeros(1, 2, 4)
    >>> y, h = core.gru(x, state, [core.ones(12, 3), core.ones(12, 4)], False, 1, 0.0, False, False, False)
    >>> y.shape, h.shape
    (core.Size([5, 2, 4]), core.Size([1, 2, 4]))
    """
    return _call("gru", args, kwargs)  # type: ignore[return-value]


@public(method=False)
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Plain recurrent layers with tanh: as `lstm`, with one state ``hx``.

    >>> import core
    >>> x, state = core.zeros(5, 2, 3), core.zeros(1, 2, 4)
    >>> y, h = core.rnn_tanh(x, state, [core.ones(4, 3), core.ones(4, 4)], False, 1, 0.0, False, False, False)
    >>> y.sum()
    tensor(0.)
    """
    return _call("rnn_tanh", args, kwargs)  # type: ignore[return-value]


@public(method=False)
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Plain recurrent layers with relu: as `lstm`, with one state ``hx``.

    >>> import core
    >>> x, state = core.ones(2, 1, 1), core.zeros(1, 1, 1)
    >>> y, h = core.rnn_relu(x, state, [core.ones(1, 1), core.ones(1, 1)], False, 1, 0.0, False, False, False)
    >>> y.flatten()
    tensor([1., 2.])
    """
    return _call("rnn_relu", args, kwargs)  # type: ignore[return-value]


# -- single steps ------------------------------------------------------------------------------------------------------


def run_step(op: str, input: Tensor, states: Sequence[Tensor | None], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
             b_hh: Tensor | None) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the states after one step of (batch, inputs)."""
    name = f"{op}_cell"
    if input._a.ndim != 2:
        raise IndexError(text(f"{name}: Expected input to be 2D, got {input._a.ndim}D instead", op=name,
                              remedy="input.unsqueeze(0)"))  # fmt: skip
    batch, n_in = input._a.shape
    if n_in != w_ih._a.shape[1]:
        raise RuntimeError(text(f"input has inconsistent input_size: got {n_in} expected {w_ih._a.shape[1]}", op=name))
    for i, s in enumerate(states):
        if s is None:
            continue
        if s._a.ndim != 2 or s._a.shape[0] != batch:
            raise RuntimeError(text(f"Input batch size {batch} doesn't match hidden{i} batch size {s._a.shape[0]}",
                                    op=name, came=f"hidden{i} of shape {tuple(s.shape)}"))  # fmt: skip
        if s._a.shape[1] != w_hh._a.shape[1]:
            raise RuntimeError(text(f"hidden{i} has inconsistent hidden_size: got {s._a.shape[1]}, expected "
                                    f"{w_hh._a.shape[1]}", op=name))  # fmt: skip
    _check_layer(op, input, (w_ih, w_hh, b_ih, b_hh), states, batch)
    rest = (*states, None) if op == "lstm" else tuple(states)
    found = _LAYERS[op](input, w_ih, w_hh, b_ih, b_hh, *rest, reverse=False, batch_first=False, sizes=(batch,))
    return found[1:]  # type: ignore[no-any-return]


@public(method=False)
def lstm_cell(input: Tensor, hx: Tensors, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
              b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of an LSTM: ``(h, c)`` after it. The gates' rows of the weights are in the order i, f, g, o.

    *Shapes*: input (batch, inputs), the states (batch, hidden). *Raises*: RuntimeError where they do not fit.

    >>> import core
    >>> state = (core.zeros(1, 1), core.zeros(1, 1))
    >>> core.lstm_cell(core.ones(1, 1), state, core.ones(4, 1), core.ones(4, 1))
    (tensor([[0.3696]]), tensor([[0.5568]]))
    """
    if isinstance(hx, Tensor):
        raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
    if len(hx) != 2:
        raise RuntimeError(text("lstm_cell expects two hidden states", op="lstm_cell", needed="hx=(h, c)"))
    return run_step("lstm", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)  # type: ignore[return-value]


@public(method=False)
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
             b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """One step of a GRU. The gates' rows of the weights are in the order r, z, n.

    >>> import core
    >>> core.gru_cell(core.ones(1, 1), core.zeros(1, 1), core.ones(3, 1), core.ones(3, 1))
    tensor([[0.2048]])
    """
    return run_step("gru", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public(method=False)
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
                  b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """``tanh(w_ih input + b_ih + w_hh hx + b_hh)``.

    >>> import core
    >>> core.rnn_tanh_cell(core.ones(1, 1), core.zeros(1, 1), core.ones(1, 1), core.ones(1, 1))
    tensor([[0.7616]])
    """
    return run_step("rnn_tanh", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@public(method=False)
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
                  b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """``relu(w_ih input + b_ih + w_hh hx + b_hh)``.

    >>> import core
    >>> core.rnn_relu_cell(core.ones(1, 1), core.ones(1, 1), core.ones(1, 1), core.ones(1, 1))
    tensor([[2.]])
    """
    return run_step("rnn_relu", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
