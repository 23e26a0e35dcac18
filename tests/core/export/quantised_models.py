"""Functions of the ops of small numbers, each with arguments at a size: what the forms of a program are held to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core
from core.ops.quantised import (
    int4_embedding,
    int8_conv2d,
    int8_embedding,
    int8_linear,
    quantised_int4,
    quantised_int8,
    weight_int4_linear,
    weight_int8_linear,
)

core.manual_seed(5)
WEIGHT, SCALE = quantised_int8(core.randn(10, 24))
WEIGHT4 = quantised_int4(core.randn(10, 24), group=8)
BIAS = core.randn(10)
KERNEL = quantised_int8(core.randn(6, 2 * 3 * 3))[0].reshape(6, 2, 3, 3)
OF_OUTPUTS = core.rand(6) * 0.02 + 0.01
TABLE, OF_ROWS = quantised_int8(core.randn(9, 12))
TABLE4 = quantised_int4(core.randn(9, 12), group=6)
OF_CHANNELS, POINTS = core.rand(4) * 0.01 + 0.01, core.tensor([0, -3, 7, 1], dtype=core.int32)
STEP = core.tensor(0.03)


def _rows(n: int) -> tuple[Any, ...]:
    return (core.randn(n, 24),)


def _images(n: int) -> tuple[Any, ...]:
    return (core.randn(n, 4, 7, 6),)


def _indices(n: int) -> tuple[Any, ...]:
    return (core.arange(3 * n).reshape(n, 3) % 9,)


def _zero_rows(n: int) -> tuple[Any, ...]:
    return (core.cat([core.zeros(1, 24), core.full((1, 24), 1e-40), core.randn(n, 24)]),)


def _activated(name: str | None) -> Callable[[Any], Any]:
    return lambda x: int8_linear(x, WEIGHT, SCALE, BIAS, activation=name)


Case = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
CASES: dict[str, Case] = {
    "dynamic": (_activated(None), _rows),
    "dynamic relu": (_activated("relu"), _rows),
    "dynamic gelu": (_activated("gelu"), _rows),
    "dynamic silu": (_activated("silu"), _rows),
    "rows of zeros": (_activated(None), _zero_rows),
    "one scale": (lambda x: int8_linear(x, WEIGHT, core.tensor(0.02)), _rows),
    "sequences": (lambda x: int8_linear(x.reshape(2, -1, 24), WEIGHT, SCALE, BIAS), lambda n: _rows(2 * n)),
    "static": (lambda x: int8_linear(x, WEIGHT, SCALE, BIAS, STEP, -9), _rows),
    "static relu": (lambda x: int8_linear(x, WEIGHT, SCALE, None, 0.01, 100, activation="relu"), _rows),
    "convolution": (lambda x: int8_conv2d(x, KERNEL, OF_OUTPUTS, core.arange(6.0), groups=2, padding=1), _images),
    "convolution relu": (
        lambda x: int8_conv2d(x[:, :2], KERNEL, core.tensor(0.01), None, (2, 1), (1, 0), (1, 2), activation="relu"),
        _images,
    ),
    "static convolution": (
        lambda x: int8_conv2d(x[:, :2], KERNEL, OF_OUTPUTS, core.arange(6.0), 2, 1, 1, 1, STEP, 11), _images
    ),
    "weights of 8 bits": (lambda x: weight_int8_linear(x, WEIGHT, SCALE, BIAS), _rows),
    "weights of 4 bits": (lambda x: weight_int4_linear(x, *WEIGHT4, BIAS), _rows),
    "fake": (lambda x: core.fake_quantize_per_tensor_affine(x, 0.02, 3, -128, 127), _rows),
    "fake of 4 bits": (lambda x: core.fake_quantize_per_tensor_affine(x, STEP, core.tensor(-1), -8, 7), _rows),
    "fake unsigned": (lambda x: core.fake_quantize_per_tensor_affine(x, 0.02, 128, 0, 255), _rows),
    "fake of 16 bits": (lambda x: core.fake_quantize_per_tensor_affine(x, 0.001, 0, -32768, 32767), _rows),
    "fake by channel": (
        lambda x: core.fake_quantize_per_channel_affine(x, OF_CHANNELS, POINTS, 1, -128, 127).reshape(-1), _images
    ),
    "shifts": (lambda x: (((x.abs() * 20).byte() << 3) >> core.tensor([1, 9] * 12).byte()).float(), _rows),
    "table of 8 bits": (lambda i: int8_embedding(i, TABLE, OF_ROWS), _indices),
    "table of 4 bits": (lambda i: int4_embedding(i, *TABLE4), _indices),
}  # fmt: skip
