"""Inputs at random for `fuzz`: each function gives arrays of float64 (indices of int64) and an op's parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Made = tuple[tuple[Any, ...], dict[str, Any]]
EDGES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 200, 257)


def size(rng: Any, most: int = 300) -> int:
    """A size near which loops change their way."""
    return int(rng.choice([n for n in EDGES if n <= most]))


def sizes(rng: Any, axes: int, most: int = 20000) -> tuple[int, ...]:
    """A shape of so many axes with few enough items; now and then none, or enough for several threads."""
    most *= 30 if rng.random() < 0.03 else 1
    while True:
        shape = tuple(size(rng) for _ in range(axes))
        if math.prod(shape) <= most:
            return tuple(0 if rng.random() < 0.01 else n for n in shape)


# -- inputs ------------------------------------------------------------------------------------------------------------


def reduced(rng: Any) -> Made:
    x = rng.standard_normal(sizes(rng, int(rng.integers(1, 5))))
    dims = tuple(sorted(rng.choice(x.ndim, int(rng.integers(1, x.ndim + 1)), replace=False).tolist()))
    return (x,), {"dim": dims, "keepdim": bool(rng.random() < 0.5)}


def extreme(rng: Any) -> Made:
    while True:
        (x,), params = reduced(rng)
        if x.size:
            return (x,), params


def found(rng: Any) -> Made:
    (x,), params = extreme(rng)
    return (x,), {**params, "dim": params["dim"][0]}


def along(rng: Any) -> Made:
    x = 4 * rng.standard_normal(sizes(rng, int(rng.integers(1, 5))))
    return (x,), {"dim": int(rng.integers(x.ndim))}


def affine(rng: Any, shape: tuple[int, ...], both: bool = True) -> list[Any]:
    """A weight and a bias, or None for either."""
    return [rng.standard_normal(shape) if rng.random() < 0.7 else None for _ in range(1 + both)]


def normed(rng: Any, both: bool = True) -> Made:
    shape = sizes(rng, int(rng.integers(1, 4)))
    inner = int(rng.integers(1, len(shape) + 1))
    if 0 in shape:
        shape = tuple(max(n, 2) for n in shape)
    return ((rng.standard_normal(shape), *affine(rng, shape[-inner:], both)), {"normalized_ndim": inner, "eps": 1e-3})


def grouped(rng: Any) -> Made:
    groups, each = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    x = rng.standard_normal((size(rng, 9), groups * each, *sizes(rng, int(rng.integers(0, 3)), 300)))
    return ((x if x.size else np.ones((1, groups * each, 3)), *affine(rng, (groups * each,))),
            {"num_groups": groups, "eps": 1e-3})  # fmt: skip


def batch(rng: Any, known: bool) -> Made:
    channels = size(rng, 70)
    shape = (size(rng, 9) + 1, channels, *sizes(rng, int(rng.integers(0, 3)), 300))
    x = rng.standard_normal(tuple(max(n, 1) for n in shape))
    state = [rng.standard_normal(channels), rng.random(channels) + 0.5] if known else []
    return (x, *state, *affine(rng, (channels,))), {"eps": 1e-3}


def classes(rng: Any) -> Made:
    rows, columns = size(rng, 130), size(rng)
    target = rng.integers(0, columns, rows)
    target[rng.random(rows) < 0.2] = -100
    target[0] = 0
    weight = rng.random(columns) + 0.1 if rng.random() < 0.4 else None
    return ((3 * rng.standard_normal((rows, columns)), target, weight),
            {"ignore_index": -100, "label_smoothing": float(rng.choice([0.0, 0.1]))})  # fmt: skip


def looked_up(rng: Any) -> Made:
    rows = size(rng, 100)
    index = rng.integers(0, rows, sizes(rng, int(rng.integers(1, 4)), 300))
    return (rng.standard_normal((rows, size(rng, 130))), index), {"padding_idx": int(rng.integers(-1, rows))}


def lines(rng: Any) -> Made:
    inside, outside = size(rng), size(rng, 130)
    x = rng.standard_normal((*sizes(rng, int(rng.integers(0, 3)), 200), inside))
    return (x, rng.standard_normal((outside, inside)), rng.standard_normal(outside) if rng.random() < 0.6 else None), {}


def factors(rng: Any) -> Made:
    m, n, k = size(rng), size(rng, 130), size(rng) * (3 if rng.random() < 0.2 else 1)
    lead = tuple(int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3))))
    one = tuple(1 if rng.random() < 0.3 else d for d in lead)[int(rng.integers(0, len(lead) + 1)) if lead else 0 :]
    stacks = (lead, one) if rng.random() < 0.5 else (one, lead)
    return (rng.standard_normal((*stacks[0], m, k)), rng.standard_normal((*stacks[1], k, n))), {}


def window(rng: Any) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """What convolutions share: parameters, the sizes of x, the kernel's."""
    axes = int(rng.integers(1, 4))
    kernel = tuple(int(k) for k in rng.integers(1, 6 if axes < 3 else 4, axes))
    stride, dilation = (tuple(int(s) for s in rng.integers(1, 4, axes)) for _ in range(2))
    padding = tuple(int(p) for p in rng.integers(0, 4, axes))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    if axes == 2 and rng.random() < 0.3:  # those that are made by tiles
        kernel, stride, dilation, groups = (3, 3), (1, 1), (1, 1), 1
    if axes == 2 and rng.random() < 0.15:  # those that are made from planes as they lie
        kernel, stride, dilation, padding = (3, 3), (int(rng.integers(1, 3)),) * 2, (1, 1), (1, 1)
    most = {1: 200, 2: 40, 3: 12}[axes]
    outer = tuple(int(n) for n in rng.integers(1, most, axes))
    image = tuple(max(n, d * (k - 1) + 1 - 2 * p) for n, k, d, p in zip(outer, kernel, dilation, padding, strict=True))
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}, image, kernel


