"""The CPU's rows of variances, norms, logarithms of sums of exponentials and products, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from . import Row

c: Any = native.module
_PARAMS = {
    "var": ("dim", "correction", "keepdim"),
    "std": ("dim", "correction", "keepdim"),
    "logsumexp": ("dim", "keepdim"),
    "prod": ("dim", "keepdim"),
    "vector_norm": ("p", "dim", "keepdim"),
}
_ASKED = {"var": ("g", "x")}  # what a gradient asks for before its parameters: the output too, unless it says so


def _takes(x: Any, dim: tuple[int, ...], p: float) -> str | None:
    if x.dtype.char not in "fd":
        return f"takes float32 and float64, got {x.dtype}"
    if not x.size or not dim:
        return "takes tensors that have items, and at least one dimension of them"
    return None if p in (1, 2) else f"takes norms of p = 1 and p = 2, got {p}"


def _order(ndim: int, dim: tuple[int, ...]) -> list[int]:
    """Return the axes with those that are reduced last."""
    return [*(d for d in range(ndim) if d not in dim), *dim]


def _forward(stem: str) -> Row:
    names = _PARAMS[stem]

    def run(x: Any, **params: Any) -> Any:
        entry = c.entries[stem]
        y = entry(x, *[params[n] for n in names])
        if y is not NotImplemented:
            return y
        dim, many = params["dim"], x.ndim - len(params["dim"])
        there = {**params, "dim": tuple(range(many, x.ndim)), "keepdim": False}
        y = entry(np.ascontiguousarray(x.transpose(_order(x.ndim, dim))), *[there[n] for n in names])
        return y.reshape([1 if d in dim else n for d, n in enumerate(x.shape)]) if params["keepdim"] else y

    def declines(x: Any, dim: Any, p: float = 2, **_: Any) -> str | None:
        return _takes(x, dim, p)

    return Row(f"{stem}_forward", "C", run, declines)


def _backward(stem: str) -> Row:
    names = (*_ASKED.get(stem, ("g", "x", "y")), *_PARAMS[stem])

    def run(**given: Any) -> Any:
        entry = c.entries[f"{stem}.backward"]
        gx = entry(*[given[n] for n in names])
        if gx is not NotImplemented:
            return gx
        x, dim = given["x"], given["dim"]
        order = _order(x.ndim, dim)
        moved = np.ascontiguousarray(x.transpose(order))
        there = {**given, "x": moved, "dim": tuple(range(x.ndim - len(dim), x.ndim))}
        gx = entry(*[there[n] for n in names])
        return np.ascontiguousarray(gx.transpose(np.argsort(order)))

    def declines(g: Any, x: Any, dim: Any, p: float = 2, **_: Any) -> str | None:
        if g.dtype != x.dtype:
            return f"takes one floating type, got {g.dtype} and {x.dtype}"
        return _takes(x, dim, p) or ("divides by every item, and one is 0" if stem == "prod" and not x.all() else None)

    return Row(f"{stem}_backward", "C", run, declines)


_MAKERS: tuple[tuple[str, Callable[[str], Row]], ...] = (("", _forward), (".backward", _backward))
rows = {stem + suffix: make(stem) for stem in _PARAMS for suffix, make in _MAKERS}
