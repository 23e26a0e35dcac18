"""Gradients against finite differences, to first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from ..tensors.tensor import Tensor, wrap
from .gradients import grad

# A gradient wrong by 0.05 % must fail, unless it is below 0.0025. What central differences with this eps miss, the
# rounding of the function's value above all, is 1e-10 of that value.
EPS, ATOL, RTOL = 1e-6, 1e-6, 1e-4


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = EPS, atol: float = ATOL, rtol: float = RTOL,
              raise_exception: bool = True, nondet_tol: float = 0.0) -> bool:  # fmt: skip
    """Return whether the gradients of `func` at `inputs` (float64, complex128) agree with central differences.

    A complex number counts as two real ones.

    Every element of every input that requires a gradient is moved by `eps`, for every floating-point output; one that
    is cut off from its inputs must not depend on them. `rtol` is a tenth of PyTorch's, so that a gradient wrong by a
    factor 1.0005 fails; `nondet_tol` is how much two backward passes may differ.

    Raises
    ------
    GradcheckError
        With the input, the element and both values, unless `raise_exception` is False.
    ValueError
        For inputs that are not float64, or where none requires a gradient.

    >>> import core
    >>> x = core.tensor([0.5, -1.0, 2.0], dtype=core.float64, requires_grad=True)
    >>> core.autograd.gradcheck(core.tanh, (x,))
    True
    """
    try:
        return _check(func, _many(inputs), eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = EPS,
                  atol: float = ATOL, rtol: float = RTOL, raise_exception: bool = True,
                  nondet_tol: float = 0.0) -> bool:  # fmt: skip
    """As `gradcheck`, for the gradients of the gradients; `grad_outputs` are random where they are not given."""
    args = _many(inputs)
    outs = [o for o in _outputs(func(*args)) if o.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [_leaf(rng.uniform(0.5, 1.5, _size(o)), o) for o in outs]
    given = _many(grad_outputs)
    wanted = _wanted(args)

    def first_order(*both: Any) -> tuple[Tensor, ...]:
        xs, gs = both[: len(args)], both[len(args) :]
        ys = [y for y in _outputs(func(*xs)) if y.requires_grad]
        found = grad(ys, [xs[i] for i in wanted], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(first_order, (*args, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol)  # fmt: skip


def _check(
    func: Callable[..., Any], args: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float
) -> bool:
    wanted = _wanted(args)
    for i in wanted:
        if args[i].dtype.itemsize < 8:
            raise ValueError(f"gradcheck: input {i} is {args[i].dtype}; finite differences need float64: x.double()")
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for j, out in enumerate(_outputs(func(*args))):
        for i in wanted:
            analytic = _analytic(func, args, i, j)
            again = _analytic(func, args, i, j)
            if np.abs(analytic - again).max(initial=0.0) > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    f"gives different values, for output {j} and input {i}"
                )
            numeric = _numeric(func, args, i, j, eps)
            bad = ~np.isclose(analytic, numeric, rtol=rtol, atol=atol)
            if bad.any():
                at = tuple(int(k[0]) for k in np.nonzero(bad))
                cut = "" if out.requires_grad else "; the output is cut off from its inputs, which it depends on"
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {i} ({tuple(out.shape)} by "
                    f"{tuple(args[i].shape)}): at output element {at[1]}, input element {at[0]} the gradient says "
                    f"{analytic[at]:.8g}, the finite difference {numeric[at]:.8g}; {int(bad.sum())} of {bad.size} "
                    f"differ{cut}"
                )
    return True


def _many(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _wanted(args: tuple[Any, ...]) -> list[int]:
    return [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]


def _outputs(result: Any) -> tuple[Tensor, ...]:
    many = result if isinstance(result, tuple | list) else (result,)
    return tuple(t for t in many if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex()))


def _leaf(values: Any, like: Tensor) -> Tensor:
    """NumPy values as a leaf of the shape and kind of `like`."""
    values = values.view(np.complex128) if like.is_complex() else values
    array = backends.array_module(like.device.type).asarray(values.reshape(like.shape), like.dtype.numpy)
    return wrap(array, like._kind).requires_grad_()


def _size(t: Tensor) -> int:
    """Return how many real numbers it holds."""
    return t.numel() * (2 if t.is_complex() else 1)


def _values(t: Tensor) -> Any:
    a = t._a if isinstance(t._a, np.ndarray) else t._a.get()
    a = a.astype(np.complex128 if t.is_complex() else np.float64).reshape(-1)
    return a.view(np.float64)


def _analytic(func: Callable[..., Any], args: tuple[Any, ...], i: int, j: int) -> Any:
    """Gradients by backward: a row for every element of input i, a column for every element of output j."""
    y = _outputs(func(*args))[j]
    columns = np.zeros((_size(args[i]), _size(y)))
    for k in range(_size(y) if y.requires_grad else 0):
        seed = np.zeros(_size(y))
        seed[k] = 1.0
        (g,) = grad(y, args[i], _leaf(seed, y).detach(), retain_graph=True, allow_unused=True)
        if g is not None:
            columns[:, k] = _values(g)
    return columns


def _numeric(func: Callable[..., Any], args: tuple[Any, ...], i: int, j: int, eps: float) -> Any:
    """Return the same by central differences."""
    x = args[i]
    base = _values(x)

    def at(k: int, step: float) -> Any:
        values = base.copy()
        values[k] += step
        moved = _leaf(values, x)
        return _values(_outputs(func(*(moved if n == i else a for n, a in enumerate(args))))[j])

    rows = [(at(k, eps) - at(k, -eps)) / (2 * eps) for k in range(base.size)]
    return np.array(rows).reshape(base.size, -1)
