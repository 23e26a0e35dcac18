"""What several files of these tests use: leaves, the lines of marks, and whether tensors share memory."""

from __future__ import annotations

import inspect
import sys

import numpy as np

import core


def leaf(*values: float, dtype: core.dtype = core.float32) -> core.Tensor:
    return core.tensor(values if len(values) != 1 else values[0], dtype=dtype, requires_grad=True)


def leaf64(*values: float) -> core.Tensor:
    return leaf(*values, dtype=core.float64)


def line(mark: str) -> int:
    """The line of the running test that ends in ``# <- mark``."""
    code = sys._getframe(1).f_code
    lines = inspect.getsource(code).splitlines()
    return code.co_firstlineno + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


def shares(*tensors: core.Tensor) -> bool:
    """Whether any two of the tensors overlap in memory."""
    return any(np.shares_memory(a._a, b._a) for i, a in enumerate(tensors) for b in tensors[:i])
