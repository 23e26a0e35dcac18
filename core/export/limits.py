"""What the numbers of an op have to be before its kernels get them, where a file says them.

Kernels trust the functions that call them to have looked: strides that lead out of an array, windows that begin behind
its end, or sizes whose product is no number of 64 bits would read other memory. Here is what those functions ask,
where an op needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_MOST = 2**40  # of a single number: far beyond any size, and products of two are still numbers
_MOST_ELEMENTS = 2**48

Shapes = Sequence[tuple[int, ...] | None]


def complaint(name: str, shapes: Shapes, params: dict[str, Any]) -> str | None:
    """Return what is wrong with the numbers of an op on tensors of these shapes; None where nothing is.

    >>> complaint("unfold", [(2, 5)], {"dim": 1, "size": 6, "step": 1})
    'size 6, of 5 elements'
    >>> complaint("unfold", [(2, 5)], {"dim": 1, "size": 3, "step": 2}) is None
    True
    """
    large = next((n for n in _whole_numbers(params.values()) if abs(n) > _MOST), None)
    if large is not None:
        return f"the number {large if abs(large) < 2**64 else 'of more than 64 bits'}"
    rule = _RULES.get(name)
    try:
        return rule(shapes, params) if rule is not None else None
    except (TypeError, IndexError, KeyError, ValueError):
        return f"parameters that do not go with tensors of shapes {shapes}"


def _whole_numbers(values: Iterable[Any]) -> Iterable[int]:
    for x in values:
        if isinstance(x, int):
            yield x
        elif isinstance(x, tuple):
            yield from _whole_numbers(x)
        elif isinstance(x, slice):
            yield from _whole_numbers((x.start, x.stop, x.step))


def _shape(shapes: Shapes, k: int = 0) -> tuple[int, ...]:
    found = shapes[k]
    if found is None:
        raise ValueError
    return found


def _each(params: dict[str, Any], least: dict[str, int], count: int) -> str | None:
    """Return a complaint about tuples that need a whole number for each of `count` dimensions."""
    for name, low in least.items():
        numbers = params[name]
        if len(numbers) != count or any(type(n) is not int or n < low for n in numbers):
            return f"{name} {numbers}, where {count} whole numbers of at least {low} are needed"
    return None


def _conv(shapes: Shapes, p: dict[str, Any]) -> str | None:
    x, weight, n = _shape(shapes), _shape(shapes, 1), len(_shape(shapes)) - 2
    wrong = _each(p, {"stride": 1, "padding": 0, "dilation": 1}, n)
    if wrong or n < 1 or len(weight) != n + 2 or p["groups"] < 1 or 0 in weight:
        return wrong or f"a weight of shape {weight} and {p['groups']} groups"
    if x[1] != weight[1] * p["groups"] or weight[0] % p["groups"] or not _is_bias(shapes, weight[0]):
        return f"a weight of shape {weight} for {x[1]} channels in {p['groups']} groups"
    sizes = zip(x[2:], weight[2:], p["padding"], p["dilation"], strict=True)
    small = any(m + 2 * pad < d * (k - 1) + 1 for m, k, pad, d in sizes)
    return f"a kernel {weight[2:]} larger than the input {x[2:]}" if small else None


def _conv_transpose(shapes: Shapes, p: dict[str, Any]) -> str | None:
    x, weight, n = _shape(shapes), _shape(shapes, 1), len(_shape(shapes)) - 2
    wrong = _each(p, {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}, n)
    if wrong or n < 1 or len(weight) != n + 2 or p["groups"] < 1 or 0 in weight:
        return wrong or f"a weight of shape {weight} and {p['groups']} groups"
    if x[1] != weight[0] or weight[0] % p["groups"] or not _is_bias(shapes, weight[1] * p["groups"]):
        return f"a weight of shape {weight} for {x[1]} channels in {p['groups']} groups"
    sizes = zip(x[2:], weight[2:], p["stride"], p["padding"], p["dilation"], p["output_padding"], strict=True)
    out = [(m - 1) * s - 2 * pad + d * (k - 1) + 1 + o for m, k, s, pad, d, o in sizes]
    fits = min(out) >= 0 and math.prod(out) * max(1, x[0] * weight[1] * p["groups"]) <= _MOST_ELEMENTS
    return None if fits else f"an output of {tuple(out)} places"


def _is_bias(shapes: Shapes, channels: int) -> bool:
    return len(shapes) < 3 or shapes[2] is None or shapes[2] == (channels,)


def _conv_weight(shapes: Shapes, p: dict[str, Any]) -> str | None:
    x, y, n = _shape(shapes), _shape(shapes, 1), len(_shape(shapes)) - 2
    wrong = _each(p, {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1}, n)
    if wrong or len(y) != n + 2 or x[0] != y[0] or p["groups"] < 1 or x[1] % p["groups"] or y[1] % p["groups"]:
        return wrong or f"tensors of shapes {x} and {y} in {p['groups']} groups"
    return _reaching(x[2:], p, y[2:])


def _pool(shapes: Shapes, p: dict[str, Any]) -> str | None:
    n = len(p["kernel"])
    wrong = _each(p, {"kernel": 1, "stride": 1, "padding": 0, "out": 1}, n)
    wrong = wrong or (_each(p, {"dilation": 1}, n) if "dilation" in p else None)
    if wrong or not 0 < n <= len(_shape(shapes)) or 0 in _shape(shapes)[-n:]:
        return wrong or f"a kernel of {n} dimensions"
    return _reaching(_shape(shapes)[-n:], {"dilation": (1,) * n, **p}, p["out"], ceil=True)


def _reaching(sizes: Sequence[int], p: dict[str, Any], out: Sequence[int], ceil: bool = False) -> str | None:
    """Return a complaint about windows that lie behind the end; with `ceil` the last may begin inside and end after."""
    for m, k, s, pad, d, o in zip(sizes, p["kernel"], p["stride"], p["padding"], p["dilation"], out, strict=True):
        last = (o - 1) * s
        if pad > d * (k - 1) or (last >= m + pad if ceil else last + d * (k - 1) + 1 > m + 2 * pad):
            return f"{o} windows of {k} with stride {s} and padding {pad} over {m} elements"
    return None


def _adaptive(shapes: Shapes, p: dict[str, Any]) -> str | None:
    n = len(p["out"])
    if 0 in _shape(shapes)[-n:] or math.prod(_shape(shapes)[:-n]) * math.prod(p["out"]) > _MOST_ELEMENTS:
        return f"an output of {p['out']} places"
    return _each(p, {"out": 1}, len(p["out"]))


def _spread(shapes: Shapes, p: dict[str, Any]) -> str | None:
    n = len(p["kernel"])
    return _each(p, {"kernel": 1, "stride": 1, "padding": 0, "sizes": 1}, n)


def _columns(shapes: Shapes, p: dict[str, Any]) -> str | None:
    n = len(p["kernel"])
    wrong = _each(p, {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1}, n)
    sizes = p["sizes"] if "sizes" in p else _shape(shapes)[2:]
    if wrong or len(sizes) != n:
        return wrong or f"a kernel of {n} dimensions"
    windows = zip(sizes, p["kernel"], p["padding"], p["dilation"], strict=True)
    small = any(m + 2 * pad < d * (k - 1) + 1 for m, k, pad, d in windows)
    return f"a kernel {p['kernel']} larger than the input {tuple(sizes)}" if small else None


def _unfold(shapes: Shapes, p: dict[str, Any]) -> str | None:
    if not 0 <= p["dim"] < len(_shape(shapes)):
        return f"dim {p['dim']}"
    n = _shape(shapes)[p["dim"]]
    return None if 0 < p["size"] <= n and p["step"] > 0 else f"size {p['size']}, of {n} elements"


def _diagonal(shapes: Shapes, p: dict[str, Any]) -> str | None:
    ndim = len(p["shape"]) if "shape" in p else len(_shape(shapes))
    a, b = p["dim1"], p["dim2"]
    return None if 0 <= a < ndim and 0 <= b < ndim and a != b else f"the dimensions {a} and {b}, of {ndim}"


def _strided(shapes: Shapes, p: dict[str, Any]) -> str | None:
    size, stride, offset = p["size"], p["stride"], p["offset"]
    if len(size) != len(stride) or min((offset, *size, *stride), default=0) < 0:
        return f"size {size}, stride {stride}, offset {offset}"
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    inside = 0 in size or last < math.prod(_shape(shapes))
    return None if inside else f"element {last} of {math.prod(_shape(shapes))}"


def _repeat(shapes: Shapes, p: dict[str, Any]) -> str | None:
    by = p["sizes"] if "sizes" in p else (p["repeats"],)
    count = math.prod(_shape(shapes)) * math.prod(by)
    return None if min(by, default=0) >= 0 and count <= _MOST_ELEMENTS else f"a result of {count} elements"


def _recurrent(gates: int) -> Callable[[Shapes, dict[str, Any]], str | None]:
    def rule(shapes: Shapes, p: dict[str, Any]) -> str | None:
        x, w_ih, w_hh = (_shape(shapes, k) for k in range(3))
        sizes = p["sizes"]
        if len(w_ih) != 2 or len(w_hh) != 2 or w_hh[0] % gates or w_ih != (w_hh[0], x[-1]):
            return f"weights of shapes {w_ih} and {w_hh} for an input of shape {x}"
        hidden, width = w_hh[0] // gates, w_hh[1]
        if sizes is None:
            if len(x) != 3:
                return f"an input of shape {x}"
            batch = x[0] if p["batch_first"] else x[1]
        else:
            falling = all(a >= b > 0 for a, b in zip(sizes, (*sizes[1:], 1), strict=True))
            if len(x) != 2 or not falling or sum(sizes) != x[0]:
                return f"steps of {sizes} sequences for {x[0]} rows"
            batch = sizes[0]
        wanted = [(w_hh[0],), (w_hh[0],), (batch, width), (batch, hidden), (width, hidden)]
        for found, shape in zip(shapes[3:], wanted, strict=False):
            if found is not None and found != shape:
                return f"a tensor of shape {found}, where {shape} is needed"
        projected = len(shapes) > 7 and shapes[7] is not None
        return None if projected or hidden == width else f"a weight of shape {w_hh}"

    return rule


def _bound(name: str, most: int) -> Callable[[Shapes, dict[str, Any]], str | None]:
    def rule(shapes: Shapes, p: dict[str, Any]) -> str | None:
        return None if 0 <= p[name] <= most else f"{name} {p[name]}, where at most {most:,} is computed"

    return rule


_RULES: dict[str, Callable[[Shapes, dict[str, Any]], str | None]] = {
    "conv": _conv, "conv_transpose": _conv_transpose, "conv_weight": _conv_weight, "max_pool": _pool,
    "window_sum": _pool, "adaptive_max_pool": _adaptive, "window_spread": _spread, "im2col": _columns,
    "col2im": _columns, "unfold": _unfold, "diagonal": _diagonal, "diagonal_backward": _diagonal,
    "as_strided": _strided, "repeat": _repeat, "repeat_interleave": _repeat, "lstm": _recurrent(4),
    "gru": _recurrent(3), "rnn": _recurrent(1), "polygamma": _bound("n", 10_000),
}  # fmt: skip
