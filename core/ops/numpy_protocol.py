"""NumPy's functions called on a Tensor stay on the graph: ``np.tanh(t)`` is ``core.tanh(t)``.

A ufunc, or a function that means the same here, runs as the op of its name, with `axis` and `keepdims` read as `dim`
and `keepdim`. What has no op runs in NumPy on the values, unless a tensor requires a gradient, which would be lost
unseen: that raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import text
from ..dispatch import publish
from ..tensors.tensor import Tensor
from . import creation

# NumPy's names that are other ones here
_OTHER = {
    "divide": "div",
    "true_divide": "div",
    "power": "pow",
    "float_power": "pow",
    "concatenate": "cat",
    "max": "amax",
    "min": "amin",
    "expand_dims": "unsqueeze",
    "fabs": "abs",
    "rint": "round",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arccosh": "acosh",
    "arcsinh": "asinh",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "matrix_transpose": "adjoint",
    "array_equal": "equal",
    "conjugate": "conj",
}

# functions (no ufuncs) that mean the same in both; others of one name differ, as split, std, median and meshgrid do
_SAME = {
    "sum",
    "mean",
    "prod",
    "all",
    "any",
    "amax",
    "amin",
    "max",
    "min",
    "argmax",
    "argmin",
    "concatenate",
    "stack",
    "vstack",
    "hstack",
    "dstack",
    "column_stack",
    "where",
    "clip",
    "squeeze",
    "expand_dims",
    "einsum",
    "outer",
    "trace",
    "tril",
    "triu",
    "diag",
    "diagonal",
    "flip",
    "fliplr",
    "flipud",
    "rot90",
    "moveaxis",
    "swapaxes",
    "broadcast_to",
    "allclose",
    "isclose",
    "array_equal",
    "argwhere",
    "kron",
    "nan_to_num",
    "nansum",
    "norm",
    "round",
    "cumsum",
    "cumprod",
    "roll",
    "tensordot",
    "matrix_transpose",
    "logaddexp",
    "inner",
    "count_nonzero",
    "real",
    "imag",
    "angle",
}


def _like(make: Any) -> Any:
    return lambda a, dtype=None, order="K", subok=True, shape=None: make(a)


_SPECIAL: dict[str, Any] = {
    "transpose": lambda a, axes=None: a.permute(*(reversed(range(a.ndim)) if axes is None else axes)),
    "shape": lambda a: tuple(a.shape),
    "ndim": lambda a: a.ndim,
    "size": lambda a, dim=None: a.numel() if dim is None else a.size(dim),
    "reshape": lambda a, shape: a.reshape(shape),
    "copy": lambda a, order="K", subok=False: a.clone(),
    "ravel": lambda a, order="C": a.reshape(-1),
    "tile": lambda a, reps: a.tile(reps if isinstance(reps, tuple | list) else (reps,)),
    "repeat": lambda a, repeats, dim=None: a.repeat_interleave(repeats, dim),
    "std": lambda a, dim=None, ddof=0, keepdim=False: a.std(dim, correction=ddof, keepdim=keepdim),
    "var": lambda a, dim=None, ddof=0, keepdim=False: a.var(dim, correction=ddof, keepdim=keepdim),
    "dot": lambda a, b: a * b if a.ndim == 0 or b.ndim == 0 else a @ b,
    "nonzero": lambda a: a.nonzero(as_tuple=True),
    "sort": lambda a, dim=-1: a.sort(dim).values,
    "cumsum": lambda a, dim=None: a.reshape(-1).cumsum(0) if dim is None else a.cumsum(dim),
    "cumprod": lambda a, dim=None: a.reshape(-1).cumprod(0) if dim is None else a.cumprod(dim),
    "flip": lambda a, dim=None: a.flip(
        tuple(range(a.ndim)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    ),
    "roll": lambda a, shift, dim=None: a.roll(shift, dim),
    "invert": lambda a: ~a,
    "zeros_like": _like(creation.zeros_like),
    "ones_like": _like(creation.ones_like),
    "empty_like": _like(creation.empty_like),
}
_WORDS = {"axis": "dim", "axes": "dim", "keepdims": "keepdim"}

# what NumPy's own namespaces have with the same arguments and results
_LINALG = """cholesky cond det eig eigh eigvals eigvalsh inv matrix_power matrix_rank multi_dot norm pinv qr slogdet
solve svdvals tensorinv tensorsolve"""
_FFT = """fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft fftshift ifftshift"""
_SPACES = {"numpy.linalg": _LINALG.split(), "numpy.fft": _FFT.split()}


def _op(original: Any) -> Any:
    name, space = original.__name__, getattr(original, "__module__", "")
    if space in _SPACES:
        return publish.namespaces[space.removeprefix("numpy.")][name] if name in _SPACES[space] else None
    if name in _SPECIAL:
        return _SPECIAL[name]
    if isinstance(original, np.ufunc) or name in _SAME:
        return publish.namespaces[""].get(_OTHER.get(name, name))
    return None


def _tensors(values: Any) -> list[Tensor]:
    out = []
    for v in values:
        if isinstance(v, Tensor):
            out.append(v)
        elif isinstance(v, list | tuple):
            out += _tensors(v)
    return out


def _bare(v: Any) -> Any:
    if isinstance(v, Tensor):
        return v.numpy()
    if isinstance(v, list | tuple):
        return type(v)(_bare(x) for x in v)
    return {k: _bare(x) for k, x in v.items()} if isinstance(v, dict) else v


def _as_tensors(v: Any) -> Any:
    """Arrays beside tensors as tensors, also those in lists."""
    if isinstance(v, np.ndarray):
        return creation.from_numpy(np.ascontiguousarray(v) if any(s < 0 for s in v.strides) else v)
    if isinstance(v, np.generic):
        return v.item()
    return [_as_tensors(x) for x in v] if isinstance(v, list | tuple) and _tensors(v) else v


def _refused(name: str, why: str) -> TypeError:
    return TypeError(
        text(
            f"np.{name} cannot be applied to a Tensor that requires grad: {why}, and NumPy would lose the graph",
            op=f"np.{name}",
            needed="an op of this package",
            remedy=f"write it with core's ops, or np.{name}(t.detach().numpy()) to leave the graph on purpose",
        )
    )


def _run(original: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    op, name = _op(original), original.__name__
    graph = any(t.requires_grad for t in _tensors([*args, *kwargs.values()]))
    if op is not None:
        words = {_WORDS.get(k, k): _as_tensors(v) for k, v in kwargs.items() if v is not None and v is not np._NoValue}
        given = [_as_tensors(a) for a in args]
        try:
            try:
                return op(*given, **words)
            except TypeError:  # an op that PyTorch defines on tensors alone takes no number beside one
                if not isinstance(original, np.ufunc) or not any(isinstance(v, int | float) for v in given):
                    raise
                return op(*(creation.tensor(v) if isinstance(v, int | float) else v for v in given), **words)
        except (TypeError, AttributeError) as e:
            if graph:
                raise _refused(name, f"core's op refuses these arguments ({str(e).splitlines()[0]})") from None
    if graph:
        raise _refused(name, f"there is no op for {name!r}")
    return original(*_bare(tuple(args)), **_bare(kwargs))


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    plain = method == "__call__" and kwargs.get("out") is None
    if plain:
        return _run(ufunc, inputs, kwargs)
    if any(t.requires_grad for t in _tensors(inputs)):
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise _refused(name, "it writes into an array" if method == "__call__" else "it has no op")
    return getattr(ufunc, method)(*_bare(inputs), **_bare(kwargs))


def _array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return _run(func, args, kwargs)


Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
Tensor.__array_function__ = _array_function  # type: ignore[attr-defined]
