"""``Tensor(...)`` and ``LongTensor(...)``, PyTorch's older way to make a tensor: of numbers, or of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import Size
from ..tensors.tensor import Tensor
from . import creation


def filled(target: Tensor, *given: Any) -> None:
    """Make `target`, which holds nothing yet, what ``Tensor(*given)`` is.

    >>> import core
    >>> core.Tensor([1, 2]), core.Tensor(2, 3).shape
    (tensor([1., 2.]), core.Size([2, 3]))
    """
    of = made("Tensor", dtypes.get_default_dtype(), given)
    target._a, target._kind = of._a, of._kind


def new(self: Tensor, *given: Any, device: Any = None) -> Tensor:
    """Return a tensor of this one's dtype and device, of numbers or of sizes, as ``Tensor(...)`` takes them.

    >>> import core
    >>> core.ones(1, dtype=core.int32).new([1, 2]), core.ones(1).new(2, 3).shape
    (tensor([1, 2], dtype=core.int32), core.Size([2, 3]))
    """
    if not given:
        return creation.empty(0, dtype=self.dtype, device=device or self.device)
    return made("new", self.dtype, given).to(device or self.device)  # type: ignore[attr-defined, no-any-return]


def made(op: str, dtype: Dtype, given: tuple[Any, ...]) -> Tensor:
    """Return a tensor of a dtype: of numbers, or of sizes."""
    if len(given) == 1 and isinstance(given[0], Tensor):
        if given[0].dtype != dtype:
            cast = "x.float()" if dtype is dtypes.float32 else f"x.to({dtype})"
            raise TypeError(text(f"expected {dtype} (got {given[0].dtype})", op=op, came=f"a tensor of "
                                 f"{given[0].dtype}", remedy=f"{cast}, or core.tensor"))  # fmt: skip
        return given[0].detach()
    if len(given) == 1 and isinstance(given[0], list | tuple | range | np.ndarray) and not isinstance(given[0], Size):
        return creation.tensor(list(given[0]) if isinstance(given[0], range) else given[0], dtype=dtype)
    sizes = given[0] if len(given) == 1 and isinstance(given[0], Size) else given
    if not all(isinstance(n, int | np.integer) for n in sizes):
        raise TypeError(text(f"{op}() takes a list of numbers, an array, or sizes", op=op,
                             came=", ".join(type(g).__name__ for g in given),
                             remedy="core.tensor(data), which keeps the dtype of any data"))  # fmt: skip
    return creation.empty(*(map(int, sizes) if sizes else (0,)), dtype=dtype)


class TensorType(type):
    """The class of ``LongTensor`` and its like: a dtype in main memory that makes tensors and knows them again."""

    dtype: Dtype
    where = "cpu"

    def __call__(cls, *given: Any) -> Tensor:
        found = made(cls.__name__, cls.dtype, given)
        return found if cls.where == "cpu" else found.to(cls.where)  # type: ignore[attr-defined, no-any-return]

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == cls.where


def _typed(dtype: Dtype) -> TensorType:
    name = f"{dtype.scalar_type}Tensor"
    about = f"""Tensors of `{dtype}` on the CPU: ``core.{name}([1, 0])`` of numbers, ``core.{name}(2, 3)`` of sizes.

    `core.tensor` and `core.empty` are newer. ``isinstance(x, core.{name})`` asks after the dtype and the device.

    >>> import core
    >>> x = core.{name}([1, 0])
    >>> x.dtype, isinstance(x, core.{name}), core.{name}(2, 3).shape
    ({dtype}, True, core.Size([2, 3]))
    """
    return TensorType(name, (), {"__module__": "core", "__doc__": about, "dtype": dtype})


FloatTensor, DoubleTensor = _typed(dtypes.float32), _typed(dtypes.float64)
HalfTensor, BFloat16Tensor = _typed(dtypes.float16), _typed(dtypes.bfloat16)
LongTensor, IntTensor, ShortTensor = _typed(dtypes.int64), _typed(dtypes.int32), _typed(dtypes.int16)
CharTensor, ByteTensor, BoolTensor = _typed(dtypes.int8), _typed(dtypes.uint8), _typed(dtypes.bool_)


def on_cuda(name: str) -> TensorType:
    """Return the class of a dtype's tensors on a GPU, ``core.cuda.FloatTensor`` for "FloatTensor"."""
    of: TensorType = globals()[name]
    about = f"Tensors of `{of.dtype}` on a GPU, as `core.{name}` on the CPU."
    return TensorType(name, (), {"__module__": "core.cuda", "__doc__": about, "dtype": of.dtype, "where": "cuda"})


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of ``FloatTensor`` and its like the default one: `core.set_default_dtype` is newer.

    t : the class, or its name: "torch.DoubleTensor". *Raises*: TypeError for what is no such class.

    >>> import core
    >>> core.set_default_tensor_type("torch.FloatTensor")
    """
    kind = globals().get(str(t).rpartition(".")[2]) if isinstance(t, str) else t
    if not isinstance(kind, TensorType) or kind.dtype.category != 2:
        raise TypeError(text("only floating-point types are supported as the default type",
                             op="set_default_tensor_type", came=repr(t), needed="a class such as FloatTensor",
                             remedy="core.set_default_dtype(core.float64)"))  # fmt: skip
    dtypes.set_default_dtype(kind.dtype)


Tensor.new = new  # type: ignore[assignment, method-assign]
Tensor._fill = filled  # type: ignore[assignment, method-assign]
