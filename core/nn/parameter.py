"""`Parameter`: a tensor that a module trains; `Buffer`: one that it keeps beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import kind
from ..dtypes import get_default_dtype
from ..tensor import Tensor, storage_of, wrap


def _empty() -> Tensor:
    d = get_default_dtype()
    return wrap(np.empty(0, d.numpy), kind(d))


class Parameter(Tensor):
    """A tensor that becomes a parameter of the module it is assigned to, and that requires a gradient.

    The memory of `data` is shared; its history is left behind.

    *Raises*: RuntimeError for integers with ``requires_grad=True``.

    >>> import core
    >>> core.nn.Parameter(core.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _empty()
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): data must be a Tensor, not {type(data).__name__}; remedy: core.tensor(data)")
        self = Tensor.__new__(cls)
        self._a, self._kind, self._storage = data._a, data._kind, storage_of(data)
        self.requires_grad_(requires_grad)
        return self

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        # a copied parameter starts without a gradient, as PyTorch has it
        out = type(self)(wrap(self._a.copy(), self._kind), self._requires_grad)
        memo[id(self)] = out
        return out


class _BufferMeta(type):
    """Any tensor that `Buffer` has marked is an instance of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to; saved with its state if `persistent`.

    >>> import core
    >>> m = core.nn.Module()
    >>> m.steps = core.nn.Buffer(core.zeros(1))
    >>> list(m.state_dict())
    ['steps']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = _empty()
        marked: Any = wrap(data._a, data._kind)
        marked._storage = storage_of(data)
        marked.requires_grad_(data.requires_grad)
        marked.persistent, marked._is_buffer = persistent, True
        return marked
