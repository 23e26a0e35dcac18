"""Copies and pickles of tensors. Deep copies keep what is shared: views of one memory are views of one copy of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from ..base.device import Kind
from ..base.errors import text
from ..graph.node import Storage
from ..graph.versions import storage_of
from .device_read import to_host
from .tensor import Tensor

# What a tensor's dict may hold that is not the user's; most of it is there where the C extension is not.
_OWN = {
    *("_a", "_kind", "_node", "_nr", "_storage", "_base", "_way", "_rule", "_undo", "_requires_grad"),
    *("_view_version", "_undone", "_grad", "_hooks", "_post_hooks", "_retains_grad", "_came", "_note"),
}


def attributes(t: Tensor) -> dict[str, Any]:
    """Return what somebody has written on a tensor."""
    return {k: v for k, v in t.__dict__.items() if k not in _OWN}


def shallow(t: Tensor) -> Tensor:
    """Another tensor over the same memory, without history."""
    out = Tensor.__new__(type(t))
    out._a, out._kind, out._requires_grad, out._storage = t._a, t._kind, t.requires_grad, storage_of(t)
    out.__dict__.update(attributes(t))
    return out


def deep(t: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a copy with memory of its own, of a leaf; see `copied` for what several share."""
    if t.grad_fn is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment.\n  remedy: x.detach().clone()"
        )
    out = Tensor.__new__(type(t))
    memo[id(t)] = out
    out._a, out._storage = copied(t._a, memo)
    out._kind, out._requires_grad = t._kind, t._requires_grad
    if t._grad is not None:
        out._grad = deepcopy(t._grad, memo)
    out.__dict__.update(deepcopy(attributes(t), memo))
    return out


# -- pickles -----------------------------------------------------------------------------------------------------------


def reduced(t: Tensor) -> tuple[Any, ...]:
    """Return what pickle needs: values, strides, and what was written on the tensor; a computed one becomes a leaf."""
    if t.device.type == "meta":
        raise NotImplementedError(text("Cannot copy out of meta tensor; no data!", op="pickle",
                                       came=f"a meta tensor of shape {tuple(t._a.shape)}", needed="values",
                                       remedy="keep its shape and dtype, and make it anew"))  # fmt: skip
    a = t._a if isinstance(t._a, np.ndarray) else to_host(t._a.get, t._kind.device.type)
    flat, strides = _packed(a)
    return (_rebuilt, (type(t), flat, a.shape, strides, t._kind, t.requires_grad), attributes(t) or None)


def _packed(a: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], tuple[int, ...] | None]:
    """Return the elements in a row, each once, and the strides by which they are found; None for row-major order."""
    if not a.flags.c_contiguous and a.size and min(a.strides) >= 0:
        once = a[tuple(slice(1) if st == 0 else slice(None) for st in a.strides)]
        order = sorted(range(a.ndim), key=lambda d: -a.strides[d])
        if once.transpose(order).flags.c_contiguous:
            return once.transpose(order).reshape(-1), a.strides
    return np.ascontiguousarray(a).reshape(-1), None


def _rebuilt(cls: type[Tensor], flat: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None, k: Kind,
             requires_grad: bool) -> Tensor:  # fmt: skip
    out = Tensor.__new__(cls)
    out._a = flat.reshape(shape) if strides is None else np.ndarray(shape, flat.dtype, flat, 0, strides)
    out._kind, out._requires_grad = k, requires_grad
    return out


# -- deep copies -------------------------------------------------------------------------------------------------------


def copied(a: Any, memo: dict[int, Any]) -> tuple[Any, Storage | None]:
    """Return a copy of an array with its strides, in the copy of the memory that it and others lie in, and their
    version counter; None for that where the memory is not known as a whole, so that nothing can be shared."""
    root = a
    while isinstance(getattr(root, "base", None), np.ndarray):
        root = root.base
    if not isinstance(a, np.ndarray) or type(root) is not np.ndarray or root.base is not None or not _whole(root):
        return a.copy(), None
    kept = memo.get(id(root))
    if kept is None:
        kept = memo[id(root)] = (root.copy(order="K"), Storage(), root)  # the root stays, lest its id be another's
    new, storage, _ = kept
    offset = a.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    memory = new.ravel(order="K").view(np.uint8)  # no as_strided: NumPy reads ml_dtypes' "<f1" as no type
    return np.ndarray(a.shape, a.dtype, buffer=memory, offset=offset, strides=a.strides), storage


def _whole(root: np.ndarray) -> bool:
    """Return whether the elements fill their memory without holes."""
    return root.size > 0 and (root.flags.c_contiguous or root.flags.f_contiguous)


Tensor.__copy__ = shallow  # type: ignore[attr-defined]
Tensor.__deepcopy__ = deep  # type: ignore[attr-defined]
Tensor.__reduce__ = reduced  # type: ignore[assignment]
