"""Two tensors that change places: `swap_tensors`."""

from __future__ import annotations

import types
from typing import Any

from ..base.errors import text
from ..tensors.tensor import Tensor

__all__ = ["swap_tensors"]

missing: Any = object()


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let each of two leaves become the other: memory, class, gradient and attributes change places.

    *Raises*: RuntimeError for a result of operations, or a view.

    >>> import core
    >>> a, b = core.ones(1), core.zeros(2)
    >>> core.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0.]), tensor([1.]))
    """
    for t in (t1, t2):
        if t.grad_fn is not None or t._base is not None:
            raise RuntimeError(text("only leaves that are no views change places", op="swap_tensors",
                                    came="a view" if t._base is not None else "a result of operations",
                                    remedy="t.detach().clone()"))  # fmt: skip
    kinds = types.MemberDescriptorType
    names = {n for t in (t1, t2) for cls in type(t).__mro__ for n, v in vars(cls).items() if isinstance(v, kinds)}
    for name in (*sorted(names), "__dict__"):
        old = [getattr(t, name, missing) for t in (t2, t1)]
        for t, value in zip((t1, t2), old, strict=True):
            if value is not missing:
                setattr(t, name, value)
            elif hasattr(t, name):
                delattr(t, name)
    t1.__class__, t2.__class__ = type(t2), type(t1)
