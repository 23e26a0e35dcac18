"""Recurrent layers: `RNN`, `LSTM` and `GRU`, over whole sequences, in several layers and both directions."""

from __future__ import annotations

import math
from typing import Any

from ...base.errors import text
from ...base.lazy_import import lazy_attributes
from ...base.source import warn
from ...dispatch import autocast
from ...ops.creation import empty
from ...ops.recurrence import GATES, run_layers
from ...tensors.tensor import Tensor
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share: the weights of all layers and directions, checks, and packed sequences.

    mode : "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".

    The parameters are ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0`` (``weight_hr_l0`` with a
    projection), the same with ``_reverse``, and so for each layer; they start uniform in ±1/sqrt(hidden_size).

    >>> import core
    >>> [name for name, _ in core.nn.RNNBase("GRU", 3, 4).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        for name, value, wanted in (("bias", bias, bool), ("batch_first", batch_first, bool),
                                    ("input_size", input_size, int), ("hidden_size", hidden_size, int)):  # fmt: skip
            if not isinstance(value, wanted):
                raise TypeError(
                    f"{name} should be of type {wanted.__name__}, got: {type(value).__name__}\n  came: {value!r}"
                )
        if input_size <= 0:
            raise ValueError(f"input_size must be greater than zero\n  came: {input_size}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional, self.proj_size = bias, batch_first, bidirectional, proj_size
        if isinstance(dropout, bool) or not 0 <= float(dropout) <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             f"being zeroed\n  came: {dropout!r}")  # fmt: skip
        self.dropout = float(dropout)
        if self.dropout > 0 and num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            )
        if hidden_size <= 0:
            raise ValueError(f"hidden_size must be greater than zero\n  came: {hidden_size}")
        if num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero\n  came: {num_layers}")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections\n  came: "
                             f"{proj_size}")  # fmt: skip
        if proj_size >= hidden_size:
            raise ValueError(f"proj_size has to be smaller than hidden_size\n  came: {proj_size} and {hidden_size}")
        if mode not in _MODES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        directions, gates, width = 2 if bidirectional else 1, GATES[_MODES[mode]], proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            n_in = input_size if layer == 0 else width * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates * hidden_size, n_in), "weight_hh": (gates * hidden_size, width),
                }  # fmt: skip
                if bias:
                    shapes |= {"bias_ih": (gates * hidden_size,), "bias_hh": (gates * hidden_size,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = {f"{stem}_l{layer}{suffix}": shape for stem, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: the weights need not lie behind one another here."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction, in lists."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [w for weights in self.all_weights for w in weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    def _layers(self) -> list[list[Tensor | None]]:
        """Return the weights of each layer and direction, None in the places of biases that it has not."""
        own, layers = self._parameters, []
        for names in self._all_weights:
            weights = [p if (p := own.get(n)) is not None else getattr(self, n) for n in names]
            layers.append(weights if self.bias else [*weights[:2], None, None, *weights[2:]])
        return layers  # type: ignore[return-value]

    # -- checks --------------------------------------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """ValueError for an input of another dtype than the weights', RuntimeError for one of a wrong shape."""
        want = self._all_weights[0][0]
        dtype = getattr(self, want).dtype
        if input.dtype is not dtype and not autocast.busy():
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                             f"input.to({dtype}), or convert model: model.to({input.dtype})")  # fmt: skip
        needed = 3 if batch_sizes is None else 2
        if input.ndim != needed:
            raise RuntimeError(f"input must have {needed} dimensions, got {input.ndim}")
        if input._a.shape[-1] != self.input_size:
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected "
                               f"{self.input_size}, got {input._a.shape[-1]}")  # fmt: skip
        if batch_sizes is None and not input._a.shape[1 if self.batch_first else 0]:
            raise RuntimeError(
                f"Expected sequence length to be larger than 0 in RNN\n  came: shape {tuple(input.shape)}"
            )

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes._a[0])
        return int(input._a.shape[0 if self.batch_first else 1])

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the states h."""
        return len(self._all_weights), self._batch(input, batch_sizes), self.proj_size or self.hidden_size

    def check_hidden_size(self, hx: Tensor, expected_hidden_size: tuple[int, int, int],
                          msg: str = "Expected hidden size {}, got {}") -> None:  # fmt: skip
        """RuntimeError for a state of another shape."""
        if tuple(hx._a.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of the input and the state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- forward -------------------------------------------------------------------------------------------------------

    def _states_of(self, hx: Any) -> list[Tensor]:
        return [hx]

    def _hidden(self, states: list[Tensor]) -> Any:
        return states[0]

    def _check_dims(self, hx: Any, batched: bool) -> None:
        if not isinstance(hx, Tensor):
            raise TypeError(text("hx must be one tensor, h_0", op=self.mode, came=f"a {type(hx).__name__}",
                                 remedy="h_0 alone; a pair (h_0, c_0) is the state of an LSTM"))  # fmt: skip
        if hx.ndim != (3 if batched else 2):
            kind, needed = ("batched 3-D", "3-D") if batched else ("unbatched 2-D", "2-D")
            raise RuntimeError(f"For {kind} input, hx should also be {needed} but got {hx.ndim}-D tensor")

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = input if isinstance(input, PackedSequence) else None
        batch_sizes, sizes, batched, order, way_back = None, None, True, None, None
        if packed is not None:
            x, batch_sizes, order, way_back = packed
            sizes = tuple(batch_sizes._a.tolist())
            if hx is not None:
                hx = self.permute_hidden(hx, order)
        else:
            x = input
            if not isinstance(x, Tensor):
                raise TypeError(
                    f"{self._get_name()}: input must be a Tensor or a PackedSequence, got {type(x).__name__}"
                )
            if x.ndim not in (2, 3):
                raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {x.ndim}D tensor instead")
            batched = x.ndim == 3
            if hx is not None:
                self._check_dims(hx, batched)
            if not batched:
                x = x.unsqueeze(0 if self.batch_first else 1)  # type: ignore[attr-defined]
                hx = None if hx is None else self._each(hx, lambda s: s.unsqueeze(1))
        states = None
        if hx is None:
            self.check_input(x, batch_sizes)
        else:
            self.check_forward_args(x, hx, batch_sizes)
            states = self._states_of(hx)
        y, *last = run_layers(_MODES[self.mode], x, states, self._layers(), self.dropout, self.training,
                              self.bidirectional, self.batch_first, sizes)  # fmt: skip
        hidden = self._hidden(last)
        if packed is not None:
            return PackedSequence(y, batch_sizes, order, way_back), self.permute_hidden(hidden, way_back)
        if batched:
            return y, hidden
        return y.squeeze(0 if self.batch_first else 1), self._each(hidden, lambda s: s.squeeze(1))  # type: ignore[attr-defined]

    @staticmethod
    def _each(hx: Any, change: Any) -> Any:
        return tuple(change(s) for s in hx) if isinstance(hx, tuple | list) else change(hx)

    def extra_repr(self) -> str:
        said = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                              ("dropout", 0), ("bidirectional", False)):  # fmt: skip
            value = getattr(self, name)
            if value != default:
                said.append(f"{name}={value}")
        return ", ".join(said)


class RNN(RNNBase):
    """Plain recurrent layers: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu. Source: Elman, 1990.

    Called as ``RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
    dropout=0.0, bidirectional=False)``; dropout stands between the layers, in training.

    *Shapes*: (steps, batch, input_size), with batch_first (batch, steps, input_size), without a batch (steps,
    input_size), or a `PackedSequence`; h (layers * directions, batch, hidden_size), zeros if left out. Gives the last
    layer's outputs, directions behind one another, and the last h of all layers.
    *Raises*: ValueError, RuntimeError for an input or state that does not fit.

    >>> import core
    >>> y, h = core.nn.RNN(3, 4, nonlinearity="relu")(core.ones(5, 2, 3))
    >>> y.shape, h.shape
    (core.Size([5, 2, 4]), core.Size([1, 2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 *args: Any, **kwargs: Any) -> None:  # fmt: skip
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units. Source: Cho et al., arXiv:1406.1078.

    ``r, z = sigmoid(W x + b + U h + c)``, ``n = tanh(W_n x + b_n + r * (U_n h + c_n))``, ``h' = (1 - z) n + z h``.
    Called as ``GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False)``. *Shapes* and *Raises*: those of `RNN`.

    >>> import core
    >>> y, h = core.nn.GRU(3, 4, num_layers=2, bidirectional=True)(core.ones(5, 2, 3))
    >>> y.shape, h.shape
    (core.Size([5, 2, 8]), core.Size([4, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory. Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997).

    ``i, f, o = sigmoid(...)``, ``g = tanh(...)`` of ``W x + b + U h + c``; ``c' = f c + i g``, ``h' = o tanh(c')``, and
    with `proj_size` a product of that with weight_hr (arXiv:1402.1128). Called as ``LSTM(input_size, hidden_size,
    num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0)``; the state is
    ``(h, c)``. *Shapes* and *Raises*: those of `RNN`; with a projection h has proj_size features.

    >>> import core
    >>> y, (h, c) = core.nn.LSTM(3, 4, batch_first=True, proj_size=2)(core.ones(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    (core.Size([2, 5, 2]), core.Size([1, 2, 2]), core.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the states c."""
        return len(self._all_weights), self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """All checks of the input and the states."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")  # fmt: skip
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")  # fmt: skip

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the states with their sequences in another order."""
        if isinstance(hx, Tensor):
            raise TypeError("lstm() received an invalid combination of arguments: hx must be a tuple (h_0, c_0), not a "
                            f"tensor of shape {tuple(hx.shape)}")  # fmt: skip
        return hx if permutation is None else tuple(s.index_select(1, permutation) for s in hx)

    def _states_of(self, hx: Any) -> list[Tensor]:
        return list(hx)

    def _hidden(self, states: list[Tensor]) -> Any:
        return tuple(states)

    def _check_dims(self, hx: Any, batched: bool) -> None:
        if isinstance(hx, Tensor) or len(hx) != 2:
            came = f"a tensor of shape {tuple(hx.shape)}" if isinstance(hx, Tensor) else f"{len(hx)} states"
            raise IndexError(f"LSTM takes two states, (h_0, c_0); index 1 is out of bounds\n  came: {came}")
        if any(s.ndim != (3 if batched else 2) for s in hx):
            kind, needed = ("batched 3-D", "3-D") if batched else ("unbatched 2-D", "2-D")
            raise RuntimeError(f"For {kind} input, hx and cx should also be {needed} but got ({hx[0].ndim}-D, "
                               f"{hx[1].ndim}-D) tensors")  # fmt: skip


__getattr__, __dir__ = lazy_attributes(
    __name__, {"GRUCell": ".rnn_cell", "LSTMCell": ".rnn_cell", "RNNCell": ".rnn_cell", "RNNCellBase": ".rnn_cell"}
)  # they stand there in PyTorch
