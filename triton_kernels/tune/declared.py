"""What a family of Triton kernels says of itself to the tuner: axes, arrays, launcher, float64 reference, work.

Every file of `triton_kernels` with kernels that may be launched in several ways has a function ``tuning`` beside its
``compile_cases``, which gives a `TritonKernel` for each of them. There is no list that a kernel could be left out of.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .problem import Shape, Unknown, fit_axes
from .space import Config, Space

Arrays = tuple[list[Any], list[Any]]
Reference = list[np.ndarray | tuple[np.ndarray, Any, int]]
"""What each output should become, exactly; or with the scale of its errors and the terms of a sum."""
Rng = np.random.Generator | None
Work = Callable[[Shape, int, Config], tuple[float, float]]

_MOST_FLOPS, _MOST_BYTES = 1e11, 1 << 30  # that a reference may take
FLOATS = ("float16", "bfloat16", "float32", "float64")
SINGLES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class TritonKernel:
    """A kernel and everything that it takes to tune it.

    kernel : the jitted function; its name is the tuner's name for it, unless `alias` is. axes : of the shape that its
    launcher asks the tuner with. space : what may vary, or a function of the dtype. default : what the launcher takes
    by itself for a shape, dtype and target, in so far as it is not the space's own. arrays : inputs and outputs at a
    shape; without a generator of random numbers nothing need be in them. launch : runs the launcher on inputs, outputs
    and a config. reference : for each output the result in float64, with the scale of errors and the terms of a sum
    where it need not be exact.
    work : floating-point operations and bytes that a config moves. small : the greatest sizes that the interpreter is
    given. kept : axes whose size the check at an odd shape leaves as it is. limits : the least and greatest size of
    axes that have any. begin : puts into the outputs what the kernel reads there.
    """

    kernel: Any
    axes: tuple[str, ...]
    space: Space | Callable[[Any], Space]
    arrays: Callable[[Shape, str, Rng], Arrays]
    launch: Callable[[Any, Any, Any], None]
    reference: Callable[[Any], Reference]
    work: Work
    small: Shape
    default: Callable[[Shape, Any, str], Config] | None = None
    dtypes: tuple[str, ...] = FLOATS
    kept: tuple[str, ...] = ()
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    begin: Callable[[Any, Any], None] | None = None
    alias: str = ""

    @property
    def name(self) -> str:
        """What `%tune` and the store call it."""
        return self.alias or self.kernel.fn.__name__

    def space_at(self, shape: Shape, dtype: str, target: str = "") -> Space:
        """Its space, whose default is what is launched at this shape where nothing was tuned."""
        kind = dtype_of(dtype)
        space = self.space(kind) if callable(self.space) else self.space
        config = self.default(shape, kind, target) if self.default else {}
        return space.with_default({**space.default, **config})

    def fitted(self, shape: Shape, dtype: str) -> Shape:
        """Return the shape with as many sizes as there are axes. *Raises*: Unknown, with the axes' names."""
        if dtype not in self.dtypes:
            raise Unknown(f"{self.name} takes {', '.join(self.dtypes)}, not {dtype}")
        shape = fit_axes(self.name, self.axes, shape)
        for axis, size in zip(self.axes, shape, strict=True):
            least, most = self.limits.get(axis, (1, size))
            if not least <= size <= most:
                wanted = f"at most {most:,}" if size > most else f"at least {least:,}"
                raise Unknown(f"{self.name} takes {wanted} {axis.upper()}; came: {size:,}")
        return shape

    def interpreted(self, shape: Shape) -> Shape:
        """Return a shape for the interpreter, which is slow: no larger than need be."""
        return tuple(min(n, most) for n, most in zip(shape, self.small, strict=True))

    def checked(self, shape: Shape, dtype: str, config: Config) -> Shape:
        """Return a shape that NumPy computes in float64 in seconds: this one, or one with its greatest sizes halved."""
        found, size = list(shape), dtype_of(dtype).itemsize
        free = [k for k, axis in enumerate(self.axes) if axis not in self.kept]
        while True:
            flops, moved = self.work(tuple(found), size, config)
            large = max(free, key=lambda k: found[k])
            least = self.limits.get(self.axes[large], (1, 1))[0]
            if (flops <= _MOST_FLOPS and moved <= _MOST_BYTES) or found[large] // 2 < max(least, 64):
                return tuple(found)
            found[large] //= 2

    def odd(self, shape: Shape, most: int) -> Shape:
        """Return a shape near this one that fits no tile."""
        found = []
        for axis, n in zip(self.axes, shape, strict=True):
            n = n if axis in self.kept else min(n, most) | 1
            least, greatest = self.limits.get(axis, (1, n))
            found.append(min(max(n, least), greatest))
        return tuple(found)


