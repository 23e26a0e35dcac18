"""Matrix products of float32 and float64: core's own C kernel, and NumPy's BLAS for products with a vector.

The C kernel (native/kernels/gemm.c) runs on the C kernels' own threads. Measured on one core of a Zen 5, float32,
squares of 64 to 2048 and the shapes of small networks: 0.44 to 0.64 of the time of the OpenBLAS that NumPy carries,
0.41 to 0.57 of PyTorch 2.13's MKL. And OpenBLAS divides every product of more than 2^18 multiplications among threads
that wait for one another by spinning: on a machine whose cores are busy, 20 us of work took 16 ms. A product with a
vector moves bytes and little else; there OpenBLAS stays, on the calling thread while it is small.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..declare.kernel import kernel
from . import as_matrix

SMALL = 1 << 21  # multiplications: 128 cubed
_FEW = 2  # rows, or columns: fewer are a vector's
_QUICK = 4096  # multiplications up to which calling BLAS costs more than they do


def _openblas() -> tuple[Callable[[int], Any], int] | None:
    """OpenBLAS's own switch and its number of threads, where NumPy carries it."""
    beside = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for name in os.listdir(beside) if os.path.isdir(beside) else ():
        if not name.startswith("libscipy_openblas"):
            continue
        try:
            library = ctypes.PyDLL(os.path.join(beside, name))  # already loaded: the very one NumPy calls
            switch, count = library.scipy_openblas_set_num_threads64_, library.scipy_openblas_get_num_threads64_
        except (OSError, AttributeError):
            continue
        switch.argtypes, switch.restype = [ctypes.c_int], None
        return switch, int(count())
    return None


_found = _openblas()
_set_threads, _threads = _found if _found is not None else (None, 1)


def product(a: Any, b: Any, bias: Any = None) -> Any:
    """``a @ b``, plus a bias for each column, of float32 or float64 matrices or stacks of them."""
    if native.module is not None and a.dtype == b.dtype and _is_ours(a, b):
        return native.module.kernels["gemm"](a, b, bias)
    with np.errstate(all="ignore"):  # infinities are values, here as everywhere
        # a column by a row is no sum, and BLAS takes four times as long for it
        y = np.multiply(a, b, order="C") if a.shape[-1] == 1 else _by_blas(a, b)
        if bias is not None:
            y += bias
    return y


def _is_ours(a: Any, b: Any) -> bool:
    return (a.shape[-2] >= _FEW and b.shape[-1] >= _FEW) or a.size * b.shape[-1] <= _QUICK  # type: ignore[no-any-return]


def _by_blas(a: Any, b: Any) -> Any:
    if _set_threads is None or _threads == 1 or a.shape[-2] * a.shape[-1] * b.shape[-1] > SMALL:
        return np.matmul(a, b)
    _set_threads(1)
    try:
        return np.matmul(a, b)
    finally:
        _set_threads(_threads)


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """``x @ weight.T + bias`` for rows x of any leading shape."""
    return product(as_matrix(x), weight.T, bias).reshape(*x.shape[:-1], weight.shape[0])


def linear_backward(g: Any, weight: Any, x: Any, needs: Any) -> Any:
    """Return the gradients of x, weight and bias."""
    rows = as_matrix(g)
    return (
        product(rows, weight).reshape(*g.shape[:-1], weight.shape[1]) if needs[0] else None,
        product(rows.T, as_matrix(x)) if needs[1] else None,
        native.module.entries["sum"](rows, (0,), False) if needs[2] else None,  # type: ignore[union-attr]
    )


def matmul_backward(g: Any, b: Any, a_shape: Any, a: Any, b_shape: Any, needs: Any) -> Any:
    """Return the gradients of both factors."""
    return (
        product(g, b.swapaxes(-1, -2)) if needs[0] else None,
        product(a.swapaxes(-1, -2), g) if needs[1] else None,
    )


# -- the C kernel ------------------------------------------------------------------------------------------------------


def _stretched(g: Any, a_shape: Any, b_shape: Any, **_: Any) -> str | None:
    stretched = any(s is not None and s[:-2] != g.shape[:-2] for s in (a_shape, b_shape))
    return "takes no stacks that broadcast" if stretched else None


