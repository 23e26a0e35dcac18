"""``python -m tests.core.native.fuzz 600``: the C kernels on random shapes, strides and alignments for ten minutes.

Every case is an op of core's, a function of the extension's that no op shows whole (`fuzz_direct`) or a chain of
views (`fuzz_views`), with inputs at random (`fuzz_inputs`): no items, one, sizes around the widths of registers and
blocks, memory that begins at any item or between two, axes swapped, every other item, backwards, repeated without
memory. Around each input lie NaNs, so that a kernel that reads beyond shows it, and its memory is compared before and
after. Output and gradients are held to the reference's in float64, and the bits of one thread to those of two. A case
is told again by its number: ``--case 1234``. See `sanitized` for the same under AddressSanitizer.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import core
from core import backends, native
from core.declare import op as declarations
from core.dispatch.structured import callable_operation
from tests.conformance import harness as h

from .fuzz_inputs import CASES, sizes

MAPS = {o.name for o in h.MAPS}
FAR = {"float32": 2e-4, "float64": 1e-10, "bfloat16": 6e-2, "float16": 1e-2}  # relative to the largest number there is


# -- memory ------------------------------------------------------------------------------------------------------------


class Guarded:
    """The numbers of `a` somewhere in a larger block of NaNs, with strides at random, or `dense`, contiguous."""

    def __init__(self, rng: Any, a: Any, dense: bool = False) -> None:
        a = np.asarray(a)
        order = (rng.permutation(a.ndim) if rng.random() < 0.4 else np.arange(a.ndim)).astype(int)
        steps = [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(a.ndim)]
        if dense:
            order, steps = np.arange(a.ndim), [1] * a.ndim
        room = [n * s for n, s in zip((a.shape[i] for i in order), steps, strict=True)]
        items, lead = math.prod(room), int(rng.integers(1, 40))
        filler = np.nan if a.dtype.kind not in "iub" else 1
        skew = int(rng.integers(1, a.itemsize + 1)) if rng.random() < 0.06 else 0  # bytes: items that are not aligned
        self.block = np.empty((items + lead + 64) * a.itemsize + skew, np.uint8)[skew:].view(a.dtype)
        self.block[...] = np.asarray(filler).astype(a.dtype)
        view = self.block[lead : lead + items].reshape(room)
        if steps:
            view = view[tuple(slice(None, None, -s if not dense and rng.random() < 0.15 else s) for s in steps)]
        self.array = view.transpose(np.argsort(order))
        self.array[...] = a
        repeated = [i for i in range(a.ndim) if a.shape[i] > 1 and not dense and rng.random() < 0.04]
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


def near(got: Any, want: Any, dtype: str, what: str, terms: float = 1.0) -> None:
    """Within what rounding explains: of the largest number there is, and as a sum of `terms` that may cancel has it."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Wrong(f"{what} has shape {got.shape}, not {want.shape}")
    if want.dtype.kind in "iub":
        if not np.array_equal(got, want):
            raise Wrong(f"{what}: {int((got != want).sum())} of {want.size} integers differ")
        return
    wide, exact = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.abs(wide - exact) > FAR[dtype] * (terms**0.5 + float(np.max(np.abs(exact), initial=0.0)))
    largest = 65504.0 if dtype == "float16" else np.inf
    over = (np.abs(exact) > (1.0 - FAR[dtype]) * largest) & (np.isinf(wide) | ~far)  # what the type cannot hold
    bad = (far | (np.isfinite(wide) != np.isfinite(exact))) & ~over
    if bad.any():
        at = tuple(int(i[0]) for i in np.nonzero(bad))
        raise Wrong(f"{what}: {int(bad.sum())} of {want.size} items are wrong; at {at} {wide[at]!r} for {exact[at]!r}")


def backward(outs: list[Any], leaves: list[Any], seeds: list[Any], graph: bool = False) -> list[Any]:
    """The gradients of the leaves, from seeds that are made once."""
    ends = [t for t in outs if t.requires_grad]
    if not ends:
        return []
    while len(seeds) < len(ends):
        seeds.append(np.random.default_rng(len(seeds)).uniform(0.5, 1.5, ends[len(seeds)].shape).astype("bfloat16"))
    starts = [h.to_tensor(s.astype(t._a.dtype), h.CPU) for s, t in zip(seeds, ends, strict=True)]
    return list(core.autograd.grad(ends, leaves, starts, allow_unused=True, create_graph=graph))


@functools.cache
def structured(name: str) -> Any:
    """The callable of an op's by which the public functions call it: binding/graph/structured_call.c."""
    return callable_operation(declarations.table[name])


def computed(
    name: str, arrays: Any, params: dict[str, Any], seeds: list[Any], public: bool = False, graph: bool = False
) -> tuple[list[Any], list[Any]]:
    """Outputs, and the gradients of the floating inputs; `public`: by the path that a user's call takes."""
    o = declarations.table[name]
    if public:
        tensors = [None if a is None else h.to_tensor(a, h.CPU, grad=True) for a in arrays]
        y = structured(name)(*tensors, **params)
    else:
        y, tensors, _ = h.run_operation(o, arrays, params, h.CPU, grad=True)
    outs = h.outputs(y)
    return outs, backward(outs, [t for t in tensors if t is not None and t.requires_grad], seeds, graph)


