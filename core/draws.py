"""Arrays of random numbers of a kind, from a generator or the default one of the device."""

from __future__ import annotations

import math
from typing import Any

from . import backends
from .device import Kind, cpu
from .device import device as Device
from .generator import Generator, default_of

_BITS = {"float16": 11, "bfloat16": 8}


def source(generator: Generator | None, where: Device) -> Any:
    return (generator or default_of(where)).engine


def uniform_array(shape: tuple[int, ...], kind: Kind, generator: Generator | None = None) -> Any:
    """An array of numbers in [0, 1), of that floating kind."""
    xp, engine, n = backends.array_module(kind.device.type), source(generator, kind.device), math.prod(shape)
    name = kind.dtype.name
    if name in _BITS:
        a = engine.uniform_bits(xp, n, _BITS[name]).astype(kind.dtype.numpy)
    else:
        a = engine.uniform64(xp, n) if name == "float64" else engine.uniform(xp, n)
    return a.reshape(shape)


def normal_array(shape: tuple[int, ...], kind: Kind, generator: Generator | None = None) -> Any:
    """An array of standard normal numbers, of that floating kind."""
    return normals(shape, kind, generator).astype(kind.dtype.numpy, copy=False)


def normals(shape: tuple[int, ...], kind: Kind, generator: Generator | None) -> Any:
    """As `normal_array`, before the numbers are rounded to the kind."""
    xp, engine, n = backends.array_module(kind.device.type), source(generator, kind.device), math.prod(shape)
    a = engine.normal64(xp, n) if kind.dtype.name == "float64" else engine.normal(xp, n)
    return a.reshape(shape)


def bernoulli_array(p: Any, where: Device = cpu, generator: Generator | None = None) -> Any:
    """A bool array: true with the probabilities in the array `p`."""
    return source(generator, where).bernoulli(backends.array_module(where.type), p)
