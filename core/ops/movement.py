"""Casts, copies and fills: what changes a tensor's dtype, place or memory and leaves its shape alone."""

from __future__ import annotations

import builtins
import inspect
from typing import Any, overload

from ..base import dtypes
from ..base.device import Kind
from ..base.device import device as device_class
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.modes import state as mode
from ..base.scalars import HIGHEST, element
from ..base.shape import broadcast_shapes
from ..declare.kinds import Data, Device, MemoryFormat, Scalar, Size, Sizes
from ..declare.signature import Fast, register
from ..dispatch.declare import operation
from ..dispatch.inplace import in_place, write
from ..dispatch.publish import public
from ..events import observe
from ..tensors.tensor import Tensor, left_graph
from . import creation
from .creation import as_dtype, available, zeros_like
from .elementwise import where_
from .legacy_types import TensorType
from .queries import channels_last, channels_last_3d, need_format
from .transfer import move

Type = builtins.type  # the method of this name comes below


def _sample_of_one(rng: Any) -> list[Any]:
    return [((rng.uniform(-2, 2, (2, 3)),), {})]


# -- casts and copies --------------------------------------------------------------------------------------------------


def _cast_forward(xp: Any, x: Any, dtype: Dtype) -> Any:
    if x.dtype.kind == "c" and 0 < dtype.category < 3:
        x = x.real  # the imaginary parts are dropped, and NumPy need not warn of it
    if dtype is dtypes.float8_e4m3fn and x.dtype.kind in "fV":  # it has no infinity: PyTorch stops at the greatest
        x = xp.clip(x.astype("float32"), -HIGHEST[dtype.name], HIGHEST[dtype.name])
    return x.astype(dtype.numpy, order="C" if 0 in x.strides else "K")  # NumPy puts expanded dimensions last


_cast = operation("cast", _cast_forward, params={"dtype": None},
                  vjp=lambda g, x_dtype: g.to(x_dtype),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {"dtype": dtypes.float32})])  # fmt: skip
_clone = operation("clone", lambda xp, x: x.copy(), vjp=lambda g: g, samples=_sample_of_one)
_contiguous = operation("contiguous", lambda xp, x: x.copy(), vjp=lambda g: g, samples=_sample_of_one)
_fill = operation("fill", lambda xp, x, value: xp.full_like(x, value, order="C"), params={"value": 0},
                  vjp=lambda g: zeros_like(g),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {"value": 1.5})])  # fmt: skip
_copy_into = operation("copy", lambda xp, x, source: xp.broadcast_to(source, x.shape).astype(x.dtype),
                       inputs="x source",
                       vjp=(lambda g: zeros_like(g), lambda g, source_shape, source_dtype:
                            g.sum_to_size(source_shape).to(source_dtype)),
                       samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)), rng.uniform(-2, 2, (3,))), {})])  # fmt: skip


