"""The reference: every op's own text, run by NumPy or CuPy. It accepts everything; the others are held to it."""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

import numpy as np

from ..base.device import Kind
from ..declare.expr import Program, divisors, numpy_source
from ..declare.op import Operation
from . import Kernel, Row, special
from .errstate import Quiet

_HALF = ("float16", "bfloat16")


def _wrapped(n: int, kind: Kind) -> int:
    """Return a Python int as an integer tensor takes it: it wraps around, as in C and PyTorch."""
    if kind.dtype.category != 1:
        return n
    bits = 8 * kind.dtype.itemsize
    low = -(1 << bits - 1) if kind.dtype.is_signed else 0
    return (n - low) % (1 << bits) + low


@cache
def compiled(program: Program) -> Any:
    """Return the Python function of a program's NumPy text."""
    source = numpy_source(program)
    filename = f"<gradlab reference {program.name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[program.name]


def _check_divisors(name: str, arrays: list[Any], by: tuple[int, ...]) -> None:
    """ZeroDivisionError where integers would be divided by zero. On a GPU only a number is looked at: an array there
    would have to be waited for, and PyTorch's quotients are not defined either."""
    if any(getattr(a, "size", 1) == 0 for a in arrays):
        return  # nothing is divided
    for k in by:
        divisor = arrays[k]
        if (isinstance(divisor, np.ndarray) or not hasattr(divisor, "device")) and not np.all(divisor):
            raise ZeroDivisionError(f"{name}: division by zero")


class Reference:
    """The reference on one array library."""

    def __init__(self, name: str, xp: Any) -> None:
        self.name, self.xp = name, xp

    def map(self, program: Program, kind: Kind) -> Kernel:
        """Return a map over arrays: half precision is computed in float32 and rounded once, as kernels do."""
        function, xp = compiled(program), self.xp
        dtype = np.dtype(bool) if program.is_bool else kind.dtype.numpy
        half, n = kind.dtype.name in _HALF, len(program.inputs)
        inside = np.dtype(np.float32) if half else kind.dtype.numpy
        numbers = [k == "number" for k in program.kinds]
        by = divisors(program) if kind.dtype.category == 1 else ()

        def inner(a: Any) -> Any:
            """Return an operand as the text gets it: numbers as 0-d arrays, not rounded to half precision first."""
            if type(a) is int:  # comparisons take the number as it is
                return a if program.is_bool and kind.dtype.category == 1 else xp.asarray(_wrapped(a, kind), inside)
            return xp.asarray(a, inside) if type(a) is float or type(a) is complex else a.astype(inside) if half else a

        def run(*args: Any) -> Any:
            with Quiet():
                arrays = [inner(a) if k else a for a, k in zip(args[:n], numbers, strict=True)]
                if by:
                    _check_divisors(program.name, arrays, by)
                y = xp.asarray(function(xp, special, *arrays, *args[n:]))
                shape = xp.broadcast_shapes(*(getattr(a, "shape", ()) for a in arrays))
                if y.shape != shape:  # the text may use fewer operands than it has
                    y = xp.broadcast_to(y, shape).copy()
                return y if y.dtype == dtype else y.astype(dtype)

        return Kernel(run, f"{program.name}_reference", self.name)

    def operation(self, op: Operation) -> Kernel:
        """Return a structured op's forward text."""
        forward, xp = op.forward, self.xp

        def run(*arrays: Any, **params: Any) -> Any:
            with Quiet():
                return forward(xp, *arrays, **params)

        return Kernel(run, f"{op.name}_reference", self.name)

    def rows(self, name: str) -> tuple[Row, ...]:
        return ()

    def absent(self, name: str) -> str:
        return "the reference takes everything"


numpy_backend = Reference("NumPy", np)
