"""Questions about tensors and dtypes (``is_tensor``, ``finfo``, ``result_type``), constants, settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import native
from ..backends.precision import float32_products
from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.layouts import layout as layout
from ..base.layouts import strided as strided
from ..dispatch.autocast import behind
from ..dispatch.type_errors import guarded
from ..tensors.storages import AnyStorage
from ..tensors.tensor import Tensor
from .comparing import limits

inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None


class memory_format:
    """An order of the dimensions in memory, as PyTorch's functions take it; tensors here keep their own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"core.{self.name}"


def need_format(op: str, given: Any) -> None:
    """TypeError for what is no memory format; a name of another library's own (``torch.channels_last``) is none."""
    if given is not None and not isinstance(given, memory_format):
        came = type(given).__name__
        raise TypeError(text(f"{op}(): argument 'memory_format' must be core.memory_format, not {came}", op=op,
                             came=f"memory_format = {given!r:.60}", needed="core.contiguous_format"))  # fmt: skip


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
legacy_contiguous_format = contiguous_format  # its older name
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

# -- tensors -----------------------------------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Return whether it is a tensor.

    >>> is_tensor([1.0])
    False
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Return whether it is a storage: what `Tensor.untyped_storage` and `Tensor.storage` give."""
    return isinstance(obj, AnyStorage)


def _need(input: Any, op: str) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


@behind
def is_floating_point(input: Tensor) -> bool:
    """Return whether its dtype is a floating one."""
    return _need(input, "is_floating_point").is_floating_point()


@behind
def is_complex(input: Tensor) -> bool:
    """Return whether its dtype is a complex one."""
    return _need(input, "is_complex").is_complex()


@behind
def is_signed(input: Tensor) -> bool:
    """Return whether its dtype has negative numbers."""
    return _need(input, "is_signed").dtype.is_signed


@behind
def is_nonzero(input: Tensor) -> bool:
    """Return whether its one element is not 0. *Raises*: RuntimeError for none or several."""
    return bool(_need(input, "is_nonzero"))


@behind
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both have the same shape."""
    return bool(_need(input, "is_same_size")._a.shape == other._a.shape)


def is_inference(input: Tensor) -> bool:
    """Return whether it was made in inference mode; such tensors are ordinary ones here."""
    return False


@behind
def numel(input: Tensor) -> int:
    """Return the number of elements.

    >>> import core
    >>> core.numel(core.ones(2, 3))
    6
    """
    return _need(input, "numel").numel()


def get_device(input: Tensor) -> int:
    """Return the index of its GPU, -1 for main memory."""
    where = _need(input, "get_device").device
    return -1 if where.type == "cpu" else where.index or 0


def typename(obj: Any) -> str:
    """Return the name of a tensor's type, "core.FloatTensor", or of any object's class.

    >>> import core
    >>> core.typename(core.ones(1))
    'core.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return f"core.{'cuda.' if obj.is_cuda else ''}{obj.dtype.scalar_type}Tensor"
    cls = obj if isinstance(obj, type) else type(obj)
    module = "" if cls.__module__ == "builtins" else cls.__module__ + "."
    return module + cls.__qualname__


# -- dtypes ------------------------------------------------------------------------------------------------------------


class finfo:
    """The limits of a floating dtype: `bits`, `eps`, `max`, `min`, `tiny` (`smallest_normal`), `resolution`.

    >>> import core
    >>> core.finfo(core.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Dtype | None = None) -> None:
        d = type or dtypes.get_default_dtype()
        if d.category < 2:
            raise TypeError(f"core.finfo() requires a floating point input type. Use core.iinfo to handle '{d}'")
        real = {"complex64": dtypes.float32, "complex128": dtypes.float64}.get(d.name, d)
        found = limits(real)
        self.dtype, self.bits = real.name, 8 * real.itemsize
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.tiny)
        self.resolution = float(found.resolution)

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")  # fmt: skip


class iinfo:
    """The limits of an integer dtype: `bits`, `max`, `min`.

    >>> import core
    >>> core.iinfo(core.uint8)
    iinfo(min=0, max=255, dtype=uint8)
    """

    def __init__(self, type: Dtype) -> None:
        if type.category == 0:
            raise TypeError("core.iinfo() is not supported for torch.bool")
        if type.category > 1:
            raise TypeError(f"core.iinfo() requires an integer input type. Use core.finfo to handle '{type}'")
        found = np.iinfo(type.numpy)
        self.dtype, self.bits, self.min, self.max = type.name, 8 * type.itemsize, int(found.min), int(found.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


@guarded
def result_type(tensor1: Any, tensor2: Any) -> Dtype:
    """Return the dtype of an operation on two tensors or numbers.

    >>> import core
    >>> core.result_type(core.tensor([1, 2]), 1.0)
    core.float32
    """
    dimmed: list[Dtype] = []
    zero: list[Dtype] = []
    numbers: list[Dtype] = []
    for t in (tensor1, tensor2):
        if isinstance(t, Tensor):
            (dimmed if t.ndim else zero).append(t.dtype)
        else:
            numbers.append(dtypes.of_number(t))
    return dtypes.result_type(dimmed, zero, numbers)


@guarded
def can_cast(from_: Dtype, to: Dtype) -> bool:
    """Return whether values of one dtype may be written into the other: any but into a lower category.

    >>> import core
    >>> core.can_cast(core.float64, core.float32), core.can_cast(core.float32, core.int64)
    (True, False)
    """
    return from_.category <= to.category


# -- settings ----------------------------------------------------------------------------------------------------------


def get_num_threads() -> int:
    """Return how many threads the C kernels use.

    >>> get_num_threads() >= 1
    True
    """
    return int(native.module.get_num_threads()) if native.module is not None else 1


def set_num_threads(int: int) -> None:
    """Let the C kernels use so many threads. *Raises*: RuntimeError for less than 1."""
    if int < 1:
        raise RuntimeError(text("set_num_threads expects a positive integer", op="set_num_threads", came=f"{int}"))
    if native.module is not None:
        native.module.set_num_threads(int)


def get_num_interop_threads() -> int:
    """Ops run one after the other, so 1."""
    return 1


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return False: what is not deterministic would be refused, and nothing is."""
    return False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing changes: every reduction has a fixed tree and scatter uses no atomics, so that all is deterministic."""


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Nothing changes: all is deterministic."""


def get_deterministic_debug_mode() -> int:
    """Always 2: what would not be deterministic is not there."""
    return 2


def are_deterministic_algorithms_enabled() -> bool:
    """Always True: the same input gives the same bits, for any number of threads."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """How products of float32 are multiplied on a GPU: exactly ("highest"), or with 10 bits of each factor, TF32, which
    is many times as fast ("high", "medium"). Nothing changes on the CPU, where they keep float32.
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(text(f"Invalid precision {precision!r}", op="set_float32_matmul_precision",
                                needed="highest, high or medium"))  # fmt: skip
    float32_products.precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was given, "highest" unless it was."""
    return float32_products.precision
