"""Making tensors from numbers, arrays and shapes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import backends, dtypes, observe
from .device import cpu, device as Device, kind as kind_of
from .dtypes import dtype as Dtype
from .errors import text
from .shape import as_shape
from .tensor import Tensor, from_array, left_graph, wrap

_PYTHON = {builtins.float: dtypes.float64, builtins.int: dtypes.int64, builtins.bool: dtypes.bool_}


def available(where: Device) -> Device:
    """The device with its index, if it is there; RuntimeError with the reason if not."""
    if where.type == "cuda":
        from .backends import cuda

        return cuda.check(where)
    return where


def as_dtype(d: Any, op: str) -> Dtype:
    """A dtype, also from Python's float (float64), int (int64) and bool."""
    if isinstance(d, Dtype):
        return d
    if d in _PYTHON:
        return _PYTHON[d]
    raise TypeError(text(f"{op}(): argument 'dtype' must be torch.dtype, not {type(d).__name__}", op=op, came=repr(d),
                         remedy="core.float32 and its like; core.dtypes.from_numpy for a NumPy dtype"))  # fmt: skip


def _made(op: str, make: Callable[[Any], Any], dtype: Dtype, device: Any, requires_grad: bool, out: Tensor | None,
          ignored: dict[str, Any]) -> Tensor:  # fmt: skip
    """The tensor of the array that ``make(array library)`` gives, on its device, in `out` if there is one."""
    for name in ignored:
        if name not in ("pin_memory", "layout", "memory_format"):  # PyTorch's words for what there is but one of here
            raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
    where = cpu if device is None else available(Device(device))
    t = wrap(make(backends.array_module(where.type)), kind_of(dtype, where))
    if out is not None:
        from .dispatch import into

        return into(out, t)
    return t.requires_grad_() if requires_grad else t


