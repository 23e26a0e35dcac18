"""Single steps of recurrent networks: `RNNCell`, `LSTMCell`, `GRUCell`."""

from __future__ import annotations

import math
from typing import Any

from ...ops.creation import empty, zeros
from ...ops.recurrence import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from ...tensors.tensor import Tensor
from .. import init
from ..parameter import Parameter
from .module import Module


class RNNCellBase(Module):
    """The weights of a cell, uniform in ±1/sqrt(hidden_size): (num_chunks * hidden_size, ...).

    >>> import core
    >>> list(core.nn.RNNCellBase(3, 4, bias=True, num_chunks=2).state_dict())
    ['weight_ih', 'weight_hh', 'bias_ih', 'bias_hh']
    """

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, what: str, t: Tensor) -> None:
        if t.ndim not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected {what} to be 1D or 2D, got {t.ndim}D instead")

    def _zeros(self, input: Tensor) -> Tensor:
        return zeros(input.shape[0], self.hidden_size, dtype=input.dtype, device=input.device)

    def _stepped(self, cell: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """One step of a cell with one state."""
        self._check("input", input)
        if hx is not None:
            self._check("hidden", hx)
        single = input.ndim == 1
        x = input.unsqueeze(0) if single else input  # type: ignore[attr-defined]
        h = self._zeros(x) if hx is None else hx.unsqueeze(0) if single else hx  # type: ignore[attr-defined]
        if h.ndim == 1:
            h = h.unsqueeze(1)  # type: ignore[attr-defined] # its length is taken for the batch, as the message says
        y = cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return y.squeeze(0) if single else y  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return said + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")


class RNNCell(RNNCellBase):
    """One step: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu.

    *Shapes*: x (batch, input_size) or (input_size,); h (batch, hidden_size) or (hidden_size,), zeros if left out.
    *Raises*: ValueError, RuntimeError for shapes that do not fit.

    >>> import core
    >>> core.nn.RNNCell(3, 4)(core.ones(2, 3)).shape
    core.Size([2, 4])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._stepped(rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell, input, hx)


class GRUCell(RNNCellBase):
    """One step of `GRU`. *Shapes* and *Raises*: those of `RNNCell`.

    >>> import core
    >>> core.nn.GRUCell(3, 4)(core.ones(3), core.zeros(4)).shape
    core.Size([4])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped(gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of `LSTM`: ``(h', c')`` from x and ``(h, c)``. *Shapes* and *Raises*: those of `RNNCell`.

    >>> import core
    >>> h, c = core.nn.LSTMCell(3, 4)(core.ones(2, 3))
    >>> h.shape, c.shape
    (core.Size([2, 4]), core.Size([2, 4]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        self._check("input", input)
        if isinstance(hx, Tensor):
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
        for i, s in enumerate(hx or ()):
            self._check(f"hx[{i}]", s)
        single = input.ndim == 1
        x = input.unsqueeze(0) if single else input  # type: ignore[attr-defined]
        if hx is None:
            state = (self._zeros(x),) * 2
        else:
            state = tuple(s.unsqueeze(0) for s in hx) if single else tuple(hx)  # type: ignore[assignment]
        h, c = lstm_cell(x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h.squeeze(0), c.squeeze(0)) if single else (h, c)  # type: ignore[attr-defined]
