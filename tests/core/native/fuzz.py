"""``python -m tests.core.native.fuzz 600``: the C kernels on random shapes, strides and alignments for ten minutes.

Every case is an op of core's with inputs by chance: sizes around the widths of registers and blocks, memory that begins
at any item, axes swapped, every other item, backwards, repeated without memory. Around each input lie NaNs, so that a
kernel that reads beyond shows it, and its memory is compared before and after. Output and gradients are held to the
reference's in float64. A case is told again by its number: ``--case 1234``. See `sanitized` for the same under
AddressSanitizer.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import core
from core import backends, native
from core import op as declarations
from tests.conformance import harness as h

Case = tuple[str, tuple[Any, ...], dict[str, Any]]
Made = tuple[tuple[Any, ...], dict[str, Any]]
EDGES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 200, 257)
FAR = {"float32": 2e-4, "float64": 1e-10, "bfloat16": 6e-2}  # relative to the largest number there is


def size(rng: Any, most: int = 300) -> int:
    """A size near which loops change their way."""
    return int(rng.choice([n for n in EDGES if n <= most]))


def sizes(rng: Any, axes: int, most: int = 20000) -> tuple[int, ...]:
    """A shape of so many axes with few enough items; in a fiftieth of cases it has none."""
    while True:
        shape = tuple(size(rng) for _ in range(axes))
        if math.prod(shape) <= most:
            return (*shape[:-1], 0) if axes and rng.random() < 0.02 else shape


# -- inputs ------------------------------------------------------------------------------------------------------------


def reduced(rng: Any) -> Made:
    x = rng.standard_normal(sizes(rng, int(rng.integers(1, 5))))
    dims = tuple(sorted(rng.choice(x.ndim, int(rng.integers(1, x.ndim + 1)), replace=False).tolist()))
    return (x if x.size else x.reshape(-1)[:0].reshape(*x.shape),), {"dim": dims, "keepdim": bool(rng.random() < 0.5)}


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
    most = {1: 200, 2: 40, 3: 12}[axes]
    outer = tuple(int(n) for n in rng.integers(1, most, axes))
    image = tuple(max(n, d * (k - 1) + 1 - 2 * p) for n, k, d, p in zip(outer, kernel, dilation, padding, strict=True))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
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


CASES: dict[str, Callable[[Any], Made]] = {
    "sum": reduced, "mean": extreme, "amax": extreme, "amin": extreme, "argmax": found, "argmin": found,
    "softmax": along, "log_softmax": along, "layer_norm": normed, "rms_norm": lambda rng: normed(rng, False),
    "group_norm": grouped, "batch_norm": lambda rng: batch(rng, False), "batch_norm_eval": lambda rng: batch(rng, True),
    "cross_entropy": classes, "embedding": looked_up, "linear": lines, "matmul": factors, "conv": convolved,
    "conv_transpose": transposed, "attention": attended, "lstm": lambda rng: recurrent(rng, 4),
    "gru": lambda rng: recurrent(rng, 3), "rnn": lambda rng: recurrent(rng, 1),
}  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------


class Guarded:
    """The numbers of `a` somewhere in a larger block of NaNs, with strides by chance."""

    def __init__(self, rng: Any, a: Any) -> None:
        order = (rng.permutation(a.ndim) if rng.random() < 0.4 else np.arange(a.ndim)).astype(int)
        steps = [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(a.ndim)]
        room = [n * s for n, s in zip((a.shape[i] for i in order), steps, strict=True)]
        items, lead = math.prod(room), int(rng.integers(1, 40))
        filler = np.nan if a.dtype.kind not in "iub" else 1
        self.block = np.full(items + lead + 64, filler).astype(a.dtype)
        view = self.block[lead : lead + items].reshape(room)
        if steps:
            view = view[tuple(slice(None, None, -s if rng.random() < 0.15 else s) for s in steps)]
        self.array = view.transpose(np.argsort(order))
        self.array[...] = a
        repeated = [i for i in range(a.ndim) if a.shape[i] > 1 and rng.random() < 0.04]
        if repeated:  # one row stands for all of an axis
            one = self.array[tuple(slice(0, 1) if i in repeated else slice(None) for i in range(a.ndim))]
            self.array = np.broadcast_to(one, a.shape)
        self.before = self.block.tobytes()

    def untouched(self) -> bool:
        """Whether nobody has written to it."""
        return self.block.tobytes() == self.before


# -- one case ----------------------------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """What a case found."""


def near(got: Any, want: Any, dtype: str, what: str) -> None:
    """Within what rounding explains, of the largest number there is."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Wrong(f"{what} has shape {got.shape}, not {want.shape}")
    if want.dtype.kind in "iub":
        if not np.array_equal(got, want):
            raise Wrong(f"{what}: {int((got != want).sum())} of {want.size} integers differ")
        return
    wide, exact = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.abs(wide - exact) > FAR[dtype] * (1.0 + float(np.max(np.abs(exact), initial=0.0)))
    bad = far | (np.isfinite(wide) != np.isfinite(exact))
    if bad.any():
        at = tuple(int(i[0]) for i in np.nonzero(bad))
        raise Wrong(f"{what}: {int(bad.sum())} of {want.size} items are wrong; at {at} {wide[at]!r} for {exact[at]!r}")


