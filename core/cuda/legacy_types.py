"""``cuda.FloatTensor`` and its like: PyTorch's older way to make a tensor on a GPU, and to ask whether one is there."""

from __future__ import annotations

from typing import Any

from ..ops import legacy_types
from ..ops.legacy_types import TensorType
from ..tensors.tensor import Tensor

__all__ = ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
           "IntTensor", "LongTensor", "ShortTensor"]  # fmt: skip


class CudaTensorType(TensorType):
    """The class of ``cuda.LongTensor`` and its like: a dtype on a GPU that makes tensors and knows them again."""

    def __call__(cls, *given: Any) -> Tensor:
        return legacy_types.made(cls.__name__, cls.dtype, given).cuda()  # type: ignore[no-any-return, attr-defined]

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.is_cuda


def _on_gpu(cpu: Any) -> CudaTensorType:
    name = cpu.__name__
    about = f"""Tensors of `{cpu.dtype}` on a GPU. *Raises*: RuntimeError where there is none.

    >>> import core
    >>> isinstance(core.{name}([1, 0]), core.cuda.{name})
    False
    """
    return CudaTensorType(name, (), {"__module__": "core.cuda", "__doc__": about, "dtype": cpu.dtype})


FloatTensor, DoubleTensor = _on_gpu(legacy_types.FloatTensor), _on_gpu(legacy_types.DoubleTensor)
HalfTensor, BFloat16Tensor = _on_gpu(legacy_types.HalfTensor), _on_gpu(legacy_types.BFloat16Tensor)
LongTensor, IntTensor = _on_gpu(legacy_types.LongTensor), _on_gpu(legacy_types.IntTensor)
ShortTensor, CharTensor = _on_gpu(legacy_types.ShortTensor), _on_gpu(legacy_types.CharTensor)
ByteTensor, BoolTensor = _on_gpu(legacy_types.ByteTensor), _on_gpu(legacy_types.BoolTensor)
