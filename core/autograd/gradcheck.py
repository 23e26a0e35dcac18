"""Gradients against finite differences, to first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0) -> bool:  # fmt: skip
    """Whether the gradients of `func` at `inputs` (float64) agree with central differences.

    Every element of every input that requires a gradient is moved by `eps`, for every output.

    Raises
    ------
    GradcheckError
        With the input, the element and both values, unless `raise_exception` is False.

    >>> import core
    >>> x = core.randn(3, dtype=core.float64, requires_grad=True)
    >>> core.autograd.gradcheck(core.tanh, (x,))
    True
    """
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for i, x in enumerate(args):
        if isinstance(x, Tensor) and x.requires_grad and x.dtype.itemsize < 8:
            raise ValueError(f"gradcheck: input {i} is {x.dtype}; finite differences need float64: x.double()")
    wanted = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for j, out in enumerate(_outputs(func(*args))):
        for i in wanted:
            analytic = _analytic(func, args, i, j)
            numeric = _numeric(func, args, i, j, eps)
            bad = ~np.isclose(analytic, numeric, rtol=rtol, atol=atol)
            if bad.any():
                if not raise_exception:
                    return False
                at = tuple(int(k[0]) for k in np.nonzero(bad))
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {i} ({tuple(out.shape)} by "
                    f"{tuple(args[i].shape)}): at output element {at[1]}, input element {at[0]} the gradient says "
                    f"{analytic[at]:.8g}, the finite difference {numeric[at]:.8g}; {int(bad.sum())} of {bad.size} differ"
                )
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True) -> bool:  # fmt: skip
    """As `gradcheck`, for the gradients of the gradients."""
    from . import grad

    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outs = _outputs(func(*args))
    rng = np.random.default_rng(0)
    if grad_outputs is None:
        grad_outputs = [wrap(np.asarray(rng.uniform(0.5, 1.5, o.shape)), o._kind).requires_grad_() for o in outs]
    gs = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    wanted = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]

    def first_order(*all_args: Any) -> tuple[Tensor, ...]:
        xs, given = all_args[: len(args)], all_args[len(args) :]
        ys = _outputs(func(*xs))
        found = grad(ys, [xs[i] for i in wanted], given, create_graph=True, allow_unused=True)
        return tuple(f for f in found if f is not None and f.requires_grad)

    if not first_order(*args, *gs):
        return True  # the gradient is a constant
    return gradcheck(first_order, (*args, *gs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def _outputs(result: Any) -> tuple[Tensor, ...]:
    many = result if isinstance(result, tuple | list) else (result,)
    return tuple(t for t in many if isinstance(t, Tensor) and t.requires_grad)


def _analytic(func: Callable[..., Any], args: tuple[Any, ...], i: int, j: int) -> Any:
    from . import grad

    y = _outputs(func(*args))[j]
    columns = np.zeros((args[i].numel(), y.numel()))
    for k in range(y.numel()):
        seed = np.zeros(y.shape)
        seed.reshape(-1)[k] = 1.0
        (g,) = grad(y, args[i], wrap(seed, y._kind), retain_graph=True, allow_unused=True)
        if g is not None:
            columns[:, k] = g._a.reshape(-1)
    return columns


def _numeric(func: Callable[..., Any], args: tuple[Any, ...], i: int, j: int, eps: float) -> Any:
    x = args[i]
    base = x._a.copy()

    def at(values: Any) -> Any:
        moved = wrap(values, x._kind).requires_grad_()
        return (
            _outputs(func(*(moved if k == i else a for k, a in enumerate(args))))[j]._a.astype(np.float64).reshape(-1)
        )

    rows = []
    for k in range(base.size):
        up, down = base.copy(), base.copy()
        up.reshape(-1)[k] += eps
        down.reshape(-1)[k] -= eps
        rows.append((at(up) - at(down)) / (2 * eps))
    return np.array(rows).reshape(base.size, -1)
