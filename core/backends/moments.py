"""The CPU's kernels of variances, norms, logarithms of sums of exponentials and products, and of their gradients
(native/kernels/moments.c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel

c: Any = native.module
_PARAMS = {
    "var": ("dim", "correction", "keepdim"),
    "std": ("dim", "correction", "keepdim"),
    "logsumexp": ("dim", "keepdim"),
    "prod": ("dim", "keepdim"),
    "vector_norm": ("p", "dim", "keepdim"),
}
_ASKED = {"var": ("g", "x")}  # what a gradient asks for before its parameters: the output too, unless it says so


def _order(ndim: int, dim: tuple[int, ...]) -> list[int]:
    """Return the axes with those that are reduced last."""
    return [*(d for d in range(ndim) if d not in dim), *dim]


def _forward(stem: str) -> Callable[..., Any]:
    """Return what runs over any dimensions: those that the entry leaves are moved to the end."""
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

    return run


def _backward(stem: str) -> Callable[..., Any]:
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

    return run


def _no_zero(x: Any, **_: Any) -> str | None:
    return None if x.all() else "divides by every item, and one is 0"


_KINDS = {"var": "MOMENT_VAR", "std": "MOMENT_STD", "logsumexp": "MOMENT_LOGSUMEXP", "prod": "MOMENT_PROD",
          "vector_norm": "(MOMENT_NORM if p == 2 else MOMENT_ABS)"}  # fmt: skip
_READ = {"dim": "axes(n)", "correction": "float", "keepdim": "flag", "p": "float"}
for _stem, _names in _PARAMS.items():
    _params = ", ".join(f"{n}: {_READ[n]}" for n in _names)
    _needs = {"x.size and len(dim)": "takes tensors that have items, and at least one dimension of them"}
    if "p" in _names:
        _needs["p == 1 or p == 2"] = "takes norms of p = 1 and p = 2"
    _less = "correction" if "correction" in _names else "0"
    kernel(
        _stem,
        f"x: real[*outer, *n, *inner], {_params}",
        gives="y: real[*outer, *n|keepdim, *inner]",
        call=f"moment_forward.T({_KINDS[_stem]}, x, y, outer, n, inner, (n - {_less} if n > {_less} else 0))",
        fails="memory",
        requires=_needs,
        run=_forward(_stem),
    )
    _y = "y" not in _ASKED.get(_stem, "y")
    kernel(
        f"{_stem}.backward",
        f"g: real[...], x: real[*outer, *n, *inner], {'' if _y else 'y: real[...]?, '}{_params}",
        plan=": has_no_zero.T(x, x.size)" if _stem == "prod" else "",
        gives="gx: real[*outer, *n, *inner]",
        call=f"moment_backward.T({_KINDS[_stem]}, g, x, {'None' if _y else 'y'}, gx, outer, n, inner, n - {_less})",
        fails="memory",
        quiet="x.size >= 8192",
        requires=_needs,
        takes=("g.size == outer * inner", *(() if _y else ("y is None or y.size == outer * inner",))),
        run=_backward(_stem),
        say=_no_zero if _stem == "prod" else None,
    )
