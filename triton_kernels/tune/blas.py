"""One thread for what a strategy computes.

OpenBLAS, which NumPy carries, divides every product of more than 2^18 multiplications among threads that wait for one
another by spinning. A suggestion is many such products: 2 ms by one thread, and 33 ms by two where other work keeps the
processors busy, as the kernels do that are being measured; and those wait for processors on which nothing but waiting
is done.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Switch = tuple[Callable[[int], Any], Callable[[], int]]


def _openblas() -> Switch | None:
    """OpenBLAS's own switch and its number of threads, where NumPy carries it."""
    for path in (Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas*"):
        try:
            library = ctypes.PyDLL(str(path))  # already loaded: the very one NumPy calls
            switch, count = library.scipy_openblas_set_num_threads64_, library.scipy_openblas_get_num_threads64_
        except (OSError, AttributeError):
            continue
        switch.argtypes, switch.restype = [ctypes.c_int], None
        return switch, count
    return None


_found = _openblas()
_lock = threading.Lock()
_inside, _before = 0, 1  # of how many threads of ours it holds at the moment, and what it was before the first


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy's products run on the calling thread, where NumPy carries OpenBLAS; also a decorator.

    >>> with one_thread():
    ...     float(np.ones((2, 3)) @ np.ones(3) @ np.ones(2))
    6.0
    """
    global _inside, _before
    if _found is None:
        yield
        return
    switch, count = _found
    with _lock:
        if not _inside:
            _before = int(count())
            switch(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                switch(_before)
