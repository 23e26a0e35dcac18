"""Programs: functions and modules as ops that run without them, by core, NumPy, C, ONNX Runtime or a server.

`core.export(function, args)` gives one; this module is that function, and has PyTorch's name for it, `export`.

>>> import core
>>> program = core.export(core.nn.ReLU(), (core.ones(2),))
>>> program(core.tensor([-1.0, 1.0]))
tensor([0., 1.])
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .capture import export
from .ir import ExportError
from .program import Program
from .restored import load
from .script import ScriptError, script

__all__ = ["Dim", "ExportError", "ExportedProgram", "Program", "ScriptError", "export", "load", "script"]


class _Dim(type):
    """Makes `Dim("batch")` a class of its own, with PyTorch's `AUTO`, `DYNAMIC` and `STATIC`."""

    AUTO = DYNAMIC = STATIC = None

    def __call__(cls, name: str, *, min: int | None = None, max: int | None = None) -> Any:
        return _Dim(name, (int,), {"min": min, "max": max})


class Dim(metaclass=_Dim):
    """``Dim("batch")`` names a size that may vary, as the plain text does in `dynamic`: its name is ``__name__``.

    `AUTO`, `DYNAMIC` and `STATIC` are None: what varies is named here.
    """

    AUTO = DYNAMIC = STATIC = None


ExportedProgram = Program


class CallableModule(types.ModuleType):
    """This module, which is called as the function that it is named after."""

    def __call__(self, function: Callable[..., Any], args: Sequence[Any], dynamic: Mapping[str, Any] | None = None, *,
                 name: str | None = None) -> Program:  # fmt: skip
        return export(function, args, dynamic, name=name)

    if TYPE_CHECKING:  # what a type checker does not see of a module with a class of its own

        def __getattr__(self, name: str) -> Any: ...


sys.modules[__name__].__class__ = CallableModule
