"""Drawing from distributions that tensors describe, and filling tensors with draws."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.device import Kind
from ..base.device import kind as kind_of
from ..base.errors import text
from ..base.modes import state as mode
from ..base.source import here
from ..declare.signature import Fast
from ..dispatch.draws import bernoulli_array, normals, source, uniform_array
from ..dispatch.inplace import write
from ..dispatch.out import into
from ..dispatch.publish import public
from ..events import observe
from ..rng.generator import Generator
from ..tensors.tensor import Tensor, left_graph, storage_of, wrap
from .constant import constant
from .movement import _copy_into


def finished(a: Any, kind: Kind, requires_grad: bool, out: Tensor | None) -> Tensor:
    t = wrap(a, kind)
    if observe.observers:
        observe.notify(observe.listening(), "made", observe.MadeEvent("random", t, (), here(2)))
    if out is not None:
        return into(out, t)
    return t.requires_grad_() if requires_grad else t


@public(home="drawing", state="quiet", fast=[Fast(body="ones_with(input)", types={"input": "real"})])
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probabilities in `input` (or all with probability `p`), else 0.

    >>> import core
    >>> core.bernoulli(core.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is None:
        if input.dtype.category != 2:
            raise RuntimeError(
                text("bernoulli expects a floating tensor of probabilities", op="bernoulli", came=f"{input.dtype}")
            )
        probabilities = input._a
        if input.numel() and input.device.type == "cpu" and not (probabilities.min() >= 0 and probabilities.max() <= 1):
            raise RuntimeError(
                text(
                    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
                    op="bernoulli",
                    needed="probabilities, 0 to 1",
                )
            )
    else:
        probabilities = _probability(p, input)
    drawn = bernoulli_array(probabilities, input.device, generator)
    y = finished(drawn.astype(input.dtype.numpy), input._kind, False, out)
    return y if out is not None or not mode.enabled else constant(y, input)


def _probability(p: float, like: Tensor) -> Any:
    if not 0 <= p <= 1:
        raise RuntimeError(text(f"bernoulli_ expects p to be in [0, 1], but got p={p}", op="bernoulli"))
    return np.broadcast_to(np.float64(p), like._a.shape)


@public()
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None,
                out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Indices drawn with the weights in `input`, a row of them for each row.

    *Shapes*: ``(m, n) -> (m, num_samples)``. *Raises*: RuntimeError for negative weights, or too few of them.

    >>> import core
    >>> core.multinomial(core.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    xp, n = backends.array_module(input.device.type), input._a.shape[-1] if input.ndim else 0
    if input.dtype.category != 2:
        raise RuntimeError(
            text(
                f"multinomial only supports floating-point dtypes for input, got: {input.dtype.scalar_type}",
                op="multinomial",
            )
        )
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(text(f"multinomial expects Long tensor out, got: {out.dtype.scalar_type}", op="multinomial",
                                came=f"out= of {out.dtype}", remedy="dtype=core.int64"))  # fmt: skip
    if input.ndim not in (1, 2):
        raise RuntimeError(text("prob_dist must be 1 or 2 dim", op="multinomial", came=f"{tuple(input._a.shape)}"))
    if num_samples <= 0:
        raise RuntimeError(text("cannot sample n_sample <= 0 samples", op="multinomial"))
    if not replacement and num_samples > n:
        raise RuntimeError(
            text(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
                op="multinomial",
                came=f"{num_samples} of {n}",
            )
        )
    weights = input._a.reshape(-1, n).astype(np.float64)
    if not bool((xp.isfinite(weights) & (weights >= 0)).all()):
        raise RuntimeError(text("probability tensor contains either `inf`, `nan` or element < 0", op="multinomial"))
    if not bool((weights.sum(1) > 0).all()):
        raise RuntimeError(text("invalid multinomial distribution (sum of probabilities <= 0)", op="multinomial"))
    engine = source(generator, input.device)
    if not replacement and num_samples > 1 and int((weights > 0).sum(1).min()) < num_samples:
        raise RuntimeError(text("invalid multinomial distribution (with replacement=False, not enough non-negative "
                                "category to sample)", op="multinomial"))  # fmt: skip
    if replacement and num_samples > 1:
        edges = xp.cumsum(weights, 1)
        edges /= edges[:, -1:]
        u = engine.uniform64(xp, len(weights) * num_samples).reshape(len(weights), num_samples)
        rows = [xp.searchsorted(e, v, side="right") for e, v in zip(edges, u, strict=True)]
        found = xp.minimum(xp.stack(rows), n - 1)
    else:
        # The k largest of weight / exponential number are a draw without replacement (Efraimidis and Spirakis, 2006).
        waits = _exponentials(xp, engine, weights.shape).astype(input._a.dtype)
        keys = input._a.reshape(-1, n) / waits
        found = keys.argmax(1)[:, None] if num_samples == 1 else xp.argsort(-keys, axis=1)[:, :num_samples]
    indices = found.astype(np.int64).reshape(*input._a.shape[:-1], num_samples)
    y = finished(indices, kind_of(dtypes.int64, input.device), False, out)
    if observe.observers:
        left_graph("draw", input, y)
    return y


# -- in place ----------------------------------------------------------------------------------------------------------


def _fill(t: Tensor, name: str, a: Any) -> Tensor:
    """Write drawn numbers into `t`; where it has a history, what it was before gets a gradient of 0."""
    if mode.enabled and t.requires_grad:
        return write(t, name, lambda x: _copy_into(x, wrap(a, t._kind)))
    t._a[...] = a
    storage_of(t).wrote(name, here(3))
    return t


def _floating(t: Tensor, name: str) -> Kind:
    if t.dtype.category != 2:
        raise NotImplementedError(
            text(f"\"{name}\" not implemented for '{t.dtype.scalar_type}'", op=name, remedy="x.float()")
        )
    return t._kind


def scaled(u: Any, width: Any, low: Any) -> Any:
    """``u * width + low`` rounded once, as PyTorch's fused multiply-add does; its weights start with these bits."""
    width, low = u.dtype.type(width), u.dtype.type(low)
    if width == 1 and low == 0:
        return u
    if u.dtype == np.float32:
        return (u.astype(np.float64) * float(width) + float(low)).astype(np.float32)
    # float64: the product's and the sum's own errors are found (Dekker 1971, Knuth's two-sum) and added back
    product = u * width
    split_u, split_w = u * 134217729.0, width * 134217729.0  # 2**27 + 1 cuts 53 bits in two halves
    high_u, high_w = split_u - (split_u - u), split_w - (split_w - width)
    low_u, low_w = u - high_u, width - high_w
    error = ((high_u * high_w - product) + high_u * low_w + low_u * high_w) + low_u * low_w
    total = product + low
    part = total - product
    return total + (((product - (total - part)) + (low - part)) + error)


