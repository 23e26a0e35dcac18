"""Functions and modules compiled: recorded at a first call, and run as fused loops from then on, under PyTorch's names.

`compile` gives a function that does what the given one does. What it cannot replay exactly (decisions by values, random
numbers, what the code does besides computing) runs as it is, and `explain()` says why, with the line.

>>> import core
>>> f = core.compile(lambda x: core.tanh(x) * 2 + 1)
>>> f(core.zeros(2))
tensor([1., 1.])
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .base.errors import text
from .compiled import stance as stances
from .compiled.function import Compiled, everything
from .nn.modules.module import Module
from .ops.creation import as_tensor

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin",
           "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
           "nested_compile_region", "reset", "set_stance", "substitute_in_graph", "wrap_numpy"]  # fmt: skip

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class OptimizedModule(Module):
    """What `compile` gives for a module: it calls it, and its keys begin with ``_orig_mod.`` as PyTorch's do.

    >>> import core
    >>> list(core.compile(core.nn.Linear(1, 1)).state_dict())
    ['_orig_mod.weight', '_orig_mod.bias']
    """

    def __init__(self, mod: Module, compiled: Any = None) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_compiled"] = compiled if isinstance(compiled, Compiled) else mod
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def explain(self) -> Any:
        """Return what was compiled, and why what was not was not."""
        return self.__dict__["_compiled"].explain()

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules[name]
        return getattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orig_mod)  # type: ignore[call-overload, no-any-return]

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]  # type: ignore[index]


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "inductor",
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False, check: int = 0,
            **ignored: Any) -> Any:  # fmt: skip
    """Return a function, or a module, that does what the given one does, by fused loops where that is faster.

    The first call of each kind (shapes, dtypes, strides, Python numbers, modes) runs as it is and is recorded: what
    stands between products, convolutions and the like becomes loops in C, which are compiled in the background, and so
    do the gradients. The first replays are compared with the function itself and timed beside it: what gives something
    else or is no faster stays as it was. What it reads besides its arguments (globals, attributes, weights) is checked
    at every call. More than 8 kinds of calls run eagerly.

    fullgraph : whether a call that cannot be compiled raises, with the reason, where it would run eagerly.
    backend : ``"eager"`` compiles nothing. Other names, `mode`, `dynamic`, `options` are accepted and change nothing.
    check : so many of the first replays are compared with the function, and loops are compiled before it returns.

    The result has `explain()`, whose text says what became one loop and why something was not compiled. Without a
    function this is a decorator.

    *Raises*: RuntimeError where a mode and options are both given, or for an unknown mode; TypeError for what cannot be
    called.

    >>> import core
    >>> @core.compile
    ... def gelu(x):
    ...     return 0.5 * x * (1 + core.erf(x / 2**0.5))
    >>> gelu(core.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 disable=disable, check=check)  # fmt: skip
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode not in MODES:
        raise RuntimeError(text(f"Unrecognized mode={mode}", op="compile", needed=f"one of {MODES[1:]}"))
    if not callable(model):
        raise TypeError(text("a function or a module is compiled", op="compile", came=type(model).__name__))
    if disable:
        return model
    compiled = model if backend == "eager" or isinstance(model, Compiled) else Compiled(model, check, fullgraph)
    return OptimizedModule(model, compiled) if isinstance(model, Module) else compiled


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that runs as it is, and whatever it calls; without one, a decorator.

    A compiled function that calls it runs eagerly.
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if isinstance(fn, Compiled):
        fn = fn.function
    if not recursive or isinstance(fn, Module | type):
        return fn

    @functools.wraps(fn)
    def as_it_is(*args: Any, **kwargs: Any) -> Any:
        with stances.disabled():
            return fn(*args, **kwargs)

    as_it_is.compile_disabled = True  # type: ignore[attr-defined]
    return as_it_is


def _same(fn: Any) -> Any:
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Return a function (or functions) as it is: nothing is traced."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return a function as it is: nothing is traced."""
    return fn


def substitute_in_graph(original_fn: Any, **ignored: Any) -> Callable[[Any], Any]:
    """Return a decorator that leaves its function as it is: nothing is traced."""
    return _same


def nested_compile_region(fn: Any = None, **ignored: Any) -> Any:
    """Return a function as it is: nothing is compiled."""
    return disable(fn)


def wrap_numpy(fn: Any) -> Any:
    """Return a function on NumPy arrays as one on tensors, which does not follow gradients through it.

    >>> import core, numpy as np
    >>> core.compiler.wrap_numpy(np.cumsum)(core.ones(3))
    tensor([1., 2., 3.])
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = [a.detach().numpy() if hasattr(a, "detach") else a for a in args]
        return _tensors_from(fn(*given, **kwargs))

    return wrapped


def _tensors_from(found: Any) -> Any:
    if isinstance(found, tuple | list):
        return type(found)(map(_tensors_from, found))
    return as_tensor(np.ascontiguousarray(found)) if isinstance(found, np.ndarray) else found


def is_compiling() -> bool:
    """Return whether this thread records a call that is to be compiled."""
    return stances.is_inside()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Return False: what is exported is run as it is."""
    return False


def reset() -> None:
    """Forget all that was compiled in this process; what lies in the cache on disk stays."""
    for compiled in list(everything):
        compiled.reset()


def cudagraph_mark_step_begin() -> None:
    """Tell where a step begins, which nothing here needs to know."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of compilers: there is one, that of fused loops in C, under the name of PyTorch's."""
    return ["inductor"]


@contextlib.contextmanager
def _stance(before: str) -> Iterator[None]:
    try:
        yield
    finally:
        stances.choose(before)


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """Choose what is compiled, at once; in a ``with``, for the length of the block.

    stance : ``"force_eager"`` runs all functions as they are; ``"eager_on_recompile"`` those whose shapes or values are
        new; ``"fail_on_recompile"`` raises there. The others are as ``"default"``.

    *Raises*: RuntimeError for an unknown stance.
    """
    known = (
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    )
    if stance not in known:
        raise RuntimeError(text(f"invalid torch.compile stance {stance!r}", op="compiler.set_stance",
                                needed=f"one of {known}"))  # fmt: skip
    return _stance(stances.choose(stance))
