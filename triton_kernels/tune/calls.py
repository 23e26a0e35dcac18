"""What a call of a user's own kernel is to the tuner: shapes, dtypes and integers, by parameter.

A config that was right for one call may be wrong for another: a tile that divides 1024 does not divide 1023, and the
shape of the first array says nothing of the others. So a choice for such a kernel is filed under the call that it was
checked at, and serves no other, unless the kernel declares that its configs are right at any shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_BESIDE = "; "


def of(arguments: Mapping[str, Any]) -> str:
    """Return a call in words. Floating numbers are left out: they change no address.

    >>> of({"x": np.zeros((2, 3), np.float32), "n": 3, "scale": 0.5})
    'x=float32[2,3] n=3'
    >>> of({"x": np.zeros((4, 6), np.float32)[::2, ::2]})
    'x=float32[2,3]/(48,8)'
    >>> of({"n": np.int64(3)})
    'n=3'
    """
    floating = float, np.floating
    return " ".join(f"{name}={_of(value)}" for name, value in arguments.items() if not isinstance(value, floating))


def is_array(value: Any) -> bool:
    """Return whether an argument is an array, of any library; NumPy's numbers have a shape and a dtype too.

    >>> is_array(np.zeros(3)), is_array(np.int64(3)), is_array(3)
    (True, False, False)
    """
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def _of(value: Any) -> str:
    if is_array(value):
        text = f"{dtype_of(value)}[{','.join(map(str, value.shape))}]"
        contiguous, strides = laid_out(value)
        return text if contiguous else f"{text}/({','.join(map(str, strides))})"
    return str(int(value)) if isinstance(value, int | np.integer | np.bool_) else repr(value)


def dtype_of(array: Any) -> str:
    """Return the name of an array's dtype, as NumPy has it, whatever library the array is of.

    >>> dtype_of(np.zeros(3, np.float16))
    'float16'
    """
    numpy = getattr(array, "numpy", None)  # of `arguments.View`, whose own dtype is Triton's name
    return str(array.dtype if numpy is None or callable(numpy) else numpy).rpartition(".")[2]


def laid_out(value: Any) -> tuple[bool, tuple[int, ...]]:
    """Return whether an array of any library is contiguous, and its strides in bytes."""
    if hasattr(value, "flags"):
        return bool(value.flags.c_contiguous), tuple(value.strides)
    if hasattr(value, "is_contiguous"):
        return bool(value.is_contiguous()), tuple(n * value.element_size() for n in value.stride())
    if hasattr(value, "contiguous"):
        return value.contiguous, tuple(n * value.numpy.itemsize for n in value.strides)
    return True, ()


def mode(how: str, arguments: Mapping[str, Any]) -> str:
    """Return the mode that results of a call are filed under: how it is measured, and the call."""
    return how + _BESIDE + of(arguments)


def how(mode: str) -> str:
    """How a mode's results were measured.

    >>> how("cpu, hot caches; x=float32[2,3] n=3")
    'cpu, hot caches'
    """
    return mode.partition(_BESIDE)[0]


def served(mode: str) -> str:
    """Return the call that results of a mode were checked at; "" for those of a kernel that is right at any shape."""
    return mode.partition(_BESIDE)[2]
