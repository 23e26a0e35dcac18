"""The inputs of a row: what each symbol of its text stands for, in every variant of shape, layout, dtype and value."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import core

# Symbols without a shape of their own: their range of values, and their shape where a variant lets shapes differ.
RANGES: dict[str, tuple[float, float]] = {
    "x": (-2.5, 2.5),
    "y": (-2.5, 2.5),
    "w": (-2.5, 2.5),
    "p": (0.5, 3.0),
    "q": (0.5, 3.0),
    "u": (-0.9, 0.9),
    "r": (0.05, 0.95),
    "g": (1.1, 3.0),
}
BROADCAST = {"x": (3, 4), "p": (3, 4), "u": (3, 4), "r": (3, 4), "g": (3, 4), "y": (4,), "q": (4,), "w": (3, 1)}
NUMBERS: dict[str, tuple[int, int]] = {"i": (-5, 6), "j": (1, 7), "k": (0, 3)}  # integers in every variant
MAKERS = ("R", "P", "U", "Z", "C", "B", "SPD", "M")


@dataclass(frozen=True)
class Variant:
    """One way to give the same row its inputs."""

    name: str
    dtype: str = "float64"
    layout: str = "regular"
    shape: str = "regular"
    values: str = "regular"


VARIANTS = (
    Variant("float64"),
    Variant("float32", dtype="float32"),
    Variant("float16", dtype="float16"),
    Variant("bfloat16", dtype="bfloat16"),
    Variant("int64", dtype="int64"),
    Variant("bool", dtype="bool"),
    Variant("empty", shape="empty"),
    Variant("0-d", shape="0-d"),
    Variant("broadcast", shape="broadcast"),
    Variant("transposed", layout="transposed"),
    Variant("sliced", layout="sliced"),
    Variant("negative strides", layout="negative", dtype="float32"),
    Variant("NaN and infinities", values="special"),
)


def laid_out(a: Any, layout: str) -> Any:
    """The same values in another memory layout."""
    if layout == "transposed" and a.ndim > 1:
        return np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "sliced" and a.ndim:
        room = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        room[..., ::2] = a
        return room[..., ::2]
    if layout == "negative" and a.ndim:
        return np.ascontiguousarray(a[::-1])[::-1]
    return a


class Inputs:
    """What the text of a row can name, made for library `t` in one variant; the numbers depend on the text only."""

    def __init__(self, lib: Any, variant: Variant, text: str) -> None:
        self.t = lib
        self.variant = variant
        self.seed = zlib.crc32(text.encode())
        self.rng = np.random.default_rng(self.seed)
        self.leaves: list[Any] = []
        self.named: dict[str, Any] = {"np": np, "t": lib}
        for name in MAKERS:
            self.named[name] = getattr(self, name)

    def symbols(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The namespace for an expression that reads these names; ``x0`` is `x` that asks for no gradient."""
        space = dict(self.named)
        for name in sorted(names):
            base = name.rstrip("0")
            if len(base) != 1:
                continue
            if base in RANGES:
                a = self.filled(base)
                space[name] = self.tensor(a, grad=name == base)
            elif base in NUMBERS:
                space[name] = self.plain(self.own(base).integers(*NUMBERS[base], self.shape(base)))
            elif base == "b":
                space[name] = self.plain(self.own(base).random(self.shape(base)) < 0.5)
        return space

    def own(self, symbol: str) -> Any:
        return np.random.default_rng([self.seed, ord(symbol)])

    def shape(self, symbol: str) -> tuple[int, ...]:
        kind = self.variant.shape
        if kind == "broadcast":
            return BROADCAST.get(symbol, (3, 4))
        return {"empty": (0, 4), "0-d": ()}.get(kind, (3, 4))

    def filled(self, symbol: str) -> Any:
        a = np.asarray(self.own(symbol).uniform(*RANGES[symbol], self.shape(symbol)))
        if self.variant.values == "special":
            special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
            a.flat[:6] = np.roll(special, "xpurgyqw".index(symbol) // 5 * 2)
        return a

    def tensor(self, a: Any, grad: bool = True) -> Any:
        """A floating input, in the variant's dtype and layout; a leaf that asks for a gradient if it can have one."""
        dtype = self.variant.dtype
        if dtype == "int64":
            a = np.rint(a * 2).astype(np.int64)
        elif dtype == "bool":
            a = a > 0.5
        else:
            low = dtype == "float32"
            a = a.astype({"complex128": "complex64"}.get(str(a.dtype), "float32") if low else a.dtype)
        if dtype in ("float16", "bfloat16"):
            t = self.plain(a.astype(np.complex64 if a.dtype.kind == "c" else np.float32))
            t = t.to(getattr(self.t, dtype)) if t.is_floating_point() else t
        else:
            t = self.plain(a)
        if grad and (t.is_floating_point() or a.dtype.kind == "c"):
            self.leaves.append(t.requires_grad_())
        return t

    def plain(self, a: Any) -> Any:
        """The array as a tensor of the library, sharing its memory and layout where the library can."""
        a = laid_out(np.asarray(a), self.variant.layout)
        if any(
            s < 0 for s in a.strides
        ):  # from_numpy refuses them in both libraries; only core.tensor copies them itself
            a = a.copy() if self.t is torch else core.tensor(a).numpy()
        return self.t.from_numpy(a) if a.ndim else self.t.tensor(a[()], dtype=getattr(self.t, str(a.dtype)))

    # Makers that a text calls with a shape of its own; one letter each, as in the rows.

    def R(self, *shape: int, grad: bool = True) -> Any:
        return self.tensor(self.rng.uniform(-2, 2, shape), grad)

    def P(self, *shape: int, grad: bool = True) -> Any:
        return self.tensor(self.rng.uniform(0.3, 2, shape), grad)

    def U(self, *shape: int, grad: bool = True) -> Any:
        return self.tensor(self.rng.uniform(0.02, 0.98, shape), grad)

    def C(self, *shape: int, grad: bool = True) -> Any:
        return self.tensor(self.rng.uniform(-2, 2, shape) + 1j * self.rng.uniform(-2, 2, shape), grad)

    def SPD(self, n: int, *batch: int) -> Any:
        a = self.rng.uniform(-1, 1, (*batch, n, n))
        return self.tensor(a @ a.swapaxes(-1, -2) + n * np.eye(n))

    def Z(self, high: int, *shape: int) -> Any:
        return self.plain(self.rng.integers(0, high, shape))

    def B(self, *shape: int) -> Any:
        return self.plain(self.rng.random(shape) < 0.5)

    def M(self, *shape: int) -> Any:
        """Well-conditioned square matrices."""
        return self.tensor(self.rng.uniform(-1, 1, shape) + 3 * np.eye(shape[-1]))


def flexible(names: tuple[str, ...]) -> bool:
    """Whether an expression's inputs can take another shape."""
    return any(len(n.rstrip("0")) == 1 and n.rstrip("0") in {*RANGES, *NUMBERS, "b"} for n in names)


def libraries() -> tuple[Any, Any]:
    return core, torch
