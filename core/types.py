"""Names of types for annotations, under PyTorch's path ``torch.types``."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from .base.device import device as _device
from .base.dtypes import dtype as _dtype  # noqa: F401
from .base.shape import Size
from .ops.queries import layout as _layout  # noqa: F401
from .symbolic import SymBool, SymFloat, SymInt
from .tensors.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _bytes, _complex, _float, _int, _str = (
    builtins.bool, builtins.bytes, builtins.complex, builtins.float, builtins.int, builtins.str)  # fmt: skip
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_symsize = _size
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_dispatchkey = _qscheme = DispatchKey = Storage = Any
Number: TypeAlias = builtins.int | builtins.float | builtins.bool
_Number = (builtins.bool, builtins.int, builtins.float)
Device: TypeAlias = _device | builtins.str | builtins.int | None
FileLike: TypeAlias = builtins.str | os.PathLike[builtins.str] | IO[builtins.bytes]
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
BoolLikeType: TypeAlias = builtins.bool
PySymType: TypeAlias = Any
py_sym_types = (SymInt, SymFloat, SymBool)
