"""What Tensor still lacks: fills, random fills, questions about itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.cuda.transfer import keep_for
from ..base import dtypes
from ..base.device import kind as kind_of
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.scalars import element
from ..base.shape import as_shape
from ..base.source import here
from ..declare.kinds import Data, Device, Layout, MemoryFormat, Scalar, Size, Sizes
from ..dispatch.draws import normals, source, uniform_array
from ..dispatch.inplace import write
from ..dispatch.publish import public
from ..graph.versions import storage_of
from ..rng.generator import Generator
from ..tensors import overriding
from ..tensors.storages import storage, tensor_of, untyped_storage
from ..tensors.tensor import Tensor, from_array, wrap
from .constant import constant
from .creation import as_dtype, empty, zeros
from .placing import as_strided, storage_offset
from .sampling import _fill, _floating
from .transfer import is_pinned, pinned
from .where import where

# -- fills -------------------------------------------------------------------------------------------------------------


@public(method=False)
def fill(input: Tensor, value: Tensor | Scalar) -> Tensor:
    """Return a tensor like `input`, filled with one number.

    >>> import core
    >>> core.fill(core.zeros(2), 3)
    tensor([3., 3.])
    """
    return input.clone().fill_(value)  # type: ignore[no-any-return]


@public(namespace=None)
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal; with `wrap` of a tall matrix it starts again after each block.

    *Raises*: RuntimeError for fewer than two dimensions, or more than two of different sizes.

    >>> import core
    >>> core.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])
    """
    shape = tuple(input._a.shape)
    if len(shape) < 2:
        raise RuntimeError(text("dimensions must larger than 1", op="fill_diagonal_", came=f"{shape}"))
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(
            text("all dimensions of input must be of equal length", op="fill_diagonal_", came=f"{shape}")
        )
    number = element(fill_value, input.dtype, "fill_diagonal_")
    mask = np.zeros(shape, bool)
    np.fill_diagonal(mask, True, wrap=wrap)
    xp = backends.array_module(input.device.type)
    on = _wrapped(xp.asarray(mask), input)
    return write(input, "fill_diagonal_", lambda x: where(on, number, x).to(x.dtype))


def _wrapped(a: Any, like: Tensor) -> Tensor:
    return wrap(a, like._kind.boolean)