def _size(op: str, args: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    if size is not None:
        args = (size,)
    elif not args:
        raise TypeError(f'{op}() missing 1 required positional arguments: "size"\n  remedy: core.{op}(2, 3)')
    shape = as_shape(args, op)
    if any(d < 0 for d in shape):
        raise RuntimeError(text(f"{op}: Dimension size must be non-negative.", op=op, came=f"{shape}"))
    return shape


# -- from data ---------------------------------------------------------------------------------------------------------


def tensor(data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor.

    Floats become the default dtype, ints int64, bools bool; arrays keep theirs. Tensors inside `data` leave the graph.
    *Raises*: ValueError for lists of unequal length, RuntimeError for numbers the dtype cannot hold, TypeError for text.

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
    where = cpu if device is None else available(Device(device))
    out = wrap(a if where is cpu else backends.array_module(where.type).asarray(a), kind_of(d, where))
    if isinstance(data, np.ndarray):
        from .lineage import note

        note(out, data)
    if observe.observers:
        for t in held:
            left_graph("tensor", t, out)
    return out.requires_grad_() if requires_grad else out


def _numbers(data: Any) -> Any:
    """Nested sequences as an array; the errors say what is wrong with them."""
    try:
        a = np.array(data)
    except (ValueError, OverflowError):
        _check_lengths(data, 0)
        raise ValueError(text("expected numbers in sequences of equal length", op="tensor", came=repr(data)[:80])) from None
    if a.dtype.kind in "US":
        raise TypeError(text("new(): invalid data type 'str'", op="tensor", came=repr(data)[:80], needed="numbers"))
    if a.dtype.kind == "u" and a.size and a.max() > np.iinfo(np.int64).max:
        raise ValueError(text("Overflow when unpacking long long", op="tensor", came=f"{a.max()}",
                              needed="at most 2**63 - 1"))  # fmt: skip
    if a.dtype.kind not in "biufc":
        _check_lengths(data, 0)
        kind = type(next((v for v in a.reshape(-1) if not isinstance(v, builtins.int | builtins.float)), data)).__name__
        if kind == "int":
            raise ValueError(text("Overflow when unpacking long long", op="tensor", came=repr(data)[:80]))
        raise RuntimeError(text(f"Could not infer dtype of {kind}", op="tensor", came=repr(data)[:80], needed="numbers"))
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
        raise RuntimeError(text(f"value cannot be converted to type {d.name} without overflow", op="tensor",
                                came=f"values from {a.min()} to {a.max()}", needed=f"{low} to {limits.max}"))  # fmt: skip


def _holds_tensors(data: Any) -> bool:
    return any(isinstance(x, Tensor) or (isinstance(x, list | tuple) and _holds_tensors(x)) for x in data)


def _unwrap(data: Any, held: list[Tensor]) -> Any:
    """`data` with numbers in place of its tensors, which are added to `held`."""
    if isinstance(data, Tensor):
        held.append(data)
        return data._a.tolist()
    return [_unwrap(x, held) for x in data] if isinstance(data, list | tuple) else data


def as_tensor(data: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor; tensors and NumPy arrays are not copied unless dtype or device change.

    >>> import core, numpy as np
    >>> core.as_tensor(np.zeros(2)).dtype
    core.float64
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray):
        return from_numpy(data).to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """As `as_tensor`; with ``copy=True`` always a copy.

    >>> import core
    >>> core.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    t = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    return t.requires_grad_() if requires_grad else t


def scalar_tensor(s: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype.

    >>> import core
    >>> core.scalar_tensor(3)
    tensor(3.)
    """
    d = dtype or dtypes.get_default_dtype()
    return _made("scalar_tensor", lambda xp: xp.full((), s, d.numpy), d, device, requires_grad, None, {})


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

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
        raise ValueError(text("At least one stride in the given numpy array is negative, and tensors with negative strides "
                              "are not currently supported. (You can probably work around this by making a copy of your "
                              "array  with array.copy().)", op="from_numpy", remedy=remedy))  # fmt: skip
    if not array.dtype.isnative:
        raise ValueError(text("given numpy array has byte order different from the native byte order. Conversion between "
                              "byte orders is currently not supported.", op="from_numpy",
                              remedy="a.astype(a.dtype.newbyteorder('='))"))  # fmt: skip
    if array.itemsize and any(step % array.itemsize for step in array.strides):
        raise ValueError(text("given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                              "reallocate the memory.", op="from_numpy", remedy=remedy))  # fmt: skip
    out = from_array(array.view(np.ndarray) if type(array) is not np.ndarray else array)
    from .lineage import note

    note(out, array)
    return out


# -- from a shape ------------------------------------------------------------------------------------------------------


def _filled(name: str, what: str) -> Any:
    def function(*args: Any, size: Any = None, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
                 out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
        shape = _size(name, args, size)
        d = as_dtype(dtype, name) if dtype is not None else out.dtype if out is not None else dtypes.get_default_dtype()
        return _made(name, lambda xp: getattr(xp, name)(shape, d.numpy), d, device, requires_grad, out, ignored)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor {what}: ``core.{name}(2, 3)`` or ``core.{name}((2, 3))``.\n\n    *Raises*: RuntimeError for a negative size.\n\n"
    function.__doc__ += f"    >>> import core\n    >>> core.{name}(2, 3).shape\n    core.Size([2, 3])\n    "
    return function


zeros, ones = _filled("zeros", "of zeros"), _filled("ones", "of ones")
empty = _filled("empty", "whose values are whatever was in memory")


def full(size: Any, fill_value: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
         out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
    """A tensor of that shape, filled with one number, whose type decides the dtype.

    >>> import core
    >>> core.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, builtins.int):
        raise TypeError(text("full(): argument 'size' (position 1) must be tuple of ints, not int", op="full",
                             came=f"{size}", remedy=f"core.full(({size},), ...)"))  # fmt: skip
    shape = _size("full", (tuple(size),), None)
    if isinstance(fill_value, Tensor):
        d, fill_value = dtype or fill_value.dtype, fill_value.item()
    else:
        d = dtype or (out.dtype if out is not None else dtypes.of_number(fill_value))
    d = as_dtype(d, "full")
    value = int(fill_value) if d.category == 1 else fill_value
    return _made("full", lambda xp: xp.full(shape, value, d.numpy), d, device, requires_grad, out, ignored)


def _like(make: Any, name: str) -> Any:
    def function(input: Tensor, *args: Any, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
                 **ignored: Any) -> Tensor:  # fmt: skip
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return make(tuple(input._a.shape), *args, dtype=dtype or input.dtype, device=device or input.device,
                    requires_grad=requires_grad, **ignored)  # fmt: skip

    function.__name__ = function.__qualname__ = f"{name}_like"
    function.__doc__ = f"As `{name}`, with the shape, dtype and device of `input` unless others are given."
    return function


zeros_like, ones_like, empty_like = _like(zeros, "zeros"), _like(ones, "ones"), _like(empty, "empty")
full_like = _like(full, "full")


# -- ranges ------------------------------------------------------------------------------------------------------------


def _number(v: Any) -> Any:
    return v.item() if isinstance(v, Tensor) else v


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Dtype | None = None, device: Any = None,
           requires_grad: bool = False, out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
    """The numbers from `start` (0 if only one is given) up to but not including `end`.

    *Raises*: RuntimeError for a step of 0 or of the wrong sign.

    >>> import core
    >>> core.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    start, end, step = _number(start), _number(end), _number(step)
    if end is None:
        start, end = 0, start
    came = f"start {start}, end {end}, step {step}"
    if step == 0:
        raise RuntimeError(text("step must be nonzero", op="arange", came=came))
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(text(f"unsupported range: {start} -> {end}", op="arange"))
    if (end - start) / step < 0:
        raise RuntimeError(text("upper bound and lower bound inconsistent with step sign", op="arange", came=came))
    inferred = dtypes.get_default_dtype() if any(isinstance(v, builtins.float) for v in (start, end, step)) else dtypes.int64
    d = as_dtype(dtype or (out.dtype if out is not None else inferred), "arange")
    if d is dtypes.bool_:
        raise NotImplementedError(text('"arange_cpu" not implemented for \'Bool\'', op="arange"))
    if d.category == 1:
        start, end, step = int(start), int(end), int(step)
        n = -((start - end) // step)
    else:
        n = math.ceil((end - start) / step)
    return _made("arange", lambda xp: (start + step * xp.arange(n)).astype(d.numpy), d, device, requires_grad, out, ignored)


def linspace(start: Any, end: Any, steps: int, *, dtype: Dtype | None = None, device: Any = None,
             requires_grad: bool = False, out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
    """`steps` numbers evenly from `start` to `end`, both included.

    >>> import core
    >>> core.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "linspace")
    lo, hi = _number(start), _number(end)
    return _made("linspace", lambda xp: _even(xp, lo, hi, steps, d), d, device, requires_grad, out, ignored)


def _even(xp: Any, lo: Any, hi: Any, steps: int, d: Dtype) -> Any:
    if steps < 0:
        raise RuntimeError(text("number of steps must be non-negative", op="linspace", came=f"{steps}"))
    if steps == 1:
        return xp.full((1,), lo, d.numpy)
    # From both ends, in the dtype itself, as PyTorch has it: the last number is then exactly `end`.
    real = d.numpy if d.category == 2 and d.itemsize > 2 else np.float32
    step = np.asarray((hi - lo) / max(steps - 1, 1), real)
    i = xp.arange(steps)
    rising = np.asarray(lo, real) + i.astype(real) * step
    falling = np.asarray(hi, real) - (steps - 1 - i).astype(real) * step
    return xp.where(i < steps // 2, rising, falling).astype(d.numpy)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Dtype | None = None, device: Any = None,
             requires_grad: bool = False, out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
    """`steps` numbers from ``base**start`` to ``base**end`` whose exponents lie evenly.

    >>> import core
    >>> core.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "logspace")
    lo, hi = _number(start), _number(end)
    return _made("logspace", lambda xp: xp.power(float(base), _even(xp, lo, hi, steps, dtypes.float64)).astype(d.numpy),
                 d, device, requires_grad, out, ignored)  # fmt: skip


def eye(n: int, m: int | None = None, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
        out: Tensor | None = None, **ignored: Any) -> Tensor:  # fmt: skip
    """The identity matrix, `n` rows and `m` (or n) columns.

    >>> import core
    >>> core.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(text(f"{name} must be greater or equal to 0, got {size}", op="eye"))
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "eye")
    return _made("eye", lambda xp: xp.eye(n, m, dtype=d.numpy), d, device, requires_grad, out, ignored)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = dtypes.int64, device: Any = None) -> Tensor:
    """The rows and columns of a matrix's lower triangle, as two rows of a tensor.

    >>> import core
    >>> core.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _made("tril_indices", lambda xp: xp.stack(xp.nonzero(xp.tri(row, col, offset))).astype(dtype.numpy), dtype,
                 device, False, None, {})  # fmt: skip


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = dtypes.int64, device: Any = None) -> Tensor:
    """The rows and columns of a matrix's upper triangle, as two rows of a tensor.

    >>> import core
    >>> core.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _made("triu_indices", lambda xp: xp.stack(xp.nonzero(1 - xp.tri(row, col, offset - 1))).astype(dtype.numpy),
                 dtype, device, False, None, {})  # fmt: skip
