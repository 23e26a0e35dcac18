"""Matrix products by the BLAS that NumPy carries, and who may use its threads.

OpenBLAS divides every product of more than 2^18 multiplications among its threads, which then wait for one another by
spinning. On a machine whose cores are busy that is ruinous: 64×64 by 64×128, 20 µs of work, took 16 ms on two cores
under a load of 6, a step of a small network 60 ms instead of 2. So products too small to gain from it stay on the
calling thread, and large ones keep OpenBLAS's threads. Other BLAS libraries are left as they are.

Large results lie in cached memory, since fresh pages cost more than the arithmetic.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from . import as_rows

SMALL = 1 << 21  # multiplications: 128 cubed, about 40 µs on one core
_CACHED_BYTES = 1 << 16  # from here on memory.c keeps blocks


def _openblas() -> tuple[Callable[[int], Any], int] | None:
    """OpenBLAS's own switch and its number of threads, where NumPy carries it."""
    beside = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs", "libscipy_openblas*")
    for path in glob.glob(beside):
        try:
            library = ctypes.PyDLL(path)  # already loaded: the very one NumPy calls
            switch, count = library.scipy_openblas_set_num_threads64_, library.scipy_openblas_get_num_threads64_
        except (OSError, AttributeError):
            continue
        switch.argtypes, switch.restype = [ctypes.c_int], None
        return switch, int(count())
    return None


_found = _openblas()
_set_threads, threads = _found if _found is not None else (None, 1)


def product(a: Any, b: Any) -> Any:
    """``a @ b`` of float32 or float64 matrices or stacks of them."""
    with np.errstate(all="ignore"):  # infinities are values, here as everywhere
        return _product(a, b)


def _product(a: Any, b: Any) -> Any:
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    out = None
    if rows * columns * a.itemsize >= _CACHED_BYTES and native.module is not None:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else ()
        out = native.module.empty((*lead, rows, columns), a.dtype)
    if _set_threads is None or threads == 1 or rows * inner * columns > SMALL:
        return np.matmul(a, b, out=out)
    _set_threads(1)
    try:
        return np.matmul(a, b, out=out)
    finally:
        _set_threads(threads)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """``x @ weight.T + bias`` for rows x of any leading shape."""
    with np.errstate(all="ignore"):
        y = _product(as_rows(x), weight.T)
        if bias is not None:
            y += bias
    return y.reshape(*x.shape[:-1], weight.shape[0])


def linear_backward(g: Any, weight: Any, x: Any, needs: Any) -> Any:
    """The gradients of x, weight and bias."""
    rows = as_rows(g)
    return (
        product(rows, weight).reshape(*g.shape[:-1], weight.shape[1]) if needs[0] else None,
        product(rows.T, as_rows(x)) if needs[1] else None,
        native.module.sum(rows, (0,), False) if needs[2] else None,  # type: ignore[union-attr]
    )


def matmul_backward(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> Any:
    """The gradients of both factors."""
    return (
        product(g, b.swapaxes(-1, -2)) if needs[0] else None,
        product(a.swapaxes(-1, -2), g) if needs[1] else None,
    )
