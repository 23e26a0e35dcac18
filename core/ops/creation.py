"""Making tensors from numbers, arrays and shapes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from .. import backends, native
from ..backends.sparse_array import refuse
from ..base import dtypes
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.scalars import element
from ..base.shape import as_shape
from ..base.source import here
from ..declare import op as declarations
from ..declare.kinds import Device, Layout, Number, Scalar, Size, Sizes
from ..declare.signature import Fast
from ..dispatch.autocast import behind
from ..dispatch.out import into
from ..dispatch.publish import offer
from ..dispatch.sparse import SparseTensor
from ..events import observe
from ..tensors.tensor import Tensor, wrap
from .conversion import as_dtype, as_tensor, asarray, available, from_numpy, placed, tensor

__all__ = [
    "arange",
    "as_dtype",
    "as_tensor",
    "asarray",
    "available",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def _made(op: str, make: Callable[[Any], Any], dtype: Dtype, device: Any, requires_grad: bool, out: Tensor | None,
          ignored: dict[str, Any], made: tuple[Any, ...] = ()) -> Tensor:  # fmt: skip
    """Return the tensor of the array that ``make(array library)`` gives, on its device, in `out` if there is one.

    `made` is what observers are told of how: a name and what it was made with."""
    for name in ignored:
        if name not in ("pin_memory", "layout", "memory_format"):  # PyTorch's words for what there is but one of here
            raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
    where = placed(device)
    t = wrap(backends.allocated(where, make), kind_of(dtype, where))
    if made and observe.observers:
        observe.notify(observe.listening(), "made", observe.MadeEvent(made[0], t, made[1:], here(2)))
    if out is not None:
        return into(out, t)
    return t.requires_grad_() if requires_grad else t


def as_size(op: str, args: tuple[Any, ...], size: Any, as_given: bool = False) -> tuple[int, ...]:
    if size is not None:
        args = (size,)
    elif not args:
        raise TypeError(f'{op}() missing 1 required positional arguments: "size"\n  remedy: core.{op}(2, 3)')
    shape = as_shape(args, op, as_given)
    if any(d < 0 for d in shape):
        raise RuntimeError(text(f"{op}: Dimension size must be non-negative.", op=op, came=f"{shape}"))
    return shape


# -- from a shape ------------------------------------------------------------------------------------------------------


def _filled(name: str, what: str) -> Any:
    def function(
        *args: Size,
        size: Sizes | None = None,
        dtype: Dtype | None = None,
        device: Device | None = None,
        requires_grad: bool = False,
        out: Tensor | None = None,
        **ignored: Any,
    ) -> Tensor:
        shape = as_size(name, args, size, True)
        d = as_dtype(dtype, name) if dtype is not None else out.dtype if out is not None else dtypes.get_default_dtype()

        def make(xp: Any) -> Any:
            return _one_number(xp, shape, 1, d.numpy) if name == "ones" else getattr(xp, name)(shape, d.numpy)

        made = ("full", shape, 1 if name == "ones" else 0)
        return _made(name, make, d, device, requires_grad, out, ignored, made)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor {what}: ``core.{name}(2, 3)`` or ``core.{name}((2, 3))``.\n\n"
    function.__doc__ += "    *Raises*: RuntimeError for a negative size.\n\n"
    function.__doc__ += f"    >>> import core\n    >>> core.{name}(2, 3).shape\n    core.Size([2, 3])\n    "
    return _offered(function, f"filled_sizes(args, size, dtype, {_VALUES[name]})")


_VALUES = {"zeros": 0, "ones": 1, "empty": -1}  # what native/binding/calls/creation.c fills with, -1: nothing


def _offered(function: Any, body: str, like: bool = False, raw: tuple[str, ...] = ()) -> Any:
    """Return what is public of a function that makes tensors: behind the C function that makes small ones."""
    plain = Fast(body=body, types={"input": "any"} if like else {}, raw=raw)
    return offer(function, fast=[plain], home="creation", state="quiet")


zeros, ones = (_filled(n, f"of {n}") for n in ("zeros", "ones"))
empty = _filled("empty", "whose values are whatever was in memory")


def full(
    size: Sizes,
    fill_value: Tensor | Scalar,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    **ignored: Any,
) -> Tensor:
    """Return a tensor of that shape, filled with one number, whose type decides the dtype.

    >>> import core
    >>> core.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, builtins.int):
        raise TypeError(text("full(): argument 'size' (position 1) must be tuple of ints, not int", op="full",
                             came=f"{size}", remedy=f"core.full(({size},), ...)"))  # fmt: skip
    shape = as_size("full", (tuple(size),), None, True)
    if isinstance(fill_value, Tensor):
        d, fill_value = dtype or fill_value.dtype, fill_value.item()
    else:
        d = dtype or (out.dtype if out is not None else dtypes.of_number(fill_value))
    d = as_dtype(d, "full")
    value = element(fill_value, d, "full")
    return _made("full", lambda xp: _one_number(xp, shape, value, d.numpy), d, device, requires_grad, out, ignored,
                 ("full", shape, fill_value))  # fmt: skip


