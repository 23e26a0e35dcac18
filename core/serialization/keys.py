"""What may be a key of a dict, or a member of a set, in a file that is not trusted.

A tuple of tuples that share each other is small in memory and takes for ever to hash; whole numbers above 2**61 can be
chosen so that all of them have one hash.
"""

from __future__ import annotations

from typing import Any

from ..base.device import device
from ..base.dtypes import dtype
from .source import broken

_PLAIN = (str, bytes, bool, float, type(None), dtype, device)


def checked(key: Any) -> Any:
    """Return the key itself. *Raises*: LoadError."""
    if type(key) is str:
        return key
    left, todo = 100, [key]
    while todo:
        x = todo.pop()
        left -= 1
        if left < 0:
            raise broken("a key of a dict has more than 100 parts")
        if isinstance(x, tuple | frozenset):
            if len(x) > left:
                raise broken("a key of a dict has more than 100 parts")
            todo += x
        elif not isinstance(x, _PLAIN) and not (type(x) is int and abs(x) < 2**60):
            raise broken(f"a {type(x).__name__} is a key of a dict, or a member of a set")
    return key
