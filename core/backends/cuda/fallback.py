"""What runs an op's own text on a GPU: CuPy, or NumPy on the CPU where CuPy cannot, announced and never in silence.

An op goes to the CPU after CuPy has refused it (a function or an option it lacks); the same kind of call then goes
there at once. A warning says so once an op, an observer is told by the event's backend, and the card counts the bytes.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ...base.device import Kind
from ...base.source import is_ours, warn
from ...declare.expr import Program
from ...declare.op import Operation
from .. import Kernel
from ..reference import Reference
from .memory import size_text
from .shared import retell

BACKEND = "NumPy on the CPU"
_REFUSED = (AttributeError, NotImplementedError, TypeError, ValueError)
_refused: dict[tuple[Any, ...], str] = {}  # (op, dtypes, params) -> why CuPy did not take it
_warned: set[str] = set()


class CpuFallbackWarning(UserWarning):
    """An op on `cuda` ran on the CPU, its arrays copied there and back."""


class _Last(threading.local):
    fell: str = ""  # the op that went to the CPU last


_last = _Last()


def as_observed(kernel: Kernel) -> Kernel:
    """Return the kernel as observers are told of it: one that went to the CPU says so. Asked once after every run."""
    if not _last.fell:
        return kernel
    _last.fell = ""
    return Kernel(kernel.run, kernel.name, BACKEND)


def why(op: str) -> str:
    """Return what CuPy said when it refused an op; "" where it did not."""
    return next((reason for key, reason in _refused.items() if key[0] == op), "")


class CupyReference(Reference):
    """The reference on CuPy, with the CPU behind it."""

    def map(self, program: Program, kind: Kind) -> Kernel:
        found = super().map(program, kind)
        plain = Reference("NumPy", np).map(program, kind)
        return Kernel(_either(program.name, found.run, plain.run, self.xp), found.name, found.backend)

    def operation(self, op: Operation) -> Kernel:
        found = super().operation(op)
        if op.view or op.name == "move":
            return found  # a view must share the memory, and a move is a copy already
        plain = Reference("NumPy", np).operation(op)
        return Kernel(_either(op.label, found.run, plain.run, self.xp), found.name, found.backend)


def _either(op: str, first: Any, second: Any, cupy: Any) -> Any:
    """Return the text on CuPy; on the CPU where CuPy refuses it."""

    def run(*arrays: Any, **params: Any) -> Any:
        key = (op, *[str(getattr(a, "dtype", type(a).__name__)) for a in arrays], repr(sorted(params)))
        if key not in _refused:
            try:
                return first(*arrays, **params)
            except _REFUSED as error:
                reason = f"{type(error).__name__}: {error}"
        else:
            reason = _refused[key]
        moved: list[int] = []
        try:
            down = _each(arrays, lambda a: _counted(a, moved).get() if isinstance(a, cupy.ndarray) else a)
            given = {k: _each(v, lambda a: a.get() if isinstance(a, cupy.ndarray) else a) for k, v in params.items()}
        except RuntimeError as error:
            retell(error)
        out = second(*down, **given)  # the user's own mistakes are told from here, in NumPy's words
        _refused[key] = reason
        out = _each(out, lambda a: cupy.asarray(_counted(a, moved)) if isinstance(a, np.ndarray | np.generic) else a)
        _last.fell = op
        if op not in _warned:
            _warned.add(op)
            warn(
                f"{op} on cuda ran on the CPU, as CuPy cannot do it ({reason}): {size_text(sum(moved))} copied there "
                "and back, now and at every such call",
                CpuFallbackWarning,
            )
        return out

    return run


def _counted(a: Any, into: list[int]) -> Any:
    into.append(int(a.nbytes))
    return a


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, tuple | list):
        items = [_each(v, change) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return change(value)


def _outside() -> int:
    """Return the `stacklevel` of the user's line, for a caller of this function's caller."""
    import sys

    frame, level = sys._getframe(2), 2
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level