def channels_of(rng: Any, groups: int) -> tuple[int, int]:
    """Channels of x and of y, in a third of cases one of each a group."""
    if rng.random() < 0.3:
        deep = groups * size(rng, 33)
        return deep, deep
    return groups * size(rng, 33), groups * size(rng, 33)


def convolved(rng: Any) -> Made:
    params, image, kernel = window(rng)
    inputs, outputs = channels_of(rng, params["groups"])
    if inputs == outputs and rng.random() < 0.5:
        params["groups"] = inputs
    return ((rng.standard_normal((size(rng, 4), inputs, *image)),
             rng.standard_normal((outputs, inputs // params["groups"], *kernel)),
             rng.standard_normal(outputs) if rng.random() < 0.5 else None), params)  # fmt: skip


def transposed(rng: Any) -> Made:
    params, image, kernel = window(rng)
    inputs, outputs = channels_of(rng, params["groups"])
    more = tuple(int(rng.integers(0, max(s, d))) for s, d in zip(params["stride"], params["dilation"], strict=True))
    fits = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + o >= 1 for n, s, p, d, k, o in zip(
        image, params["stride"], params["padding"], params["dilation"], kernel, more, strict=True)]  # fmt: skip
    if not all(fits):
        params["padding"] = (0,) * len(kernel)
    image = tuple(min(n, 20) for n in image)
    return ((rng.standard_normal((size(rng, 3), inputs, *image)),
             rng.standard_normal((inputs, outputs // params["groups"], *kernel)),
             rng.standard_normal(outputs) if rng.random() < 0.5 else None),
            {**params, "output_padding": more})  # fmt: skip


def attended(rng: Any) -> Made:
    lead = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 3))))
    rows, keys, deep, wide = size(rng, 130), size(rng, 130), size(rng, 65), size(rng, 65)
    mask = rng.standard_normal((rows, keys)) if rng.random() < 0.3 else None
    return ((rng.standard_normal((*lead, rows, deep)), rng.standard_normal((*lead, keys, deep)),
             rng.standard_normal((*lead, keys, wide)), mask),
            {"scale": deep**-0.5, "causal": bool(mask is None and rows <= keys and rng.random() < 0.4)})  # fmt: skip