def _one_number(xp: Any, shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """`full`, where it is large in the C kernels' memory and by their threads."""
    if xp is np and math.prod(shape) > 16384:
        return native.copy_of(np.broadcast_to(np.full((), value, dtype), shape))
    return xp.full(shape, value, dtype)


def _like(make: Any, name: str) -> Any:
    def function(
        input: Tensor,
        *,
        dtype: Dtype | None = None,
        device: Device | None = None,
        requires_grad: bool = False,
        **ignored: Any,
    ) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        if isinstance(input, SparseTensor):
            if name == "ones":
                refuse("ones_like", input._a.layout, input._a.shape)
            return input.without_values(dtype, device).requires_grad_(requires_grad)
        return make(tuple(input._a.shape), dtype=dtype or input.dtype, device=device or input.device,
                    requires_grad=requires_grad, **ignored)  # fmt: skip

    function.__name__ = function.__qualname__ = f"{name}_like"
    function.__doc__ = f"As `{name}`, with the shape, dtype and device of `input` unless others are given."
    return _offered(function, f"filled_like(input, dtype, {_VALUES[name]})", like=True)


zeros_like, ones_like, empty_like = _like(zeros, "zeros"), _like(ones, "ones"), _like(empty, "empty")


def full_like(input: Tensor, fill_value: Tensor | Scalar, *, dtype: Dtype | None = None, device: Device | None = None,
              requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """As `full`, with the shape, dtype and device of `input` unless others are given.

    >>> import core
    >>> core.full_like(core.ones(2), 3)
    tensor([3., 3.])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"full_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return full(tuple(input._a.shape), fill_value, dtype=dtype or input.dtype, device=device or input.device,
                requires_grad=requires_grad, **ignored)  # fmt: skip


full = _offered(full, "full_sizes(size, fill_value, dtype)")
full_like = _offered(full_like, "full_like(input, fill_value, dtype)", like=True)


@behind
def scalar_tensor(
    s: Scalar, *, dtype: Dtype | None = None, device: Device | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a 0-d tensor of the default dtype.

    >>> import core
    >>> core.scalar_tensor(3)
    tensor(3.)
    """
    d = dtype or dtypes.get_default_dtype()
    return _made("scalar_tensor", lambda xp: xp.full((), s, d.numpy), d, device, requires_grad, None, {})


# -- ranges ------------------------------------------------------------------------------------------------------------


def _number(v: Any) -> Any:
    return v.item() if isinstance(v, Tensor) else v


def arange(
    start: Number | None = None,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    **ignored: Any,
) -> Tensor:
    """Return the numbers from `start` (0 if only one is given) up to but not including `end`.

    *Raises*: RuntimeError for a step of 0 or of the wrong sign, ValueError for one that is 0 as a whole number.

    >>> import core
    >>> core.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    start, end, step = _number(start), _number(end), _number(step)
    if end is None:
        start, end = 0, start
    elif start is None:  # arange(end=3)
        start = 0
    if end is None:
        raise TypeError("arange() missing 1 required positional argument: 'end'")
    came = f"start {start}, end {end}, step {step}"
    if step == 0:
        raise RuntimeError(text("step must be nonzero", op="arange", came=came))
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(text(f"unsupported range: {start} -> {end}", op="arange"))
    if (end - start) / step < 0:
        raise RuntimeError(text("upper bound and lower bound inconsistent with step sign", op="arange", came=came))
    inferred = (
        dtypes.get_default_dtype() if any(isinstance(v, builtins.float) for v in (start, end, step)) else dtypes.int64
    )
    d = as_dtype(dtype or (out.dtype if out is not None else inferred), "arange")
    if d is dtypes.bool_:
        raise NotImplementedError(text("\"arange_cpu\" not implemented for 'Bool'", op="arange"))
    if d.category == 1:
        start, end, step = int(start), int(end), int(step)
        if step == 0:  # 0.5 is one of 0 in whole numbers
            raise ValueError(text("step must be nonzero", op="arange", came=came, needed=f"a step that {d} can hold",
                                  remedy="dtype=core.float32"))  # fmt: skip
        n = -((start - end) // step)
    else:
        n = math.ceil((end - start) / step)
    return _made("arange", lambda xp: (start + step * xp.arange(n)).astype(d.numpy), d, device, requires_grad, out,
                 ignored, ("arange", start, end, step))  # fmt: skip


arange = _offered(arange, "range_of(start, end, step)", raw=("start", "end", "step"))


def linspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    **ignored: Any,
) -> Tensor:
    """`steps` numbers evenly from `start` to `end`, both included.

    >>> import core
    >>> core.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "linspace")
    lo, hi, n = _number(start), _number(end), _count("linspace", steps)
    if out is None and observe.wanted("as ops"):
        t = _even_in_ops(lo, hi, steps if isinstance(steps, int) else n, d, device)
        return t.requires_grad_() if requires_grad else t
    return _made("linspace", lambda xp: _even(xp, lo, hi, n, d), d, device, requires_grad, out, ignored)


linspace = offer(linspace, home="creation", state="quiet",
                 fast=[Fast(body="even_of(start, end, steps)", raw=("start", "end"))])  # fmt: skip


def _count(op: str, steps: Any) -> int:
    """Return a number of steps, which may be a tensor of one whole number."""
    try:
        n = index(steps)
    except TypeError:
        raise TypeError(text(f"{op}() received an invalid combination of arguments: argument 'steps' must be int, not "
                             f"{type(steps).__name__}", op=op, came=repr(steps))) from None  # fmt: skip
    if n < 0:
        raise RuntimeError(text("number of steps must be non-negative", op=op, came=f"{n}"))
    return n


def _even(xp: Any, lo: Any, hi: Any, steps: int, d: Dtype) -> Any:
    if steps == 1:
        return xp.full((1,), lo, d.numpy)
    # From both ends, in the dtype itself, as PyTorch has it: the last number is then exactly `end`.
    real = d.numpy if d.category == 2 and d.itemsize > 2 else np.float32
    step = np.asarray((hi - lo) / max(steps - 1, 1), real)
    i = xp.arange(steps)
    rising = np.asarray(lo, real) + i.astype(real) * step
    falling = np.asarray(hi, real) - (steps - 1 - i).astype(real) * step
    return xp.where(i < steps // 2, rising, falling).astype(d.numpy)


def _even_in_ops(lo: Any, hi: Any, steps: int, d: Dtype, device: Device | None) -> Tensor:
    """Return what `_even` gives, by ops."""
    real: Any = d if d.category == 2 and d.itemsize > 2 else dtypes.float32
    i = arange(steps, device=device)
    parts = full((), steps - 1, dtype=dtypes.float64, device=device).clamp(min=1.0)  # type: ignore[attr-defined]
    step = ((hi - lo) / parts).to(real)
    rising, falling = i.to(real) * step + lo, hi - (steps - 1 - i).to(real) * step  # type: ignore[attr-defined]
    half = full((), steps // 2, dtype=dtypes.int64, device=device).clamp(min=1)  # type: ignore[attr-defined] # of one: lo
    return declarations.functions["where"](i < half, rising, falling).to(d)  # type: ignore[no-any-return]


def logspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    **ignored: Any,
) -> Tensor:
    """`steps` numbers from ``base**start`` to ``base**end`` whose exponents lie evenly.

    >>> import core
    >>> core.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "logspace")
    lo, hi, n = _number(start), _number(end), _count("logspace", steps)
    return _made("logspace", lambda xp: xp.power(float(base), _even(xp, lo, hi, n, dtypes.float64)).astype(d.numpy),
                 d, device, requires_grad, out, ignored)  # fmt: skip


logspace = offer(logspace, home="creation", state="quiet",
                 fast=[Fast(body="powers_of(start, end, steps, base)", raw=("start", "end"))])  # fmt: skip


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    **ignored: Any,
) -> Tensor:
    """Return the identity matrix, `n` rows and `m` (or n) columns.

    >>> import core
    >>> core.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(text(f"{name} must be greater or equal to 0, got {size}", op="eye"))
    d = as_dtype(dtype or (out.dtype if out is not None else dtypes.get_default_dtype()), "eye")
    if out is None and observe.wanted("as ops"):
        rows, columns = (arange(size, device=device) for size in (n, n if m is None else m))
        t = (rows.unsqueeze(1) == columns).to(d)  # type: ignore[attr-defined]
        return t.requires_grad_() if requires_grad else t  # type: ignore[no-any-return]
    return _made("eye", lambda xp: xp.eye(n, m, dtype=d.numpy), d, device, requires_grad, out, ignored)


eye = _offered(eye, "identity(n, m, dtype)", raw=("m",))


def _sized(op: str, row: int, col: int) -> None:
    for name, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(text(f"{name} must be non-negative, got {size}", op=op))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = dtypes.int64, device: Device | None = None,
                 layout: Layout | None = None, pin_memory: bool = False,
                 requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the rows and columns of a matrix's lower triangle, as two rows of a tensor.

    >>> import core
    >>> core.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    _sized("tril_indices", row, col)
    return _made("tril_indices", lambda xp: xp.stack(xp.nonzero(xp.tri(row, col, offset))).astype(dtype.numpy), dtype,
                 device, requires_grad, None, {})  # fmt: skip


tril_indices = _offered(tril_indices, "triangle_of(row, col, offset, 0)")


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Dtype = dtypes.int64, device: Device | None = None,
                 layout: Layout | None = None, pin_memory: bool = False,
                 requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the rows and columns of a matrix's upper triangle, as two rows of a tensor.

    >>> import core
    >>> core.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    _sized("triu_indices", row, col)
    return _made("triu_indices", lambda xp: xp.stack(xp.nonzero(1 - xp.tri(row, col, offset - 1))).astype(dtype.numpy),
                 dtype, device, requires_grad, None, {})  # fmt: skip


triu_indices = _offered(triu_indices, "triangle_of(row, col, offset, 1)")