@public(namespace=None, home="drawing", state="any", fast=[Fast(body="filled_uniform(input)", types={"input": "any"})])
def uniform_(
    input: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **bounds: Any
) -> Tensor:
    """Fill with numbers spread evenly over [a, b) (PyTorch's `from` and `to`).

    >>> import core
    >>> bool((core.zeros(9).uniform_(2, 3) >= 2).all())
    True
    """
    a, b = bounds.get("from", a), bounds.get("to", b)
    if a > b:
        raise RuntimeError(
            text(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}", op="uniform_")
        )
    u = uniform_array(tuple(input._a.shape), _floating(input, "uniform_"), generator)
    wide = np.float64 if input.dtype is dtypes.float64 else np.float32
    return _fill(input, "uniform_", scaled(u.astype(wide, copy=False), wide(b) - wide(a), a).astype(input._a.dtype))


@public(namespace=None, home="drawing", state="any", fast=[Fast(body="filled_normal(input)", types={"input": "any"})])
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers.

    >>> import core
    >>> core.zeros(3).normal_(5, 0)
    tensor([5., 5., 5.])
    """
    if std < 0:
        raise RuntimeError(text(f"normal expects std >= 0.0, but found std {std}", op="normal_"))
    z = normals(tuple(input._a.shape), _floating(input, "normal_"), generator)
    return _fill(input, "normal_", scaled(z, std, mean).astype(input._a.dtype, copy=False))


@public(namespace=None)
def bernoulli_(input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p` (a number, or a tensor of them), else 0.

    >>> import core
    >>> core.zeros(3).bernoulli_(1.0)
    tensor([1., 1., 1.])
    """
    xp = backends.array_module(input.device.type)
    probabilities = xp.broadcast_to(p._a, input._a.shape) if isinstance(p, Tensor) else _probability(p, input)
    return _fill(input, "bernoulli_", bernoulli_array(probabilities, input.device, generator).astype(input._a.dtype))


@public(namespace=None, home="drawing", state="any",
        fast=[Fast(body="filled_exponential(input)", types={"input": "any"})])  # fmt: skip
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the exponential distribution of rate `lambd`.

    >>> import core
    >>> bool((core.zeros(9).exponential_() > 0).all())
    True
    """
    if lambd <= 0:
        raise RuntimeError(text(f"exponential_ expects lambda > 0.0, but found lambda={lambd}", op="exponential_"))
    _floating(input, "exponential_")
    xp = backends.array_module(input.device.type)
    a = _exponentials(xp, source(generator, input.device), tuple(input._a.shape)) / lambd
    return _fill(input, "exponential_", a.astype(input._a.dtype))


def _exponentials(xp: Any, engine: Any, shape: tuple[int, ...]) -> Any:
    """Standard exponential numbers in double precision, as PyTorch draws them for every dtype; never 0."""
    u = engine.uniform64(xp, math.prod(shape)).reshape(shape)
    return xp.maximum(-xp.log1p(-u), np.finfo(np.float32).tiny)


@public(namespace=None)
def random_(
    input: Tensor, low: int | None = None, high: int | None = None, *, generator: Generator | None = None, **bounds: Any
) -> Tensor:
    """Fill with integers from `low` (0) up to but not including `high` (PyTorch's `from` and `to`); without them with
    all that the dtype holds exactly, from 0.

    >>> import core
    >>> bool((core.zeros(9).random_(3) < 3).all())
    True
    """
    low, high = bounds.get("from", low), bounds.get("to", high)
    if high is None:
        low, high = 0, low
    d, given = input.dtype, high is not None
    if high is None:
        mantissa = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
        high = (
            (1 << mantissa[d.name]) + 1 if d.category == 2 else 2 if d.category == 0 else int(np.iinfo(d.numpy).max) + 1
        )
    low, high = builtins.int(low or 0), builtins.int(high)
    if low >= high:
        raise RuntimeError(
            text(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}", op="random_")
        )
    unbounded = {} if given else {"long": 1 << 32}  # PyTorch draws all of an int32 from one word
    xp = backends.array_module(input.device.type)
    a = source(generator, input.device).integers(xp, input.numel(), high - low, **unbounded)
    return _fill(input, "random_", (a + low).astype(d.numpy).reshape(input._a.shape))
