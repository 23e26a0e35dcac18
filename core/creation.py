"""Making tensors from numbers, arrays and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import backends, dtypes, observe
from .device import cpu, device as Device, kind as kind_of
from .dtypes import dtype as Dtype
from .shape import as_shape
from .tensor import Tensor, from_array, left_graph, wrap


def _place(a: Any, dtype: Dtype, device: Any, requires_grad: bool) -> Tensor:
    where = Device(device) if device is not None else cpu
    if where.type != "cpu":
        where = available(where)
        a = backends.array_module("cuda").asarray(a)
    t = wrap(a, kind_of(dtype, where))
    return t.requires_grad_() if requires_grad else t


def available(where: Device) -> Device:
    """The device with its index, if it is there; RuntimeError with the reason if not."""
    if where.type == "cuda":
        from .backends import cuda

        return cuda.check(where)
    return where


def tensor(data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor.

    Floats become the default dtype, ints int64, bools bool; arrays keep theirs. Tensors inside `data` leave the graph.

    >>> import core
    >>> core.tensor([[1, 2], [3, 4]]).dtype, core.tensor(1.5).dtype
    (core.int64, core.float32)
    """
    if isinstance(data, Tensor):
        a = data._a.copy() if data._kind.device.type == "cpu" else data.cpu()._a  # type: ignore[attr-defined]
        d = dtype or data.dtype
        out = _place(a.astype(d.numpy, copy=False), d, device, requires_grad)
        if observe.observers:
            left_graph("tensor", data, out)
        return out
    if isinstance(data, np.ndarray | np.generic):
        d = dtype or dtypes.from_numpy(data.dtype)
        out = _place(np.array(data, d.numpy, subok=False), d, device, requires_grad)
        from .lineage import note

        note(out, data)
        return out
    held: list[Tensor] = []
    if isinstance(data, list | tuple) and _holds_tensors(data):
        data = _unwrap(data, held)
    try:
        a = np.array(data)
    except ValueError as e:
        raise ValueError(f"expected sequences of equal length at every level: {e}\n  op: tensor") from None
    if a.dtype.kind in "OUS":
        raise TypeError(f"tensor(): can't convert {type(data).__name__} with elements of type "
                        f"{_element(data)} to a tensor; needed: numbers")  # fmt: skip
    if dtype is None:
        dtype = {"f": dtypes.get_default_dtype(), "i": dtypes.int64, "u": dtypes.int64, "b": dtypes.bool_}.get(
            a.dtype.kind, dtypes.complex64)  # fmt: skip
        if a.size == 0 and a.dtype == np.float64:
            dtype = dtypes.get_default_dtype()
    out = _place(a.astype(dtype.numpy), dtype, device, requires_grad)
    if observe.observers:
        for t in held:
            left_graph("tensor", t, out)
    return out


def _element(data: Any) -> str:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return type(data).__name__


def _holds_tensors(data: Any) -> bool:
    return any(isinstance(x, Tensor) or (isinstance(x, list | tuple) and _holds_tensors(x)) for x in data)


def _unwrap(data: Any, held: list[Tensor]) -> Any:
    """`data` with numbers in place of its tensors, which are added to `held`."""
    if isinstance(data, Tensor):
        held.append(data)
        return data._a.tolist()
    return [_unwrap(x, held) for x in data] if isinstance(data, list | tuple) else data


def as_tensor(data: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor; tensors and NumPy arrays are not copied unless dtype or device change."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)  # type: ignore[attr-defined, no-any-return]
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(dtype=dtype, device=device)  # type: ignore[attr-defined, no-any-return]
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

    >>> import core, numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = core.from_numpy(a)
    >>> a[0] = 7
    >>> t
    tensor([7., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    out = from_array(array.view(np.ndarray) if type(array) is not np.ndarray else array)
    from .lineage import note

    note(out, array)
    return out


def full(size: Any, fill_value: Any, *, dtype: Dtype | None = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of that shape, filled with one number."""
    shape = as_shape(size if isinstance(size, tuple | list) else (size,))
    d = dtype or dtypes.of_number(fill_value)
    return _place(np.full(shape, fill_value, d.numpy), d, device, requires_grad)


def zeros(*size: Any, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros.

    >>> import core
    >>> core.zeros(2)
    tensor([0., 0.])
    """
    d = dtype or dtypes.get_default_dtype()
    return _place(np.zeros(as_shape(size), d.numpy), d, device, requires_grad)


def ones(*size: Any, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    d = dtype or dtypes.get_default_dtype()
    return _place(np.ones(as_shape(size), d.numpy), d, device, requires_grad)


def empty(*size: Any, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose values are whatever was in memory."""
    d = dtype or dtypes.get_default_dtype()
    return _place(np.empty(as_shape(size), d.numpy), d, device, requires_grad)


def _like(make: Any) -> Any:
    def function(
        input: Tensor, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return make(
            tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
        )  # type: ignore[no-any-return]

    function.__name__ = f"{make.__name__}_like"
    function.__doc__ = f"As `{make.__name__}`, with the shape, dtype and device of `input`."
    return function


zeros_like, ones_like, empty_like = _like(zeros), _like(ones), _like(empty)


def full_like(input: Tensor, fill_value: Any, *, dtype: Dtype | None = None, device: Any = None,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
    """As `full`, with the shape, dtype and device of `input`."""
    return full(tuple(input.shape), fill_value, dtype=dtype or input.dtype, device=device or input.device,
                requires_grad=requires_grad)  # fmt: skip


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Dtype | None = None, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The numbers from `start` (0 if only one is given) up to but not including `end`.

    >>> import core
    >>> core.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign\n  op: arange; came: ({start}, {end}, {step})"
        )
    d = dtype or (dtypes.get_default_dtype() if any(isinstance(v, float) for v in (start, end, step)) else dtypes.int64)
    n = int(np.ceil((end - start) / step))
    return _place((start + step * np.arange(n)).astype(d.numpy), d, device, requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: Dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """`steps` numbers evenly from `start` to `end`, both included."""
    d = dtype or dtypes.get_default_dtype()
    return _place(np.linspace(start, end, steps).astype(d.numpy), d, device, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Dtype | None = None, device: Any = None,
        requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The identity matrix, `n` rows and `m` (or n) columns."""
    d = dtype or dtypes.get_default_dtype()
    return _place(np.eye(n, m, dtype=d.numpy), d, device, requires_grad)
