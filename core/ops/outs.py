"""``out=`` for the functions that are written without it: the result is written into the tensor that is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..dispatch.autocast import behind
from ..dispatch.out import into
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor

NAMES = [
    "addbmm", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax", "angle", "any", "argmax", "argmin",
    "baddbmm", "bmm", "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "complex", "conj_physical",
    "cross",
    "cummax", "cummin", "cumsum", "diag", "dot", "frexp", "geqrf", "ger", "histogram", "index_add", "index_copy",
    "index_reduce", "inner", "inverse", "isin", "kron", "log_softmax", "logsumexp", "lu", "lu_solve", "lu_unpack",
    "matmul", "max", "mean", "min", "mm", "mv", "nanmean", "nansum", "narrow_copy", "nonzero_static", "norm",
    "ormqr", "outer", "polar", "prod", "qr", "renorm", "scatter", "scatter_add", "scatter_reduce", "slice_scatter",
    "softmax", "std", "sum", "svd", "take", "take_along_dim", "triangular_solve", "var", "vdot", "where",
]  # fmt: skip


def with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a keyword `out`: a tensor, or a tuple of them where it gives several."""

    @functools.wraps(function)
    def wide(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is None:
            return result
        if isinstance(out, tuple | list):
            for one, part in zip(out, result, strict=True):
                into(one, part, function.__name__)
            return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
        return into(out, result, function.__name__)

    return wide


def with_out_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a product with a keyword `out_dtype`: what is multiplied is of that dtype, and so is the result."""

    @functools.wraps(function)
    def wide(*args: Any, out_dtype: Any = None, **kwargs: Any) -> Any:
        if out_dtype is not None:
            args = tuple(a.to(out_dtype) if isinstance(a, Tensor) else a for a in args)
            kwargs = {k: a.to(out_dtype) if isinstance(a, Tensor) and k != "out" else a for k, a in kwargs.items()}
        return function(*args, **kwargs)

    return wide


def _takes_out(function: Any) -> bool:
    code = function.__code__
    return "out" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


for _name in NAMES:
    _function = namespaces[""].get(_name)
    if _function is not None and not _takes_out(_function):
        _wide = with_out(_function)
        if _name in ("addmm", "baddbmm", "bmm", "mm"):
            _wide = with_out_dtype(_wide)
        namespaces[""][_name] = behind(_wide, getattr(_function, "_parser", None))