def recurrent(rng: Any, gates: int) -> Made:
    steps, rows, inputs, hidden = int(rng.integers(1, 7)), size(rng, 33), size(rng, 40), size(rng, 40)
    biased = rng.random() < 0.7
    bias = [0.3 * rng.standard_normal(gates * hidden) if biased else None for _ in range(2)]
    shape = (rows, steps, inputs) if (first := bool(rng.random() < 0.5)) else (steps, rows, inputs)
    states = [rng.standard_normal((rows, hidden)) for _ in range(2 if gates == 4 else 1)]
    arrays = (rng.standard_normal(shape), *(0.3 * rng.standard_normal((gates * hidden, n)) for n in (inputs, hidden)),
              *bias, *states, *([None] if gates == 4 else []))  # fmt: skip
    params: dict[str, Any] = {"reverse": bool(rng.random() < 0.3), "batch_first": first, "sizes": None}
    return arrays, params if gates > 1 else {**params, "nonlinearity": str(rng.choice(["tanh", "relu"]))}


def pooled(rng: Any) -> Made:
    axes = int(rng.integers(1, 4))
    kernel, stride, dilation = (tuple(int(k) for k in rng.integers(1, 4, axes)) for _ in range(3))
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
    image = tuple(d * (k - 1) + 1 + int(n) for k, d, n in zip(kernel, dilation, rng.integers(0, 24, axes), strict=True))
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(
        image, kernel, stride, padding, dilation, strict=True))  # fmt: skip
    x = rng.permutation(math.prod(image) * 3).reshape(3, *image) / 7.0  # no ties
    return (x,), {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "out": out}


def put(rng: Any) -> Made:
    planes, image = size(rng, 17), (size(rng, 33), size(rng, 33))
    out = (size(rng, 17), size(rng, 17))
    places = rng.integers(0, math.prod(image), (planes, *out))
    return (rng.standard_normal((planes, *out)), places), {"sizes": image, "add": True}


def indexed(rng: Any) -> Made:
    """Index tensors side by side, some counting from the end."""
    while True:
        x = rng.standard_normal(sizes(rng, int(rng.integers(1, 4)), 3000))
        lead = int(rng.integers(x.ndim))
        count = min(int(rng.integers(1, 3)), x.ndim - lead)
        if all(x.shape[lead : lead + count]):
            break
    many = tuple(size(rng, 17) for _ in range(int(rng.integers(1, 3))))
    indices = [rng.integers(-n, n, many) for n in x.shape[lead : lead + count]]
    return (x, *indices, *(None,) * (8 - count)), {"where": (False,) * lead + (True,) * count}


def gathered(rng: Any, source: bool = False) -> Made:
    """An index an item, nowhere larger than x but along its dimension; perhaps a source of its shape."""
    while True:
        x = rng.standard_normal(sizes(rng, int(rng.integers(1, 4)), 6000))
        if x.size:
            break
    d = int(rng.integers(x.ndim))
    shape = tuple(size(rng, 65) if k == d else int(rng.integers(1, n + 1)) for k, n in enumerate(x.shape))
    index = rng.integers(0, x.shape[d], shape)
    return (x, index, *((rng.standard_normal(shape),) if source else ())), {"dim": d}


def ordered(rng: Any, op: str) -> Made:
    """What copies in another order."""
    x = rng.standard_normal(sizes(rng, int(rng.integers(2, 4))))
    d = int(rng.integers(x.ndim))
    if op == "triangle":
        return (x,), {"diagonal": int(rng.integers(-40, 40))}
    if op == "flip":
        return (x,), {"dims": tuple(rng.choice(x.ndim, int(rng.integers(1, x.ndim + 1)), replace=False).tolist())}
    if op == "roll":
        return (x,), {"shifts": (int(rng.integers(-99, 99)),), "dims": (d,)}
    most = min(x.shape) // 2
    return (x,), {"border": tuple((int(a), int(b)) for a, b in rng.integers(-most, 5, (x.ndim, 2))), "value": 1.5}


def eight(rng: Any) -> Made:
    """A layer with weights of 8 bits."""
    inside, outside = size(rng), size(rng, 130)
    x = rng.standard_normal((*sizes(rng, int(rng.integers(0, 3)), 200), inside))
    return (x, rng.integers(-128, 128, (outside, inside), np.int8), rng.uniform(0.001, 0.002, outside),
            rng.standard_normal(outside) if rng.random() < 0.6 else None), {}  # fmt: skip


