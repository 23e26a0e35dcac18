"""Storages by PyTorch's path ``torch.storage``, and its classes of each dtype: ``core.FloatStorage``."""

from __future__ import annotations

from typing import Any

from .base import dtypes
from .base.dtypes import dtype as Dtype
from .tensors.storages import AnyStorage, Typed, TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

Storage = StorageBase = _StorageBase = _LegacyStorage = AnyStorage


def _typed(dtype: Dtype) -> Any:
    name = f"{dtype.scalar_type}Storage"
    return Typed(name, (TypedStorage,), {"_dtype": dtype, "__module__": "core", "__doc__": f"Elements of {dtype}."})


BoolStorage, ByteStorage, CharStorage = _typed(dtypes.bool_), _typed(dtypes.uint8), _typed(dtypes.int8)
ShortStorage, IntStorage, LongStorage = _typed(dtypes.int16), _typed(dtypes.int32), _typed(dtypes.int64)
HalfStorage, BFloat16Storage = _typed(dtypes.float16), _typed(dtypes.bfloat16)
FloatStorage, DoubleStorage = _typed(dtypes.float32), _typed(dtypes.float64)
ComplexFloatStorage, ComplexDoubleStorage = _typed(dtypes.complex64), _typed(dtypes.complex128)
