"""Rows of the running sums, products, extremes and log-sums, forward and backward, along any dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import Row
from .shared import array_library, empty, floating, name


def _dense(a: Any) -> Any:
    return array_library().ascontiguousarray(a)


def _scan(kind: str, x: Any, dim: int, reverse: bool = False) -> Any:
    from triton_kernels import scan

    x = _dense(x)
    y = empty(x.shape, x.dtype)
    scan.scan_forward(kind, x, dim, y, None, reverse)
    return y


def _extreme(kind: str, x: Any, dim: int) -> Any:
    from triton_kernels import scan

    x = _dense(x)
    values, places = empty(x.shape, x.dtype), empty(x.shape, np.int64)
    scan.scan_forward(kind, x, dim, values, places)
    return values, places


def _backward(kind: str, g: Any, x: Any, y: Any, dim: int) -> Any:
    from triton_kernels import scan

    g, x = _dense(g), _dense(x)
    out = empty(g.shape, g.dtype)
    scan.scan_backward(kind, g, x, None if y is None else _dense(y), dim, out)
    return (out,)


def _takes(x: Any, *others: Any) -> str | None:
    return floating(x, *others) or ("needs a dimension to run along, got a 0-d tensor" if x.ndim == 0 else None)


def _sum_takes(x: Any) -> str | None:
    if x.dtype == np.int64:
        return None if x.ndim else "needs a dimension to run along, got a 0-d tensor"
    return _takes(x)


def _running(kind: str) -> dict[str, Row]:
    return {
        f"cum{kind}": Row("scan_kernel", name, lambda x, dim: _extreme(kind, x, dim), lambda x, dim: _takes(x)),
        f"cum{kind}.backward": Row("scan_backward_kernel", name,
                                   lambda g, indices, dim, **_: _backward("extreme", g[0], indices, None, dim),
                                   lambda g, **_: _takes(g[0])),
    }  # fmt: skip


ROWS = {
    "cumsum": Row("scan_kernel", name, lambda x, dim, reverse: _scan("sum", x, dim, reverse),
                  lambda x, dim, reverse: _sum_takes(x)),
    "cumprod": Row("scan_kernel", name, lambda x, dim: _scan("prod", x, dim), lambda x, dim: _takes(x)),
    "cumprod.backward": Row("scan_backward_kernel", name, lambda g, x, y, dim: _backward("prod", g, x, y, dim),
                            lambda g, x, y, dim: _takes(x, g, y)),
    "logcumsumexp": Row("scan_kernel", name, lambda x, dim: _scan("logsumexp", x, dim), lambda x, dim: _takes(x)),
    "logcumsumexp.backward": Row("scan_backward_kernel", name,
                                 lambda g, x, y, dim: _backward("logsumexp", g, x, y, dim),
                                 lambda g, x, y, dim: _takes(x, g, y)),
    **_running("max"),
    **_running("min"),
}  # fmt: skip
