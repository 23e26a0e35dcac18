"""Layers that train for fewer bits: their weights, and their inputs if wanted, are rounded in each forward.

The parameters stay floating ones, and are what an optimizer sees.
"""

from __future__ import annotations

from typing import Any

from ...nn.modules import conv, linear, rnn, rnn_cell, sparse
from ..quantization.fake_quantize import FakeQuantizeBase
from .quantized.forms import Form
from .quantized.layers import rounded_rows


class RoundTrip(FakeQuantizeBase):
    """Gives a weight as it would be after it was kept in a form; gradients pass as if nothing had been rounded.

    >>> import core
    >>> from core.ao.nn.qat import RoundTrip
    >>> from core.ao.nn.quantized.forms import Ints
    >>> RoundTrip(Ints(2))(core.tensor([[1.5, -0.2, 0.4, -1.5]]))
    tensor([[ 1.,  0.,  0., -2.]])
    """

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form

    def forward(self, weight: Any) -> Any:
        if not self._rounds:
            return weight
        near = self.form.widen(self.form.pack(weight), tuple(weight.shape))
        return weight + (near - weight.detach())

    def extra_repr(self) -> str:
        return str(self.form)


class RoundRows(FakeQuantizeBase):
    """Gives each row of an input as 127 steps up to its greatest magnitude stand for; with `dims` each sample, whose
    dimensions these are, as convolutions round."""

    def __init__(self, dims: int = 1) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Any) -> Any:
        if not self._rounds:
            return x
        return rounded_rows(x.flatten(-self.dims)).reshape(x.shape)  # type: ignore[attr-defined]


class Rounding:
    """What a layer with fake quantisers has beside a float one's: `weight_fake_quant` and `activation_fake_quant`."""

    weight_fake_quant: Any
    activation_fake_quant: Any
    _parameters: dict[str, Any]

    def rounded_by(self, weight: Any, inputs: Any = None) -> None:
        """Say by which modules weights and inputs are rounded."""
        self.weight_fake_quant = weight
        if inputs is not None:
            self.activation_fake_quant = inputs

    def forward(self, input: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__["_modules"].get("activation_fake_quant")
        if before is not None:
            input = before(input)
        own = self._parameters
        weights = {name: p for name, p in own.items() if p is not None and p.ndim > 1}
        try:
            own.update({name: self.weight_fake_quant(p) for name, p in weights.items()})
            return super().forward(input, *args, **kwargs)  # type: ignore[misc]
        finally:
            own.update(weights)


class Linear(Rounding, linear.Linear):
    """`Linear` that rounds its weight in each forward."""


class Conv1d(Rounding, conv.Conv1d):
    """`Conv1d` that rounds its weight in each forward."""


class Conv2d(Rounding, conv.Conv2d):
    """`Conv2d` that rounds its weight in each forward."""


class Conv3d(Rounding, conv.Conv3d):
    """`Conv3d` that rounds its weight in each forward."""


class ConvTranspose1d(Rounding, conv.ConvTranspose1d):
    """`ConvTranspose1d` that rounds its weight in each forward."""


class ConvTranspose2d(Rounding, conv.ConvTranspose2d):
    """`ConvTranspose2d` that rounds its weight in each forward."""


class ConvTranspose3d(Rounding, conv.ConvTranspose3d):
    """`ConvTranspose3d` that rounds its weight in each forward."""


class Embedding(Rounding, sparse.Embedding):
    """`Embedding` that rounds its table in each forward."""


class EmbeddingBag(Rounding, sparse.EmbeddingBag):
    """`EmbeddingBag` that rounds its table in each forward."""


class LSTM(Rounding, rnn.LSTM):
    """`LSTM` that rounds its weights in each forward."""


class GRU(Rounding, rnn.GRU):
    """`GRU` that rounds its weights in each forward."""


class RNN(Rounding, rnn.RNN):
    """`RNN` that rounds its weights in each forward."""


class LSTMCell(Rounding, rnn_cell.LSTMCell):
    """`LSTMCell` that rounds its weights in each forward."""


class GRUCell(Rounding, rnn_cell.GRUCell):
    """`GRUCell` that rounds its weights in each forward."""


class RNNCell(Rounding, rnn_cell.RNNCell):
    """`RNNCell` that rounds its weights in each forward."""


LAYERS: tuple[type[Any], ...] = (Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
                                 Embedding, EmbeddingBag, LSTM, GRU, RNN, LSTMCell, GRUCell, RNNCell)  # fmt: skip
TRAINED: dict[type[Any], type[Any]] = {layer.__bases__[1]: layer for layer in LAYERS}  # by the layer of `core.nn`
FLOAT: dict[type[Any], type[Any]] = {trained: layer for layer, trained in TRAINED.items()}


def as_float(layer: Any) -> None:
    """Make a layer that rounds in training the ordinary one again, where it stands."""
    layer.__class__ = FLOAT[type(layer)]
    for name in ("weight_fake_quant", "activation_fake_quant"):
        layer._modules.pop(name, None)