@public(namespace=None)
def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal with `mean` and `std`.

    >>> import core
    >>> bool((core.zeros(9).log_normal_() > 0).all())
    True
    """
    if std <= 0:
        raise RuntimeError(text(f"log_normal_ expects std > 0.0, but found std={std}", op="log_normal_"))
    z = normals(tuple(input._a.shape), _floating(input, "log_normal_"), generator)
    return _fill(input, "log_normal_", np.exp(z * std + mean).astype(input._a.dtype))


@public(namespace=None)
def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the Cauchy distribution around `median`, of width `sigma`.

    >>> import core
    >>> core.zeros(2).cauchy_().shape
    core.Size([2])
    """
    if sigma <= 0:
        raise RuntimeError(text(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}", op="cauchy_"))
    u = uniform_array(tuple(input._a.shape), _floating(input, "cauchy_"), generator).astype(np.float64)
    return _fill(input, "cauchy_", (median + sigma * np.tan(math.pi * (u - 0.5))).astype(input._a.dtype))


@public(namespace=None)
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with how many trials of probability `p` the first success takes: 1, 2, ...

    >>> import core
    >>> bool((core.zeros(9).geometric_(0.5) >= 1).all())
    True
    """
    if not 0 < p < 1:
        raise RuntimeError(text(f"geometric_ expects p to be in (0, 1), but got p={p}", op="geometric_"))

    u = uniform_array(tuple(input._a.shape), kind_of(dtypes.float64, input.device), generator)
    return _fill(input, "geometric_", np.ceil(np.log1p(-u) / math.log1p(-p)).clip(1).astype(input._a.dtype))


@public(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of the Poisson distribution, with the elements of `input` as their means.

    >>> import core
    >>> core.poisson(core.zeros(2))
    tensor([0., 0.])
    """
    _floating(input, "poisson")
    if bool((input._a < 0).any()):
        raise RuntimeError(text("invalid Poisson rate, expected rate to be non-negative", op="poisson"))
    seed = source(generator, input.device).integers(np, 4, 2**31)
    drawn = np.random.Generator(np.random.Philox([int(n) for n in seed])).poisson(input.detach().cpu().numpy())
    a = backends.array_module(input.device.type).asarray(np.asarray(drawn, input._a.dtype))
    return constant(from_array(a, input.device), input)


@public(namespace=None)
def as_subclass(input: Tensor, cls: Any) -> Tensor:
    """Return the same tensor, on the graph, as one of a subclass of Tensor.

    >>> import core
    >>> class Tagged(core.Tensor): ...
    >>> type(core.ones(2).as_subclass(Tagged) + 1).__name__
    'Tagged'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(text("cls must be a subclass of Tensor", op="as_subclass", came=repr(cls)))
    with overriding.nobody_asked():
        made = input.view(input.shape)  # type: ignore[attr-defined]
    made.__class__ = cls
    return made  # type: ignore[no-any-return]


overriding.as_they_are.add(as_subclass)  # it gives the class that it is asked for

# -- memory ------------------------------------------------------------------------------------------------------------


@public(namespace=None)
def resize_(
    input: Tensor, *sizes: Size, size: Sizes | None = None, memory_format: MemoryFormat | None = None
) -> Tensor:
    """Give the tensor another size: what fits keeps its place in memory, the rest is whatever was there.

    *Raises*: RuntimeError for a tensor that requires a gradient.

    >>> import core
    >>> core.arange(4).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if input.requires_grad:
        raise RuntimeError(text("cannot resize variables that require grad", op="resize_", remedy="x.detach()"))
    shape = as_shape(sizes if size is None else (size,), "resize_")
    n, flat = math.prod(shape), input._a.reshape(-1)
    if n > flat.size:
        room = backends.array_module(input.device.type).zeros(n, input._a.dtype)
        room[: flat.size] = flat
        flat = room
    input._a = flat[:n].reshape(shape)
    storage_of(input).wrote("resize_", here(2))
    return input


@public()
def resize_as_(input: Tensor, other: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
    """`resize_` to the shape of `other`.

    >>> import core
    >>> core.resize_as_(core.zeros(4), core.zeros(2, 1)).shape
    core.Size([2, 1])
    """
    return resize_(input, tuple(other._a.shape))


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether both are the same view of the same memory."""
    return (self.data_ptr(), self._a.shape, self._a.strides) == (tensor.data_ptr(), tensor._a.shape, tensor._a.strides)


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Sizes | None = None,
    stride: Sizes | None = None,
) -> Tensor:
    """Take the memory, shape and strides of `source`, a tensor or a storage; or, given a size, those from there on."""
    if source is None:
        self._a = self._a.reshape(-1)[:0]
    elif isinstance(source, Tensor) and size is None:
        self._a = source._a
    else:
        memory = untyped_storage(source) if isinstance(source, Tensor) else source
        made = tensor_of(self.dtype, memory, storage_offset, size, stride)
        self._a, self._storage = made._a, made._storage
    return self


def share_memory_(self: Tensor) -> Tensor:
    """Return the tensor itself: threads share its memory as it is, and worker processes are sent copies."""
    return self


def new_empty_strided(
    self: Tensor,
    size: Sizes,
    stride: Sizes,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    layout: Layout | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of that shape and those strides, whose values are whatever was in memory."""
    out = empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device)
    out = pinned(out) if pin_memory else out
    return out.requires_grad_() if requires_grad else out


@public(method=False)
def empty_strided(
    size: Sizes,
    stride: Sizes,
    *,
    dtype: Dtype | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """Return a tensor of that shape and those strides, whose values are whatever was in memory.

    >>> import core
    >>> core.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    n = 1 + sum((k - 1) * st for k, st in zip(size, stride, strict=True)) if 0 not in tuple(size) else 0
    out = as_strided(zeros(n, dtype=dtype, device=device), size, stride).detach()
    return out.requires_grad_() if requires_grad else out


@public(method=False)
def empty_permuted(size: Sizes, physical_layout: Sizes, *, dtype: Dtype | None = None, device: Device | None = None,
                   requires_grad: bool = False, **ignored: Any) -> Tensor:  # fmt: skip
    """Return a tensor of that shape whose dimensions lie in memory in the order `physical_layout`.

    >>> import core
    >>> core.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    order = tuple(physical_layout)
    if sorted(order) != list(range(len(tuple(size)))):
        raise RuntimeError(text("Number of dimensions in size does not match the length of the physical_layout",
                                op="empty_permuted", came=f"{tuple(size)} and {order}"))  # fmt: skip
    laid = empty([size[d] for d in order], dtype=dtype, device=device)
    out = laid.permute([order.index(d) for d in range(len(order))]).detach()
    return out.requires_grad_() if requires_grad else out


@public(method=False)
def frombuffer(buffer: Data, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a vector over the memory of a buffer. *Raises*: ValueError for an empty buffer or one that ends too early.

    >>> import array, core
    >>> core.frombuffer(array.array("i", [-1, 5]), dtype=core.int32)
    tensor([-1,  5], dtype=core.int32)
    """
    size, item = memoryview(buffer).nbytes, dtype.itemsize
    if not size:
        raise ValueError(text("both buffer length (0) and count (-1) must not be 0", op="frombuffer"))
    if not 0 <= offset < size:
        raise ValueError(text(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} "
                              "bytes) minus 1", op="frombuffer"))  # fmt: skip
    if count > 0 and offset + count * item > size:
        raise ValueError(
            text(
                f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not "
                f"be greater than actual buffer length ({size} bytes)",
                op="frombuffer",
            )
        )
    if count <= 0 and (size - offset) % item:
        raise ValueError(text(f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple "
                              f"of element size ({item})", op="frombuffer"))  # fmt: skip
    out = from_array(np.frombuffer(buffer, dtype.numpy, count if count > 0 else -1, offset))
    return out.requires_grad_() if requires_grad else out


# -- questions ---------------------------------------------------------------------------------------------------------


def _dim_order(self: Tensor, *, ambiguity_check: bool | Sequence[MemoryFormat] = False) -> tuple[int, ...]:
    """Return the dimensions from the slowest in memory to the fastest.

    ambiguity_check : whether strides that fit several orders are an error, or the memory formats of which no two
    may fit.

    *Raises*: RuntimeError where more than one fits.
    """
    if isinstance(ambiguity_check, bool):
        clear = not ambiguity_check or (1 not in self.shape and len(set(self.stride())) == self.ndim) or self.ndim < 2
    else:
        clear = sum(self.is_contiguous(memory_format=f) for f in ambiguity_check) <= 1
    if not clear:
        raise RuntimeError(text("The tensor does not have unique dim order, or cannot map to exact one of the given "
                                "memory formats.", op="dim_order",
                                came=f"strides {tuple(self.stride())} of {tuple(self.shape)}",
                                remedy="dim_order() without ambiguity_check"))  # fmt: skip
    return tuple(int(d) for d in sorted(range(self.ndim), key=lambda d: -self._a.strides[d]))


def _is_nonzero(self: Tensor) -> bool:
    """Return whether the one element is not 0. *Raises*: RuntimeError for none or several."""
    return bool(self)


def _apply(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element by ``callable(element)``, a Python number to a Python number; outside the graph."""
    if self.requires_grad:
        raise RuntimeError(
            text("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.", op="apply_")
        )
    flat = [callable(v) for v in self._a.reshape(-1).tolist()]
    self._a[...] = np.asarray(flat, self._a.dtype).reshape(self._a.shape)
    storage_of(self).wrote("apply_", here(2))
    return self


def _map(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element by ``callable(element, the other tensor's element)``; outside the graph."""
    if self.requires_grad or other.requires_grad:
        raise RuntimeError(text("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.",
                                op="map_"))  # fmt: skip
    pairs = zip(
        self._a.reshape(-1).tolist(), np.broadcast_to(other._a, self._a.shape).reshape(-1).tolist(), strict=True
    )
    self._a[...] = np.asarray([callable(a, b) for a, b in pairs], self._a.dtype).reshape(self._a.shape)
    storage_of(self).wrote("map_", here(2))
    return self


def _pin_memory(self: Tensor, device: Device | None = None) -> Tensor:
    """Return a copy in page-locked memory, from which a GPU copies by itself; the tensor itself where there is no GPU.

    *Raises*: RuntimeError for a tensor on a GPU.
    """

    return pinned(self)


def _is_pinned(self: Tensor, device: Device | None = None) -> bool:
    """Return whether the memory is page-locked."""

    return is_pinned(self)


def _record_stream(self: Tensor, s: Any) -> None:
    """Keep the memory until the work that the stream `s` has so far is done, though the tensor may go before.

    Needed for a tensor that one stream made and another uses. *Raises*: RuntimeError for a tensor of the CPU.
    """
    if not self.is_cuda:
        raise RuntimeError(text("record_stream is for tensors of cuda", op="record_stream", came=str(self.device)))
    keep_for(s, self._a)


_METHODS: dict[str, Callable[..., Any]] = {
    "record_stream": _record_stream,
    "storage_offset": storage_offset,
    "is_set_to": is_set_to,
    "set_": set_,
    "storage": storage,
    "_typed_storage": storage,
    "untyped_storage": untyped_storage,
    "share_memory_": share_memory_,
    "new_empty_strided": new_empty_strided,
    "dim_order": _dim_order,
    "is_nonzero": _is_nonzero,
    "apply_": _apply,
    "map_": _map,
    "pin_memory": _pin_memory,
    "is_pinned": _is_pinned,
}
_SHORT: dict[str, tuple[Callable[..., Any], str, str]] = {
    "ndimension": (lambda self: self.ndim, "int", "The number of dimensions."),
    "is_signed": (lambda self: self.dtype.is_signed, "bool", "Whether the dtype has negative numbers."),
    "get_device": (
        lambda self: self.device.index if self.is_cuda else -1,
        "int",
        "The index of its GPU; -1 in main memory.",
    ),
    "is_same_size": (lambda self, other: self._a.shape == other._a.shape, "bool", "Whether both have the same shape."),
    "is_shared": (lambda self: False, "bool", "Whether processes share the memory: never here."),
    "is_distributed": (lambda self: False, "bool", "Whether it is spread over machines: never here."),
    "is_inference": (lambda self: False, "bool", "Whether it is shut out of autograd for good: never here."),
    "is_neg": (lambda self: False, "bool", "Whether a negation is still to be done: never here."),
    "resolve_neg": (lambda self: self, "Tensor", "The tensor itself: negations are done at once."),
    "to_dense": (
        lambda self, dtype=None, *, masked_grad=None: self if dtype is None else self.to(as_dtype(dtype, "to_dense")),
        "Tensor",
        "The tensor itself; of a sparse one all elements, zeros too.",
    ),
}
for _name, (_method, _returns, _doc) in _SHORT.items():
    _method.__name__, _method.__doc__ = _name, _doc
    _method.__annotations__ = {
        "self": "Tensor",
        "other": "Tensor",
        "dtype": "Dtype | None",
        "masked_grad": "bool | None",
        "return": _returns,
    }
    _METHODS[_name] = _method
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name in ("is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_nested", "is_mps", "is_xla",
              "is_xpu", "is_ipu", "is_vulkan", "is_maia", "is_mtia"):  # fmt: skip
    setattr(Tensor, _name, False)


def _is_cpu(self: Tensor) -> bool:
    return self.device.type == "cpu"


def _is_meta(self: Tensor) -> bool:
    return self.device.type == "meta"


def _itemsize(self: Tensor) -> int:
    return self.dtype.itemsize


Tensor.is_cpu = property(_is_cpu, doc="Whether it is in main memory.")  # type: ignore[assignment, method-assign]
Tensor.is_meta = property(_is_meta, doc="Whether it has a shape and no memory.")  # type: ignore[assignment, method-assign]
Tensor.itemsize = property(_itemsize, doc="Bytes of one element.")  # type: ignore[assignment, method-assign]
