"""Cases of `fuzz` for functions of the extension that no op shows whole: each computes once more with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from core import native
from core.backends import quantised
from core.declare import op as declarations
from core.optim import kernels
from tests.conformance import harness as h
from tests.conformance import test_updates as steps

from .fuzz_inputs import convolved, eight, size, sizes

c: Any = native.module


def guarded(rng: Any, a: Any, dense: bool = False) -> Any:
    """The array in memory laid out at random, and a check that nobody wrote to it or beyond it."""
    from .fuzz import Guarded

    return Guarded(rng, a, dense)


def differ(what: str, got: Any, want: Any, rtol: float = 0.0) -> None:
    """*Raises*: Wrong, unless both agree; NaN agrees with NaN."""
    from .fuzz import Wrong

    got, want = np.asarray(got), np.asarray(want)
    if got.dtype.kind not in "iubc":
        got, want = got.astype(np.float64), want.astype(np.float64)
    if got.shape != want.shape or not np.allclose(got, want, rtol=rtol, atol=rtol, equal_nan=got.dtype.kind != "b"):
        raise Wrong(f"{what}: {got!r} for {want!r}")


def real(rng: Any, a: Any) -> Any:
    return np.asarray(a).astype(rng.choice(["f", "d"]))


def spoilt(rng: Any, a: Any) -> Any:
    """In half of cases with a few NaNs, infinities and zeros."""
    if a.size and rng.random() < 0.5:
        a.flat[rng.integers(0, a.size, 3)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], 3)
    return a


def copied(rng: Any) -> None:
    dtype = rng.choice(["f4", "f8", "f2", "i1", "i8", "?", "c8", "c16"])
    block = guarded(rng, (100 * rng.standard_normal(sizes(rng, int(rng.integers(0, 6))))).astype(dtype))
    y = c.copied(block.array)
    if y.tobytes() != block.array.tobytes() or not y.flags.c_contiguous or np.shares_memory(y, block.block):
        differ("copied", y, block.array)
        raise AssertionError("a copy is no copy")


def halves(rng: Any) -> None:
    """Of any bits, subnormals and NaNs too."""
    bfloat = bool(rng.random() < 0.5)
    half = np.dtype(ml_dtypes.bfloat16 if bfloat else np.float16)
    shape = sizes(rng, int(rng.integers(0, 4)))
    block = guarded(rng, np.asarray(rng.integers(0, 1 << 16, shape), np.uint16).view(half))
    with np.errstate(all="ignore"):
        differ("widen", c.widen(block.array), block.array.astype(np.float32))
        wide = guarded(rng, np.asarray(rng.integers(0, 1 << 32, shape), np.uint32).view(np.float32))
        differ("narrow", c.narrow(wide.array, bfloat), wide.array.astype(half))
    other = guarded(rng, np.asarray(rng.integers(0, 1 << 16, shape), np.uint16).view(half))
    for kernel, given in ((c.maps["relu", "f"], (block.array,)), (c.maps["mul", "f"], (block.array, other.array))):
        found = kernel.half(bfloat, *given)
        if found is not NotImplemented:
            differ(kernel.name, found, c.narrow(kernel(*[c.widen(a) for a in given]), bfloat))


def bf16_product(rng: Any) -> None:
    if not c.gemm_bf16_there():
        return
    m, n, k = size(rng, 130), size(rng, 130), size(rng, 130)
    lead = tuple(rng.integers(1, 4, int(rng.integers(0, 3))).tolist())
    a, b = (guarded(rng, h.cast(rng.standard_normal((*lead, *s)), "bfloat16")) for s in ((m, k), (k, n)))
    bias = guarded(rng, rng.standard_normal(n).astype("f"), True) if rng.random() < 0.5 else None
    y = c.gemm_bf16(a.array, b.array, None if bias is None else bias.array)
    want = a.array.astype("d") @ b.array.astype("d") + (0 if bias is None else bias.array)
    differ("gemm_bf16", y / (1 + math.sqrt(k)), want / (1 + math.sqrt(k)), 0.02)
    assert a.untouched()
    assert b.untouched()


def unscaled(rng: Any) -> None:
    blocks = [guarded(rng, real(rng, spoilt(rng, rng.standard_normal(sizes(rng, 2)))), True) for _ in range(3)]
    blocks = [b for b in blocks if b.array.flags.aligned]
    arrays = [b.array for b in blocks]
    before = [a.copy() for a in arrays]
    bad = c.unscale(arrays, 0.125)
    if bad != any(not np.isfinite(a).all() for a in before):
        raise AssertionError(f"unscale says {bad} of {[b.array.shape for b in blocks]}")
    for block, old in zip(blocks, before, strict=True):
        differ("unscale", block.array, old * old.dtype.type(0.125))
        block.array[...] = old
        assert block.untouched()


def into(rng: Any) -> None:
    """An output that is an input, or overlaps one."""
    name = str(rng.choice(["add", "mul", "maximum"]))
    char, n = str(rng.choice(["f", "d"])), size(rng) * (100 if rng.random() < 0.1 else 1)
    room = rng.standard_normal(3 * n + 8).astype(char)
    step, at, to = int(rng.integers(1, 3)), int(rng.integers(0, n + 4)), int(rng.integers(0, n + 4))
    x, out = room[at : at + n * step : step][:n], room[to : to + n]
    if rng.random() < 0.3:
        out = x[::-1]
    other = rng.standard_normal(x.shape).astype(char)
    want = {"add": np.add, "mul": np.multiply, "maximum": np.maximum}[name](x, other)
    copy = room.copy()
    y = c.maps[name, char].into(out, x, other)
    assert y is out
    differ(f"{name}.into", out.copy(), want)
    place = out.__array_interface__["data"][0] - room.__array_interface__["data"][0]
    out[...] = np.ndarray(out.shape, char, copy, place, out.strides)
    assert room.tobytes() == copy.tobytes(), "into wrote beyond its output"


def random_words(rng: Any) -> None:
    seed, offset, n = int(rng.integers(1 << 62)), int(rng.integers(1 << 40)), size(rng) * int(rng.choice([0, 1, 1, 90]))
    many, skip = int(rng.integers(1, 5)), int(rng.integers(0, n + 1))
    all_of, rest = (
        c.kernels["philox_words"](seed, offset, n, many),
        c.kernels["philox_words"](seed, offset + skip, n - skip, many),
    )
    for a, b in zip(all_of, rest, strict=True):
        differ("philox_words", a[skip:], b)
    x, p = guarded(rng, real(rng, rng.standard_normal(n)), True), float(rng.random())
    y = c.entries["dropout"](x.array if x.array.flags.aligned else x.array.copy(), p, seed, offset)
    value = all_of[0].view(np.int32)
    unit = np.where(value < 0, ~value, value).astype("f") * np.float32(4.6566127342e-10)
    differ("dropout", y, np.where(unit >= np.float32(p), (x.array.dtype.type(1 / (1 - p)) * x.array), 0))
    assert x.untouched()


def told(rng: Any) -> None:
    """What is said of values: range, mean, counts."""
    block = guarded(rng, real(rng, spoilt(rng, rng.standard_normal(sizes(rng, int(rng.integers(0, 4)))))))
    x = block.array.astype("d")
    finite = x[np.isfinite(x)]
    if c.all_finite(block.array) != (finite.size == x.size):
        raise AssertionError("all_finite is wrong")
    low, high, mean, _, zeros, nonfinite, nan, histogram = c.stats(block.array)
    if finite.size:
        differ("stats", [low, high], [finite.min(), finite.max()])
        differ("the mean of stats", mean, finite.mean(), 1e-5)
    counts = [int((finite == 0).sum()), x.size - finite.size, int(np.isnan(x).sum())]
    assert [zeros, nonfinite, nan] == counts, ((zeros, nonfinite, nan), counts)
    if x.size <= 16384:  # of more it is estimated
        assert sum(histogram) == int((finite != 0).sum()), histogram
    seen = c.glance(block.array)
    assert (seen is None) == (finite.size < x.size or not x.size)
    if seen is not None:
        differ("glance", seen[:2], [x.min(), x.max()])
    other = guarded(rng, rng.standard_normal(x.shape).astype(block.array.dtype))
    if finite.size == x.size:
        with np.errstate(over="ignore"):
            both = [np.linalg.norm((x - other.array).ravel()), np.linalg.norm(other.array.astype("d").ravel())]
        differ("change", c.change(block.array, other.array), both, 1e-5)
    assert block.untouched()
    assert other.untouched()


def normed(rng: Any) -> None:
    """Norms of many arrays; counters."""
    dtype = str(rng.choice(["f", "d"]))
    arrays = [spoilt(rng, rng.standard_normal(sizes(rng, int(rng.integers(0, 4))))).astype(dtype)
              for _ in range(int(rng.integers(0, 7)))]  # fmt: skip
    flat = np.abs(np.concatenate([np.zeros(1), *(a.ravel().astype("d") for a in arrays)]))
    with np.errstate(all="ignore"):
        wants = [(flat**2).sum(), flat.sum(), flat.max()]
    blocks = [guarded(rng, a, True) for a in arrays]
    for kind, want in enumerate(wants):
        found = c.total([b.array for b in blocks], kind)
        if found is None:
            assert not arrays or not all(b.array.flags.aligned for b in blocks)
        else:
            differ(f"total {kind}", found, want, 1e-6)
    counter = np.array([3.0], dtype)
    assert c.count_up([counter]) == [4.0]
    assert counter[0] == 4.0


def updated(rng: Any) -> None:
    """An optimizer's step over many arrays."""
    v = steps.VARIANTS[str(rng.choice(list(steps.VARIANTS)))]
    dtype, shapes = str(rng.choice(["float32", "float64"])), [sizes(rng, int(rng.integers(0, 3))) for _ in range(4)]
    given = []
    for name in v.arrays:
        many = [rng.standard_normal(s) for s in shapes]
        if name not in ("p", "g", "prev", "exp_avg", "momentum_buffer", "ax"):
            many = [abs(a) + 0.5 if name != "grad_avg" else a * 0.1 for a in many]
        given.append([guarded(rng, np.asarray(a, dtype), name != "g") for a in many])
    arrays = [[b.array for b in many] for many in given]
    numbers = v.scalars(**{k: (steps.TURNED if rng.random() < 0.5 else steps.SETTINGS)[k] for k in v.settings})
    wanted, before = steps.exact(v, numbers, arrays), [[a.copy() for a in many] for many in arrays]
    kernel = next(k for k, reason in kernels.candidates(v, "cpu", arrays) if reason is None)
    if kernel.run(numbers, arrays) is not None:  # not for these layouts: it has changed nothing
        wanted = before
    for name, blocks, exact, old in zip(v.arrays, given, wanted, before, strict=True):
        for block, want, was in zip(blocks, exact, old, strict=True):
            differ(f"{v.name}: {name}", block.array, want, 2e-5 if dtype == "float32" else 1e-11)
            if block.array.flags.writeable:
                block.array[...] = was
            assert block.untouched(), f"{v.name} wrote beyond {name}"


