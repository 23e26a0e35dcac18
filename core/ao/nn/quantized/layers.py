"""The layers of `core.nn` with kept weights: what each computes.

Linear layers and convolutions in one and two dimensions multiply whole numbers where they round their inputs
(`int8_linear`, `int8_conv2d`); with weights alone linear layers and tables have ops that read them as they are kept
(`weight_int8_linear`, `weight_int4_linear`, `int8_embedding`, `int4_embedding`). All others widen their weights at each
call and run as before, which saves memory and no time. Recurrent layers are among these: they widen once a sequence.
"""

from __future__ import annotations

from typing import Any

from ....backends.quantised import FEW_CHANNELS
from ....nn import functional as F
from ....nn.modules import conv, linear, rnn, rnn_cell, sparse
from ....ops.quantised import (
    int4_embedding,
    int8_conv2d,
    int8_embedding,
    int8_linear,
    weight_int4_linear,
    weight_int8_linear,
)
from ....rarer_names import fake_quantize_per_tensor_affine
from ....tensors.tensor import Tensor
from .forms import Ints
from .stored import LEAST, MOST, Stored, like

_WHOLE = ("", "dynamic", "static")


def rounded_rows(x: Any) -> Tensor:
    """Return each row of x as 127 steps up to its greatest magnitude stand for; gradients pass as if nothing had been
    rounded."""
    scale = x.detach().abs().amax(-1, keepdim=True) / 127
    whole = (x.detach() / scale.clamp(min=1e-30)).round() * scale
    return x + (whole - x.detach())


class Linear(Stored, linear.Linear):
    """A linear layer that keeps its weight in fewer bits; its inputs as they are, or rounded to 8 bits too."""

    takes = _WHOLE

    def forward(self, input: Tensor) -> Tensor:
        form: Any = self.forms["weight"]
        kept, bias = self.kept(), self.bias
        whole = isinstance(form, Ints)
        input = self._cut(input)
        if whole and not form.halved and self.inputs:
            return int8_linear(input, kept["values"], kept["scale"], bias, self._input_scale(), self._zero,
                               activation=self.activation)  # fmt: skip
        x = self._rounded(input)
        if not whole or (form.halved and self.in_features % 2):
            y = F.linear(x, like(self.weight, x), like(bias, x))
        elif form.halved:
            y = weight_int4_linear(x, kept["values"], like(kept["scale"], x), like(kept["zero"], x), like(bias, x))
        else:
            y = weight_int8_linear(x, kept["values"], like(kept["scale"], x), like(bias, x))
        return y if self.activation is None else getattr(F, self.activation)(y)

    def _rounded(self, x: Tensor) -> Tensor:
        if self.inputs == "static":
            return fake_quantize_per_tensor_affine(x, self._buffers["input_scale"], self._zero, LEAST, MOST)
        return rounded_rows(x) if self.inputs else x


class _Conv(Stored):
    """What convolutions share. Those in one and two dimensions multiply whole numbers, if they round their inputs."""

    n: int
    padding: Any
    padding_mode: str
    groups: int
    takes = _WHOLE
    _buffers: dict[str, Any]

    def keep(self, *args: Any, **settings: Any) -> None:
        """Keep the weight, that of many channels with these innermost in memory, as its product reads it."""
        super().keep(*args, **settings)
        values = self._buffers["weight_values"]
        many = values.shape[1] > FEW_CHANNELS and len(values) != self.groups
        if self.n <= 2 and values.ndim == self.n + 2 and many:
            self._buffers["weight_values"] = values.movedim(1, -1).contiguous().movedim(-1, 1)

    def forward(self, input: Tensor) -> Tensor:
        form: Any = self.forms["weight"]
        input = self._cut(input)
        if not self.inputs:
            y = super().forward(input)  # type: ignore[misc]
        elif self.n > 2 or not isinstance(form, Ints) or form.halved:
            y = super().forward(self._rounded(input))  # type: ignore[misc]
        else:
            return self._whole(input)
        return y if self.activation is None else getattr(F, self.activation)(y)

    def _rounded(self, x: Any) -> Tensor:
        if self.inputs == "static":
            return fake_quantize_per_tensor_affine(x, self._buffers["input_scale"], self._zero, LEAST, MOST)
        return rounded_rows(x.flatten(-1 - self.n)).reshape(x.shape)  # type: ignore[no-any-return, attr-defined]

    def _whole(self, x: Any) -> Tensor:
        me: Any = self
        kept, padding = self.kept(), self.padding
        if self.padding_mode != "zeros" or isinstance(padding, str):
            x = F.pad(x, me._border(), "constant" if self.padding_mode == "zeros" else self.padding_mode)
            padding = (0,) * self.n
        weight: Any = kept["values"]
        stride, dilation = me.stride, me.dilation
        if self.n == 1:  # as an image of one row
            x, weight = x.unsqueeze(-2), weight.unsqueeze(-2)
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        y: Any = int8_conv2d(x, weight, kept["scale"], me.bias, stride, padding, dilation, me.groups,
                             self._input_scale(), self._zero, activation=self.activation)  # fmt: skip
        return y.squeeze(-2) if self.n == 1 else y


