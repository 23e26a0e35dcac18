"""PyTorch's names for programs: `trace`, `script`, `save`, `load`. See `core.export`, which these are.

What PyTorch has here for its own compiler (`optimize_for_inference`, fusion strategies) changes nothing: a program is
run op by op, and to run it without Python is `Program.to_c`, `to_onnx` or `numpy`.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union  # noqa: F401, UP035

from .base.absent import absent_class
from .base.errors import text
from .base.signatures import signature
from .export import ExportError, Program
from .export import export as _export
from .export import load as _load
from .export.script import ScriptedModule
from .export.script import script as _script
from .futures import Future
from .tensors.tensor import Tensor

__all__ = ["Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule",
           "TracerWarning", "annotate", "export", "fork", "freeze", "ignore", "interface",
           "is_scripting", "is_tracing", "isinstance",
           "load", "optimize_for_inference", "save", "script", "script_if_tracing", "strict_fusion", "trace",
           "trace_module", "unused", "wait"]  # fmt: skip

# PyTorch's file of the names of types, which stand here
annotations: Any = sys.modules[__name__]  # type: ignore[no-redef]


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
        if name.startswith("__") or not builtins.isinstance(function, ScriptedModule):
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
            self._program, self._args = _export(self._function, self._args), None
        return self._program

    def save(self, f: Any) -> None:
        """Save the program: `core.export.load` and `core.jit.load` read it."""
        self.graph.save(f)


RecursiveScriptModule = ScriptModule = ScriptFunction


def _positional(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return all arguments by position, detached; None where they cannot be given so."""
    bound = signature(function).bind(*args, **kwargs)
    if bound.kwargs:
        return None
    return tuple(x.detach() if builtins.isinstance(x, Tensor) else x for x in bound.args)


def trace(func: Callable[..., Any], example_inputs: Any, **ignored: Any) -> ScriptFunction:
    """Return a function or a module as a program for inputs like these.

    Unlike PyTorch's it refuses, with the line, what a trace would get wrong: branches on values, `item()`, random
    numbers.

    >>> import core
    >>> traced = core.jit.trace(lambda x: x.relu() * 2, core.ones(3))
    >>> traced(core.tensor([-1.0, 0.0, 1.0]))
    tensor([0., 0., 2.])
    """
    args = example_inputs if builtins.isinstance(example_inputs, tuple | list) else (example_inputs,)
    return ScriptFunction(None, _export(func, tuple(args)))


def script(obj: Any, example_inputs: Sequence[Any] | None = None, **ignored: Any) -> Any:
    """Return a function or a module with its control flow over tensors as a program; captured at its first call.

    A class is given back as it is: a program that makes one of it computes with its tensors.

    >>> import core
    >>> @core.jit.script
    ... def sign(x):
    ...     if x.sum() > 0:
    ...         return x
    ...     return -x
    >>> sign(core.tensor([-1.0, -2.0])), sign(core.tensor([1.0, 2.0]))
    (tensor([1., 2.]), tensor([1., 2.]))
    """
    if builtins.isinstance(obj, type):
        return obj
    found = ScriptFunction(_script(obj))
    if example_inputs is not None:
        found(*example_inputs)
    return found


def save(m: Any, f: Any) -> None:
    """Save what `trace` or `script` gave."""
    if not builtins.isinstance(m, ScriptFunction):
        raise TypeError(text("core.jit.save takes what trace or script gave", op="jit.save", came=type(m).__name__,
                             remedy="core.jit.trace(model, (x,))"))  # fmt: skip
    m.save(f)


def load(f: Any, map_location: Any = None) -> ScriptFunction:
    """Return a saved program as a function."""
    return ScriptFunction(None, _load(f))


def ignore(function: Any = None, **ignored: Any) -> Any:
    """Return a function as it is: what is not scripted is run as it stands, and heard by the tape."""
    return function if function is not None else ignore


unused = export = export_method = _overload = _overload_method = _script_method = ignore


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
    return builtins.isinstance(x, ScriptFunction | ScriptedModule)


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


Error = ExportError


class Attribute(NamedTuple):
    """A value and the type that a scripted module would give it."""

    value: Any
    type: Any


class _BroadcastingList:
    """A type for annotations: several values, or one for all of them."""

    def __getitem__(self, types: Any) -> Any:
        return Any


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = _BroadcastingList()
BroadcastingList5 = BroadcastingList6 = BroadcastingList1


class TracerWarning(Warning):
    """What PyTorch warns of in a trace. Here `trace` refuses what it would get wrong."""


CompilationUnit = absent_class("CompilationUnit", __name__, "Functions given as text.", "core.jit.script(function)")


def trace_module(mod: Any, inputs: Mapping[str, Any], **ignored: Any) -> ScriptFunction:
    """Return a module's `forward` as a program for inputs like these.

    *Raises*: NotImplementedError for other methods.

    >>> import core
    >>> core.jit.trace_module(core.nn.ReLU(), {"forward": core.ones(2)})(core.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if list(inputs) != ["forward"]:
        raise NotImplementedError(text("one method is traced: forward", op="jit.trace_module", came=f"{list(inputs)}",
                                       remedy="core.jit.trace(model.method, inputs) for each"))  # fmt: skip
    return trace(mod, inputs["forward"])


def script_if_tracing(fn: Any) -> Any:
    """Return a function as it is: a trace here hears of its branches by itself, and refuses those on values."""
    return fn


def interface(obj: Any) -> Any:
    """Return a class as it is."""
    return obj


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether a value is of a type, of which those of `typing` count by their class: ``List[int]`` as list."""
    many = target_type if type(target_type) is tuple else (target_type,)
    return builtins.isinstance(obj, tuple(typing.cast(type, typing.get_origin(t) or t) for t in many))


def optimize_for_inference(mod: Any, *ignored: Any, **more: Any) -> Any:
    """Return a program as it is: it runs op by op."""
    return mod


def set_fusion_strategy(strategy: Any) -> None:
    """Choose what PyTorch's compiler joins: without effect."""


@contextlib.contextmanager
def strict_fusion(*ignored: Any) -> Iterator[None]:
    """A block whose ops PyTorch's compiler has to join: without effect."""
    yield


_script_if_tracing = script_if_tracing
fuser = optimized_execution = strict_fusion
enable_onednn_fusion = set_fusion_strategy


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call a function, now and in this thread, and return what it gives as a future that is done."""
    done: Future[Any] = Future()
    done.set_result(func(*args, **kwargs))
    return done


def wait(future: Future[Any]) -> Any:
    """Return the value of a future."""
    return future.wait()
