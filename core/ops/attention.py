"""Scaled dot product attention: one op where nothing is dropped, else a product of several."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from .. import native
from ..base import dtypes
from ..base.errors import text
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..rng import philox
from ..rng.generator import default_of
from ..tensors.tensor import Tensor
from .creation import ones
from .dropout import _dropout, dropout
from .linalg import matmul
from .precision import rounded, wide
from .softmax import softmax
from .where import where

# -- one op ------------------------------------------------------------------------------------------------------------


def _shares(heads: int, a: Any) -> int:
    """Return how many of `heads` heads of queries share each of the keys' or values' `a`; 1 where heads broadcast as
    ever."""
    own = a.shape[-3] if len(a.shape) > 2 else 1
    return max(1, heads // own) if own > 1 else 1


def _forward(xp: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, p: float, seed: int,
             offset: int) -> Any:  # fmt: skip
    wq, wk, wv = wide(q), wide(k), wide(v)
    if q.ndim > 2:
        wk, wv = (a if _shares(q.shape[-3], a) == 1 else xp.repeat(a, _shares(q.shape[-3], a), -3) for a in (wk, wv))
    low = wq.dtype.type(-math.inf)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        x = xp.matmul(wq * wq.dtype.type(scale), xp.swapaxes(wk, -1, -2))
        if mask is not None:
            x = xp.where(mask, x, low) if mask.dtype == bool else x + wide(mask)
        if causal:
            x = xp.where(xp.tril(xp.ones(x.shape[-2:], bool)), x, low)
        # CuPy's max has no `initial`, for no keys at all
        top = x.max(axis=-1, keepdims=True) if x.shape[-1] else xp.zeros((*x.shape[:-1], 1), x.dtype)
        top = xp.where(top == low, x.dtype.type(0), top)
        e = xp.exp(x - top)
        total = e.sum(axis=-1, keepdims=True)
        logs = xp.where(total == 0, -low, top + xp.log(total))  # what sees nothing gives 0: e to the minus infinity
        w = e / xp.where(total == 0, total.dtype.type(1), total)
    if p:
        kept = philox.uniform(xp, seed, offset, w.size).reshape(w.shape) >= np.float32(p)
        w = xp.where(kept, w * w.dtype.type(1 / (1 - p) if p < 1 else 0), w.dtype.type(0))
    y = xp.ascontiguousarray(xp.matmul(w, wv))
    return rounded(y, q.dtype), logs.astype(wq.dtype)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    """softmax(q kᵀ scale + mask), from ops."""
    scores = matmul(q * scale, k.mT)
    if causal:
        seen = ones(*scores._a.shape[-2:], dtype=dtypes.bool_, device=q.device).tril()
        scores = where(seen, scores, -math.inf)
    empty = None
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype is dtypes.bool_ else scores + mask
        empty = scores.detach().amax(-1, keepdim=True) == -math.inf if scores._a.size else None  # type: ignore[attr-defined]
    if empty is None:
        return softmax(scores, -1)
    return where(empty, 0.0, softmax(where(empty, 0.0, scores), -1))


def _vjp(g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, y: Tensor, logs: Tensor, scale: float,
         causal: bool, p: float, seed: int, offset: int, needs: tuple[bool, ...]) -> Any:  # fmt: skip
    dtype, inner = q.dtype, logs.dtype  # `y` and `logs` are for kernels, which make the weights again from them
    q, k, v, g = q.to(inner), k.to(inner), v.to(inner), g.to(inner)
    k_shares, v_shares = (_shares(q._a.shape[-3] if q.ndim > 2 else 1, t) for t in (k, v))
    k, v = _repeated(k, k_shares), _repeated(v, v_shares)
    w = _weights(q, k, mask if mask is None or mask.dtype is dtypes.bool_ else mask.to(inner), scale, causal)
    gq = gk = gv = gmask = None
    if needs[2]:
        gv = matmul((_dropout(w, p=p, seed=seed, offset=offset) if p else w).mT, g).sum_to_size(v.shape)
        gv = _joined(gv, v_shares).to(dtype)
    if needs[0] or needs[1] or needs[3]:
        gw = matmul(g, v.mT)
        gw = _dropout(gw, p=p, seed=seed, offset=offset) if p else gw
        gs = w * (gw - (gw * w).sum(-1, keepdim=True))
        if needs[0]:
            gq = (matmul(gs, k) * scale).sum_to_size(q.shape).to(dtype)
        if needs[1]:
            gk = _joined((matmul(gs.mT, q) * scale).sum_to_size(k.shape), k_shares).to(dtype)
        if needs[3] and mask is not None:
            gmask = gs.sum_to_size(mask.shape).to(mask.dtype)
    return gq, gk, gv, gmask


def _repeated(t: Tensor, shares: int) -> Tensor:
    return t if shares == 1 else t.repeat_interleave(shares, -3)  # type: ignore[attr-defined, no-any-return]


def _joined(g: Tensor, shares: int) -> Tensor:
    """Return the sum over the heads that `_repeated` made of one."""
    return g if shares == 1 else g.unflatten(-3, (-1, shares)).sum(-3)  # type: ignore[attr-defined, no-any-return]


def _samples(rng: Any) -> list[Any]:
    def u(*shape: int) -> Any:
        return rng.uniform(-1, 1, shape)

    hidden = rng.uniform(0, 1, (3, 5)) > 0.4
    hidden[1] = False  # a row that may look at nothing
    return [
        ((u(2, 3, 4), u(2, 5, 4), u(2, 5, 3), None), {"scale": 0.5, "causal": False}),
        ((u(2, 2, 3, 4), u(2, 2, 3, 4), u(2, 2, 3, 4), None), {"scale": 0.5, "causal": True}),
        ((u(2, 2, 3, 4), u(2, 2, 5, 4), u(2, 2, 5, 4), u(2, 1, 3, 5)), {"scale": -0.3, "causal": False}),
        ((u(3, 4), u(5, 4), u(5, 4), hidden), {"scale": 0.5, "causal": False}),
        ((u(1, 2, 70, 3), u(1, 2, 37, 3), u(1, 2, 37, 2), None), {"scale": 0.5, "causal": True}),
        ((u(2, 4, 3, 4), u(2, 2, 5, 4), u(2, 2, 5, 3), None), {"scale": 0.5, "causal": True}),
        (
            (u(2, 4, 3, 4), u(2, 2, 5, 4), u(2, 2, 5, 4), u(2, 1, 3, 5)),
            {"scale": 0.5, "p": 0.4, "seed": 7, "offset": 3},
        ),
    ]


_attention = operation(
    "attention", _forward, inputs="q k v mask?", outputs="y logs", vjp=_vjp, samples=_samples,
    params={"scale": 1.0, "causal": False, "p": 0.0, "seed": 0, "offset": 0}, label="scaled_dot_product_attention",
    doc="dropout(softmax(q kᵀ scale + mask), p) v; heads of q may share those of k and v.",
)  # fmt: skip


# -- which way ---------------------------------------------------------------------------------------------------------


class _Choice(threading.local):
    """What `core.nn.attention.sdpa_kernel` allows: "one op", "several"."""

    ways: tuple[str, ...] = ("one", "several")


choice = _Choice()
if native.module is not None:
    native.module.set_attention_choice(choice)  # native/binding/calls/attention.c asks it


def _check(op: str, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool) -> None:
    for i, (name, t) in enumerate((("query", query), ("key", key), ("value", value))):
        if not isinstance(t, Tensor):
            raise TypeError(f"{op}(): argument '{name}' (position {i + 1}) must be Tensor, not {type(t).__name__}")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            text("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
                 f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.", op=op)
        )  # fmt: skip
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            text(f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype.c_type} "
                 f"key.dtype: {key.dtype.c_type} and value.dtype: {value.dtype.c_type} instead.", op=op)
        )  # fmt: skip
    if query.dtype.category < 2:
        raise RuntimeError(text(f"expected scalar type Float but found {query.dtype.scalar_type}", op=op,
                                remedy="q.float(), k.float(), v.float()"))  # fmt: skip
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(text(f"dropout probability has to be between 0 and 1, but got {dropout_p}", op=op))
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            text("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True", op=op)
        )
    if attn_mask is not None and attn_mask.dtype not in (dtypes.bool_, query.dtype):
        raise RuntimeError(
            text("Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                 f"{attn_mask.dtype.c_type} and  query.dtype: {query.dtype.c_type} instead.", op=op)
        )  # fmt: skip


def _shapes(op: str, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, shared: bool) -> None:
    """Raise, as the products would, for shapes that do not fit."""
    q = query._a.shape
    k, v = ((*t._a.shape[:-3], q[-3], *t._a.shape[-2:]) if shared else t._a.shape for t in (key, value))
    if q[-1] != k[-1] or k[-2] != v[-2]:
        raise RuntimeError(
            text(f"Expected size for first two dimensions of batch2 tensor to be: [{math.prod(q[:-2])}, {q[-1]}] but "
                 f"got: [{math.prod(k[:-2])}, {k[-1]}].", op=op, came=f"query {q}, key {k}, value {v}",
                 needed="query (..., l, d), key (..., s, d) and value (..., s, v)")
        )  # fmt: skip
    for other in (k, v):
        for d, (m, n) in enumerate(zip(q[-3::-1], other[-3::-1], strict=False)):
            if m != n and 1 not in (m, n):
                raise RuntimeError(
                    text(f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension "
                         f"{max(len(q), len(other)) - 3 - d}", op=op, came=f"query {q}, key {k}, value {v}",
                         remedy="enable_gqa=True where heads of queries share keys and values")
                )  # fmt: skip
    if attn_mask is not None:
        for d, (m, n) in enumerate(zip((q[-2], k[-2])[::-1], attn_mask._a.shape[:-3:-1], strict=False)):
            if n not in (1, m):
                raise RuntimeError(
                    text(f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension "
                         f"{len(q) - 1 - d}", op=op, came=f"attn_mask {attn_mask._a.shape}",
                         needed=f"what broadcasts to {(*q[:-2], q[-2], k[-2])}")
                )  # fmt: skip


def _shared(op: str, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether several heads of queries share one of keys and values; raises where they cannot."""
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise RuntimeError(text("enable_gqa needs query, key and value of at least 3 dimensions, the heads in the "
                                "third from the end", op=op))  # fmt: skip
    heads = query._a.shape[-3]
    if any(heads % t._a.shape[-3] for t in (key, value)):
        raise RuntimeError(
            text("Number of heads in key and value must divide the number of heads in query", op=op,
                 came=f"{heads} heads of queries, {key._a.shape[-3]} of keys, {value._a.shape[-3]} of values")
        )  # fmt: skip
    return any(heads != t._a.shape[-3] for t in (key, value))


