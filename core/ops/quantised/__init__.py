"""Layers of small numbers: weights of 8 and 4 bits, alone or times inputs of 8 bits. A number q stands for
``(q - zero) * scale``."""

from .convolution import int8_conv2d
from .fake import fake_quantise
from .integers import int8_linear
from .rows import int4_embedding, int8_embedding
from .weights import quantised_int4, quantised_int8, weight_int4_linear, weight_int8_linear

__all__ = ["fake_quantise", "int4_embedding", "int8_conv2d", "int8_embedding", "int8_linear", "quantised_int4",
           "quantised_int8", "weight_int4_linear", "weight_int8_linear"]  # fmt: skip
