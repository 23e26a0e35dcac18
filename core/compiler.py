"""PyTorch's names for its compiler, which is not here: what is compiled runs as it is, op by op.

`compile` gives a function back, and a module behind PyTorch's `OptimizedModule`; nothing is traced, so marks for the
tracing (`disable`, `allow_in_graph`) change nothing. To run a model without Python there is `core.export`.

>>> import core
>>> core.compile(lambda x: x * 2)(core.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .base.errors import text
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

    def __init__(self, mod: Module, *ignored: Any) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._orig_mod(*args, **kwargs)

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
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
            **ignored: Any) -> Any:  # fmt: skip
    """Return a function as it is, and a module behind `OptimizedModule`: nothing is compiled, whatever is asked for.

    Without a function it is a decorator.

    *Raises*: RuntimeError where a mode and options are both given, or for an unknown mode; TypeError for what cannot be
    called.
    """
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 disable=disable)  # fmt: skip
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode not in MODES:
        raise RuntimeError(text(f"Unrecognized mode={mode}", op="compile", needed=f"one of {MODES[1:]}"))
    if not callable(model):
        raise TypeError(text("a function or a module is compiled", op="compile", came=type(model).__name__))
    return OptimizedModule(model) if isinstance(model, Module) and not disable else model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function as it is; without one, a decorator. Nothing is traced that could be told to stay out."""
    return _same if fn is None else fn


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
    """Return False: what runs is the program itself."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Forget what was compiled: nothing."""


def cudagraph_mark_step_begin() -> None:
    """Tell where a step begins, which nothing here needs to know."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of compilers: there is none."""
    return []


@contextlib.contextmanager
def _stance(name: str) -> Iterator[None]:
    yield


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """Choose what is compiled: without effect; it may stand in a ``with``.

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
    return _stance(stance)
