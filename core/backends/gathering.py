"""The CPU's rows of ops that pick items and put them elsewhere: index, gather, scatter, triangles, flips, running sums.

The kernels are entries of the extension (native/binding/adapters/gather_scatter.c,
native/binding/adapters/flip_roll_tri.c), which take contiguous arrays and indices in range. What they leave, the op's
reference computes, and the gradients the op's own vjps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..base.modes import no_grad
from ..declare import op as declarations
from ..tensors.tensor import Tensor, from_array
from . import Row

c: Any = native.module
_TYPES = ("float32", "float64", "int64", "int32", "bool")
_REAL = ("float32", "float64")
_OPS = (
    "index",
    "gather",
    "scatter",
    "scatter_add",
    "index_put",
    "constant_pad",
    "tril",
    "triu",
    "flip",
    "roll",
    "cumsum",
)
_ADDS = ("scatter_add", "cumsum")  # sums are of floats


def _reason(types: tuple[str, ...], arrays: Any) -> str | None:
    """Why the kernels do not take what stands first, and integers after it."""
    first = next((a for a in arrays if isinstance(a, np.ndarray)), None)
    if first is None or first.dtype.name not in types:
        return f"takes {', '.join(types)}, got {'nothing' if first is None else first.dtype.name}"
    others = [a for a in arrays if isinstance(a, np.ndarray) and a.dtype != first.dtype and a.dtype != np.int64]
    return f"takes int64 indices, got {others[0].dtype.name}" if others else None


def _called(name: str, values: Any) -> Any:
    """Return what the entry gives, arrays being brought into one piece."""
    return c.entries[name](*(np.asarray(v, order="C") if isinstance(v, np.ndarray) else v for v in values))


def _forward(name: str) -> Row:
    types = _REAL if name in _ADDS else _TYPES

    def run(*arrays: Any, **params: Any) -> Any:
        op: Any = declarations.table[name]
        found = _called(name, (*arrays, *(params[n] for n in op.params)))
        if found is not NotImplemented:
            return found
        with np.errstate(all="ignore"):
            return op.forward(np, *arrays, **params)

    return Row(f"{name}_forward", "C", run, lambda *arrays, **params: _reason(types, arrays))


def by_vjps(name: str, named: dict[str, Any]) -> Any:
    """Return the gradients of an op as its vjps give them, from what its "<op>.backward" row is called with."""

    def tensor(v: Any) -> Any:
        return from_array(v) if isinstance(v, np.ndarray) else v

    op: Any = declarations.table[name]
    needs = named.get("needs", (True,) * len(op.vjps))
    out = []
    with no_grad():
        for vjp, wanted in zip(op.vjps, needs, strict=True):
            g = vjp.function(*(tensor(named[n]) for n in vjp.names)) if vjp is not None and wanted else None
            out.append(g._a if isinstance(g, Tensor) else g)
    return out[0] if op.joint else tuple(out)


def _backward(name: str) -> Row:
    def run(**named: Any) -> Any:
        found = _called(f"{name}.backward", [named[n] for n in declarations.table[name].row_names])  # type: ignore[attr-defined]
        return by_vjps(name, named) if found is NotImplemented else found

    return Row(f"{name}_backward", "C", run, lambda **named: _reason(_REAL, (named["g"], *named.values())))


rows: dict[str, Row] = {}
for _name in _OPS:
    rows |= {_name: _forward(_name), f"{_name}.backward": _backward(_name)}
