"""Gradients against finite differences, to first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from ..base.errors import text
from ..base.modes import no_grad
from ..tensors.tensor import Tensor, wrap
from . import forward_ad
from .gradients import grad

# A gradient wrong by 0.05 % must fail, unless it is below 0.0025. What central differences with this eps miss, the
# rounding of the function's value above all, is 1e-10 of that value.
EPS, ATOL, RTOL = 1e-6, 1e-6, 1e-4


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = EPS, atol: float = ATOL, rtol: float = RTOL,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True,
              fast_mode: bool = False, masked: bool | None = None) -> bool:  # fmt: skip
    """Return whether the gradients of `func` at `inputs` (float64, complex128) agree with central differences.

    A complex number counts as two real ones.

    Every element of every input that requires a gradient is moved by `eps`, for every floating-point output; one that
    is cut off from its inputs must not depend on them. `rtol` is a tenth of PyTorch's, so that a gradient wrong by a
    factor 1.0005 fails; `nondet_tol` is how much two backward passes may differ.
    `check_forward_ad` holds the forward mode to the differences too, along one direction at random, and
    `check_backward_ad` False leaves the backward one out; `check_grad_dtypes` wants each gradient in its input's dtype.
    Every element is checked with `fast_mode` too, `masked` says nothing of dense tensors, and gradients that are
    undefined are zeros before a function sees them, so `check_undefined_grad` has nothing to check.

    Raises
    ------
    GradcheckError
        With the input, the element and both values, unless `raise_exception` is False.
    ValueError
        For inputs that are not float64, or where none requires a gradient.
    NotImplementedError
        For `check_batched_grad` and `check_batched_forward_grad`.

    >>> import core
    >>> x = core.tensor([0.5, -1.0, 2.0], dtype=core.float64, requires_grad=True)
    >>> core.autograd.gradcheck(core.tanh, (x,))
    True
    """
    if check_batched_grad or check_batched_forward_grad:
        raise NotImplementedError(text("gradients of several examples at once are not checked", op="gradcheck",
                                       remedy="compare func.vmap(func.grad(f)) with a loop"))  # fmt: skip
    args = _many(inputs)
    try:
        if check_forward_ad:
            _check_forward(func, args, eps, atol, rtol)
        if check_backward_ad and check_grad_dtypes:
            _check_dtypes(func, args)
        return not check_backward_ad or _check(func, args, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = EPS,
                  atol: float = ATOL, rtol: float = RTOL, raise_exception: bool = True,
                  nondet_tol: float = 0.0, gen_non_contig_grad_outputs: bool = False, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False,
                  masked: bool = False) -> bool:  # fmt: skip
    """As `gradcheck`, for the gradients of the gradients; `grad_outputs` are random where they are not given.

    With `gen_non_contig_grad_outputs` those at random are not in one piece; `check_rev_over_rev` False leaves the
    check out.

    *Raises*: as `gradcheck`, and NotImplementedError for `check_fwd_over_rev`.
    """
    if check_fwd_over_rev:
        raise NotImplementedError(text("the forward mode is not checked over the backward pass", op="gradgradcheck",
                                       remedy="check_rev_over_rev, or gradcheck(check_forward_ad=True)"))  # fmt: skip
    args = _many(inputs)
    outs = [o for o in _outputs(func(*args)) if o.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grad_outputs = [_leaf(rng.uniform(0.5, 1.5, _size(o)), o) for o in outs]
        if gen_non_contig_grad_outputs:
            grad_outputs = [_spread(g) for g in grad_outputs]
    given = _many(grad_outputs)
    wanted = _wanted(args)

    def first_order(*both: Any) -> tuple[Tensor, ...]:
        xs, gs = both[: len(args)], both[len(args) :]
        ys = [y for y in _outputs(func(*xs)) if y.requires_grad]
        found = grad(ys, [xs[i] for i in wanted], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(first_order, (*args, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
                     masked=masked)  # fmt: skip


def _spread(g: Tensor) -> Tensor:
    """Return a leaf of the same values that is not in one piece: every second element of a memory twice as long."""
    wide: Any = g.detach().unsqueeze(-1).repeat(*[1] * g.ndim, 2)
    return wide[..., 0].requires_grad_()  # type: ignore[no-any-return]


def _check_forward(func: Callable[..., Any], args: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    """Hold the forward mode along a direction at random to the difference along it. *Raises*: GradcheckError."""
    rng = np.random.default_rng(0)
    wanted = _wanted(args)
    ways = {i: _leaf(rng.uniform(-1, 1, _size(args[i])), args[i]).detach() for i in wanted}
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(a, ways[i]) if i in ways else a for i, a in enumerate(args)]
        told = [forward_ad.unpack_dual(o).tangent for o in _outputs(func(*duals))]
    moved = []
    for sign in (1, -1):
        with no_grad():
            moved.append(_outputs(func(*[a + sign * eps * ways[i] if i in ways else a for i, a in enumerate(args)])))
    for j, (tangent, up, down) in enumerate(zip(told, *moved, strict=True)):
        have = np.zeros(up.shape) if tangent is None else tangent.detach().numpy()
        want = (up - down).detach().numpy() / (2 * eps)
        if not np.allclose(have, want, rtol=rtol, atol=atol):
            raise GradcheckError(f"Jacobian computed with forward mode mismatch for output {j}: along a direction at "
                                 f"random it says {have.ravel()[:3]}, the finite difference "
                                 f"{want.ravel()[:3]}")  # fmt: skip


def _check_dtypes(func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """*Raises*: GradcheckError where a gradient has another dtype than its input."""
    wanted = _wanted(args)
    for out in (o for o in _outputs(func(*args)) if o.requires_grad):
        for i, g in zip(wanted, grad(out.sum(), [args[i] for i in wanted], allow_unused=True), strict=True):
            if g is not None and g.dtype is not args[i].dtype:
                raise GradcheckError(f"the gradient of input {i} is {g.dtype}, the input {args[i].dtype}")


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
