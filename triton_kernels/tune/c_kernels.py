"""The tuner's own C kernels: text with macros, space, inputs and float64 reference; and calling them tuned.

``matmul`` and ``softmax`` for float32 and float64. `run` calls one with the config that was stored for its shape on
this processor, or the nearest, or the default.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import lookup
from .places import cpu_count, cpu_features, cpu_name
from .space import Config, Constraint, Space, Tunable, powers_of_two

Shape = tuple[int, ...]
_TEXTS = Path(__file__).parent / "c"
VARIED_FLAGS = "flags"  # the tunable that is no macro of the text
DTYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Family:
    """What all configs of a C kernel share.

    sizes : the numbers that follow the arrays in its call, from the shape. inputs : arrays from shape, dtype and
    generator. out : the output's shape. reference : from the inputs the result in float64, the scale that errors are
    taken relative to, and how many terms a result sums. odd : a shape near this one that fits no tile.
    """

    name: str
    axes: tuple[str, ...]
    space: Callable[[str], Space]
    inputs: Callable[[Shape, str, np.random.Generator], list[np.ndarray]]
    out: Callable[[Shape], Shape]
    reference: Callable[[Sequence[np.ndarray]], tuple[np.ndarray, np.ndarray, int]]
    odd: Callable[[Shape], Shape]
    work: Callable[[Shape], tuple[float, float]]  # floating-point operations, and items moved at best

    @property
    def text(self) -> str:
        return _text(self.name)


@functools.cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.c").read_text(encoding="utf-8")


def threads() -> Tunable:
    """Return how many threads: powers of two, and as many as there are processors."""
    most = cpu_count()
    counts = sorted({1, most, *(n for n in (2, 4, 8, 16, 32, 64) if n < most)})
    return Tunable("THREADS", tuple(counts), most)


def _matmul_space(dtype: str) -> Space:
    """Register tile MR x NV vectors, cache blocks KC, MC, NC, steps of k written out, threads.

    The default fills the registers with sums: 24 of 64 bytes with AVX-512, 12 of 32 bytes elsewhere. Measured at 512
    and 1024 cubed on a Zen 5: within a tenth of the best of some forty, where 4 x 2 of 32 bytes took three to ten times
    as long; compiled for AVX2 the one of 12 is as fast as any.
    """
    size = 8 if dtype == "float64" else 4
    wide = "avx512f" in cpu_features()

    def registers(c: Mapping[str, Any]) -> int:
        return (c["MR"] + 1) * c["NV"] * (c["VECTOR"] // 32)

    return Space(
        [
            Tunable("MR", (2, 4, 6, 8, 12), 6),
            Tunable("NV", (1, 2, 3, 4), 4 if wide else 2),
            Tunable("VECTOR", (32, 64), 64 if wide else 32),
            Tunable("KC", (64, 128, 256, 384, 512), 256),
            Tunable("MC", (24, 48, 96, 192, 384), 96),
            Tunable("NC", (192, 384, 768, 1536), 768),
            Tunable("UNROLL", (1, 2, 4), 1),
            threads(),
        ],
        [
            Constraint(
                "a tile's sums fit 32 registers of 64 bytes, or its half 32 of 32", lambda c: registers(c) <= 60
            ),
            Constraint("a block of a fits 1 MiB", lambda c: c["MC"] * c["KC"] * size <= 1 << 20),
            Constraint("a panel of b fits 128 KiB", lambda c: c["KC"] * c["NV"] * c["VECTOR"] <= 1 << 17),
            Constraint("blocks of a hold whole tiles", lambda c: c["MC"] % c["MR"] == 0),
        ],
    )


def _softmax_space(dtype: str) -> Space:
    return Space(
        [
            Tunable("PASSES", (2, 3), 3),
            powers_of_two("UNROLL", 1, 8, default=1),
            Tunable("VECTOR", (16, 32, 64), 32),
            Tunable("DIVIDE", (0, 1), 0),
            Tunable("CHUNK", (1, 8, 64), 8),
            threads(),
        ],
        [Constraint("chunks of rows only where threads share them", lambda c: c["THREADS"] > 1 or c["CHUNK"] == 8)],
    )


def _normal(rng: np.random.Generator, shape: Shape, dtype: str) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def _matmul_inputs(shape: Shape, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
    m, n, k = shape
    return [_normal(rng, (m, k), dtype), _normal(rng, (k, n), dtype)]


def _matmul_reference(inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, int]:
    a, b = (x.astype(np.float64) for x in inputs)
    return a @ b, np.abs(a) @ np.abs(b), a.shape[1]


def _softmax_inputs(shape: Shape, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
    x = 4.0 * rng.standard_normal(shape)
    x[..., ::7] -= 200.0  # far below the largest: these must come out as 0, not as garbage
    return [x.astype(dtype)]


def softmax_reference(inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, int]:
    """Softmax over the last axis in float64; errors relative to each item and to the rounding of x - max x."""
    x = inputs[0].astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, y * (1.0 + np.abs(x - x.max(-1, keepdims=True)) / 4.0) + 1e-7, x.shape[-1]


def _odd(shape: Shape) -> Shape:
    """Sizes that no tile divides: a third, made odd, at most some hundreds."""
    return tuple(min(max(n // 3, 1), 300) | 1 for n in shape)


FAMILIES = {
    "matmul": Family(
        "matmul",
        ("M", "N", "K"),
        _matmul_space,
        _matmul_inputs,
        lambda s: s[:2],
        _matmul_reference,
        _odd,
        lambda s: (2.0 * math.prod(s), s[0] * s[2] + s[2] * s[1] + s[0] * s[1]),
    ),
    "softmax": Family(
        "softmax",
        ("rows", "columns"),
        _softmax_space,
        _softmax_inputs,
        lambda s: s,
        softmax_reference,
        _odd,
        lambda s: (4.0 * math.prod(s), 2.0 * math.prod(s)),
    ),
}


@functools.lru_cache(maxsize=256)
def _loaded(family: str, dtype: str, config: tuple[tuple[str, Any], ...]) -> Any:
    from .measure_cpu import compile_config, load

    return load(compile_config(FAMILIES[family].text, dtype, dict(config)).path, family)


def run(family: str, *inputs: np.ndarray, out: np.ndarray | None = None, config: Config | None = None) -> np.ndarray:
    """Call a C kernel of `FAMILIES` with the config stored for this shape and processor, else its default.

    inputs : row-major float32 or float64 arrays; ``matmul`` takes (M, K) and (K, N), ``softmax`` (rows, columns).

    *Raises*: TypeError, ValueError for arrays that it does not take; Failed where there is no C compiler.

    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> run("matmul", a, a.T.copy()).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    if family not in FAMILIES:
        raise ValueError(f"no C kernel is named {family!r}; there are {', '.join(FAMILIES)}")
    spec = FAMILIES[family]
    dtype = inputs[0].dtype.name
    if dtype not in DTYPES or any(x.dtype.name != dtype or x.ndim != 2 for x in inputs):
        came = ", ".join(f"{x.dtype} {x.shape}" for x in inputs)
        raise TypeError(f"{family}: takes float32 or float64 arrays of two dimensions and one dtype, got {came}")
    if family == "matmul":
        if len(inputs) != 2 or inputs[0].shape[1] != inputs[1].shape[0]:
            came = " @ ".join(str(x.shape) for x in inputs)
            raise ValueError(f"matmul: mat1 and mat2 shapes cannot be multiplied: {came} needs (M, K) and (K, N)")
        shape: Shape = (inputs[0].shape[0], inputs[1].shape[1], inputs[0].shape[1])
    else:
        shape = inputs[0].shape
    if out is None:
        out = np.empty(spec.out(shape), dtype)
    elif out.shape != spec.out(shape) or out.dtype.name != dtype or not out.flags.c_contiguous:
        raise ValueError(f"{family}: out must be a row-major {dtype} array of {spec.out(shape)}")
    if 0 in shape[:2]:
        return out
    function = _ready.get((family, shape, dtype)) if config is None else None
    if function is None:
        function = _function(family, shape, dtype, config)
        if config is None:
            _ready[family, shape, dtype] = function
    call = [np.ascontiguousarray(x) for x in inputs]
    if function(*(x.ctypes.data for x in call), out.ctypes.data, *shape):
        raise MemoryError(f"{family}: no memory for the packed blocks of {shape}")
    return out


