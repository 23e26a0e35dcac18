"""The CPU's kernels of decompositions of small matrices (native/kernels/dense.c); larger ones, and what these
leave, are NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

from ..declare.kernel import kernel

_SMALL = ("x.size", "n <= DENSE_MOST")
_TURNED = ("m <= DENSE_MOST", "n <= DENSE_MOST", "m <= JACOBI_MOST or n <= JACOBI_MOST")


def _declared(name: str, arguments: str, **more: Any) -> None:
    kernel(name, arguments, quiet="x.size >= 1024", fails="declines", misfit=True, half=False, **more)


_declared(
    "cholesky",
    "x: real[*batch, m, n], mirror: text",
    gives="y: real[*batch, m, n]",
    call="dense_cholesky.T(x, y, batch, n, mirror)",
    takes=("m == n", *_SMALL),
)
_declared(
    "qr",
    "x: real[*batch, m, n], mode: text",
    gives="q: real[*batch, m, n], r: real[*batch, n, n]",
    call="dense_qr.T(x, q, r, batch, m, n, mode)",
    takes=(*_SMALL, "n <= m <= DENSE_MOST"),
)
kernel(
    "lstsq",
    "a: real[*batch, m, n], b: real[*batch, m, k], rtol: any_object",
    gives="y: real[*batch, n, k]",
    call="dense_lstsq.T(a, b, y, batch, m, n, k)",
    takes=("rtol is None", "0 < n <= m <= DENSE_MOST"),
    fails="declines",
    misfit=True,
    half=False,
)
_declared(
    "eigh",
    "x: real[*batch, m, n], mirror: text",
    gives="values: real[*batch, n], vectors: real[*batch, n, n]",
    call="dense_eigh.T(x, values, vectors, batch, n, mirror)",
    takes=("m == n", *_SMALL),
)
_declared(
    "svd",
    "x: real[*batch, m, n], full_matrices: flag",
    gives="u: real[*batch, m, dense_few(m, n)], s: real[*batch, dense_few(m, n)], vh: real[*batch, dense_few(m, n), n]",
    call="dense_svd.T(x, u, s, vh, batch, m, n)",
    takes=("x.size", "not full_matrices or m == n", *_TURNED),
)
_declared(
    "pinv",
    "x: real[*batch, m, n], atol: any_object, rtol: any_object, hermitian: flag",
    gives="y: real[*batch, n, m]",
    call="dense_pinv.T(x, y, batch, m, n)",
    takes=("x.size", "not hermitian", "atol is None", "rtol is None", *_TURNED),
)
kernel(
    "solve_triangular",
    "a: real[*batch, m, n], b: real[*batch, n, k], upper: flag, unitriangular: flag",
    gives="y: real[*batch, n, k]",
    call="dense_triangular.T(a, b, y, batch, n, k, upper, unitriangular)",
    takes=("m == n", "n <= TRIANGLE_MOST"),
    misfit=True,
    half=False,
)