@overload
def to(
    input: Tensor,
    dtype: Dtype,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: MemoryFormat | None = None,
) -> Tensor: ...
@overload
def to(
    input: Tensor,
    device: Device | None = None,
    dtype: Dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: MemoryFormat | None = None,
) -> Tensor: ...
@overload
def to(
    input: Tensor,
    other: Tensor,
    non_blocking: bool = False,
    copy: bool = False,
    *,
    memory_format: MemoryFormat | None = None,
) -> Tensor: ...
@public(
    namespace=None,
    home="reduce",
    fast=[Fast(body="converted(op.cast, input, args, dtype)", types={"input": "any"}, raw=("args", "dtype"))],
)
def to(input: Tensor, *args: Any, dtype: Dtype | None = None, device: Device | None = None, non_blocking: bool = False,
       copy: bool = False, memory_format: MemoryFormat | None = None) -> Tensor:  # fmt: skip
    """`input` as another dtype or on another device, on the graph; itself when nothing changes.

    A cast to integers or bool leaves the graph. *Raises*: TypeError for an argument that is no dtype, device or tensor.

    >>> import core
    >>> core.tensor([1, 2]).to(core.float64).dtype
    core.float64
    """
    flags = [a for a in args if isinstance(a, bool)]  # non_blocking, copy
    non_blocking = flags[0] if flags else non_blocking
    copy = flags[1] if len(flags) > 1 else copy
    for a in args:
        if a.__class__ is Type:
            dtype = as_dtype(a, "to")
        elif isinstance(a, Tensor | Kind):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Dtype):
            dtype = a
        elif isinstance(a, str | device_class) or (isinstance(a, int) and not isinstance(a, bool)):
            device = a
        elif a is not None and not isinstance(a, bool):
            raise TypeError(
                text(
                    f"to() received an invalid combination of arguments - got ({a.__class__.__name__})",
                    op="to",
                    came=repr(a),
                    needed="a dtype, a device, or a tensor to be like",
                    remedy="x.to(core.float64), x.to('cuda') or x.to(other)",
                )
            )
    where = input.device
    if device is not None:
        where = available(device_class(device))
    kind = kind_of(input.dtype if dtype is None else as_dtype(dtype, "to"), where)
    if kind is input._kind:
        return _clone(input) if copy else input
    if kind.dtype is not input.dtype:
        input = _as_dtype(input, kind_of(kind.dtype, input.device))
    if kind.device is not input.device:
        input = move(input, kind.device, non_blocking)
    return input


def _as_dtype(x: Tensor, kind: Kind) -> Tensor:
    if kind.dtype.category >= 2 or x.dtype.category < 2:
        return _cast(x, dtype=kind.dtype)
    was, mode.enabled = mode.enabled, False
    try:
        y = _cast(x, dtype=kind.dtype)
    finally:
        mode.enabled = was
    if observe.observers:
        left_graph("cast", x, y)
    return y


