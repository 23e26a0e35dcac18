"""PyTorch's names for programs: `trace`, `script`, `save`, `load`. See `core.export`, which these are.

What PyTorch has here for its own compiler (`optimize_for_inference`, fusion strategies) is not there: a program is run
op by op, and to run it without Python is `Program.to_c`, `to_onnx` or `numpy`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .base.errors import text
from .export import ExportError, Program, export
from .export import load as _load
from .export.script import ScriptedModule
from .export.script import script as _script
from .tensors.tensor import Tensor

__all__ = ["ScriptFunction", "ScriptModule", "ignore", "is_scripting", "is_tracing", "load", "save", "script", "trace"]


class ScriptFunction:
    """A function or a module with its program: what `trace`, `load` and `script` give.

    What `script` was given runs as it is when it is called, with its gradients and its parameters' present values; its
    program is captured when it is asked for (`code`, `graph`, `save`), for arguments like those of the last call.
    """

    def __init__(self, function: Callable[..., Any] | None, program: Program | None = None) -> None:
        self._function = function
        self._program = program
        self._args: tuple[Any, ...] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, or the program where that is all there is."""
        if self._function is None:
            return self.graph(*args, **kwargs)
        if self._program is None:
            self._args = _positional(self._function, args, kwargs)
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return what the module has by this name: its parameters, its layers."""
        function = self.__dict__.get("_function")
        if name.startswith("__") or not isinstance(function, ScriptedModule):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(function.module, name)

    @property
    def code(self) -> str:
        """The program as text. *Raises* ExportError where there is none."""
        return str(self.graph)

    @property
    def graph(self) -> Program:
        """The program. *Raises* ExportError where the function is none."""
        if self._program is None:
            if self._args is None or self._function is None:
                raise RuntimeError(text("this function has no program yet", op="jit",
                                        needed="a call, which says what its arguments are",
                                        remedy="f(x), or core.jit.trace(f, (x,))"))  # fmt: skip
            self._program, self._args = export(self._function, self._args), None
        return self._program

    def save(self, f: Any) -> None:
        """Save the program: `core.export.load` and `core.jit.load` read it."""
        self.graph.save(f)


ScriptModule = ScriptFunction


def _positional(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return all arguments by position, detached; None where they cannot be given so."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    if bound.kwargs:
        return None
    return tuple(x.detach() if isinstance(x, Tensor) else x for x in bound.args)


def trace(func: Callable[..., Any], example_inputs: Any, **ignored: Any) -> ScriptFunction:
    """Return a function or a module as a program for inputs like these.

    Unlike PyTorch's it refuses, with the line, what a trace would get wrong: branches on values, `item()`, random
    numbers.

    >>> import core
    >>> traced = core.jit.trace(lambda x: x.relu() * 2, core.ones(3))
    >>> traced(core.tensor([-1.0, 0.0, 1.0]))
    tensor([0., 0., 2.])
    """
    args = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
    return ScriptFunction(None, export(func, tuple(args)))


def script(obj: Any, example_inputs: Sequence[Any] | None = None, **ignored: Any) -> Any:
    """Return a function or a module with its control flow over tensors as a program; captured at its first call.

    >>> import core
    >>> @core.jit.script
    ... def sign(x):
    ...     if x.sum() > 0:
    ...         return x
    ...     return -x
    >>> sign(core.tensor([-1.0, -2.0])), sign(core.tensor([1.0, 2.0]))
    (tensor([1., 2.]), tensor([1., 2.]))
    """
    found = ScriptFunction(_script(obj))
    if example_inputs is not None:
        found(*example_inputs)
    return found


def save(m: Any, f: Any) -> None:
    """Save what `trace` or `script` gave."""
    if not isinstance(m, ScriptFunction):
        raise TypeError(text("core.jit.save takes what trace or script gave", op="jit.save", came=type(m).__name__,
                             remedy="core.jit.trace(model, (x,))"))  # fmt: skip
    m.save(f)


def load(f: Any, map_location: Any = None) -> ScriptFunction:
    """Return a saved program as a function."""
    return ScriptFunction(None, _load(f))


def ignore(function: Any = None, **ignored: Any) -> Any:
    """Return a function as it is: what is not scripted is run as it stands, and heard by the tape."""
    return function if function is not None else ignore


unused = export_method = ignore


def is_scripting() -> bool:
    """Return False: a scripted function is Python that runs once."""
    return False


def is_tracing() -> bool:
    """Return False: what is captured runs as it would otherwise."""
    return False


def freeze(mod: Any, *ignored: Any, **more: Any) -> Any:
    """Return a program as it is: its weights are its own already."""
    return mod


def is_script_module(x: Any) -> bool:
    """Return whether `x` is what `trace`, `script` or `load` gave."""
    return isinstance(x, ScriptFunction | ScriptedModule)


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


Error = ExportError
