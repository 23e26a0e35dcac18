"""Which of core's own C kernels a row of the card is, as the tuner knows it, and the shape that it is tuned at.

The names and axes are those of `core.native.choices`. What a row does not tell (which axis was summed) has no command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Inputs = Sequence[tuple[Shape, str]]
Asked = tuple[str, Shape, str]
DTYPES = ("float32", "float64")
RECURRENT = ("lstm", "gru", "rnn")
SOFTMAX = ("softmax", "log_softmax")
ATTENTION = ("attention", "scaled_dot_product_attention")


def of_c(op: str, elementwise: bool, inputs: Inputs, params: Mapping[str, Any], forward: Inputs = ()) -> Asked | None:
    """Return the tuner's name, shape and dtype for an op, or ``"tanh backward"``; None where it has none of the kind.

    forward : of a backward pass, what its op was run on.

    >>> of_c("linear", False, [((8, 64, 256), "float32"), ((512, 256), "float32")], {})
    ('core_matmul', (512, 512, 256), 'float32')
    >>> of_c("softmax", False, [((8, 64), "float32")], {"dim": 0}) is None
    True
    """
    name = op.removesuffix(" backward")
    back = name != op
    if not inputs or inputs[0][1] not in DTYPES:
        return None
    shapes = [shape for shape, _ in (forward if back and forward else inputs)]
    found: tuple[str, Shape] | None = None
    if elementwise:
        found = "core_elementwise", (prod(np.broadcast_shapes(*(shape for shape, _ in inputs))),)
    elif name in SOFTMAX and params.get("dim", -1) in (-1, len(shapes[0]) - 1) and shapes[0]:
        found = "core_softmax" + "_backward" * back, _rows(shapes[0])
    elif name == "layer_norm" and not back and len(shapes) > 1:
        found = "core_layer_norm", (prod(shapes[0]) // max(prod(shapes[1]), 1), prod(shapes[1]))
    elif name in ("matmul", "linear") and not back and len(shapes) > 1 and len(shapes[1]) == 2 and len(shapes[0]) > 1:
        columns = shapes[1][name == "matmul"]
        found = "core_matmul", (prod(shapes[0][:-1]), columns, shapes[0][-1])
    elif name in ATTENTION and len(shapes) > 1 and all(len(s) > 2 for s in shapes[:2]):
        q, k = shapes[:2]
        found = "core_attention" + "_backward" * back, (prod(q[:-2]), q[-2], k[-2], q[-1])
    elif name in RECURRENT and (not back or forward):
        weights = [s for s in shapes[1:] if len(s) == 2 and s[0] != shapes[0][1]]
        if len(shapes[0]) == 3 and len(weights) > 1 and params.get("sizes") is None:
            first, second, items = shapes[0]
            steps, batch = (second, first) if params.get("batch_first") else (first, second)
            found = "core_recurrent" + "_backward" * back, (steps, batch, items, weights[1][1])
    if found is None or not all(found[1]):
        return None
    return (*found, inputs[0][1])


def _rows(shape: Shape) -> Shape:
    return prod(shape[:-1]), shape[-1]