class Conv1d(_Conv, conv.Conv1d):
    """`Conv1d` with a kept weight."""


class Conv2d(_Conv, conv.Conv2d):
    """`Conv2d` with a kept weight."""


class Conv3d(_Conv, conv.Conv3d):
    """`Conv3d` with a kept weight, widened at each call."""


class ConvTranspose1d(Stored, conv.ConvTranspose1d):
    """`ConvTranspose1d` with a kept weight, widened at each call."""


class ConvTranspose2d(Stored, conv.ConvTranspose2d):
    """`ConvTranspose2d` with a kept weight, widened at each call."""


class ConvTranspose3d(Stored, conv.ConvTranspose3d):
    """`ConvTranspose3d` with a kept weight, widened at each call."""


class Embedding(Stored, sparse.Embedding):
    """A table that is kept in fewer bits; its rows are widened as they are read."""

    takes = ("", "dynamic")  # indices are whole already

    def forward(self, input: Tensor) -> Tensor:
        form, kept = self.forms["weight"], self.kept()
        if not isinstance(form, Ints):
            rows: Any = kept["values"][input].to(kept["scale"].dtype)
            return rows if kept["scale"].ndim == 0 else rows * kept["scale"][input].unsqueeze(-1)
        if form.halved:
            rows = int4_embedding(input, kept["values"], kept["scale"], kept["zero"])
            return rows[..., : self.embedding_dim] if self.embedding_dim % 2 else rows  # type: ignore[index]
        return int8_embedding(input, kept["values"], kept["scale"])


class EmbeddingBag(Stored, sparse.EmbeddingBag):
    """`EmbeddingBag` over a table that is kept in fewer bits, widened at each call."""

    takes = ("", "dynamic")


class _Recurrent(Stored):
    """What recurrent layers share: dynamic configs keep their weights in 8 bits and leave x and h as they are, since
    the whole sequence is one kernel of floating numbers.

    They save memory and no time: an LSTM of 512 units takes 1.2 times float32's over 64 steps of one sequence, 1.05 of
    eight, and one of 256 units 1.7 times for a single step. The products of 512 units alone would take 0.19 in 8 bits
    (0.29 of eight sequences): a kernel that goes through the steps in whole numbers would pay, and there is none yet.
    """

    takes = ("", "dynamic")


class LSTM(_Recurrent, rnn.LSTM):
    """`LSTM` with kept weights, widened once a sequence."""


class GRU(_Recurrent, rnn.GRU):
    """`GRU` with kept weights, widened once a sequence."""


class RNN(_Recurrent, rnn.RNN):
    """`RNN` with kept weights, widened once a sequence."""


class LSTMCell(_Recurrent, rnn_cell.LSTMCell):
    """`LSTMCell` with kept weights, widened at each step."""


class GRUCell(_Recurrent, rnn_cell.GRUCell):
    """`GRUCell` with kept weights, widened at each step."""


class RNNCell(_Recurrent, rnn_cell.RNNCell):
    """`RNNCell` with kept weights, widened at each step."""


LAYERS: tuple[type[Any], ...] = (Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
                                 Embedding, EmbeddingBag, LSTM, GRU, RNN, LSTMCell, GRUCell, RNNCell)  # fmt: skip
KEPT: dict[type[Any], type[Any]] = {layer.__bases__[1]: layer for layer in LAYERS}  # by the layer of `core.nn`


def kept_class(layer: Any) -> type[Any] | None:
    """Return the class that a layer becomes when its weights are kept; None for what is no layer of these, exactly.

    >>> import core
    >>> from core.ao.nn.quantized.layers import kept_class
    >>> kept_class(core.nn.Linear(2, 2)).__name__, kept_class(core.nn.ReLU())
    ('Linear', None)
    """
    return KEPT.get(type(layer))