def four(rng: Any, most: int = 130) -> list[Any]:
    """Weights of 4 bits, their scales and their zeros."""
    group, groups, outside = int(rng.choice([2, 3, 8, 10, 16, 32, 64, 128])), int(rng.integers(1, 9)), size(rng, most)
    group *= 1 + group * groups % 2  # whole bytes
    return [rng.integers(0, 256, (outside, group * groups // 2), np.uint8),
            *(rng.uniform(*r, (outside, groups)) for r in ((0.01, 0.02), (0, 15)))]  # fmt: skip


def of_four(rng: Any) -> Made:
    weight, scale, zero = four(rng)
    x = rng.standard_normal((*sizes(rng, int(rng.integers(0, 3)), 200), 2 * weight.shape[1]))
    return (x, weight, scale, zero, rng.standard_normal(len(weight)) if rng.random() < 0.6 else None), {}


def small_rows(rng: Any, bits: int) -> Made:
    """Rows of a table of 8 or 4 bits."""
    table = four(rng, 100) if bits == 4 else [
        rng.integers(-128, 128, (size(rng, 100), size(rng, 130)), np.int8), None]  # fmt: skip
    rows = len(table[0])
    if bits == 8:
        table[1] = rng.uniform(0.01, 0.02, rows)
    index = rng.integers(0, rows, sizes(rng, int(rng.integers(1, 4)), 300))
    return (table[0], index, *table[1:]), {}


def sampled(rng: Any) -> Made:
    image = (int(rng.integers(1, 4)), size(rng, 33), int(rng.integers(1, 20)), int(rng.integers(1, 20)))
    places = (image[0], size(rng, 33), size(rng, 20), 2)
    return (rng.standard_normal(image), rng.uniform(-1.3, 1.3, places)), {"align": bool(rng.random() < 0.5)}


def bordered(rng: Any) -> Made:
    shape, mode = sizes(rng, int(rng.integers(1, 5)), 5000), str(rng.choice(["reflect", "replicate", "circular"]))
    shape = tuple(max(n, 1) for n in shape)
    most = [min({"reflect": n - 1, "replicate": 9, "circular": n}[mode], 40) if k >= len(shape) - 3 else 0
            for k, n in enumerate(shape)]  # fmt: skip
    border = tuple((int(rng.integers(0, m + 1)), int(rng.integers(0, m + 1))) for m in most)
    return (rng.standard_normal(shape),), {"border": border, "mode": mode}


def overdetermined(rng: Any) -> Made:
    n, batch = int(rng.integers(1, 20)), tuple(int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3))))
    m = n + int(rng.integers(0, 20))
    a = rng.standard_normal((*batch, m, n)) + 3 * np.eye(m, n)
    return (a, rng.standard_normal((*batch, m, int(rng.integers(1, 5))))), {"rtol": None}


CASES: dict[str, Callable[[Any], Made]] = {
    "sum": reduced, "mean": extreme, "amax": extreme, "amin": extreme, "argmax": found, "argmin": found,
    "softmax": along, "log_softmax": along, "layer_norm": normed, "rms_norm": lambda rng: normed(rng, False),
    "group_norm": grouped, "batch_norm": lambda rng: batch(rng, False), "batch_norm_eval": lambda rng: batch(rng, True),
    "cross_entropy": classes, "embedding": looked_up, "linear": lines, "matmul": factors, "conv": convolved,
    "conv_transpose": transposed, "attention": attended, "lstm": lambda rng: recurrent(rng, 4),
    "gru": lambda rng: recurrent(rng, 3), "rnn": lambda rng: recurrent(rng, 1), "max_pool": pooled, "pool_scatter": put,
    "index": indexed, "gather": gathered, "scatter_add": lambda rng: gathered(rng, True),
    "tril": lambda rng: ordered(rng, "triangle"), "triu": lambda rng: ordered(rng, "triangle"),
    "flip": lambda rng: ordered(rng, "flip"), "roll": lambda rng: ordered(rng, "roll"),
    "constant_pad": lambda rng: ordered(rng, "pad"),
    "weight_int8_linear": eight, "weight_int4_linear": of_four, "int8_embedding": lambda rng: small_rows(rng, 8),
    "int4_embedding": lambda rng: small_rows(rng, 4),
    "cumsum": lambda rng: (along(rng)[0], {"dim": 0, "reverse": bool(rng.random() < 0.5)}),
    "cummax": along, "cummin": along, "cumprod": along, "logcumsumexp": along, "grid_sample": sampled,
    "self_pad": bordered, "lstsq": overdetermined,
}  # fmt: skip
