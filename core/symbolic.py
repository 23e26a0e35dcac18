"""PyTorch's names for sizes and truths that a trace leaves open: here they are numbers, so that nothing is one.

`sym_int` and its kin are Python's; checks (`_check`) are made at once.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from .base.absent import absent_class
from .base.errors import text
from .base.modes import no_grad

_NUMBER = "int, float or bool"
SymInt = absent_class("SymInt", __name__, "A size that a trace leaves open.", _NUMBER)
SymFloat = absent_class("SymFloat", __name__, "A number that a trace leaves open.", _NUMBER)
SymBool = absent_class("SymBool", __name__, "A truth that a trace leaves open.", _NUMBER)


def sym_int(a: Any) -> int:
    """Return a number without its fraction, toward 0.

    >>> import core
    >>> core.sym_int(-2.5), core.sym_max(2, 3), core.sym_sum([1, 2, 3])
    (-2, 3, 6)
    """
    return math.trunc(a)


def sym_float(a: Any) -> builtins.float:
    """Return a number as a float."""
    return builtins.float(a)


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger; a float where one is."""
    return builtins.float(max(a, b)) if isinstance(a, builtins.float) or isinstance(b, builtins.float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller; a float where one is."""
    return builtins.float(min(a, b)) if isinstance(a, builtins.float) or isinstance(b, builtins.float) else min(a, b)


def sym_not(a: Any) -> builtins.bool:
    """Return the opposite."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return the first where the truth holds, else the second."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """Return the sum of numbers."""
    return sum(args)


def sym_sqrt(a: Any) -> builtins.float:
    """Return the square root of a number."""
    return math.sqrt(a)


def _said(message: Any, otherwise: str) -> str:
    return str(message() if callable(message) else message) if message is not None else otherwise


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError, with what `message` gives, where something does not hold."""
    _check_with(RuntimeError, cond, message)


def _check_with(error_type: Any, cond: Any, message: Callable[[], str] | None = None) -> None:
    if not isinstance(cond, builtins.bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_said(message, "Expected cond to be True, but got False."))


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError where something does not hold."""
    _check_with(ValueError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError where something does not hold."""
    _check_with(IndexError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError where something does not hold."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise NotImplementedError where something does not hold."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError where something does not hold of every element."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(error_type: Any, cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(error_type, builtins.bool(cond.all().item()), message)


def _check_is_size(i: Any, message: Callable[[], str] | None = None, **ignored: Any) -> None:
    """Raise RuntimeError for a size below 0."""
    _check(i >= 0, message)


def _assert(condition: Any, message: str = "") -> None:
    """Raise AssertionError where something (of one element) does not hold.

    >>> import core
    >>> core._assert(core.ones(1) > 0, "positive")
    """
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Any, message: str = "") -> None:
    """Raise RuntimeError where a tensor of one element is 0: at once, as nothing runs meanwhile."""
    with no_grad():
        if not condition:
            raise RuntimeError(text(message or "Expected Tensor with single nonzero value, but got zero",
                                    op="_assert_async"))  # fmt: skip
