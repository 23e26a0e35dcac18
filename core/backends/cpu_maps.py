"""The C kernels of elementwise ops, printed from the declarations at build time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .. import native
from ..base.device import Kind
from ..base.device import kind as kind_of
from ..base.dtypes import float32
from ..declare.expr import Program
from . import Kernel, half, reference

name = "C"
c: Any = native.module

_CHAR = {"float32": "f", "float64": "d", "int64": "l", "bool": "?"}
_SUFFIX = {"f": "f32", "d": "f64", "l": "i64", "?": "bool"}


def map(program: Program, kind: Kind) -> Kernel | str:
    """Return the printed kernel of a program, or why there is none."""
    if c is None:
        return native.reason
    if kind.dtype.numpy in half.HALVES:
        wide = map(program, kind_of(float32, kind.device))
        return half.kernel(wide, kind.dtype) if isinstance(wide, Kernel) else wide
    char = _CHAR.get(kind.dtype.name)
    found = c.maps.get((program.name, char))
    exact = char in ("l", "?") and "number" in program.kinds
    if char is None or (found is None and exact):
        taken = [n for n, at in _CHAR.items() if (program.name, at) in c.maps] or ["float32", "float64"]
        listed = " and ".join(filter(None, [", ".join(taken[:-1]), taken[-1]]))
        return f"takes {listed}, got {kind.dtype.name}"
    if found is None or found.digest != program.digest:
        what = "declared" if found is None else "changed"
        return f"{what} after the extension was built; pip install -e . prints its kernel"
    return Kernel(_Exact(found, program, kind) if exact else found, f"{program.name}_{_SUFFIX[char]}", name)


class _Exact:
    """A kernel of int64 or bools; numbers that it does not take, such as a number past int64 that is compared, go to
    the reference."""

    def __init__(self, quick: Any, program: Program, kind: Kind) -> None:
        self.quick, self._of = quick, (program, kind)

    def __call__(self, *operands: Any) -> Any:
        try:
            return self.quick(*operands)
        except (TypeError, OverflowError):
            return self._full.run(*operands)

    @cached_property
    def _full(self) -> Kernel:
        return reference.numpy_backend.map(*self._of)