def same_bits(compute: Any) -> Any:
    """What `compute` gives, a list of arrays, on two threads as on one."""
    assert native.module is not None
    native.module.set_num_threads(1)
    one = [None if a is None else (a.tobytes(), a) for a in compute()]
    native.module.set_num_threads(2)
    two = compute()
    for k, (a, b) in enumerate(zip(one, two, strict=True)):
        if a is not None and a[0] != b.tobytes():
            raise Wrong(f"result {k} of two threads has other bits than that of one")
    return two


def drawn(rng: Any) -> tuple[str, str]:
    """The type and the kind of a case."""
    from .fuzz_direct import DIRECT

    dtype = str(rng.choice(["float32", "float32", "float64", "bfloat16", "float16"]))
    others = ["elementwise"] * 6 + ["views"] * 2 + list(DIRECT)
    return dtype, str(rng.choice(others) if rng.random() < 0.3 else rng.choice(list(CASES)))


def run(case: int) -> str:
    """Run the case of that number; its op. *Raises*: Wrong."""
    from . import fuzz_direct, fuzz_views

    rng = np.random.default_rng(case)
    dtype, name = drawn(rng)
    if name == "elementwise":
        return run_map(rng, dtype)
    try:
        if name == "views":
            fuzz_views.run(rng, dtype)
            return name
        if name not in CASES:
            fuzz_direct.DIRECT[name](rng)
            return name
    except Exception as error:
        raise Wrong(f"{name}\n    {type(error).__name__}: {error}") from error
    made, params = CASES[name](rng)
    o = declarations.table[name]
    if dtype in ("bfloat16", "float16") and name in ("argmax", "argmin", "amax", "amin", "max_pool", "grid_sample"):
        dtype = "float32"  # ties, and places between pixels
    if params.get("nonlinearity") == "relu":
        dtype = {"bfloat16": "float32", "float16": "float32"}.get(dtype, dtype)  # a half's rounding crosses the kink
    rounded = [None if a is None else h.cast(a, dtype) for a in made]
    blocks = [None if a is None else Guarded(rng, a) for a in rounded]
    arrays = [None if b is None else b.array for b in blocks]
    wide = [None if a is None else np.ascontiguousarray(h.cast(a, "float64")) for a in arrays]
    seeds: list[Any] = []
    public = bool(rng.random() < 0.5)
    said = f"{name} of {dtype} {[None if a is None else (a.shape, a.strides) for a in arrays]} {params}"
    try:
        want = backends.of("cpu")[-1].operation(o).run(*wide, **{**o.params, **params})
        wants = list(want) if isinstance(want, tuple) else [want]

        def compute() -> list[Any]:
            outs, found = computed(name, arrays, params, seeds, public)
            return [t if t is None else t._a for t in (*outs, *found)]

        both = same_bits(compute)
        outs, exact = computed(name, wide, params, seeds, graph=True)
        for k, (y, w) in enumerate(zip(both[: len(outs)], wants, strict=False)):
            near(y, w, dtype, f"output {k}")
        for k, (g, w) in enumerate(zip(both[len(outs) :], exact, strict=True)):
            if (g is None) != (w is None):
                raise Wrong(f"gradient {k} is {'missing' if g is None else 'there'}")
            if g is not None:
                summed = sum(y.size for y in wants) / max(w._a.size, 1)
                if "eps" in params and 0 in arrays[0].strides:
                    summed /= params["eps"]  # a norm divides by its root where what repeats has no variance
                near(g, w._a, dtype, f"gradient {k}", max(summed, 1.0))
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
        public, seeds = rng.random() < 0.5 and o.name in declarations.functions, []  # type: Any, list[Any]

        def compute(public: Any = public, arrays: Any = arrays, graph: bool = False) -> list[Any]:
            if public:
                tensors = [h.to_tensor(a, h.CPU, grad=o.differentiable) for a in arrays]
                y = declarations.functions[o.name](*tensors, *o.params.values())
            else:
                y, tensors, _ = h.run_map(o, arrays, h.CPU, grad=o.differentiable)
            leaves = [t for t in tensors if t.requires_grad]
            return [t if t is None else t._a for t in (y, *backward([y], leaves, seeds, graph))]

        y, *found = same_bits(compute)
        want = h.wide(o, arrays)
        if dtype in ("float32", "float64") or np.asarray(want).dtype.kind == "f":
            near(y, want, dtype, "output")
        if dtype in ("float32", "float64"):
            _, *exact = compute(False, [h.cast(a, "float64") for a in arrays], True)
            for k, (g, w) in enumerate(zip(found, exact, strict=True)):
                if g is not None and w is not None:
                    near(g, w, dtype, f"gradient {k}")
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
            ran[name if name not in MAPS else "elementwise"] += 1
        except Wrong as error:
            wrong += 1
            print(f"case {case}: {error}", flush=True)
        case += 1
    counts = ", ".join(f"{name} {n}" for name, n in ran.most_common())
    print(f"{case - options.first} cases in {time.monotonic() - began:.0f} s, {wrong} wrong: {counts}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
