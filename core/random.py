"""Random tensors: drawn from a `Generator`, by default the default one of their device."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from . import backends, native
from .base import dtypes
from .base.device import Kind
from .base.device import kind as kind_of
from .base.dtypes import dtype as Dtype
from .base.errors import text
from .base.modes import state as mode
from .base.shape import broadcast_shapes
from .declare.kinds import Device, Size, Sizes
from .declare.signature import Fast
from .dispatch.autocast import behind
from .dispatch.draws import normal_array, normals, source, uniform_array
from .dispatch.publish import offer
from .events import observe
from .ops import conversion
from .ops.constant import constant
from .ops.conversion import placed
from .ops.creation import as_dtype, as_size
from .ops.sampling import bernoulli, finished, multinomial, scaled
from .rng import generator
from .rng.generator import (
    Generator,
    default_generator,
    fork,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .rng.philox import Philox
from .tensors.tensor import Tensor, left_graph

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "fork",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]

# -- new tensors -------------------------------------------------------------------------------------------------------


def _kind(op: str, dtype: Dtype | None, device: Any) -> Kind:
    d = as_dtype(dtype, op) if dtype is not None else dtypes.get_default_dtype()
    where = placed(device)
    if d.category < 2:
        raise NotImplementedError(
            text(
                f"\"{op}\" not implemented for '{d.scalar_type}'",
                op=op,
                needed="a floating dtype",
                remedy="core.randint for integers",
            )
        )
    return kind_of(d, where)


def _drawn(array: Callable[..., Any], shape: tuple[int, ...], kind: Kind, generator: Generator | None) -> Any:
    """Return what `array` draws; of complex numbers both parts, of a normal one each with half the variance."""
    if kind.dtype.category != 3:
        return array(shape, kind, generator)
    part = kind_of(dtypes.float32 if kind.dtype is dtypes.complex64 else dtypes.float64, kind.device)
    pairs = array((*shape, 2), part, generator)
    if array is normal_array:
        pairs = pairs * part.dtype.numpy.type(math.sqrt(0.5))
    return pairs.view(kind.dtype.numpy)[..., 0]


def _from_unit(name: str, array: Callable[..., Any], what: str) -> tuple[Any, Any]:
    def function(
        *args: Size,
        size: Sizes | None = None,
        generator: Generator | None = None,
        out: Tensor | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
        requires_grad: bool = False,
        **ignored: Any,
    ) -> Tensor:
        kind = _kind(name, dtype or (out.dtype if out is not None else None), device)
        return finished(_drawn(array, as_size(name, args, size), kind, generator), kind, requires_grad, out)

    def like(
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
        requires_grad: bool = False,
        **ignored: Any,
    ) -> Tensor:
        kind = _kind(name + "_like", dtype or input.dtype, device or input.device)
        return finished(_drawn(array, tuple(input._a.shape), kind, generator), kind, requires_grad, None)

    function.__name__ = function.__qualname__ = name
    like.__name__ = like.__qualname__ = name + "_like"
    function.__doc__ = (
        f"A tensor of {what}: ``core.{name}(2, 3)``.\n\n    >>> import core\n    >>> core.{name}(2, 3).shape\n"
        "    core.Size([2, 3])\n    "
    )
    like.__doc__ = f"As `{name}`, with the shape, dtype and device of `input` unless others are given."
    c = "uniform" if name == "rand" else "normal"
    return (offer(function, fast=[Fast(body=f"{c}_sizes(args, size)")], home="creation", state="quiet"),
            offer(like, fast=[Fast(body=f"{c}_like(input)", types={"input": "any"})], home="creation",
                  state="quiet"))  # fmt: skip


if native.module is not None:
    native.module.connect_creation(vars(dtypes), conversion.default_place, vars(generator), Philox)
rand, rand_like = _from_unit("rand", uniform_array, "numbers spread evenly over [0, 1)")
randn, randn_like = _from_unit("randn", normal_array, "numbers of the standard normal distribution")


@overload
def randint(
    high: int, /, size: Sizes, *, generator: Generator | None = None, out: Tensor | None = None,
            dtype: Dtype | None = None, device: Device | None = None, requires_grad: bool = False,
            **ignored: Any) -> Tensor: ...  # fmt: skip


@overload
def randint(low: int, high: int, size: Sizes, *, generator: Generator | None = None, out: Tensor | None = None,
            dtype: Dtype | None = None, device: Device | None = None, requires_grad: bool = False,
            **ignored: Any) -> Tensor: ...  # fmt: skip


@partial(offer, home="drawing", state="quiet",  # type: ignore[misc]
         fast=[Fast(body="integers_between(low, high, size)", raw=("low", "high", "size"))])  # fmt: skip
def randint(
    low: int = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """Integers from `low` (0 if only `high` is given) up to but not including `high`.

    *Raises*: RuntimeError where there is none.

    >>> import core
    >>> core.randint(10, (2, 3)).shape
    core.Size([2, 3])
    """
    if size is None:
        low, high, size = (0, low, high) if high is not None else (0, low, None)
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() missing argument 'size'\n  remedy: core.randint(high, (n,))")
    low, high = int(low), int(high)
    if low >= high:
        raise RuntimeError(
            text(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}", op="randint")
        )
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.int64), "randint")
    where = placed(device)
    shape = as_size("randint", (tuple(size),), None)
    a = source(generator, where).integers(backends.array_module(where.type), math.prod(shape), high - low)
    a = a + low if low else a
    return finished(a.astype(d.numpy, copy=False).reshape(shape), kind_of(d, where), requires_grad, out)


@behind
def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    **ignored: Any,
) -> Tensor:
    """As `randint`, with the shape, dtype and device of `input` unless others are given."""
    low, high = (0, low) if high is None else (low, high)
    if (dtype or input.dtype).category == 0 and high > 2:
        raise RuntimeError(text("to - 1 is out of bounds for bool", op="randint_like", came=f"high={high}"))
    return randint(low, high, tuple(input._a.shape), dtype=dtype or input.dtype, device=device or input.device,
                   requires_grad=requires_grad, generator=generator)  # fmt: skip


def randperm(n: int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: Dtype | None = None,
             device: Device | None = None, requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """0 to n - 1 in random order.

    >>> import core
    >>> sorted(core.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    if n < 0:
        raise RuntimeError(text(f"n must be non-negative, got{n}", op="randperm"))
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.int64), "randperm")
    where = placed(device)
    a = source(generator, where).permutation(backends.array_module(where.type), int(n))
    return finished(a.astype(d.numpy, copy=False), kind_of(d, where), requires_grad, out)


