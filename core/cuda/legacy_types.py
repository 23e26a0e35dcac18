"""``core.cuda.FloatTensor`` and its like: a dtype on a GPU, as PyTorch's older programs name it."""

from __future__ import annotations

from ..ops.legacy_types import on_cuda

NAMES = ("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
         "IntTensor", "LongTensor", "ShortTensor")  # fmt: skip
globals().update({name: on_cuda(name) for name in NAMES})