_PLAN = "gemm_plan: gemm_planned(address(plan), {}.view, 0, {}.view, {})"
_MANY = "plan.work > 65536"
kernel(
    "gemm",
    "a: real[...] strided, b: real[...] strided, bias: real[...]?",
    plan=_PLAN.format("a", "b", 0),
    gives="y: real[plan]",
    call="gemm_stack.T(address(plan), bias, y)",
    fails="memory",
    quiet=_MANY,
    takes=("b.ndim > 1", "bias is None or (bias.ndim == 1 and bias.shape[0] == b.shape[-1])"),
    run=False,
)
kernel(
    "matmul",
    "a: real[...] strided, b: real[...] strided",
    plan=_PLAN.format("a", "b", 0),
    gives="y: real[plan]",
    call="gemm_stack.T(address(plan), None, y)",
    fails="memory",
    quiet=_MANY,
    takes=("a.ndim > 1 and b.ndim > 1",
           f"(a.shape[-2] >= {_FEW} and b.shape[-1] >= {_FEW}) or a.size * b.shape[-1] <= {_QUICK}"),
    run=product,
    row="gemm",
)  # fmt: skip
kernel(
    "matmul.backward",
    "g: real[*stack, m, n] strided, b: real[...]? strided, a_shape: shape[...]?, a: real[...]? strided, "
    "b_shape: shape[...]?, needs: needs",
    gives="ga: real[*stack, m, b.shape[-2]] if needs[0], gb: real[*stack, a.shape[-1], n] if needs[1]",
    call="matmul_backward.T(g.view, a.view, b.view, ga, gb)",
    fails="memory",
    quiet="(stack * m * n * b.shape[-2] if needs[0] else stack * m * n * a.shape[-1]) > 65536",
    takes=("needs[0] or needs[1]", "not needs[0] or b.ndim > 1", "not needs[1] or a.ndim > 1",
           "a_shape is None or (a_shape.ndim == g.ndim and same_sizes(a_shape.shape, g.shape, g.ndim - 2))",
           "b_shape is None or (b_shape.ndim == g.ndim and same_sizes(b_shape.shape, g.shape, g.ndim - 2))",
           f"not needs[0] or (m >= {_FEW} and b.shape[-2] >= {_FEW}) or g.size * b.shape[-2] <= {_QUICK}",
           f"not needs[1] or (a.shape[-1] >= {_FEW} and n >= {_FEW}) or"
           f" g.size * (b.shape[-2] if needs[0] else a.shape[-1]) <= {_QUICK}"),
    run=matmul_backward,
    say=_stretched,
    row="gemm_backward",
)  # fmt: skip


def _matrix(x: str) -> str:
    """The condition that an array is a matrix, or rows that lie below one another, of two rows and columns or more."""
    return (f"({x}.ndim > 1 and ({x}.ndim == 2 or {x}.whole) and {x}.shape[-1] >= {_FEW}"
            f" and {x}.size // {x}.shape[-1] >= {_FEW})")  # fmt: skip


kernel(
    "linear",
    "x: real[*rows, k] strided, weight: real[n, k] strided, bias: real[n]?",
    plan=_PLAN.format("x", "weight", 1),
    gives="y: real[*rows, n]",
    call="gemm_stack.T(address(plan), bias, y)",
    fails="memory",
    quiet=_MANY,
    misfit=True,
    takes=(_matrix("x"), f"n >= {_FEW}"),
    run=linear,
)
kernel(
    "linear.backward",
    "g: real[*rows, n] dense, weight: real[...]? strided, x: real[...]? strided, needs: needs",
    gives="gx: real[*rows, weight.shape[-1]] if needs[0], gw: real[n, x.shape[-1]] if needs[1], "
    "gb: real[n] if needs[2]",
    call="linear_backward.T(g.view, weight.view, x.view, gx, gw, gb)",
    fails="memory",
    quiet="g.size * (weight.shape[-1] if needs[0] else x.shape[-1] if needs[1] else 1) > 65536",
    takes=(_matrix("g"), f"not needs[0] or (weight.ndim == 2 and weight.shape[-1] >= {_FEW})",
           f"not needs[1] or {_matrix('x')}"),
    run=linear_backward,
)  # fmt: skip
