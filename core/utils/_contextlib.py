"""Blocks that are decorators too, under PyTorch's path ``utils._contextlib``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Any) -> Any:
    """Return a function whose every call is within a block; of a generator every step.

    ctx : a block, or what makes one for each call.
    """
    make: Callable[[], Any] = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            generator, given = func(*args, **kwargs), None
            while True:
                try:
                    with make():
                        found = generator.send(given)
                except StopIteration as end:
                    return end.value
                given = yield found

        return stepped

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return called


class _DecoratorContextManager:
    """A block that decorates functions: each call is within a `clone` of it."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Self:
        """Return another one like it."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A block that decorates with or without brackets."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
