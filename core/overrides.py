"""Functions that classes with ``__torch_function__`` are asked about, under PyTorch's path ``torch.overrides``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .dispatch.publish import namespaces
from .tensors import overriding
from .tensors.overriding import overrides
from .tensors.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


def is_tensor_like(inp: Any) -> bool:
    """Return whether a value is a tensor or has a ``__torch_function__``.

    >>> import core
    >>> core.overrides.is_tensor_like(core.ones(1)), core.overrides.is_tensor_like(1)
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether one of the values has a ``__torch_function__`` of its own."""
    return any(overrides(x) for x in relevant_args)


def has_torch_function_unary(x: Any) -> bool:
    """Return whether a value has a ``__torch_function__`` of its own."""
    return overrides(x)


has_torch_function_variadic = lambda *args: has_torch_function(args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:  # fmt: skip
    """Ask the values' classes, those of subclasses first, to do what a function would.

    *Raises*: TypeError where all of them decline.
    """
    found = overriding.relevant(tuple(relevant_args), {})
    if not found:
        raise TypeError(f"no implementation found for '{resolve_name(public_api)}': no argument's class has a "
                        "__torch_function__")  # fmt: skip
    return overriding.asked(public_api, found, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Return a decorator: a function that asks the classes of the values that `dispatcher` names first."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        wrapped.__name__, wrapped.__doc__ = func.__name__, func.__doc__
        return wrapped

    return decorate


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions of core by where they stand: those that ops are called by."""
    methods: list[Callable[..., Any]] = [f for _, f in inspect.getmembers(Tensor) if inspect.isfunction(f)]
    return {**{name or "core": list(found.values()) for name, found in namespaces.items()}, Tensor: methods}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the functions that ask no class: none is listed."""
    return set()


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function is a method of Tensor."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return how a function is called: ``core.add``."""
    return f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', '')}".strip(".") or None


class TorchFunctionMode:
    """A block in which `__torch_function__` is asked before every function, with the types of arguments that are asked
    besides; within it the mode outside of this one is.

    >>> import core
    >>> class Names(core.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **kwargs or {})
    >>> with Names():
    ...     x = core.ones(2) * 3
    ones
    mul
    """

    def __torch_function__(self, func: Callable[..., Any], types: Iterable[type], args: Any = (),
                           kwargs: Any = None) -> Any:  # fmt: skip
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__")

    def __enter__(self) -> Any:
        overriding.state.modes.append(self)
        overriding.activate(1)
        return self

    def __exit__(self, *raised: object) -> None:
        overriding.state.modes.pop()
        overriding.activate(-1)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode made of these arguments, to be entered: an older way to write it."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that computes as ever."""

    def __torch_function__(self, func: Callable[..., Any], types: Iterable[type], args: Any = (),
                           kwargs: Any = None) -> Any:  # fmt: skip
        return func(*args, **kwargs or {})


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose tensors a subclass gets as they are: ``x.grad``."""
    return overriding.as_they_are
