"""Values that come later, by PyTorch's names: `Future`, `collect_all`, `wait_all`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value that some thread sets, and for which others wait.

    >>> import core
    >>> f = core.futures.Future()
    >>> g = f.then(lambda done: done.value() + 1)
    >>> f.set_result(1)
    >>> g.wait()
    2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._changed, self._done = threading.Condition(), False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Return whether it has a value or an error."""
        return self._done

    def wait(self) -> T:
        """Return the value once it is there. *Raises*: the error that was set instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """Return the value. *Raises*: RuntimeError before it is there; the error that was set instead."""
        if not self._done:
            raise RuntimeError("the future has no value yet\n  op: Future.value; remedy: wait()")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError("Future can only be set once")
            self._value, self._error, self._done = value, error, True
            self._changed.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result: T) -> None:
        """Set the value. *Raises*: RuntimeError the second time."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future once it is done."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """Return a future of what a function gives for this one."""
        made: Future[Any] = Future()

        def run(done: Future[T]) -> None:
            try:
                found = callback(done)
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(found)

        self.add_done_callback(run)
        return made


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of all futures, which is done when each of them is."""
    made: Future[list[Future[Any]]] = Future()
    many, lock, left = list(futures), threading.Lock(), [len(futures)]

    def one(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            made.set_result(many)

    if not many:
        made.set_result(many)
    for f in many:
        f.add_done_callback(one)
    return made


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Return the values of all futures once they are there."""
    return [f.value() for f in collect_all(futures).wait()]