def integer_layer(rng: Any) -> None:
    """int8_linear and int8_conv2d in any way, bit by bit as NumPy has them."""
    with quantised.way(str(rng.choice(c.int8_ways()))), np.errstate(all="ignore"):
        step, zero = (None, 0) if rng.random() < 0.5 else (np.asarray(0.03, "f"), int(rng.integers(-128, 128)))
        activation = str(rng.choice(["", "relu"]))
        op = str(rng.choice(["int8_linear", "int8_conv2d"]))
        if op == "int8_linear":
            (x, weight, scale, bias), params = eight(rng)
        else:
            (x, weight, bias), params = convolved(rng)
            while x.ndim != 4:
                (x, weight, bias), params = convolved(rng)
            weight = rng.integers(-128, 128, weight.shape, np.int8)
            scale = rng.uniform(0.01, 0.02, len(weight))
        given = spoilt(rng, x).astype("f"), weight, scale.astype("f"), None if bias is None else bias.astype("f")
        blocks: list[Any] = [None if a is None else guarded(rng, a) for a in given]
        arrays = (*(None if b is None else b.array for b in blocks), step)
        params |= {"input_zero": zero, "activation": activation}
        found = quantised.rows[op].run(*arrays, **params)
        differ(op, found, declarations.table[op].forward(np, *arrays, **params))  # type: ignore[attr-defined]
        assert all(b is None or b.untouched() for b in blocks), f"{op} wrote into its input"


