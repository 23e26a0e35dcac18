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

__all__ = ["ExportError", "Program", "ScriptError", "export", "load", "script"]


class CallableModule(types.ModuleType):
    """This module, which is called as the function that it is named after."""

    def __call__(self, function: Callable[..., Any], args: Sequence[Any], dynamic: Mapping[str, Any] | None = None, *,
                 name: str | None = None) -> Program:  # fmt: skip
        return export(function, args, dynamic, name=name)

    if TYPE_CHECKING:  # what a type checker does not see of a module with a class of its own

        def __getattr__(self, name: str) -> Any: ...


sys.modules[__name__].__class__ = CallableModule
