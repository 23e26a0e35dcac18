"""Whether operations are recorded, for each thread: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import native


class _State(threading.local):
    enabled = True
    inference = False
    phase = "forward"  # what ops that run now belong to; the engine and the optimizers set it
    batch: Any = None  # what runs ops over batches, while a vmap runs; core.func sets it
    muted = False  # whether observers hear nothing of what runs now: it is part of something that they are told of
    task: Any = None  # the backward pass that is running, as the engine knows it


state = _State()


def is_grad_enabled() -> bool:
    """Return whether operations are being recorded in this thread."""
    return state.enabled


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in an `inference_mode` block.

    >>> import core
    >>> with core.inference_mode():
    ...     core.is_inference_mode_enabled()
    True
    """
    return state.inference


class _Block:
    """A grad mode as a context manager. native/binding/types/uninterrupted.c has the same for Ctrl-C not to come
    between: Python hears a signal where an `__exit__` of its own begins, before anything was set back."""

    _to = True
    _outer: bool | None = None
    _inference: bool | None = None

    def _set(self, to: bool, outer: bool | None, inference: bool | None) -> None:
        self._to, self._outer, self._inference = to, outer, inference

    def __enter__(self) -> None:
        open_ = self.__dict__.setdefault("_before", [])
        open_.append((state.enabled if self._outer is None else self._outer, state.inference))
        state.enabled = self._to
        if self._inference is not None:
            state.inference = self._inference

    def __exit__(self, *exc: object) -> None:
        state.enabled, inference = self.__dict__["_before"].pop()
        if self._inference is not None:
            state.inference = inference


if TYPE_CHECKING or native.module is None:
    _Base = _Block
else:
    native.module.connect_mode(state)
    _Base = native.module.ModeBase


class _Mode(_Base):
    """A grad mode as a context manager and as a decorator (of generators too, which keep it while they run)."""

    def clone(self) -> _Mode:
        return type(self)()

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(f):

            @functools.wraps(f)
            def generator(*args: Any, **kwargs: Any) -> Any:
                inner, sent, error = f(*args, **kwargs), None, None
                while True:
                    with self.clone():
                        try:
                            item = inner.throw(error) if error is not None else inner.send(sent)
                        except StopIteration as stop:
                            return stop.value
                    sent = error = None
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self.clone():
                            inner.close()
                        raise
                    except BaseException as e:
                        error = e

            return generator

        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return f(*args, **kwargs)

        return wrapper


class no_grad(_Mode):
    """Operations in the block (or the decorated function) are not recorded.

    >>> import core
    >>> w = core.ones(2, requires_grad=True)
    >>> with core.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    _records = False

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        self._set(cls._records, None, None)
        return self if orig_func is None else self(orig_func)  # `@no_grad` without brackets

    def __init__(self, orig_func: Callable[..., Any] | None = None) -> None:
        super().__init__()


class enable_grad(no_grad):
    """Operations in the block are recorded, whatever stands around it."""

    _records = True


class inference_mode(no_grad):
    """As `no_grad`; the results carry no history."""

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        return super().__new__(cls, mode if callable(mode) else None)

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        super().__init__()
        on = mode if isinstance(mode, bool) else True
        self._set(not on, None, on)

    def clone(self) -> _Mode:
        return inference_mode(not self._to)


class set_grad_enabled(_Mode):
    """Set the mode at once; as a context manager, set it back at the end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._outer: bool = state.enabled
        self._set(bool(mode), self._outer, None)
        state.enabled = bool(mode)

    def clone(self) -> _Mode:
        outer = state.enabled
        mode = set_grad_enabled(self._to)
        state.enabled = outer
        mode._outer = outer
        mode._set(self._to, outer, None)
        return mode

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        state.enabled = self._outer
        return super().__call__(f)