def _caster(name: str, dtype: Dtype) -> None:
    def method(input: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        if memory_format is not None:
            need_format(name, memory_format)
        return to(input, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`input` as {dtype!r}; itself if it is that already."
    plain = Fast(body=f"cast_to(op.cast, input, dtype.{dtype.name})", types={"input": "any"})
    public(namespace=None, home="reduce", fast=[plain])(method)


for _name, _dtype in {"float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bool": dtypes.bool_,
                      "bfloat16": dtypes.bfloat16, "long": dtypes.int64, "int": dtypes.int32, "short": dtypes.int16,
                      "char": dtypes.int8, "byte": dtypes.uint8}.items():  # fmt: skip
    _caster(_name, _dtype)


@overload
def type(input: Tensor) -> str: ...
@overload
def type(input: Tensor, dtype: Dtype | str, non_blocking: bool = False) -> Tensor: ...
@public(namespace=None)
def type(input: Tensor, dtype: Dtype | str | None = None, non_blocking: bool = False) -> Any:
    """`input` as `dtype`; without one, the name of its dtype.

    >>> import core
    >>> core.ones(2).type()
    'core.FloatTensor'
    """
    if dtype is None:
        return f"core.{'cuda.' if input.is_cuda else ''}{input.dtype.scalar_type}Tensor"
    if isinstance(dtype, str):
        named = {d.scalar_type: d for d in vars(dtypes).values() if isinstance(d, Dtype)}
        *lead, last = dtype.split(".")
        found = named.get(last.removesuffix("Tensor"))
        if found is None or lead[-1:] not in (["torch"], ["core"], ["cuda"]):
            raise ValueError(f"invalid type: '{dtype}'\n  needed: a dtype, or a name such as 'core.FloatTensor'")
        return to(input, "cuda" if "cuda" in lead else "cpu", found)
    if isinstance(dtype, TensorType):
        return to(input, "cpu", dtype.dtype)
    return to(input, dtype)


@public(
    namespace=None,
    home="reduce",
    fast=[Fast(body="cast_like(op.cast, input, other)", types={"input": "any", "other": "any"})],
)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` in the dtype and on the device of `other`.

    >>> import core
    >>> core.tensor([1, 2]).type_as(core.ones(1))
    tensor([1., 2.])
    """
    return to(input, other._kind)


@public(namespace=None)
def cpu(input: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """`input` in the memory of the CPU; itself if it is there."""
    if memory_format is not None:
        need_format("cpu", memory_format)
    return to(input, device="cpu")


@public(namespace=None)
def cuda(
    input: Tensor,
    device: Device | None = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """`input` in the memory of a GPU; itself if it is there.

    *Raises*: RuntimeError with the reason when there is no such device.
    """
    return to(input, device="cuda" if device is None else device_class(device), non_blocking=non_blocking)


@public()
def clone(input: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a copy with its own memory, on the graph.

    >>> import core
    >>> core.clone(core.tensor([1.0]))
    tensor([1.])
    """
    return _clone(input)


@public(namespace=None, home="views", state="any", fast=[Fast(body="in_row_order(input)", types={"input": "any"})])
def contiguous(input: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """`input` itself if its elements lie in row-major order, else a copy that does.

    >>> import core
    >>> core.ones(2, 3).t().contiguous().stride()
    (2, 1)
    """
    if memory_format is not None:
        need_format("contiguous", memory_format)
    return input if input.is_contiguous() else _contiguous(input)


def in_a_format(input: Tensor) -> Tensor:
    """Return the input itself if it lies in a memory format, which results then keep; else a contiguous copy."""
    kept = input.is_contiguous() or input.is_contiguous(channels_last) or input.is_contiguous(channels_last_3d)
    return input if kept else _contiguous(input)


# -- writing -----------------------------------------------------------------------------------------------------------


@public(
    namespace=None,
    home="inplace",
    state="any",
    fast=[Fast(body="copied_into(input, src)", types={"input": "any", "src": "any"}, ignored=("non_blocking",))],
)
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write `src` into `input`, broadcast and cast; the gradient goes to `src`.

    *Raises*: RuntimeError where `src` does not broadcast to the shape of `input`.

    >>> import core
    >>> core.zeros(2).copy_(core.tensor([1, 2]))
    tensor([1., 2.])
    """
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {src.__class__.__name__}")
    have, want = src._a.shape, input._a.shape
    if have != want and broadcast_shapes(want, have, op="copy_") != want:
        raise RuntimeError(text(f"output with shape {list(want)} doesn't match the broadcast shape "
                                f"{list(broadcast_shapes(want, have))}", op="copy_", came=f"{have} into {want}",
                                needed="a source that broadcasts to the target"))  # fmt: skip
    if src.device is not input.device:
        src = to(src, device=input.device)
    if input.dtype.category < 2:  # integers have no gradient to pass on
        src = src.detach()  # type: ignore[attr-defined]
    return write(input, "copy_", lambda t: _copy_into(t, src))


@public(
    namespace=None, home="inplace", state="any", fast=[Fast(body="filled_with(input, value)", types={"input": "any"})]
)
def fill_(input: Tensor, value: Tensor | Scalar) -> Tensor:
    """Set every element to `value`, a number or a 0-d tensor.

    >>> import core
    >>> core.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(text("fill_ only supports 0-dimension value tensor but got tensor with "
                                    f"{value.ndim} dimensions.", op="fill_", remedy="copy_(value)"))  # fmt: skip
        return copy_(input, value)
    number = element(value, input.dtype, "fill_")
    return write(input, "fill_", lambda t: _fill(t, value=number))


@public(namespace=None, home="inplace", state="any", fast=[Fast(body="zeroed(input)", types={"input": "any"})])
def zero_(input: Tensor) -> Tensor:
    """Set every element to 0.

    >>> import core
    >>> core.ones(2).zero_()
    tensor([0., 0.])
    """
    return write(input, "zero_", lambda t: _fill(t, value=0))


@public(
    inplace=True,
    home="choice",
    fast=[
        Fast(
            elementwise="where(mask, value, input)",
            types={"input": "any"},
            check=("fills(input, value)", "fills_in_rows({input}, mask)"),
        )
    ],
)
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    """`value` (a number or a 0-d tensor) where `mask` is true, else `input`.

    *Shapes*: mask and input broadcast. *Raises*: RuntimeError for a mask that is not bool.

    >>> import core
    >>> core.masked_fill(core.tensor([1.0, 2.0]), core.tensor([True, False]), 0)
    tensor([0., 2.])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(text(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}",
                                op="masked_fill", remedy="mask.bool()"))  # fmt: skip
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                text(
                    "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
                    f"{value.ndim} dimension(s).",
                    op="masked_fill",
                    remedy="core.where(mask, value, x)",
                )
            )
        if value._kind is not input._kind:
            if value.dtype.category > 1 or input.dtype.category == 1:
                element(
                    value.item(), input.dtype, "masked_fill"
                )  # RuntimeError for what the input's dtype does not hold
            value = to(value, input._kind)
    else:
        value = element(value, input.dtype, "masked_fill")
    return contiguous(where_(mask, value, contiguous(input)))  # a mask that is larger may lie in another order


def set_chosen(x: Tensor, mask: Any, value: Scalar) -> bool:
    """Set what a mask of the leading dimensions chooses to a number, as one op whatever the mask holds; return whether
    it is such a mask."""
    if not isinstance(mask, Tensor) or mask.dtype is not dtypes.bool_ or mask.shape != x.shape[: mask.ndim]:
        return False
    whole = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    number = element(value, x.dtype, "fill_")
    write(x, "index_put_", lambda t: masked_fill(t, whole, number))
    return True


Tensor.masked_fill_ = in_place(  # type: ignore[method-assign]
    "masked_fill", inspect.unwrap(masked_fill), masked_fill,
    register(inspect.unwrap(masked_fill), "masked_fill_", namespace=None, home="setitem", state="any",
             fast=[Fast(body="masked_filled_in(input, mask, value)", types={"input": "any", "mask": "bool"})]).key,
)  # fmt: skip


# -- new tensors like this one -----------------------------------------------------------------------------------------


def _new(name: str) -> None:
    def method(
        input: Tensor,
        *size: Size,
        dtype: Dtype | None = None,
        device: Device | None = None,
        requires_grad: bool = False,
        **ignored: Any,
    ) -> Tensor:
        make = getattr(creation, name)
        return make(*size, dtype=dtype or input.dtype, requires_grad=requires_grad,
                    device=input.device if device is None else device, **ignored)  # fmt: skip

    method.__name__ = method.__qualname__ = "new_" + name
    method.__doc__ = f"As `core.{name}`, with the dtype and device of `input` unless others are given."
    filled = {"zeros": 0, "ones": 1, "empty": -1}
    plain = (
        [Fast(body=f"filled_new(input, size, dtype, {filled[name]})", types={"input": "any"})] if name in filled else []
    )
    public(namespace=None, home="creation", state="any", fast=plain)(method)


for _name in ("zeros", "ones", "empty"):
    _new(_name)


@public(namespace=None)
def new_full(input: Tensor, size: Sizes, fill_value: Tensor | Scalar, *, dtype: Dtype | None = None,
             device: Device | None = None, requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """As `core.full`, with the dtype and device of `input` unless others are given.

    >>> import core
    >>> core.ones(2).new_full((2,), 3)
    tensor([3., 3.])
    """
    return creation.full(size, fill_value, dtype=dtype or input.dtype, requires_grad=requires_grad,
                         device=input.device if device is None else device, **ignored)  # fmt: skip


@public(namespace=None)
def new_tensor(input: Tensor, data: Data, *, dtype: Dtype | None = None, device: Device | None = None,
               requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """As `core.tensor`, with the dtype and device of `input` unless others are given.

    >>> import core
    >>> core.ones(2).new_tensor([3])
    tensor([3.])
    """
    return creation.tensor(data, dtype=dtype or input.dtype, requires_grad=requires_grad,
                           device=input.device if device is None else device, **ignored)  # fmt: skip
