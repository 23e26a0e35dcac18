"""Floating-point operations of an op from its shapes: a multiplication and an addition count as two.

Every formula takes the shapes of the op's tensors in order, and that of its output. Ops without one here move data:
their measure is bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

Shape = Sequence[int]


def _product(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(out) * shapes[0][-1]


def _convolution(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(out) * prod(shapes[1][1:])


def _transposed(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(shapes[0]) * prod(shapes[1][1:])


def _weight(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(shapes[1]) * prod(out[1:])


def _attention(shapes: Sequence[Shape], out: Shape) -> int:
    q, k, v = shapes[:3]
    return 2 * prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


def _recurrent(shapes: Sequence[Shape], out: Shape) -> int:
    return 2 * prod(shapes[0][:-1]) * (prod(shapes[1]) + prod(shapes[2]))


FORMULAS: dict[str, Callable[[Sequence[Shape], Shape], int]] = {
    "matmul": _product,
    "linear": _product,
    "conv": _convolution,
    "conv_transpose": _transposed,
    "conv_weight": _weight,
    "attention": _attention,
    "lstm": _recurrent,
    "gru": _recurrent,
    "rnn": _recurrent,
}
"""By the name of the declared op. A causal mask halves no count: what is skipped is the kernel's gain."""

SAME = {
    "mm": "matmul",
    "bmm": "matmul",
    "__matmul__": "matmul",
    "scaled_dot_product_attention": "attention",
    **{f"conv{n}d": "conv" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": "conv_transpose" for n in (1, 2, 3)},
}
"""Other names of them, PyTorch's."""


def flops(name: str, shapes: Sequence[Shape], out: Shape) -> int | None:
    """Return the operations of one forward run; None for an op without a formula. A gradient of one factor takes as
    many.

    >>> flops("linear", [(128, 256), (512, 256), (512,)], (128, 512))
    33554432
    >>> flops("conv2d", [(1, 3, 8, 8), (16, 3, 3, 3)], (1, 16, 6, 6))
    31104
    >>> flops("relu", [(4,)], (4,)) is None
    True
    """
    formula = FORMULAS.get(SAME.get(name, name))
    try:
        return None if formula is None else formula(shapes, out)
    except (IndexError, ValueError):  # a form of the op that the formula does not know, as a vector in its place
        return None
