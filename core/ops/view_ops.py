"""The view ops themselves: what each does to an array's shape and strides, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare import op as declarations
from ..dispatch.declare import operation
from ..tensors.tensor import Tensor


def samples(*many: dict[str, Any]) -> Any:
    """Argument sets for an op over one (2, 3, 4) tensor."""
    return lambda rng: [((rng.uniform(-2, 2, (2, 3, 4)),), params) for params in many]


_view = operation("view", lambda xp, x, shape: x.reshape(shape), params={"shape": ()}, view=True,
                  vjp=lambda g, x_shape: g.reshape(x_shape), samples=samples({"shape": (6, 4)}))  # fmt: skip
_permute = operation("permute", lambda xp, x, dims: x.transpose(dims), params={"dims": ()}, view=True,
                     vjp=lambda g, dims: g.permute(tuple(int(i) for i in np.argsort(dims))),
                     samples=samples({"dims": (2, 0, 1)}))  # fmt: skip
_transpose: Any = operation("transpose", lambda xp, x, dim0, dim1: x.swapaxes(dim0, dim1), view=True,
                            params={"dim0": 0, "dim1": 1},
                            vjp=lambda g, dim0, dim1: _transpose(g, dim0=dim0, dim1=dim1),
                            samples=samples({"dim0": 0, "dim1": 2}))  # fmt: skip
_t: Any = operation("t", lambda xp, x: x.T, view=True, vjp=lambda g: _t(g),
               samples=lambda rng: [((rng.uniform(-2, 2, (2, 3)),), {})])  # fmt: skip
_squeeze = operation("squeeze", lambda xp, x, dims: x.squeeze(dims), params={"dims": ()}, view=True,
                     vjp=lambda g, x_shape: g.reshape(x_shape),
                     samples=lambda rng: [((rng.uniform(-2, 2, (2, 1, 3)),), {"dims": (1,)})])  # fmt: skip
_unsqueeze = operation(
    "unsqueeze",
    lambda xp, x, dim: xp.expand_dims(x, dim),
    params={"dim": 0},
    view=True,
    vjp=lambda g, dim: _squeeze(g, dims=(dim,)),
    samples=samples({"dim": 1}, {"dim": 3}),
)
_slice = operation(
    "slice",
    lambda xp, x, key: x[key],
    params={"key": ()},
    view=True,
    vjp=lambda g, x_shape, key: _slice_backward(g, shape=x_shape, key=key),
    samples=samples({"key": (1, slice(0, 3, 2), Ellipsis)}, {"key": (Ellipsis, None, slice(1, 3))}),
)
_select = operation("select", lambda xp, x, key: x[key], params={"key": ()}, view=True,
                    vjp=lambda g, x_shape, key: _slice_backward(g, shape=x_shape, key=key),
                    samples=samples({"key": (1, Ellipsis)}))  # fmt: skip
_slice_backward: Any = operation(
    "slice_backward",
    lambda xp, g_, shape, key: _placed(xp, g_, shape, key),
    inputs="g_",
    params={"shape": (), "key": ()},
    vjp=lambda g, key: _slice(g, key=key),
    samples=lambda rng: [((rng.uniform(-2, 2, (3, 2)),), {"shape": (3, 4), "key": (Ellipsis, slice(1, 3))})],
)
_expand = operation("expand", lambda xp, x, shape: _expanded(xp, x, shape), params={"shape": ()}, view=True,
                    vjp=lambda g, x_shape: g.sum_to_size(x_shape),
                    samples=lambda rng: [((rng.uniform(-2, 2, (3, 1)),), {"shape": (2, 3, 4)})])  # fmt: skip
_diagonal = operation(
    "diagonal",
    lambda xp, x, offset, dim1, dim2: _diagonal_of(xp, x, offset, dim1, dim2),
    view=True,
    params={"offset": 0, "dim1": 0, "dim2": 1},
    vjp=lambda g, x_shape, offset, dim1, dim2: _diagonal_backward(
        g, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2
    ),
    samples=samples({"offset": 1, "dim1": 0, "dim2": 2}, {"offset": -1, "dim1": 1, "dim2": 2}),
)
_diagonal_backward: Any = operation(
    "diagonal_backward",
    lambda xp, g_, shape, offset, dim1, dim2: _on_diagonal(xp, g_, shape, offset, dim1, dim2),
    inputs="g_",
    params={"shape": (), "offset": 0, "dim1": 0, "dim2": 1},
    vjp=lambda g, offset, dim1, dim2: _diagonal(g, offset=offset, dim1=dim1, dim2=dim2),
    samples=lambda rng: [((rng.uniform(-2, 2, (3,)),), {"shape": (3, 4), "offset": 1})],
)
_split = operation(
    "split",
    lambda xp, x, sizes, dim: _pieces(x, sizes, dim),
    params={"sizes": (), "dim": 0},
    view=True,
    returns=0,
    vjp=lambda g, dim: _joined("cat", g, dim),
    samples=samples({"sizes": (1, 2), "dim": 1}),
)
_unbind = operation("unbind", lambda xp, x, dim: tuple(x[(*(slice(None),) * dim, i, ...)] for i in range(x.shape[dim])),
                    params={"dim": 0}, view=True, returns=0, vjp=lambda g, dim: _joined("stack", g, dim),
                    samples=samples({"dim": 1}))  # fmt: skip


_unfold = operation(
    "unfold",
    lambda xp, x, dim, size, step: _windows(xp, x, dim, size, step),
    view=True,
    params={"dim": 0, "size": 1, "step": 1},
    vjp=lambda g, x_shape, dim, size, step: _unfold_backward(g, shape=x_shape, dim=dim, size=size, step=step),
    samples=samples({"dim": 2, "size": 2, "step": 1}, {"dim": 1, "size": 1, "step": 2}),
)
_unfold_backward: Any = operation("unfold_backward",
                             lambda xp, g_, shape, dim, size, step: _from_windows(xp, g_, shape, dim, size, step),
                             inputs="g_", params={"shape": (), "dim": 0, "size": 1, "step": 1},
                             vjp=lambda g, dim, size, step: _unfold(g, dim=dim, size=size, step=step),
                             samples=lambda rng: [((rng.uniform(-2, 2, (2, 3, 2)),),
                                                   {"shape": (2, 4), "dim": 1, "size": 2, "step": 1})])  # fmt: skip


def _expanded(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """A view of another shape, which may be written where nothing is stretched."""
    return x.reshape(shape) if x.size == math.prod(shape) else xp.broadcast_to(x, shape)


def _windows(xp: Any, x: Any, dim: int, size: int, step: int) -> Any:
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def _from_windows(xp: Any, g: Any, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    out = xp.zeros(shape, g.dtype)
    for k in range(size):  # windows overlap: one element of each at a time, so that no two write to one place
        out[(*(slice(None),) * dim, slice(k, k + step * (g.shape[dim] - 1) + 1, step))] += g[..., k]
    return out


def _placed(xp: Any, g: Any, shape: tuple[int, ...], key: Any) -> Any:
    z = xp.zeros(shape, g.dtype)
    z[key] = g
    return z


def _diagonal_of(xp: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    cut = [slice(None)] * x.ndim
    cut[dim2 if offset >= 0 else dim1] = slice(abs(offset), None)
    x = x[tuple(cut)]
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape = (*(x.shape[d] for d in rest), min(x.shape[dim1], x.shape[dim2]))
    strides = (*(x.strides[d] for d in rest), x.strides[dim1] + x.strides[dim2])
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def _on_diagonal(xp: Any, g: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    z = xp.zeros(shape, g.dtype)
    _diagonal_of(xp, z, offset, dim1, dim2)[...] = g
    return z


def _pieces(x: Any, sizes: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    at, out = 0, []
    for n in sizes:
        out.append(x[(*(slice(None),) * dim, slice(at, at + n))])
        at += n
    return tuple(out)


def _joined(how: str, g: Any, dim: int) -> Tensor:
    return declarations.functions[how](g if isinstance(g, tuple | list) else (g,), dim)
