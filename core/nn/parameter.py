"""`Parameter`: a tensor that a module trains; `Buffer`: one that it keeps beside them; both may lack a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.device import Kind, kind
from ..base.device import device as Device
from ..base.dtypes import dtype as Dtype
from ..base.dtypes import get_default_dtype
from ..dispatch.of_values import OfValues
from ..events import observe
from ..ops.creation import empty
from ..tensors.copying import attributes
from ..tensors.overriding import not_asked
from ..tensors.tensor import Tensor, left_graph, storage_of, wrap


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

    __torch_function__ = not_asked

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _empty()
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): data must be a Tensor, not {type(data).__name__}; remedy: core.tensor(data)")
        if isinstance(data, OfValues):
            data.refused("Parameter")
        if cls is Parameter and hasattr(data, "as_parameter"):  # a tensor that is divided among processes stays so
            return data.as_parameter(requires_grad)  # type: ignore[no-any-return]
        if requires_grad and data._kind.dtype.category < 2:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients\n  op: Parameter; "
                f"came: a tensor of {data._kind.dtype}; remedy: requires_grad=False, or a buffer"
            )
        self = Tensor.__new__(cls)
        self._a, self._kind, self._storage = data._a, data._kind, storage_of(data)
        self.requires_grad_(requires_grad)
        if data._node is not None and observe.observers:
            left_graph("parameter", data, self)
        return self

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        # a copied parameter starts without a gradient, as PyTorch has it
        out = type(self)(wrap(self._a.copy(), self._kind), self._requires_grad)
        memo[id(self)] = out
        return out


MaybeParameter = Parameter | Any
"""A parameter that a module may lack: None then, of which a type checker would ask at each use if it knew."""


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


# -- without a shape, for the lazy modules -----------------------------------------------------------------------------


class _Uninitialized(Tensor):
    """A tensor that has a dtype and a device, and memory only once `materialize` has been called."""

    __torch_function__ = not_asked

    _becomes: type = Tensor

    @property
    def _a(self) -> Any:  # type: ignore[override]
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `core.nn.parameter.{type(self).__name__}` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling core functions"
        )

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Dtype | None = None) -> None:
        """Give it memory of that shape, which makes it an ordinary parameter or buffer."""
        made = empty(tuple(shape), dtype=dtype or self.dtype, device=self.device if device is None else device)
        self.__class__ = self._becomes  # type: ignore[assignment]
        self._a, self._kind = made._a, made._kind  # type: ignore[misc]

    def to(self, *args: Any, device: Any = None, dtype: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Another of the same sort, with another dtype or device."""
        for given in args:
            if isinstance(given, Dtype):
                dtype = given
            elif given is not None:
                device = given
        return self._like(kind(dtype or self.dtype, Device(device) if device is not None else self.device))

    def _like(self, of: Kind) -> Any:
        out = Tensor.__new__(type(self))
        out._kind, out._requires_grad = of, self._requires_grad
        out.__dict__.update(attributes(self))
        return out

    def share_memory_(self) -> Any:
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize "
                           "the parameters before calling `module.share_memory()`.")  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self)] = out = self._like(self._kind)
        return out

    def __reduce__(self) -> Any:
        return _again, (type(self), self._kind, self._requires_grad, attributes(self))


UninitializedTensorMixin = _Uninitialized  # PyTorch's name


def _again(cls: type, of: Kind, requires_grad: bool, own: dict[str, Any]) -> Any:
    out: Any = Tensor.__new__(cls)
    out._kind, out._requires_grad = of, requires_grad
    out.__dict__.update(own)
    return out


def _made(cls: type, requires_grad: bool, device: Any, dtype: Dtype | None, **own: Any) -> Any:
    made = kind(dtype or get_default_dtype(), Device("cpu" if device is None else device))
    return _again(cls, made, requires_grad, own)


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter without a shape; `materialize` gives it one and makes it a `Parameter`.

    >>> import core
    >>> p = core.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', core.Size([2, 3]))
    """

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Dtype | None = None) -> Any:
        return _made(cls, requires_grad, device, dtype)


class UninitializedBuffer(_Uninitialized):
    """A buffer without a shape; `materialize` gives it one and makes it a tensor.

    >>> import core
    >>> b = core.nn.UninitializedBuffer()
    >>> b.materialize((2,))
    >>> type(b).__name__, b.shape
    ('Tensor', core.Size([2]))
    """

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Dtype | None = None,
                persistent: bool = True) -> Any:  # fmt: skip
        return _made(cls, requires_grad, device, dtype, persistent=persistent, _is_buffer=True)


def is_lazy(param: Any) -> bool:
    """Return whether a tensor has no shape yet."""
    return isinstance(param, _Uninitialized)
