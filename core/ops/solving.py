"""Solving linear systems: solve, triangular solves, inverses, determinants. NumPy's LAPACK is the engine.

Gradients: M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), section 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from .. import return_types
from ..base import dtypes
from ..base.errors import text
from ..base.shape import broadcast_shapes
from ..declare.signature import Fast, register
from ..dispatch.autocast import public_function
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import namespaces, public
from ..return_types import return_type
from ..tensors.tensor import Tensor, from_array
from . import creation
from .linalg import matmul
from .precision import rounded, wide
from .where import where

namespaces.setdefault("linalg", {})


class LinAlgError(RuntimeError):
    """A matrix that cannot be factored or inverted, as PyTorch's ``torch.linalg.LinAlgError``."""


def linalg(function: Any, *, fast: Sequence[Fast] = (), home: str = "", python: bool = False) -> Any:
    """Decorator: make a function public in `core.linalg`, with ``out=``.

    fast : the plain calls that C takes. python : whether PyTorch takes no other spelling of the names.
    """

    @wraps(function)
    def with_out(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        if out is None:
            return y
        if isinstance(y, tuple):
            return type(y)(*(into(o, t, function.__name__) for o, t in zip(out, y, strict=True)))
        return into(out, y, function.__name__)

    name, key = function.__name__, None
    if fast:
        key = register(with_out, name, namespace="linalg", method=False, python=python, fast=fast, home=home).key
    known = namespaces["linalg"][name] = public_function(with_out, name, key)
    return known


def square_matrices(name: str) -> str:
    """Return the condition in C that an array holds square matrices."""
    last = f"PyArray_NDIM({{{name}}})"
    return f"{last} >= 2 && PyArray_DIM({{{name}}}, {last} - 1) == PyArray_DIM({{{name}}}, {last} - 2)"


def check(op: str, x: Any, *, name: str = "A", square: bool = False, ndim: int = 2) -> None:
    """Refuse what is no stack of floating-point matrices (or square ones)."""
    if not isinstance(x, Tensor):
        raise TypeError(f"linalg_{op}(): argument '{name}' (position 1) must be Tensor, not {type(x).__name__}")
    shape = tuple(x._a.shape)
    full = op if op == "logdet" else f"linalg.{op}"
    if x.ndim < ndim:
        raise RuntimeError(text(f"{full}: The input tensor {name} must have at least {ndim} dimensions.",
                                op=full, came=f"shape {shape}"))  # fmt: skip
    if square and shape[-1] != shape[-2]:
        raise RuntimeError(
            text(f"{full}: {name} must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} "
                 "matrices", op=full, came=f"shape {shape}", remedy="linalg.lstsq or pinv take any shape")
        )  # fmt: skip
    if x.dtype.category < 2:
        raise RuntimeError(text(f"{full}: Expected a floating point or complex tensor as input. Got "
                                f"{x.dtype.scalar_type}", op=full, remedy="x.float()"))  # fmt: skip
    if x.dtype.itemsize == 2:
        raise RuntimeError(text(f"{full}: Low precision dtypes not supported. Got {x.dtype.scalar_type}",
                                op=full, remedy="x.float()"))  # fmt: skip


def host(a: Any) -> Any:
    """Return an array as NumPy's."""
    return a if isinstance(a, np.ndarray) else a.get()


def constant(values: Any, device: Any) -> Tensor:
    """NumPy values as a tensor on a device."""
    t = from_array(values)
    return t if device.type == "cpu" else t.to(device)


def matrices(rng: Any, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """Well-conditioned random matrices for the samples of ops."""
    return tuple(0.4 * rng.uniform(-1, 1, s) + np.eye(s[-2], s[-1]) * np.arange(1.0, s[-1] + 1) for s in shapes)


def single(op: str, a: Any, at: int) -> str:
    """Return the beginning of an error about matrix `at` of a stack: PyTorch says which where there is more than
    one."""
    return f"linalg.{op}: " + (f"(Batch element {at}): " if a.ndim > 2 else "")


def lu_in_place(a: Any) -> tuple[Any, Any]:
    """LU with partial pivoting, in `a`, a stack in C order; gives the row exchanges and the first zero pivots."""
    *_, m, n = a.shape
    stack = a.reshape(math.prod(a.shape[:-2]), m, n)
    k = min(m, n)
    pivots = np.empty((len(stack), k), np.int32)
    zero = np.zeros(len(stack), np.int32)
    at = np.arange(len(stack))
    for j in range(k):
        column = stack[:, j:, j]
        size = np.abs(column.real) + np.abs(column.imag) if column.dtype.kind == "c" else np.abs(column)
        best = j + size.argmax(1)  # LAPACK's izamax: of complex numbers |re| + |im| decides
        pivots[:, j] = best + 1
        rows = stack[at, best].copy()
        stack[at, best] = stack[:, j]
        stack[:, j] = rows
        pivot = stack[:, j, j]
        zero = np.where((pivot == 0) & (zero == 0), j + 1, zero)
        stack[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]
        stack[:, j + 1 :, j + 1 :] -= stack[:, j + 1 :, j, None] * stack[:, j, None, j + 1 :]
    return pivots.reshape(*a.shape[:-2], k), zero.reshape(a.shape[:-2])


def _zero_pivot(a: Any) -> tuple[int, int]:
    """Return the first singular matrix of a stack, and its first zero pivot (counted from 1)."""
    zeros = lu_in_place(np.array(host(a), order="C"))[1].reshape(-1)
    at = int(np.argmax(zeros > 0))
    return at, int(zeros[at]) or a.shape[-1]


# -- solve -------------------------------------------------------------------------------------------------------------


def _solve_forward(xp: Any, a: Any, b: Any) -> Any:
    try:
        return rounded(xp.linalg.solve(wide(a), wide(b)), b.dtype)
    except np.linalg.LinAlgError:
        phrase = "torch." + single("solve", a, _zero_pivot(wide(a))[0])
        raise LinAlgError(
            text(phrase + "The solver failed because the input matrix is singular.", op="linalg.solve",
                 remedy="linalg.lstsq, or a + eps * torch.eye(n)")
        ) from None  # fmt: skip


def _solve_vjp(g: Tensor, a: Tensor, y: Tensor, a_shape: Any, b_shape: Any, needs: Any) -> Any:
    gb = _solve(a.mT, g)
    ga = -matmul(gb, y.mT).sum_to_size(a_shape) if needs[0] else None
    return ga, gb.sum_to_size(b_shape)


_solve = operation(
    "solve", _solve_forward, inputs="a b", vjp=_solve_vjp, shape="(n,n),(n,k)->(n,k)", label="linalg_solve",
    samples=lambda rng: [((*matrices(rng, (3, 3)), rng.uniform(-1, 1, (3, 2))), {}),
                         ((*matrices(rng, (2, 1, 3, 3)), rng.uniform(-1, 1, (2, 3, 2))), {})],
)  # fmt: skip


def _is_vector(a: Tensor, b: Tensor) -> bool:
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and a._a.shape[:-1] == b._a.shape)


def one_dtype(op: str, a: Tensor, b: Tensor) -> None:
    """Refuse two dtypes."""
    if a.dtype is not b.dtype:
        raise RuntimeError(text(f"linalg.{op}: Expected A and B to have the same dtype, but found A of type "
                                f"{a.dtype.scalar_type} and B of type {b.dtype.scalar_type} instead",
                                op=f"linalg.{op}", remedy=f"b.to({a.dtype})"))  # fmt: skip


@linalg
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Return the X with ``A @ X = B`` (or, not `left`, ``X @ A = B``).

    *Shapes*: A ``(..., n, n)``; B ``(..., n, k)``, or ``(..., n)`` for one right side. *Raises*: LinAlgError for a
    singular A. *Source*: LAPACK gesv.

    >>> import core
    >>> core.linalg.solve(core.tensor([[2.0, 0.0], [0.0, 4.0]]), core.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    check("solve", A, square=True)
    one_dtype("solve", A, B)
    vector = _is_vector(A, B)
    n = A._a.shape[-1]
    if vector:
        B = B.unsqueeze(-1)
    have = B._a.shape[-2 if left or vector else -1]
    if have != n:
        raise RuntimeError(
            text(f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                 f"({A._a.shape[-2]}x{n} and {B._a.shape[-2]}x{B._a.shape[-1]})", op="linalg.solve")
        )  # fmt: skip
    X = _solve(A, B) if left or vector else _solve(A.mT, B.mT).mT
    return X.squeeze(-1) if vector else X


@linalg
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> return_types.linalg_solve_ex:
    """As `solve`, and for each matrix its first zero pivot (0: none); with `check_errors` that is an error.

    What stands in the result for a singular matrix is NaN.

    >>> import core
    >>> core.linalg.solve_ex(core.tensor([[2.0]]), core.tensor([4.0])).result
    tensor([2.])
    """
    result = return_type("linalg_solve_ex", "result info")
    try:
        return result(solve(A, B, left=left), creation.zeros(A._a.shape[:-2], dtype=dtypes.int32, device=A.device))
    except LinAlgError:
        if check_errors:
            raise
    info = creation.tensor(lu_in_place(np.array(host(wide(A._a)), order="C"))[1], dtype=dtypes.int32, device=A.device)
    bad = info != 0
    eye = creation.tensor(np.eye(A._a.shape[-1]), dtype=A.dtype, device=A.device)
    X = solve(where(bad.reshape(*info.shape, 1, 1), eye, A), B, left=left)
    sides = X.ndim - bad.ndim
    return result(where(bad.reshape(*info.shape, *(1,) * sides), float("nan"), X), info)


# -- triangular --------------------------------------------------------------------------------------------------------


def _substitute(xp: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """By halves: all but the smallest pieces is a product of matrices."""
    n = a.shape[-1]
    if n < 2:
        return b if unit or not n else b / a
    k = n // 2
    near, far = (slice(k, n), slice(k)) if upper else (slice(k), slice(k, n))
    x = _substitute(xp, a[..., near, near], b[..., near, :], upper, unit)
    y = _substitute(xp, a[..., far, far], b[..., far, :] - a[..., far, near] @ x, upper, unit)
    return xp.concatenate((y, x) if upper else (x, y), axis=-2)


def _triangular_forward(xp: Any, a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2], op="linalg.solve_triangular"), *b.shape[-2:])
    return rounded(_substitute(xp, wide(a), xp.array(xp.broadcast_to(wide(b), shape)), upper, unitriangular), b.dtype)


def _triangular_vjp(g: Tensor, a: Tensor, y: Tensor, a_shape: Any, b_shape: Any, upper: bool, unitriangular: bool,
                    needs: Any) -> Any:  # fmt: skip
    gb = _triangular(a.mT, g, upper=not upper, unitriangular=unitriangular)
    ga = None
    if needs[0]:
        ga = -matmul(gb, y.mT).sum_to_size(a_shape)
        ga = ga.triu(int(unitriangular)) if upper else ga.tril(-int(unitriangular))
    return ga, gb.sum_to_size(b_shape)


_triangular = operation(
    "solve_triangular", _triangular_forward, inputs="a b", params={"upper": True, "unitriangular": False},
    vjp=_triangular_vjp, shape="(n,n),(n,k)->(n,k)", label="linalg_solve_triangular",
    samples=lambda rng: [((*matrices(rng, s), rng.uniform(-1, 1, (2, 3, 2))), {"upper": u, "unitriangular": not u})
                         for s, u in (((3, 3), True), ((3, 3), False), ((2, 3, 3), False))],
)  # fmt: skip


@partial(
    linalg,
    fast=[Fast(op="solve_triangular(A, B, upper, unitriangular)", types={"A": "real", "B": "real"},
               check=(square_matrices("A"), "PyArray_NDIM({A}) == PyArray_NDIM({B})", "same_kind(A, B)",
                      "PyArray_DIM({A}, PyArray_NDIM({A}) - 1) == PyArray_DIM({B}, PyArray_NDIM({B}) - 2)"))],
)  # fmt: skip
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the X with ``A @ X = B`` (or ``X @ A = B``), where of A only one triangle counts; no check of its
    diagonal.

    >>> import core
    >>> A = core.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> core.linalg.solve_triangular(A, core.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check("solve_triangular", A, square=True)
    check("solve_triangular", B, name="B")
    one_dtype("solve_triangular", A, B)
    if A._a.shape[-1] != B._a.shape[-2 if left else -1]:
        raise RuntimeError(
            text(f"linalg.solve_triangular: Incompatible shapes of A and B for the equation "
                 f"{'AX = B' if left else 'XA = B'} ({A._a.shape[-2]}x{A._a.shape[-1]} and "
                 f"{B._a.shape[-2]}x{B._a.shape[-1]})", op="linalg.solve_triangular")
        )  # fmt: skip
    if left:
        return _triangular(A, B, upper=upper, unitriangular=unitriangular)
    return _triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT


@public()
def triangular_solve(b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> return_types.triangular_solve:  # fmt: skip
    """Return the X with ``A @ X = b`` for a triangular A, and a copy of A; `linalg.solve_triangular` is its successor.

    >>> import core
    >>> core.triangular_solve(core.tensor([[2.0]]), core.tensor([[4.0]])).solution
    tensor([[0.5000]])
    """
    X = solve_triangular(A.mT if transpose else A, b, upper=upper != transpose, unitriangular=unitriangular)
    return return_type("triangular_solve", "solution cloned_coefficient")(X, A.clone())


# -- inverse -----------------------------------------------------------------------------------------------------------


def _inv_forward(xp: Any, x: Any, name: str) -> Any:
    try:
        return rounded(xp.linalg.inv(wide(x)), x.dtype)
    except np.linalg.LinAlgError:
        at, k = _zero_pivot(wide(x))
        raise LinAlgError(
            text(f"{single(name, x, at)}The diagonal element {k} is zero, the inversion could not be completed because "
                 "the input matrix is singular.", op=f"linalg.{name}", remedy="linalg.pinv, or x + eps * torch.eye(n)")
        ) from None  # fmt: skip


_inv = operation("inv", _inv_forward, params={"name": "inv"}, vjp=lambda g, y: -(y.mT @ g @ y.mT), shape="(n,n)->(n,n)",
                 label="linalg_inv_ex",
                 samples=lambda rng: [(matrices(rng, (3, 3)), {}), (matrices(rng, (2, 2, 2)), {})])  # fmt: skip


@linalg
def inv(A: Tensor) -> Tensor:
    """Return the inverse of square matrices. *Raises*: LinAlgError for a singular one.

    >>> import core
    >>> core.linalg.inv(core.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check("inv", A, square=True)
    return _inv(A)


@public()
def inverse(input: Tensor) -> Tensor:
    """Return the inverse of square matrices, `linalg.inv`.

    >>> import core
    >>> core.inverse(core.tensor([[4.0]]))
    tensor([[0.2500]])
    """
    return inv(input)


@linalg
def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """Return the inverse, and for each matrix the first zero pivot (0: it is invertible). NaN stands for what has no
    inverse.

    >>> import core
    >>> core.linalg.inv_ex(core.tensor([[0.0]])).info
    tensor(1, dtype=core.int32)
    """
    check("inv_ex", A, square=True)
    result = return_type("linalg_inv_ex", "inverse info")
    try:
        return result(_inv(A, name="inv_ex"), creation.zeros(A._a.shape[:-2], dtype=dtypes.int32))
    except LinAlgError:
        if check_errors:
            raise
    info = creation.tensor(lu_in_place(np.array(host(A._a), order="C"))[1], dtype=dtypes.int32)
    bad = (info != 0).reshape(*info.shape, 1, 1)
    eye = creation.tensor(np.eye(A._a.shape[-1]), dtype=A.dtype)
    return result(where(bad, float("nan"), _inv(where(bad, eye, A))), info)
