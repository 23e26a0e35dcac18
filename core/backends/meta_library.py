"""NumPy as the references of ops see it on the device `meta`: `library`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .meta_array import MetaArray, as_meta, made, strided


class MetaLibrary:
    """NumPy for arrays without memory: what makes arrays makes them of that kind."""

    without_values = True
    MAKING = frozenset({"empty", "zeros", "ones"})

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in self.MAKING:
            value: Any = lambda shape, dtype=float, *more, **other: made(shape, other.get("dtype", dtype))
        elif callable(found) and not isinstance(found, type | np.ufunc) and name not in ("errstate", "dtype"):
            value = _kept(found)
        elif name == "lib":
            value = _Lib()
        else:
            value = found
        setattr(self, name, value)
        return value

    def full(self, shape: Any, fill_value: Any, dtype: Any = None, **more: Any) -> Any:
        return made(shape, np.asarray(fill_value).dtype if dtype is None else dtype)

    def asarray(self, a: Any, dtype: Any = None, **more: Any) -> Any:
        if not isinstance(a, MetaArray):
            return np.asarray(a, dtype, **more)
        return a if dtype is None or np.dtype(dtype) == a.dtype else a.astype(dtype)

    ascontiguousarray = asanyarray = asarray

    def array(self, a: Any, dtype: Any = None, **more: Any) -> Any:
        return made(a.shape, dtype or a.dtype) if isinstance(a, MetaArray) else np.array(a, dtype, **more)


class _Lib:
    """``xp.lib.stride_tricks`` of such arrays."""

    @property
    def stride_tricks(self) -> Any:
        return self

    def as_strided(self, x: Any, *given: Any, **more: Any) -> Any:
        run = strided if isinstance(x, MetaArray) else np.lib.stride_tricks.as_strided
        return run(x, *given, **more)

    def sliding_window_view(self, x: Any, window_shape: Any, axis: Any = None, **more: Any) -> Any:
        if not isinstance(x, MetaArray):
            return np.lib.stride_tricks.sliding_window_view(x, window_shape, axis, **more)
        sizes = (window_shape,) if np.ndim(window_shape) == 0 else tuple(window_shape)
        axes = range(x.ndim) if axis is None else [axis] if np.ndim(axis) == 0 else axis
        shape = list(x.shape)
        for k, n in zip(axes, sizes, strict=True):
            shape[k] -= n - 1
        return strided(x, (*shape, *sizes), (*x.strides, *[x.strides[k] for k in axes]))


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's whose results stay meta arrays where the arguments were."""

    def call(*args: Any, **more: Any) -> Any:
        found = function(*args, **more)
        there = itertools.chain(args, more.values())
        if any(isinstance(a, MetaArray) or (isinstance(a, list | tuple) and any(isinstance(x, MetaArray) for x in a))
               for a in there):  # fmt: skip
            return as_meta(found)
        return found

    return call


library: Any = MetaLibrary()
