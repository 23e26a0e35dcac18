"""Padding: a border of one value, or of what the tensor holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..backends.accumulate import add_at
from ..base.errors import text
from ..base.modes import state as modes
from ..base.scalars import element
from ..declare.kernel import kernel
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..events import observe
from ..tensors.tensor import Tensor, from_array
from .constant import piecewise
from .creation import arange

Border = tuple[tuple[int, int], ...]


def _pad_forward(xp: Any, x: Any, border: Border, value: float) -> Any:
    out = xp.full(tuple(n + a + b for n, (a, b) in zip(x.shape, border, strict=True)), value, x.dtype)
    there = tuple(slice(max(a, 0), n - max(b, 0)) for n, (a, b) in zip(out.shape, border, strict=True))
    here = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, border, strict=True))
    out[there] = x[here]
    return out


def _pad_vjp(g: Tensor, border: Border) -> Tensor:
    return _pad(g, border=tuple((-a, -b) for a, b in border), value=0.0)


_pad = operation(
    "constant_pad",
    _pad_forward,
    params={"border": (), "value": 0.0},
    vjp=_pad_vjp,
    samples=lambda rng: [
        ((rng.uniform(-1, 1, (2, 3, 4)),), {"border": b, "value": v})
        for b, v in [(((0, 0), (1, 2), (0, 1)), 0.0), (((0, 0), (-1, 0), (2, -1)), 0.5)]
    ],
)


def _source(arange: Any, n: int, before: int, after: int, mode: str) -> Any:
    """Return which element of n each place of the padded dimension shows; `arange` makes an array or a tensor."""
    if mode == "circular":  # what negative numbers crop is gone before the rest is wrapped around
        left = n + min(before, 0) + min(after, 0)
        return arange(-max(before, 0), left + max(after, 0)) % left + max(-before, 0)
    at = arange(-before, n + after)
    if mode == "replicate":
        return at.clip(0, n - 1)
    return (n - 1) - abs((n - 1) - abs(at))


@lru_cache(256)
def _known_source(n: int, before: int, after: int, mode: str) -> Any:
    """Return `_source` as an array that nobody writes to, made once: layers pad the same sizes again and again."""
    at = _source(np.arange, n, before, after, mode)
    at.flags.writeable = False
    return at


# -- a border of its own items -----------------------------------------------------------------------------------------


def _self_pad_forward(xp: Any, x: Any, border: Border, mode: str) -> Any:
    for d, (a, b) in enumerate(border):
        if a or b:
            x = xp.take(x, xp.asarray(_known_source(x.shape[d], a, b, mode)), axis=d)
    return x.copy()


def _self_pad_back_forward(xp: Any, g: Any, shape: tuple[int, ...], border: Border, mode: str) -> Any:
    for d, (a, b) in enumerate(border):
        if a or b:
            out = xp.zeros((*g.shape[:d], shape[d], *g.shape[d + 1 :]), g.dtype)
            add_at(xp, out, (slice(None),) * d + (xp.asarray(_known_source(shape[d], a, b, mode)),), g)
            g = out
    return g.copy()


def _border_samples(rng: Any) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    return [((2, 3, 4), {"border": b, "mode": m})
            for b, m in [(((0, 0), (1, 2), (0, 1)), "reflect"), (((2, 1), (0, 3), (1, 1)), "replicate"),
                         (((0, 0), (0, 0), (4, 2)), "circular")]]  # fmt: skip


_self_pad: Any = operation(
    "self_pad", _self_pad_forward, params={"border": (), "mode": "reflect"},
    vjp=lambda g, x_shape, border, mode: _self_pad_back(g, shape=x_shape, border=border, mode=mode),
    samples=lambda rng: [((rng.uniform(-1, 1, s),), p) for s, p in _border_samples(rng)],
    doc="x with a border of its own items.",
)  # fmt: skip
_self_pad_back: Any = operation(
    "self_pad_back", _self_pad_back_forward, inputs="g_", params={"shape": (), "border": (), "mode": "reflect"},
    vjp=lambda g, border, mode: _self_pad(g, border=border, mode=mode),
    samples=lambda rng: [((rng.uniform(-1, 1, [n + a + b for n, (a, b) in zip(s, p["border"], strict=True)]),),
                          {"shape": s, **p}) for s, p in _border_samples(rng)],
    doc="The sums of what stands at the places of `self_pad` that show an item.",
)  # fmt: skip
kernel(
    "self_pad",
    "x: item[*all], border: pairs, mode: text",
    plan="border_plan: border_planned(address(plan), x.shape, x.ndim, border, len(border), mode, 0)",
    gives="y: item[plan]",
    call="border_copied(address(plan), x, y, x.item)",
    misfit=True,
    half=False,
)
for _name, _g, _shape in (("self_pad.backward", "g", "x_shape: shape[*all]"),
                          ("self_pad_back", "g_", "shape: shape[*all]")):  # fmt: skip
    _of = _shape.partition(":")[0]
    kernel(
        _name,
        f"{_g}: real[...], {_shape}, border: pairs, mode: text",
        plan=f"border_plan: border_planned(address(plan), {_of}.shape, {_of}.ndim, border, len(border), mode, 1)"
        f" and {_g}.size == plan.outer * plan.wide[0] * plan.wide[1] * plan.wide[2]",
        gives="gx: real[*all]" + ("," if "." in _name else ""),
        call=f"border_summed.T(address(plan), {_g}, gx)",
        misfit=True,
        half=False,
    )


@public(
    method=False,
    namespace="nn.functional",
    home="layers",
    fast=[
        Fast(body="bordered(op.constant_pad, input, pad, value)", types={"input": "real"}),
        Fast(body="bordered_by_itself(op.self_pad, input, pad, mode)", types={"input": "piece"}, raw=("mode",)),
    ],
)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with a border. `pad` is (left, right, top, bottom, ...), the last dimension first; negative crops.

    The modes are "constant" (`value`, 0 unless given), "reflect", "replicate" and "circular".

    >>> import core
    >>> core.nn.functional.pad(core.tensor([[1, 2, 3]]), (1, 2), value=9)
    tensor([[9, 1, 2, 3, 9, 9]])
    >>> core.nn.functional.pad(core.tensor([[1, 2, 3]]), (2, 0), mode="reflect")
    tensor([[3, 2, 1, 2, 3]])
    """
    sizes = tuple(n if isinstance(n, int) else int(n) for n in pad)  # a size that is exported stays one
    if len(sizes) % 2:
        raise RuntimeError(text("Padding length must be divisible by 2", op="pad", came=f"{sizes}"))
    if len(sizes) > 2 * input.ndim:
        raise RuntimeError(
            text(
                "Padding length should be less than or equal to two times the input dimension but got padding "
                f"length {len(sizes)} and input of dimension {input.ndim}",
                op="pad",
            )
        )
    pairs = [(sizes[i], sizes[i + 1]) for i in range(0, len(sizes), 2)]
    border = ((0, 0),) * (input.ndim - len(pairs)) + tuple(reversed(pairs))
    for n, (a, b) in zip(input._a.shape, border, strict=True):
        if n + a + b < 0 or n + min(a, 0) + min(b, 0) < 0:
            raise RuntimeError(
                text("narrow(): length must be non-negative.", op="pad", came=f"size {n} cropped by {-a} and {-b}")
            )
    if mode == "constant":
        number = 0.0 if value is None else element(value, input.dtype, "pad") if value else value
        return _pad(input, border=border, value=number)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            text(f"Unrecognised padding mode {mode}", op="pad", needed="constant, reflect, replicate or circular")
        )
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    y = input
    for d, (a, b) in enumerate(border):
        n = input._a.shape[d]
        if mode == "reflect" and max(a, b) >= n > 0 and (a or b):
            raise RuntimeError(
                text(
                    "Padding size should be less than the corresponding input dimension, but got: padding "
                    f"({a}, {b}) at dimension {d} of input {list(input.shape)}",
                    op="pad",
                )
            )
        if mode == "circular" and max(a, b) > n + min(a, 0) + min(b, 0):
            raise RuntimeError(
                text("Padding value causes wrapping around more than once.", op="pad", came=f"({a}, {b}) of {n}")
            )
        if mode == "circular" and n + a + b == 0 and n:
            raise RuntimeError(text("Negative padding value is resulting in an empty dimension", op="pad",
                                    came=f"({a}, {b}) of {n}"))  # fmt: skip
    plain = input.device.type == "cpu" and modes.batch is None and not observe.wanted("as ops")
    if plain and input._a.size and min(map(min, border)) >= 0:
        y = _self_pad(input, border=border, mode=mode)
        return y if mode == "circular" else piecewise(y)
    for d, (a, b) in enumerate(border):
        n = input._a.shape[d]
        if a or b:
            size = input.shape[d]
            if type(size) is int:
                source = from_array(_known_source(n, a, b, mode)).to(input.device)
            else:  # a size that is exported: by ops, which a program can have
                source = _source(partial(arange, device=input.device), size, a, b, mode)
            y = y.index_select(d, source)
    return y if mode == "circular" else piecewise(y)
