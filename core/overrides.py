"""Functions that classes with ``__torch_function__`` are asked about, under PyTorch's path ``torch.overrides``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .base.absent import absent_class
from .dispatch.publish import namespaces
from .tensors.tensor import Tensor

__all__ = ["get_ignored_functions", "get_overridable_functions", "handle_torch_function", "has_torch_function",
           "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function"]  # fmt: skip


def _overrides(x: Any) -> bool:
    """Return whether a value's class has a ``__torch_function__`` of its own."""
    found = getattr(type(x), "__torch_function__", None)
    return found is not None and getattr(found, "__func__", found) is not _default


_default: Any = getattr(getattr(Tensor, "__torch_function__", None), "__func__", None)


def is_tensor_like(inp: Any) -> bool:
    """Return whether a value is a tensor or has a ``__torch_function__``.

    >>> import core
    >>> core.overrides.is_tensor_like(core.ones(1)), core.overrides.is_tensor_like(1)
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether one of the values has a ``__torch_function__`` of its own."""
    return any(_overrides(x) for x in relevant_args)


def has_torch_function_unary(x: Any) -> bool:
    """Return whether a value has a ``__torch_function__`` of its own."""
    return _overrides(x)


has_torch_function_variadic = lambda *args: has_torch_function(args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:  # fmt: skip
    """Ask the values' classes, those of subclasses first, to do what a function would.

    *Raises*: TypeError where all of them decline.
    """
    asked: list[Any] = []
    for x in relevant_args:
        if _overrides(x) and type(x) not in map(type, asked):
            places = [k for k, y in enumerate(asked) if issubclass(type(x), type(y))]
            asked.insert(places[0] if places else len(asked), x)
    types = tuple(map(type, asked))
    for x in asked:
        found = type(x).__torch_function__(public_api, types, args, kwargs)
        if found is not NotImplemented:
            return found
    raise TypeError(f"no implementation found for '{resolve_name(public_api)}' on types that implement "
                    f"__torch_function__: {list(types)}")  # fmt: skip


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


TorchFunctionMode = BaseTorchFunctionMode = absent_class(
    "TorchFunctionMode", __name__, "A block that is asked before every function.",
    "a class with __torch_function__ is asked for its own values")  # fmt: skip
