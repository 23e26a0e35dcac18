"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dim
from ..base.source import warn
from ..declare.kinds import Dim
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .precision import rounded, wide


def _softmax_forward(xp: Any, x: Any, dim: int) -> Any:
    if not x.size:
        return x.copy()
    if not x.ndim:
        return xp.ones_like(x)
    w = wide(x)
    e = xp.exp(w - w.max(axis=dim, keepdims=True))
    e /= e.sum(axis=dim, keepdims=True)
    return rounded(e, x.dtype)


def _log_softmax_forward(xp: Any, x: Any, dim: int) -> Any:
    if not x.size:
        return x.copy()
    if not x.ndim:
        return xp.zeros_like(x)
    w = wide(x)
    off = w - w.max(axis=dim, keepdims=True)
    return rounded(off - xp.log(xp.exp(off).sum(axis=dim, keepdims=True)), x.dtype)


def _softmax_vjp(g: Tensor, y: Tensor, dim: int) -> Tensor:
    gy = g * y
    return gy - y * gy.sum(dim, keepdim=True)


def _log_softmax_vjp(g: Tensor, y: Tensor, dim: int) -> Tensor:
    return g - y.exp() * g.sum(dim, keepdim=True)


def _samples(rng: Any) -> list[Any]:
    x = rng.uniform(-3, 3, (2, 3, 5))
    return [((x,), {"dim": 2}), ((x,), {"dim": 0}), ((x,), {"dim": 1}), ((x[0, 0],), {"dim": 0})]


_softmax = operation("softmax", _softmax_forward, params={"dim": -1}, shape="(n)->(n)", over="dim", vjp=_softmax_vjp,
                     samples=_samples, contiguous=True, doc="exp(x) / Σ exp(x) over `dim`.")  # fmt: skip
_log_softmax = operation("log_softmax", _log_softmax_forward, params={"dim": -1}, shape="(n)->(n)", over="dim",
                         vjp=_log_softmax_vjp, samples=_samples, contiguous=True,
                         doc="x - log Σ exp(x) over `dim`.")  # fmt: skip


def _run(op: Any, name: str, input: Tensor, dim: int, dtype: Dtype | None) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    x = input if dtype is None or dtype is input.dtype else input.to(dtype)
    d = normalize_dim(dim, x.ndim, name)
    if x._kind.dtype.category < 2:
        kernel = f"{name}_lastdim_kernel_impl" if d >= x.ndim - 1 else f"{name}_kernel_impl"
        raise NotImplementedError(text(f"\"{kernel}\" not implemented for '{x.dtype.scalar_type}'", op=name,
                                       came=f"{tuple(x.shape)} of {x.dtype}", needed="a floating-point dtype",
                                       remedy=f"x.{name}({dim}, dtype=core.float32)"))  # fmt: skip
    return op(x, dim=d)


@public(home="reduce", fast=[Fast(op="softmax(input, dim)", types={"input": "real"})])
def softmax(input: Tensor, dim: Dim, dtype: Dtype | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`: positive numbers that sum to 1.

    *Shapes*: the output's is the input's. *Raises*: IndexError for a dim that is not there; NotImplementedError for
    integers, unless `dtype` says in what to compute.

    >>> import core
    >>> core.softmax(core.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _run(_softmax, "softmax", input, dim, dtype)


@public(home="reduce", fast=[Fast(op="log_softmax(input, dim)", types={"input": "real"})])
def log_softmax(input: Tensor, dim: Dim, dtype: Dtype | None = None) -> Tensor:
    """Return the logarithm of `softmax`, exact where that would be 0.

    >>> import core
    >>> core.log_softmax(core.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _run(_log_softmax, "log_softmax", input, dim, dtype)


def implicit_dim(name: str, ndim: int) -> int:
    """Return the dim that `core.nn.functional` takes when none is given, with PyTorch's warning."""
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if ndim in (0, 1, 3) else 1
