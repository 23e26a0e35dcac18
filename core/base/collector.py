"""Python's collector of garbage, for a while without its work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Leave cycles uncollected in the block, where much is made and nothing let go of.

    What was made counts as old afterwards: the next collection of young objects does not look through all of it.

    >>> import gc
    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not gc.get_freeze_count():  # what a program has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
