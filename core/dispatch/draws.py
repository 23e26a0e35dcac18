"""Arrays of random numbers of a kind, from a generator or the default one of the device."""

from __future__ import annotations

import math
from typing import Any

from .. import backends
from ..base.device import Kind, cpu
from ..base.device import device as Device
from ..rng.generator import Generator, default_of

_BITS = {"float16": 11, "bfloat16": 8}


def source(generator: Generator | None, where: Device) -> Any:
    engine = (generator or default_of(where)).engine
    return engine if where is cpu else backends.device(where.type).drawing(engine)


def uniform_array(shape: tuple[int, ...], kind: Kind, generator: Generator | None = None) -> Any:
    """Return an array of numbers in [0, 1), of that floating kind."""
    engine, n, name = source(generator, kind.device), math.prod(shape), kind.dtype.name

    def make(xp: Any) -> Any:
        if name in _BITS:
            return engine.uniform_bits(xp, n, _BITS[name]).astype(kind.dtype.numpy)
        return engine.uniform64(xp, n) if name == "float64" else engine.uniform(xp, n)

    return backends.allocated(kind.device, make).reshape(shape)


def normal_array(shape: tuple[int, ...], kind: Kind, generator: Generator | None = None) -> Any:
    """Return an array of standard normal numbers, of that floating kind."""
    return normals(shape, kind, generator, kind.dtype.numpy)


def normals(shape: tuple[int, ...], kind: Kind, generator: Generator | None, dtype: Any = None) -> Any:
    """As `normal_array`; without a dtype before the numbers are rounded to the kind."""
    engine, n = source(generator, kind.device), math.prod(shape)
    make = engine.normal64 if kind.dtype.name == "float64" else engine.normal

    def made(xp: Any) -> Any:
        a = make(xp, n).reshape(shape)
        return a if dtype is None else a.astype(dtype, copy=False)

    return backends.allocated(kind.device, made)


def bernoulli_array(p: Any, where: Device = cpu, generator: Generator | None = None) -> Any:
    """Return a bool array: true with the probabilities in the array `p`."""
    engine = source(generator, where)
    return backends.allocated(where, lambda xp: engine.bernoulli(xp, p))
