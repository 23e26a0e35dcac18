"""Whether what a function reads, and what it is given, is as it was: in C where the extension is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import native
from ..tensors.tensor import Tensor

MISSING = object()
GET, ITEM, CELL, KEYS, LENGTH, ATTRIBUTE, OF_CLASS, SET, ARRAY = range(9)
"""What is checked: a value of a dict (that may be missing), an item, a cell's content, the keys of a dict, a length, an
attribute, an attribute of a class itself, the members of a set, an array's values."""

Check = tuple[int, Any, Any, Any]
"""(kind, where, key, what was there)"""


def same(a: Any, b: Any) -> bool:
    """Return whether a value is the one that was there, or equal to it as a number or a text."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (int, str, bool, bytes):
        return bool(a == b)
    if type(a) is float:
        return bool(a == b and a != 0) or (a == b == 0 and str(a) == str(b))
    return False


def holds(kind: int, where: Any, key: Any, value: Any) -> bool:
    """Return whether a check holds."""
    if kind == GET:
        return same(where.get(key, MISSING), value)
    if kind == ITEM:
        try:
            return same(where[key], value)
        except (KeyError, IndexError):
            return False
    if kind == CELL:
        try:
            return same(where.cell_contents, value)
        except ValueError:
            return False
    if kind == KEYS:
        return len(where) == len(value) and tuple(where) == value
    if kind == LENGTH:
        return len(where) == value
    if kind == ATTRIBUTE:
        return getattr(where, key, MISSING) is value
    if kind == OF_CLASS:
        return where.__dict__.get(key, MISSING) is value
    if kind == SET:
        return bool(frozenset(where) == value)
    return (where.shape, where.dtype, where.tobytes()) == value


def spec_of(t: Tensor) -> tuple[Any, ...]:
    """Return what of a tensor has to be the same for a program that was made for it."""
    a = t._a
    return (a.shape, a.strides, t._kind, t._requires_grad, type(t))


def _first_changed(checks: Sequence[Check], start: int, missing: object) -> int:
    """Return the number of the first check from `start` on that does not hold, or -1."""
    return next((k for k in range(start, len(checks)) if not holds(*checks[k])), -1)


def together(checks: Sequence[Check]) -> list[Check]:
    """Return checks in another order: those that look into one object after one another."""
    by_object: dict[int, list[Check]] = {}
    for check in checks:
        by_object.setdefault(id(check[1]), []).append(check)
    return [check for several in by_object.values() for check in several]


def _check_runs(checks: Sequence[Check]) -> bytearray:
    """Return what `unchanged` wants to know of checks: without C nothing."""
    return bytearray()


def _unchanged(checks: Sequence[Check], runs: bytearray, missing: object) -> int:
    """Return the number of the first check that does not hold, or -1. In C what is in a dict that nobody wrote since
    all of it held is not looked at again."""
    return _first_changed(checks, 0, missing)


def _fit(objects: Sequence[Any], what: tuple[Any, ...]) -> bool:
    """Return whether objects are as they were: of a tensor what `spec_of` says, of anything else the value."""
    if len(objects) != len(what):
        return False
    return all((spec_of(x) if isinstance(x, Tensor) else x) == was and (isinstance(x, Tensor) or same(x, was))
               for x, was in zip(objects, what, strict=True))  # fmt: skip


first_changed, check_runs, unchanged, fit = _first_changed, _check_runs, _unchanged, _fit
if native.module is not None:
    first_changed, fit = native.module.first_changed, native.module.fit
    check_runs, unchanged = native.module.check_runs, native.module.unchanged