@public(method=False, namespace="nn.functional", home="attention",
        fast=[Fast(body="attended(op.attention, query, key, value, is_causal, scale)",
                   types=dict.fromkeys(("query", "key", "value"), "real"))])  # fmt: skip
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """softmax(query @ keyᵀ * scale + mask) @ value; the scale is 1 / √d unless given. Source: arXiv 1706.03762.

    A bool mask says what may be looked at; any other is added to the scores. `is_causal` lets each position look at
    itself and what came before. `enable_gqa` lets several heads of queries share one of keys and values. A position
    that may look at nothing gives 0. `dropout_p` drops weights, whether or not anything trains.

    *Shapes*: query ``(..., l, d)``, key ``(..., s, d)``, value ``(..., s, v)`` -> ``(..., l, v)``.

    >>> import core
    >>> q = core.ones(1, 2, 4)
    >>> core.nn.functional.scaled_dot_product_attention(q, q, q).shape
    core.Size([1, 2, 4])
    """
    op = "scaled_dot_product_attention"
    _check(op, query, key, value, attn_mask, dropout_p, is_causal)
    shared = bool(enable_gqa) and _shared(op, query, key, value)
    _shapes(op, query, key, value, attn_mask, shared)
    width = query._a.shape[-1]
    factor = float((1 / math.sqrt(width) if width else 1.0) if scale is None else scale)
    # On a GPU one kernel lets heads share keys, and drops weights that are stored nowhere.
    drops = _counters(query, key, value, dropout_p) if dropout_p and query.is_cuda and "one" in choice.ways else {}
    way = next((w for w in choice.ways if w == "several" or dropout_p == 0 or drops), None)
    if shared and (way == "several" or not query.is_cuda):
        heads = query._a.shape[-3]
        key, value = (_repeated(t, heads // t._a.shape[-3]) for t in (key, value))
    if way == "one":
        return _attention(query, key, value, attn_mask, scale=factor, causal=bool(is_causal), **drops)  # type: ignore[no-any-return]
    if way is None:
        raise RuntimeError(
            text("No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both "
                 "the math kernel and the fused kernels.", op=op,
                 came="a sdpa_kernel that leaves none" + (f", with dropout_p={dropout_p}" if dropout_p else ""),
                 remedy="SDPBackend.MATH serves everything")
        )  # fmt: skip
    weights = _weights(query, key, attn_mask, factor, is_causal)
    return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _counters(query: Tensor, key: Tensor, value: Tensor, p: float) -> dict[str, Any]:
    """Return what the one op needs to drop weights, a random number set aside for each; nothing where the
    generator's numbers come in order."""
    lead = np.broadcast_shapes(query._a.shape[:-3], *(t._a.shape[:-3] for t in (key, value)))
    heads = max(t._a.shape[-3] if t.ndim > 2 else 1 for t in (query, key, value))
    taken = default_of(query.device).take(math.prod(lead) * heads * query._a.shape[-2] * key._a.shape[-2])
    return {} if taken is None else {"p": float(p), "seed": taken[0], "offset": taken[1]}
