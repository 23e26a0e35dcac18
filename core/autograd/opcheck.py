"""`opcheck`: what the package's own conformance tests ask of an op, asked of a user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..base.modes import no_grad
from ..tensors.tensor import Tensor, from_array, wrap
from . import gradcheck, gradgradcheck

Check = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


class OpCheckError(Exception):
    """An op that breaks a rule; the message says which."""


def _arguments(op: Any, arrays: Sequence[Any], like: Sequence[Any], grad: bool = False) -> tuple[Any, ...]:
    return tuple(
        a if not isinstance(t, Tensor) else from_array(a, t.device).requires_grad_(grad and t.requires_grad)
        for a, t in zip(arrays, like, strict=True)
    )


def _many(y: Any) -> list[Tensor]:
    return list(y) if isinstance(y, tuple | list) else [y]


def _run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    with no_grad():
        return [t._a for t in _many(op(*args, **kwargs))]


def _close(got: Sequence[Any], want: Sequence[Any], tolerance: float, what: str) -> None:
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape:
            raise OpCheckError(f"output {k} of {what} has shape {a.shape}, not {b.shape}")
        x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            worst = float(np.nanmax(np.abs(x - y)))
            raise OpCheckError(f"output {k} of {what} differs by {worst:.3g} (tolerance {tolerance:g})")


def _copies(args: Sequence[Any]) -> list[Any]:
    return [np.array(t._a) if isinstance(t, Tensor) else t for t in args]


def check_schema(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """No input is changed, no output shares an input's memory, two runs give the same."""
    before = _copies(args)
    first, second = _run(op, args, kwargs), _run(op, args, kwargs)
    for k, (a, t) in enumerate(zip(before, args, strict=True)):
        if isinstance(t, Tensor) and not np.array_equal(a, t._a, equal_nan=a.dtype.kind in "fc"):
            raise OpCheckError(f"input {k} was changed in place; return a new tensor")
    for y in first:
        if any(isinstance(t, Tensor) and np.may_share_memory(y, t._a) for t in args):
            raise OpCheckError("an output shares the memory of an input; return a clone")
    _close(first, second, 0.0, "a second run")


def check_shape(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The shapes and dtypes are those that the rule, or the fake function, says."""
    got = _run(op, args, kwargs)
    if op.fake is not None:
        with no_grad():
            want = [(tuple(t.shape), t._a.dtype) for t in _many(op.fake(*args, **kwargs))]
        came = [(a.shape, a.dtype) for a in got]
        if came != want:
            raise OpCheckError(f"register_fake says {want}, the op gives {came}")
    elif op.op.rule is not None:
        arrays = [t._a for t in args[: len(op.op.inputs)] if isinstance(t, Tensor)]
        want_shapes = [a.shape for a in op._outputs(np, arrays)[0]]
        if [a.shape for a in got] != want_shapes:
            raise OpCheckError(
                f"the rule {op.op.rule.source} says {want_shapes}, the op gives {[a.shape for a in got]}"
            )


def check_layouts(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Transposed and strided inputs give what row-major ones give."""
    want = _run(op, args, kwargs)
    for name, change in (("transposed", _transposed), ("sliced", _sliced)):
        laid_out = tuple(wrap(change(t._a), t._kind) if isinstance(t, Tensor) else t for t in args)
        _close(_run(op, laid_out, kwargs), want, 1e-6, f"{name} inputs")


def _transposed(a: Any) -> Any:
    return np.ascontiguousarray(a.T).T


def _sliced(a: Any) -> Any:
    if a.ndim == 0:
        return a
    room = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    room[..., ::2] = a
    return room[..., ::2]


def check_precision(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """float32 agrees with float64."""

    def at(dtype: Any) -> tuple[Any, ...]:
        return tuple(from_array(t._a.astype(dtype)) if isinstance(t, Tensor) and t._a.dtype.kind == "f" else t
                     for t in args)  # fmt: skip

    _close(_run(op, at(np.float32), kwargs), _run(op, at(np.float64), kwargs), 1e-4, "float32")


def check_kernels(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Every kernel agrees with the Python text."""
    tensors, params = op._bind(args, kwargs)
    arrays = tuple(None if t is None else t._a for t in tensors)
    if not op.kernels or op.python.__name__ == "refuse":
        return
    want = op._reference(np, *arrays, **params)
    for name, row in op.kernels.items():
        if row.declines(*arrays, **params) is None and not (name.startswith("cuda") and not _interpreting()):
            got = row.run(*arrays, **params)
            _close(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), 1e-5, name)


def _interpreting() -> bool:
    try:
        return backends.array_module("cuda") is np
    except Exception:
        return False


def check_gradients(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Gradients against finite differences, to second order, tight enough to catch an error of 0.05 %."""
    wide = tuple(
        from_array(t._a.astype(np.float64)).requires_grad_(t.requires_grad)
        if isinstance(t, Tensor) and t._a.dtype.kind == "f" else t for t in args
    )  # fmt: skip
    if not any(isinstance(t, Tensor) and t.requires_grad for t in wide):
        return
    if not op.op.differentiable and op._function is None:
        raise OpCheckError("an input requires a gradient, and the op has none: give it vjp=, or register_autograd")

    def function(*ts: Any) -> Any:
        return op(*ts, **kwargs)

    gradcheck(function, wide, eps=1e-6, atol=1e-7, rtol=1e-4)
    gradgradcheck(function, wide, eps=1e-6, atol=1e-7, rtol=1e-4)


CHECKS: dict[str, Check] = {
    "test_schema": check_schema,
    "test_faketensor": check_shape,
    "test_layouts": check_layouts,
    "test_precision": check_precision,
    "test_kernels": check_kernels,
    "test_autograd_registration": check_gradients,
}


def opcheck(op: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None, *,
            test_utils: str | Sequence[str] = tuple(CHECKS),
            raise_exception: bool = True) -> dict[str, str]:  # fmt: skip
    """Ask of a custom op what the conformance tests ask of the package's own, on `args` (or on its samples).

    test_utils : which checks: schema (nothing changed in place, no shared memory), shapes and dtypes, layouts,
        float32 beside float64, kernels beside the Python text, gradients to second order.

    *Raises*: OpCheckError or GradcheckError at the first check that fails, unless `raise_exception` is False.

    >>> import core
    >>> @core.library.custom_op("mine::square", vjp=lambda g, x: 2 * g * x)
    ... def square(x: core.Tensor) -> core.Tensor:
    ...     return x * x
    >>> set(core.library.opcheck(square, (core.randn(3, requires_grad=True),)).values())
    {'SUCCESS'}
    """
    chosen = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if args is not None:
        sets: list[tuple[tuple[Any, ...], dict[str, Any]]] = [(tuple(args), dict(kwargs or {}))]
    elif op.op.samples is not None:
        sets = [
            (tuple(from_array(np.asarray(a)).requires_grad_(np.asarray(a).dtype.kind == "f") for a in arrays), params)
            for arrays, params in op.op.samples(np.random.default_rng(0))
        ]
    else:
        raise ValueError("opcheck: the op has no samples; give args")
    told: dict[str, str] = {}
    for name in chosen:
        try:
            for arguments, named in sets:
                CHECKS[name](op, arguments, named)
            told[name] = "SUCCESS"
        except Exception as e:
            if raise_exception:
                e.add_note(f"opcheck: {name} of {op.name}")
                raise
            told[name] = f"{type(e).__name__}: {e}"
    return told