def behind(rng: Any) -> None:
    """The gradient of a norm and that of what stands behind it, bit by bit as one after the other."""
    samples, inside, groups, places = size(rng, 5), size(rng, 5), size(rng, 5), size(rng, 1100)
    dtype, by_batch = str(rng.choice(["f", "d"])), bool(rng.random() < 0.5)
    shape = (samples, groups * inside, places) if by_batch else (samples, groups, inside, places)
    g, kept, x = (guarded(rng, spoilt(rng, rng.standard_normal(shape)).astype(dtype)) for _ in range(3))
    each = [rng.uniform(0.5, 2.0, shape[1] if by_batch else shape[:2]).astype(dtype) for _ in range(4)]
    weight = None if rng.random() < 0.3 else rng.standard_normal(shape[1:-1]).astype(dtype)
    rest = (*each[:2], x.array, weight, *each[2:], 1e-5) if by_batch else (x.array, weight, *each[:2])
    name, first, wanted = (
        f"{'batch' if by_batch else 'group'}_norm_backward",
        bool(rng.random() < 0.5),
        bool(rng.random() < 0.8),
    )
    run = c.maps[str(rng.choice(["mul", "sub"])), dtype]
    with np.errstate(all="ignore"):
        made = run(kept.array, g.array) if first else run(g.array, kept.array)
    want = c.kernels[name](made, *rest, wanted)
    found = c.kernels[f"{name}_behind"](g.array, kept.array, run.address, first, np.zeros(1), *rest, wanted)
    for a, b in zip(found, want, strict=True):
        assert a is None if b is None else np.array_equal(a, b, equal_nan=True), f"{name} of {shape}, {run}"
    assert all(b.untouched() for b in (g, kept, x)), f"{name} wrote into its input"


DIRECT: dict[str, Callable[[Any], None]] = {
    "copied": copied, "halves": halves, "gemm_bf16": bf16_product, "unscale": unscaled, "into": into,
    "philox": random_words, "stats": told, "total": normed, "update": updated,
    "int8": integer_layer, "behind": behind,
}  # fmt: skip
