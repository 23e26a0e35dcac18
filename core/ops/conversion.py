"""Tensors from data: numbers, nested lists, arrays, other tensors."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import backends
from ..base import dtypes
from ..base.device import cpu, default_place
from ..base.device import device as device_class
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..declare.kinds import Data, Device
from ..declare.op import functions
from ..declare.signature import Fast
from ..dispatch.publish import offer
from ..events import observe
from ..events.lineage import note
from ..tensors.tensor import Tensor, from_array, left_graph, wrap

_PYTHON = {builtins.float: dtypes.float64, builtins.int: dtypes.int64, builtins.bool: dtypes.bool_}


def available(where: device_class) -> device_class:
    """Return the device with its index, if it is there; RuntimeError with the reason if not."""
    return where if where is cpu else backends.device(where.type).check(where)


def placed(device: Any) -> device_class:
    """Return the device that an argument names; the default one for None."""
    return available(default_place[0] if device is None else device_class(device))


def get_default_device() -> device_class:
    """Return the device of tensors that are made without one being named.

    >>> import core
    >>> core.get_default_device()
    device(type='cpu')
    """
    return default_place[0]


def set_default_device(device: Device | None) -> None:
    """Make tensors on `device` from now on where none is named; None takes it back to the CPU.

    >>> import core
    >>> core.set_default_device("cpu")
    """
    default_place[0] = cpu if device is None else available(device_class(device))


def as_dtype(d: Any, op: str) -> Dtype:
    """Return a dtype, also from Python's float (float64), int (int64) and bool."""
    if isinstance(d, Dtype):
        return d
    if d in _PYTHON:
        return _PYTHON[d]
    raise TypeError(text(f"{op}(): argument 'dtype' must be torch.dtype, not {type(d).__name__}", op=op, came=repr(d),
                         remedy="core.float32 and its like; core.from_numpy(a).dtype for a NumPy array's"))  # fmt: skip


def tensor(data: Data, *, dtype: Dtype | None = None, device: Device | None = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return a new tensor with a copy of `data`: a number, nested lists, an array or a tensor.

    Floats become the default dtype, ints int64, bools bool; arrays keep theirs. Tensors inside `data` leave the graph.
    *Raises*: ValueError for lists of unequal length, RuntimeError for numbers too great, TypeError for text.

    >>> import core
    >>> core.tensor([[1, 2], [3, 4]]).dtype, core.tensor(1.5).dtype
    (core.int64, core.float32)
    """
    d = None if dtype is None else as_dtype(dtype, "tensor")
    held: list[Tensor] = []
    if isinstance(data, Tensor):
        d = d or data.dtype
        held.append(data)
        a = data._a if isinstance(data._a, np.ndarray) else data._a.get()
        a = np.array(a, d.numpy, order="C")
    elif isinstance(data, np.ndarray | np.generic):
        d = d or dtypes.from_numpy(data.dtype)
        a = np.array(data, d.numpy, subok=False, order="C")
    else:
        if isinstance(data, list | tuple) and _holds_tensors(data):
            data = _unwrap(data, held)
        a = _numbers(data)
        d = d or _inferred(a, data, held)
        _check_overflow(a, d)
        with np.errstate(all="ignore"):
            a = a.astype(d.numpy)
    where = placed(device)
    out = wrap(a if where is cpu else backends.allocated(where, lambda xp: xp.asarray(a)), kind_of(d, where))
    if isinstance(data, np.ndarray):
        note(out, data)
    if observe.observers:
        for t in held:
            left_graph("tensor", t, out)
    return out.requires_grad_() if requires_grad else out


tensor = offer(tensor, fast=[Fast(body="tensor_of(data)")], home="creation", state="any")


def _numbers(data: Any) -> Any:
    """Nested sequences as an array; the errors say what is wrong with them."""
    try:
        a = np.array(data)
    except (ValueError, OverflowError):
        _check_lengths(data, 0)
        raise ValueError(
            text("expected numbers in sequences of equal length", op="tensor", came=repr(data)[:80])
        ) from None
    if a.dtype.kind in "US":
        raise TypeError(text("new(): invalid data type 'str'", op="tensor", came=repr(data)[:80], needed="numbers"))
    if a.dtype.kind == "u" and a.size and a.max() > np.iinfo(np.int64).max:
        raise ValueError(
            text("Overflow when unpacking long long", op="tensor", came=f"{a.max()}", needed="at most 2**63 - 1")
        )
    if a.dtype.kind not in "biufc":
        _check_lengths(data, 0)
        kind = type(next((v for v in a.reshape(-1) if not isinstance(v, builtins.int | builtins.float)), data)).__name__
        if kind == "int":
            raise ValueError(text("Overflow when unpacking long long", op="tensor", came=repr(data)[:80]))
        raise RuntimeError(
            text(f"Could not infer dtype of {kind}", op="tensor", came=repr(data)[:80], needed="numbers")
        )
    return a


def _check_lengths(data: Any, depth: int) -> None:
    if not isinstance(data, list | tuple) or not data:
        return
    sizes = [len(x) if isinstance(x, list | tuple) else None for x in data]
    for n in sizes:
        if n is None and sizes[0] is not None:
            raise TypeError(text("not a sequence", op="tensor", came=repr(data)[:80], needed="rows that are all lists"))
        if n != sizes[0]:
            raise ValueError(text(f"expected sequence of length {sizes[0]} at dim {depth + 1} (got {n})", op="tensor",
                                  remedy="rows of equal length, or a list of tensors"))  # fmt: skip
    for x in data:
        _check_lengths(x, depth + 1)


def _inferred(a: Any, data: Any, held: list[Tensor]) -> Dtype:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    if isinstance(data, np.generic | np.ndarray) and a.size:
        return dtypes.from_numpy(a.dtype)
    default = dtypes.get_default_dtype()
    found = {"f": default, "i": dtypes.int64, "u": dtypes.int64, "b": dtypes.bool_}.get(a.dtype.kind) or (
        dtypes.complex128 if default is dtypes.float64 else dtypes.complex64)  # fmt: skip
    if held:
        of_held = held[0].dtype
        for t in held[1:]:
            of_held = dtypes.promote_types(of_held, t.dtype)
        return found if found.category > of_held.category else of_held
    return found


def _check_overflow(a: Any, d: Dtype) -> None:
    if d.category != 1 or a.dtype.kind not in "iuf" or not a.size:
        return
    limits = np.iinfo(d.numpy)
    low = limits.min or -limits.max  # PyTorch lets negative numbers wrap in unsigned types
    if not (a.min() >= low and a.max() <= limits.max):
        raise RuntimeError(
            text(
                f"value cannot be converted to type {d.name} without overflow",
                op="tensor",
                came=f"values from {a.min()} to {a.max()}",
                needed=f"{low} to {limits.max}",
            )
        )


def _holds_tensors(data: Any) -> bool:
    return any(isinstance(x, Tensor) or (isinstance(x, list | tuple) and _holds_tensors(x)) for x in data)


def _unwrap(data: Any, held: list[Tensor]) -> Any:
    """`data` with numbers in place of its tensors, which are added to `held`; one of a single value is a number,
    whatever its dimensions, as in PyTorch."""
    if isinstance(data, Tensor):
        held.append(data)
        return data._a.item() if data._a.size == 1 else data._a.tolist()
    return [_unwrap(x, held) for x in data] if isinstance(data, list | tuple) else data


def as_tensor(data: Data, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """`data` as a tensor; tensors and NumPy arrays are not copied unless dtype or device change.

    >>> import core, numpy as np
    >>> core.as_tensor(np.zeros(2)).dtype
    core.float64
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray):
        made = from_numpy(data)
        return made if dtype is None and device is None else made.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Data, *, dtype: Dtype | None = None, device: Device | None = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """As `as_tensor`, also of what has ``__dlpack__``, ``__array_interface__`` or a buffer, whose memory is shared.

    copy : True for a copy, False for an error where one would be made. A tensor keeps its device if none is named;
        bytes are read as elements of `dtype`.

    *Raises*: ValueError where `copy` is False and a copy is needed.

    >>> import array, core
    >>> core.asarray([1.0, 2.0]), core.asarray(array.array("h", [3, 4]))
    (tensor([1., 2.]), tensor([3, 4], dtype=core.int16))
    """
    source = _shared(obj, dtype)
    if device is None and isinstance(source, Tensor):
        device = source.device
    t = tensor(source, dtype=dtype, device=device) if copy else as_tensor(source, dtype, device)
    same = t is source or (isinstance(source, np.ndarray) and t.dtype.numpy == source.dtype and t.device == cpu)
    if copy is False and not same:
        raise ValueError(
            text("a copy is needed, and copy=False forbids one", op="asarray", came=type(obj).__name__,
                 needed=f"a tensor or an array of {t.dtype} on {t.device}", remedy="copy=None")
        )  # fmt: skip
    return t.requires_grad_() if requires_grad else t


