"""Layers that keep their weights in fewer bits. They take and give floating numbers; inside they are whole.

>>> import core
>>> layer = core.nn.Linear(4, 2)
>>> core.quantize_(layer, core.ao.quantization.Int8WeightOnlyConfig())
>>> layer
QuantizedLinear(in_features=4, out_features=2, bias=True, weight=8 bits)
>>> [(name, t.dtype) for name, t in layer.state_dict().items()]
[('bias', core.float32), ('weight_values', core.int8), ('weight_scale', core.float32)]
"""

from __future__ import annotations

from ....nn.quantized import FloatFunctional, QFunctional
from . import dynamic
from .layers import (
    GRU,
    LSTM,
    RNN,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Embedding,
    EmbeddingBag,
    GRUCell,
    Linear,
    LSTMCell,
    RNNCell,
)
from .stubs import DeQuantize, Quantize

__all__ = ["GRU", "LSTM", "RNN", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
           "DeQuantize", "Embedding", "EmbeddingBag", "FloatFunctional", "GRUCell", "LSTMCell", "Linear", "QFunctional",
           "Quantize", "RNNCell", "dynamic"]  # fmt: skip
