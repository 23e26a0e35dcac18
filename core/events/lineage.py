"""Where a value went after it left the graph: an ndarray that remembers its tensor and what NumPy did to it.

It is handed out by `Tensor.numpy()` only while an observer wants lineage; otherwise a plain ndarray is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.source import describe, here
from . import observe


class Traced(np.ndarray):
    """An ndarray with its origin: `origin` is a tuple of (place, what was done), `sources` the tensors it came from.

    It shows, copies and pickles as the plain array that there would be without an observer.
    """

    origin: tuple[tuple[Any, str], ...] = ()
    sources: tuple[Any, ...] = ()

    def __array_finalize__(self, obj: Any) -> None:
        self.origin = getattr(obj, "origin", ())
        self.sources = getattr(obj, "sources", ())

    def __repr__(self) -> str:
        return repr(_bare(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _bare(self).__reduce_ex__(protocol)

    def __reduce__(self) -> Any:
        return _bare(self).__reduce__()

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> Any:
        return _bare(self).__deepcopy__(memo)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        given = kwargs.get("out", ())
        if given:
            kwargs["out"] = tuple(map(_bare, given))
        where = kwargs.get("where")
        if where is not None:
            kwargs["where"] = _bare(where)
        result = getattr(ufunc, method)(*map(_bare, inputs), **kwargs)
        return _marked(result, f"np.{ufunc.__name__}", (*inputs, where), given, here(2))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _SHOWING:  # they write the name of the class
            return func(*map(_bare, args), **kwargs)
        result = super().__array_function__(func, types, args, kwargs)
        flat = [y for x in (*args, *kwargs.values()) for y in (x if isinstance(x, list | tuple) else (x,))]
        return _marked(result, f"np.{func.__name__}", flat, (), here(2))


_SHOWING = {np.array_repr, np.array_str, np.array2string}
Traced.__name__ = Traced.__qualname__ = "ndarray"
Traced.__module__ = "numpy"


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Traced) else x


def _marked(result: Any, what: str, inputs: Any, given: tuple[Any, ...], place: Any) -> Any:
    """`result` with the origins of its inputs and this step; where it went into `given` arrays (``out=``), these."""
    if isinstance(result, tuple | list):
        many = [_marked(r, what, inputs, given[i : i + 1], place) for i, r in enumerate(result)]
        return result._make(many) if hasattr(result, "_make") else type(result)(many)
    if not isinstance(result, np.ndarray):
        return result  # a number carries nothing
    out = given[0] if given and given[0] is not None else result.view(Traced)
    if isinstance(out, Traced):
        sources = [x for x in inputs if isinstance(x, Traced)]
        steps = dict.fromkeys(step for x in sources for step in x.origin)
        out.origin = (*steps, (place, what))
        seen = {id(s): s for x in sources for s in x.sources}  # by identity: tensors compare by value
        out.sources = tuple(seen.values())
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
        t._came = (*a.origin, (place, "back into a tensor, as a constant"))
        observe.notify(observe.listening(), "returned", observe.ReturnEvent(t, a.sources, a.origin, place))


def origin(t: Any) -> tuple[tuple[Any, str], ...]:
    """Return the way by which a tensor came back from NumPy; empty if it did not."""
    return t._came or ()


def story(t: Any) -> str:
    """That way in words."""
    return " -> ".join(f"{what} at {describe(place)}" for place, what in origin(t))