def _function(family: str, shape: Shape, dtype: str, config: Config | None) -> Any:
    """Return the function of a config, or of the stored one; of the default, where the stored one does not compile
    here."""
    from .measure import Failed

    space = space_of(family, dtype)
    settings = space.complete(stored_for(family, shape, dtype) if config is None else config)
    try:
        return _loaded(family, dtype, tuple(settings.items()))
    except Failed:
        if config is not None or settings == space.default:
            raise
        return _loaded(family, dtype, tuple(space.default.items()))


_ready: dict[tuple[str, Shape, str], Any] = {}  # what is called for a shape, until something is tuned
lookup.on_change.append(_ready.clear)


def stored_for(family: str, shape: Shape, dtype: str) -> Config | None:
    """Return the config that was stored for a shape on this processor, or near it, where the space still has it."""
    from .problem import c_text, hash_of

    source = hash_of(c_text(FAMILIES[family].text))
    found = lookup.best(f"{family}_f{dtype[5:]}", shape, dtype, cpu_name(), source)
    space = space_of(family, dtype)
    known = (
        found is not None and set(found) == set(space.names) and all(found[t.name] in t.values for t in space.tunables)
    )
    return found if known and found is not None and space.rejected(found) is None else None


@functools.cache
def space_of(family: str, dtype: str) -> Space:
    """Return the space of a kernel for a dtype on this machine."""
    return FAMILIES[family].space(dtype)
