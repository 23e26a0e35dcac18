"""Dropout, whose mask is made anew in the backward pass instead of being kept.

Element i (in row-major order) is kept where ``tl.rand(seed, offset + i) >= p``: numbers of Philox, the same on every
device, so (seed, offset) is all that a node saves. Source: Srivastava et al., JMLR 15 (2014); triton's tutorial 4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base.errors import text
from ..dispatch.declare import operation
from ..dispatch.draws import bernoulli_array
from ..dispatch.inplace import write
from ..dispatch.operands import need_tensors
from ..dispatch.publish import public
from ..rng import philox
from ..rng.generator import default_of
from ..tensors.tensor import Tensor, wrap
from .creation import ones


def _forward(xp: Any, x: Any, p: float, seed: int, offset: int) -> Any:
    keep = philox.uniform(xp, seed, offset, x.size).reshape(x.shape) >= np.float32(p)
    return xp.where(keep, x * x.dtype.type(1 / (1 - p) if p < 1 else 0), x.dtype.type(0))


def _vjp(g: Tensor, p: float, seed: int, offset: int) -> Tensor:
    return _dropout(g, p=p, seed=seed, offset=offset)


_dropout = operation("dropout", _forward, params={"p": 0.5, "seed": 0, "offset": 0},
                     vjp=_vjp,
                     samples=lambda rng: [((rng.uniform(0.5, 2, s),), {"p": p, "seed": 7, "offset": o})
                                          for s, p, o in [((2, 3, 5), 0.5, 0), ((4,), 0.1, 10), ((3,), 1.0, 3)]],
                     doc="x / (1 - p) where a random number is at least p, else 0.")  # fmt: skip


def _thinned(x: Tensor, p: float) -> Tensor:
    generator = default_of(x.device)
    taken = generator.take(x._a.size)
    if taken is None:  # PyTorch's own numbers come in order, so the mask must be kept
        keep = bernoulli_array(np.full(x._a.shape, 1 - p), x.device, generator).astype(x._a.dtype)
        scaled = np.asarray(keep / keep.dtype.type(1 - p) if p < 1 else keep, x._a.dtype)  # of a number NumPy's is none
        return x * wrap(scaled, x._kind)
    return _dropout(x, p=float(p), seed=taken[0], offset=taken[1])


def _check(op: str, input: Tensor, p: float, active: bool) -> bool:
    """Return whether there is anything to do, after all that can be wrong."""
    need_tensors(op, ("input",), (input,))
    if not 0 <= p <= 1:
        raise ValueError(text(f"dropout probability has to be between 0 and 1, but got {p}", op=op))
    if not active or p == 0 or not input._a.size:
        return False
    if input.dtype.category < 2:
        raise RuntimeError(
            text(
                f"result type Float can't be cast to the desired output type {input.dtype.scalar_type}",
                op=op,
                remedy="x.float() first",
            )
        )
    return True


def _run(op: str, input: Tensor, p: float, training: bool, inplace: bool, compute: Any) -> Tensor:
    if not _check(op, input, p, training):
        return input
    return write(input, op + "_", compute) if inplace else compute(input)


@public(namespace="nn.functional", method=False)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, each element is 0 with probability `p`, and the others are divided by 1 - p.

    The same seed gives the same mask on a CPU and on a GPU. *Raises*: ValueError for a `p` outside 0 to 1.

    >>> import core
    >>> core.nn.functional.dropout(core.tensor([1.0, 2.0]), training=False)
    tensor([1., 2.])
    """
    return _run("dropout", input, p, training, inplace, lambda x: _thinned(x, p))


def _whole_channels(input: Tensor, p: float, lead: int) -> Tensor:
    shape = tuple(input._a.shape[:lead]) + (1,) * (input.ndim - lead)
    return input * _thinned(ones(shape, dtype=input.dtype, device=input.device), p)


def _of_channels(name: str, spatial: int) -> Any:
    def function(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        # PyTorch takes (N, C, L) for dropout2d's three dimensions, and no N for the other two's few
        lead = 2 if input.ndim == spatial + 2 or spatial == 2 else 1
        if input.ndim not in (spatial + 1, spatial + 2) and spatial == 1:
            raise RuntimeError(text(f"{name}: Expected 2D or 3D input, but received a {input.ndim}D input.", op=name,
                                    remedy="dropout for elements"))  # fmt: skip
        lead = lead if input.ndim in (spatial + 1, spatial + 2) else min(2, input.ndim)
        return _run(name, input, p, training, inplace, lambda x: _whole_channels(x, p, lead))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""In training, whole channels are 0 with probability `p`, the others divided by 1 - p.

    *Shapes*: ``(N, C, {", ".join("lhw"[:spatial])})``, or without N. Source: arXiv 1411.4280.

    >>> import core
    >>> core.nn.functional.{name}(core.ones{(2, 3) + (4,) * spatial}, training=False).shape
    core.Size({[2, 3] + [4] * spatial})
    """
    return public(namespace="nn.functional", method=False)(function)


dropout1d, dropout2d, dropout3d = (_of_channels(f"dropout{n}d", n) for n in (1, 2, 3))

_ALPHA = -1.7580993408473766  # what selu tends to far below 0


@public(namespace="nn.functional", method=False)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for selu: dropped elements become its lower bound, and mean and variance are kept. arXiv 1706.02515.

    >>> import core
    >>> core.nn.functional.alpha_dropout(core.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def compute(x: Tensor) -> Tensor:
        if p == 1:
            return x * 0.0
        keep = _thinned(ones(tuple(x._a.shape), dtype=x.dtype, device=x.device), p) * (1 - p)
        a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
        return x * (keep * a) + ((keep - 1) * (-_ALPHA * a) - _ALPHA * a * p)

    return _run("alpha_dropout", input, p, training, inplace, compute)