def _shared(obj: Any, dtype: Dtype | None) -> Any:
    """Return a tensor or an array over the memory of an object that offers it by a protocol; else the object."""
    if isinstance(obj, Tensor | np.ndarray | np.generic | list | tuple | builtins.float | builtins.int | complex):
        return obj
    if isinstance(obj, bytes | bytearray):
        return np.frombuffer(obj, (dtypes.get_default_dtype() if dtype is None else dtype).numpy)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return functions["from_dlpack"](obj)
    if hasattr(obj, "__array_interface__"):
        return np.asarray(obj)
    try:
        return np.asarray(memoryview(obj))
    except TypeError:  # it has no buffer
        return obj


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    *Raises*: TypeError for what is no array or has no twin among the dtypes; ValueError for negative strides.

    >>> import core, numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = core.from_numpy(a)
    >>> a[0] = 7
    >>> t
    tensor([7., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})\n  op: from_numpy")
    remedy = "a copy: np.ascontiguousarray(a)"
    if any(step < 0 for step in array.strides):
        raise ValueError(
            text(
                "At least one stride in the given numpy array is negative, and tensors with negative strides "
                "are not currently supported. (You can probably work around this by making a copy of your "
                "array  with array.copy().)",
                op="from_numpy",
                remedy=remedy,
            )
        )
    if not array.dtype.isnative:
        raise ValueError(
            text(
                "given numpy array has byte order different from the native byte order. Conversion between "
                "byte orders is currently not supported.",
                op="from_numpy",
                remedy="a.astype(a.dtype.newbyteorder('='))",
            )
        )
    if array.itemsize and any(step % array.itemsize for step in array.strides):
        raise ValueError(
            text(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                "reallocate the memory.",
                op="from_numpy",
                remedy=remedy,
            )
        )
    out = from_array(array.view(np.ndarray) if type(array) is not np.ndarray else array)
    note(out, array)
    return out


from_numpy = offer(from_numpy, home="creation", state="quiet", fast=[Fast(body="over_array(array)", raw=("array",))])
