"""Where a value went after it left the graph: an ndarray that remembers the tensor it came from and what NumPy did to it.

It is handed out by `Tensor.numpy()` only while an observer wants lineage; otherwise a plain ndarray is.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from . import observe
from .source import describe, here

# tensors that were made from such an array, with the way they came; an entry goes with its tensor
_came: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, str], ...]] = weakref.WeakKeyDictionary()


class Traced(np.ndarray):
    """An ndarray with its origin: `origin` is a tuple of (place, what was done), `sources` the tensors' nodes."""

    origin: tuple[tuple[Any, str], ...] = ()
    sources: tuple[Any, ...] = ()

    def __array_finalize__(self, obj: Any) -> None:
        self.origin = getattr(obj, "origin", ())
        self.sources = getattr(obj, "sources", ())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        bare = [x.view(np.ndarray) if isinstance(x, Traced) else x for x in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Traced) else x for x in kwargs["out"])
        return self._mark(getattr(ufunc, method)(*bare, **kwargs), f"np.{ufunc.__name__}", inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        flat = [y for x in args for y in (x if isinstance(x, list | tuple) else (x,))]
        return self._mark(result, f"np.{func.__name__}", flat)

    def _mark(self, result: Any, what: str, inputs: Any) -> Any:
        if not isinstance(result, np.ndarray):
            return result
        from_inputs = [x for x in inputs if isinstance(x, Traced)]
        out = result.view(Traced)
        steps = dict.fromkeys(step for x in from_inputs for step in x.origin)
        out.origin = (*steps, (here(3), what))
        out.sources = tuple(dict.fromkeys(s for x in from_inputs for s in x.sources))
        return out


def traced(a: Any, t: Any, place: Any) -> Any:
    """`a` as an array that carries where it came from."""
    out = a.view(Traced)
    out.origin = ((place, ".numpy()"),)
    out.sources = (t,)
    return out


def note(t: Any, a: Any) -> None:
    """Remember that tensor `t` was made from array `a`, if `a` carries an origin, and tell observers."""
    if isinstance(a, Traced) and a.origin:
        place = here(3)
        _came[t] = (*a.origin, (place, "back into a tensor, as a constant"))
        for o in observe.observers:
            o.returned(observe.ReturnEvent(t, a.sources, a.origin, place))


def origin(t: Any) -> tuple[tuple[Any, str], ...]:
    """The way by which a tensor came back from NumPy; empty if it did not."""
    return _came.get(t, ())


def story(t: Any) -> str:
    """That way in words."""
    return " -> ".join(f"{what} at {describe(place)}" for place, what in origin(t))
