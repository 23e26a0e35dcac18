"""What the larger kernels compute, in NumPy and float64: plain loops over few things, written from the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


def softmax(x: Array) -> Array:
    """Over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x: Array) -> Array:
    """Over the last axis."""
    top = x.max(-1)
    return np.log(np.exp(x - top[..., None]).sum(-1)) + top


# -- attention ---------------------------------------------------------------------------------------------------------


class Attended(NamedTuple):
    """Causal attention of one head with its gradients, and the scale of each one's errors."""

    out: Array
    logs: Array
    dq: Array
    dk: Array
    dv: Array
    sizes: dict[str, Array]


def attended(q: Array, k: Array, v: Array, g: Array | None = None) -> Iterator[Attended]:
    """Head by head, since scores are many. Row i sees the keys up to i."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    seen = np.arange(k.shape[2])[None, :] <= np.arange(q.shape[2])[:, None]
    for h in range(q.shape[1]):
        a, b, c = q[0, h], k[0, h], v[0, h]
        scores = np.where(seen, scale * (a @ b.T), -np.inf)
        p = softmax(scores)
        out, sizes = p @ c, {"out": p @ np.abs(c)}
        dq = dk = dv = np.empty(0)
        if g is not None:
            y = g[0, h]
            dv, sizes["dv"] = p.T @ y, p.T @ np.abs(y)
            dp, delta = y @ c.T, (y * out).sum(1, keepdims=True)
            ds = scale * p * (dp - delta)
            size = scale * p * (np.abs(y) @ np.abs(c).T + (np.abs(y) * sizes["out"]).sum(1, keepdims=True))
            dq, sizes["dq"] = ds @ b, size @ np.abs(b)
            dk, sizes["dk"] = ds.T @ a, size.T @ np.abs(a)
        yield Attended(out, logsumexp(scores), dq, dk, dv, sizes)


def heads(parts: list[Attended], name: str) -> tuple[Array, Array]:
    """Return a result of all heads as (1, heads, rows, items), and the scale of its errors."""
    return np.stack([getattr(p, name) for p in parts])[None], np.stack([p.sizes[name] for p in parts])[None] + 1e-7


# -- windows -----------------------------------------------------------------------------------------------------------


def windows(x: Array, kernel: Sequence[int], stride: int, fill: float) -> Array:
    """Return the windows of pictures (..., height, width) padded by (kernel - 1) // 2: (..., places, places, taps)."""
    edges = [(0, 0)] * (x.ndim - 2) + [((k - 1) // 2,) * 2 for k in kernel]
    padded = np.pad(x, edges, constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), (-2, -1))
    found = found[..., ::stride, ::stride, :, :]
    return found.reshape(*found.shape[:-2], -1)


def scattered(values: Array, kernel: Sequence[int], stride: int, sizes: Sequence[int]) -> Array:
    """Return the transpose of `windows`: (..., places, places, taps) added up at their places in pictures of
    `sizes`."""
    ph, pw = ((k - 1) // 2 for k in kernel)
    high, broad = values.shape[-3:-1]
    out = np.zeros((*values.shape[:-3], sizes[0] + 2 * ph + stride, sizes[1] + 2 * pw + stride))
    for tap in range(values.shape[-1]):
        i, j = divmod(tap, kernel[1])
        out[..., i : i + high * stride : stride, j : j + broad * stride : stride] += values[..., tap]
    return out[..., ph : ph + sizes[0], pw : pw + sizes[1]]


def convolved(x: Array, weight: Array) -> Array:
    """Return (N, C, H, W) by (O, C, kernel), in steps of one and padded by (kernel - 1) // 2."""
    columns = windows(x, weight.shape[2:], 1, 0.0)
    return np.einsum("nchwt,oct->nohw", columns, weight.reshape(*weight.shape[:2], -1), optimize=True)


def convolved_weight(x: Array, g: Array, kernel: Sequence[int]) -> Array:
    """Return the gradient of that weight, (O, C, kernel), from that of the result."""
    found = np.einsum("nchwt,nohw->oct", windows(x, kernel, 1, 0.0), g, optimize=True)
    return found.reshape(*found.shape[:2], *kernel)


# -- random numbers ----------------------------------------------------------------------------------------------------


def philox(seed: int, count: int) -> Array:
    """Return the first word of Philox4x32-10 at the counters from 0, as Triton's ``tl.rand`` makes a number of it.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
    """
    low = np.uint64(0xFFFFFFFF)
    at = np.arange(count, dtype=np.uint64)
    c0, c1, c2, c3 = at & low, at >> np.uint64(32), at * np.uint64(0), at * np.uint64(0)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & low
        c2, c3 = (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    folded = np.where(c0 < np.uint64(1 << 31), c0, ~c0 & low)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


# -- recurrence --------------------------------------------------------------------------------------------------------


def lstm(sums: Array, weight: Array, h: Array, c: Array) -> tuple[Array, Array, Array, Array]:
    """Two steps: the states of both, their cells and gates (i f g o), one step behind the other; the last states."""
    n, hidden = h.shape
    ys, cells, gates = [], [], []
    for step in range(2):
        z = (sums[step * n : (step + 1) * n] + h @ weight.T).reshape(n, 4, hidden)
        i, f, o = (1 / (1 + np.exp(-z[:, k])) for k in (0, 1, 3))
        g = np.tanh(z[:, 2])
        c = f * c + i * g
        h = o * np.tanh(c)
        ys.append(h)
        cells.append(c)
        gates.append(np.concatenate((i, f, g, o), 1))
    return np.concatenate(ys), np.concatenate(cells), np.concatenate(gates), h


def lstm_gradients(
    g: Array, weight: Array, cells: Array, c0: Array, gates: Array, dh: Array, dc: Array
) -> tuple[Array, Array]:
    """Of two steps the gradients of all sums, and of the first cells; `dh` and `dc` are those of the last ones."""
    n, hidden = c0.shape
    found: list[Array] = []
    later = np.zeros((n, 4 * hidden))
    for step in (1, 0):
        rows = slice(step * n, (step + 1) * n)
        i, f, c_new, o = gates[rows].reshape(n, 4, hidden).transpose(1, 0, 2)
        before = cells[:n] if step else c0
        d = g[rows] + (dh if step else later @ weight)
        t = np.tanh(cells[rows])
        dc = dc + d * o * (1 - t * t)
        later = np.concatenate((dc * c_new * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - c_new * c_new),
                                d * t * o * (1 - o)), 1)  # fmt: skip
        dc = dc * f
        found.insert(0, later)
    return np.concatenate(found), dc


# -- printed formulas --------------------------------------------------------------------------------------------------

_EVERY: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "div": np.divide, "pow": np.power, "round": np.rint,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "erf": np.vectorize(math.erf, [float]), "erfc": np.vectorize(math.erfc, [float]),
}  # fmt: skip


class _InNumPy:
    """Stands for `tl` and for `scalar` in a printed kernel's lines."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _EVERY.get(name) or getattr(np, name)  # type: ignore[no-any-return]


def printed(lines: Sequence[str], results: Sequence[str], values: dict[str, Any]) -> list[Array]:
    """Return a printed kernel's lines, run on arrays in NumPy; for each result its value."""
    names = {"tl": _InNumPy(), "scalar": _InNumPy(), "float": float, "__builtins__": {}}
    names |= values
    with np.errstate(all="ignore"):
        for line in lines:
            exec(line, names)
        return [np.asarray(eval(each, names)) for each in results]