def gradients(
    o: Any, arrays: Any, params: dict[str, Any], seeds: list[Any], graph: bool
) -> tuple[list[Any], list[Any]]:
    """Outputs, and the gradients of the floating inputs."""
    y, tensors, _ = h.run_operation(o, arrays, params, h.CPU, grad=True)
    outs = h.outputs(y)
    leaves = [t for t in tensors if t is not None and t.requires_grad]
    ends = [t for t in outs if t.requires_grad]
    if not ends:
        return outs, []
    while len(seeds) < len(ends):
        seeds.append(np.random.default_rng(len(seeds)).uniform(0.5, 1.5, ends[len(seeds)].shape).astype("bfloat16"))
    starts = [h.to_tensor(s.astype(t._a.dtype), h.CPU) for s, t in zip(seeds, ends, strict=True)]
    found = core.autograd.grad(ends, leaves, starts, allow_unused=True, create_graph=graph)
    return outs, list(found)


def run(case: int) -> str:
    """Run the case of that number; its op. *Raises*: Wrong."""
    rng = np.random.default_rng(case)
    if native.module is not None:
        native.module.set_num_threads(int(rng.integers(1, 4)))
    dtype = str(rng.choice(["float32", "float32", "float64", "bfloat16"]))
    if rng.random() < 0.25:
        return run_map(rng, dtype)
    name = str(rng.choice(list(CASES)))
    made, params = CASES[name](rng)
    o = declarations.table[name]
    if dtype == "bfloat16" and name in ("argmax", "argmin", "amax", "amin"):
        dtype = "float32"  # ties
    rounded = [None if a is None else h.cast(a, dtype) for a in made]
    blocks = [None if a is None else Guarded(rng, a) for a in rounded]
    arrays = [None if b is None else b.array for b in blocks]
    wide = [None if a is None else np.ascontiguousarray(h.cast(a, "float64")) for a in arrays]
    seeds: list[Any] = []
    said = f"{name} of {dtype} {[None if a is None else (a.shape, a.strides) for a in arrays]} {params}"
    try:
        want = backends.of("cpu")[-1].operation(o).run(*wide, **{**o.params, **params})
        wants = list(want) if isinstance(want, tuple) else [want]
        outs, found = gradients(o, arrays, params, seeds, False)
        for k, (y, w) in enumerate(zip(outs, wants, strict=False)):
            near(y._a, w, dtype, f"output {k}")
        _, exact = gradients(o, wide, params, seeds, True)
        for k, (g, w) in enumerate(zip(found, exact, strict=True)):
            if (g is None) != (w is None):
                raise Wrong(f"gradient {k} is {'missing' if g is None else 'there'}")
            if g is not None:
                near(g._a, w._a, dtype, f"gradient {k}")
        if not all(b is None or b.untouched() for b in blocks):
            raise Wrong("an input was written to")
    except Exception as error:
        raise Wrong(f"{said}\n    {type(error).__name__}: {error}") from error
    return name


def run_map(rng: Any, dtype: str) -> str:
    """An elementwise op on shapes that broadcast."""
    o = h.MAPS[int(rng.integers(len(h.MAPS)))]
    shape = sizes(rng, int(rng.integers(0, 4)), 5000)
    blocks = []
    for name, (low, high) in zip(o.inputs, o.domain, strict=True):
        own = tuple(1 if rng.random() < 0.2 else n for n in shape)[int(rng.random() < 0.2) :]
        a = rng.random(own) < 0.5 if name in o.bools else rng.uniform(low, high, own)
        blocks.append(Guarded(rng, h.cast(np.asarray(a), dtype)))
    arrays = [b.array for b in blocks]
    try:
        y, _, _ = h.run_map(o, arrays, h.CPU)
        want = h.wide(o, arrays)
        if dtype != "bfloat16" or np.asarray(want).dtype.kind == "f":
            near(y._a, want, dtype, "output")
        if not all(b.untouched() for b in blocks):
            raise Wrong("an input was written to")
    except Exception as error:
        layouts = [(a.shape, a.strides) for a in arrays]
        raise Wrong(f"{o.name} of {dtype} {layouts}\n    {type(error).__name__}: {error}") from error
    return o.name


def main(argv: list[str] | None = None) -> int:
    """The command: 1 where a case found something."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.core.native.fuzz", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--case", type=int, help="one case again")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args(argv)
    if options.case is not None:
        print(run(options.case), "is right")
        return 0
    began, case, ran, wrong = time.monotonic(), options.first, Counter[str](), 0
    while time.monotonic() - began < options.seconds:
        try:
            name = run(case)
            ran[name if name in CASES else "elementwise"] += 1
        except Wrong as error:
            wrong += 1
            print(f"case {case}: {error}", flush=True)
        case += 1
    counts = ", ".join(f"{name} {n}" for name, n in ran.most_common())
    print(f"{case - options.first} cases in {time.monotonic() - began:.0f} s, {wrong} wrong: {counts}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
