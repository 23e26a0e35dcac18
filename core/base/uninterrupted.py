"""`Around`: a context whose end Ctrl-C cannot leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import native


class _Around:
    """Without the extension a signal that is heard as `__exit__` begins still comes before its first line."""

    def _leave(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise


if TYPE_CHECKING or native.module is None:
    _Base = _Around
else:
    _Base = native.module.AroundBase


class Around(_Base):
    """A context manager that ends in `_leave`, which must bear a second call after one that was interrupted.

    Python hears a signal where a function of its own begins, so that an `__exit__` in Python may raise before it has
    set anything back. Here it is C's (native/binding/types/uninterrupted.c): what `_leave` raises comes out after
    `_leave` was called again. What a subclass's `__enter__` has changed when it is interrupted itself, it must take
    back.
    """

    def _leave(self) -> None:
        raise NotImplementedError