@functools.cache
def kernels() -> dict[str, TritonKernel]:
    """Every kernel that a family declares, by name. Imports all families, and so triton."""
    from .. import families

    found: dict[str, TritonKernel] = {}
    for module in families.modules():
        for kernel in module.tuning() if hasattr(module, "tuning") else ():
            found[kernel.name] = kernel
    return dict(sorted(found.items()))


# -- what declarations are made of -------------------------------------------------------------------------------------


def dtype_of(name: str) -> np.dtype:
    """NumPy's dtype, ml_dtypes' for bfloat16."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def wide(dtype: str) -> str:
    """Return the dtype that statistics of this one are kept in."""
    return "float64" if dtype == "float64" else "float32"


def empty(shape: Sequence[int] | int, dtype: str) -> np.ndarray:
    """Return an array that nobody has written to; untouched it takes no memory."""
    return np.empty(shape, dtype_of(dtype))


def normal(rng: Rng, shape: Sequence[int] | int, dtype: str) -> np.ndarray:
    """Numbers of the normal distribution, rounded to the dtype."""
    return empty(shape, dtype) if rng is None else rng.standard_normal(shape, np.float32).astype(dtype_of(dtype))


def integers(rng: Rng, most: int, shape: Sequence[int] | int, dtype: str = "int64") -> np.ndarray:
    """Whole numbers from 0 to below `most`."""
    return empty(shape, dtype) if rng is None else rng.integers(0, most, shape).astype(dtype)


def rounded(values: Callable[[], Any], rng: Rng, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return what `values` computes, in the dtype; not computed where arrays need no content."""
    return empty(shape, dtype) if rng is None else np.asarray(values()).astype(dtype_of(dtype))


def float64(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Floating arrays in float64, others as they are."""
    return [a if a.dtype.kind in "biu" else a.astype(np.float64) for a in arrays]


def call(launcher: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """A launcher's call with lists of arrays taken apart, whose lengths no type checker knows."""
    launcher(*arguments, **named)


def copied(inputs: list[Any], outputs: list[Any]) -> None:
    """Of a kernel that works in place: the last inputs are what its outputs hold before."""
    for out, start in zip(outputs, inputs[len(inputs) - len(outputs) :], strict=True):
        out[...] = start


def zeroed(inputs: list[Any], outputs: list[Any]) -> None:
    """Of a kernel that adds to what is there."""
    for out in outputs:
        out[...] = 0


def each(passes: float, flops: float) -> Work:
    """So many bytes and operations for every element of the shape."""
    return lambda shape, size, c: (flops * math.prod(shape), passes * size * math.prod(shape))


def of_rows(reads: int, reads_long: int, flops: int) -> Work:
    """Return a kernel that reads its rows once where a block holds one, else again."""

    def work(shape: Shape, itemsize: int, c: Config) -> tuple[float, float]:
        count = reads if shape[1] <= c["BLOCK"] else reads_long
        # lanes beyond the end of a row's last block do the arithmetic too
        lanes = math.ceil(shape[1] / c["BLOCK"]) * c["BLOCK"]
        return float(flops * shape[0] * lanes), float(itemsize * math.prod(shape) * count)

    return work


def of_products(sizes: Callable[[Any], Any], steps: Sequence[str] = ("BLOCK_M", "BLOCK_N",
                "BLOCK_K"), second: float = 1.0) -> Work:  # fmt: skip
    """Return a product of M x K by K x N in tiles; `second` is the share of the dtype's bytes that the second
    operand has."""

    def work(shape: Shape, itemsize: int, c: Config) -> tuple[float, float]:
        m, n, k = sizes(shape)
        bm, bn, bk = (c[name] for name in steps)
        mm, nn, kk = (math.ceil(size / b) * b for size, b in ((m, bm), (n, bn), (k, bk)))
        least = m * k + second * k * n + m * n
        through_l2 = mm * nn * kk * (second / bm + 1 / bn)
        return 2.0 * mm * nn * kk, itemsize * max(least, through_l2 / 3.0)  # the L2 cache gives three times as much

    return work


def plane(places: int, taps: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the sizes and the window of a picture with so many places: square where both are squares, else one row.

    >>> plane(3136, 9), plane(50, 3)
    (((56, 56), (3, 3)), ((1, 50), (1, 3)))
    """
    side, window = math.isqrt(places), math.isqrt(taps)
    if side * side == places and window * window == taps:
        return (side, side), (window, window)
    return (1, places), (1, taps)