randperm = offer(randperm, home="drawing", state="quiet", fast=[Fast(body="permutation_of(n)")])


def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Sizes | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """Normal numbers; mean and standard deviation are tensors that broadcast, or numbers together with a size.

    *Raises*: RuntimeError for a negative `std`.

    >>> import core
    >>> core.normal(core.zeros(3), 2.0).shape
    core.Size([3])
    """
    low = (float(std._a.min()) if std.numel() else 0) if isinstance(std, Tensor) else std
    if low < 0:
        raise RuntimeError(text(f"normal expects std >= 0.0, but found std {low}", op="normal"))
    given = [t for t in (mean, std) if isinstance(t, Tensor)]
    if given:
        _kind("normal", given[0].dtype, None)  # refuses whole numbers
        kind, shape = given[0]._kind, broadcast_shapes(*(t._a.shape for t in given), op="normal")
    else:
        if size is None:
            raise TypeError("normal() missing argument 'size'\n  remedy: core.normal(0.0, 1.0, (n,))")
        kind, shape = _kind("normal", dtype, device), as_size("normal", (tuple(size),), None)
    z = normals(shape, kind, generator)
    if not given:
        return finished(scaled(z, std, mean).astype(kind.dtype.numpy, copy=False), kind, requires_grad, out)
    m, s = (t._a if isinstance(t, Tensor) else kind.dtype.numpy.type(t) for t in (mean, std))
    z = z.astype(kind.dtype.numpy, copy=False)
    drawn = backends.array_module(kind.device.type).asarray(z * s + m)  # of no dimensions NumPy gives a number
    y = finished(drawn.astype(kind.dtype.numpy, copy=False), kind, requires_grad, out)
    if out is not None or mode.enabled:
        return y if out is not None else constant(y, *given)
    for t in given if observe.observers else ():  # under no_grad: of Distribution.sample(), say
        left_graph("draw", t, y)
    return y


normal = offer(normal, home="drawing", state="quiet",
               fast=[Fast(body="normal_around(mean, std)", raw=("mean", "std"))])  # fmt: skip
