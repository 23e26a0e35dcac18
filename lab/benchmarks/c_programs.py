"""Four C kernels with tile sizes and compiler flags to tune, as anybody might write them: the files of ``c/``.

A product of matrices, a seven-point stencil, a transpose and a histogram of bytes, of 240 configs each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triton_kernels.tune.own_c import c_problem
from triton_kernels.tune.problem import Problem

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A C kernel. arguments : by name, from a shape and a generator. shape : the one that is tuned by default."""

    name: str
    axes: tuple[str, ...]
    shape: Shape
    arguments: Callable[[Sequence[int], np.random.Generator], dict[str, Any]]
    reference: Callable[..., Any]
    shapes: tuple[Shape, ...] = ()  # that one tree of configs is to serve

    @property
    def text(self) -> str:
        """Return its C."""
        return (Path(__file__).parent / "c" / f"{self.name}.c").read_text(encoding="utf-8")

    def problem(self, shape: Sequence[int] = ()) -> Problem:
        """Return the problem at a shape, by default at its own."""
        given = self.arguments(shape or self.shape, np.random.default_rng(0))
        return c_problem(self.text, given, reference=self.reference)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _product(shape: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
    m, n, k = shape
    return {"a": _normal(rng, m, k), "b": _normal(rng, k, n), "c": np.zeros((m, n), np.float32), "m": m, "n": n, "k": k}


def _stencil(shape: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
    nz, ny, nx = shape
    return {"u": _normal(rng, nz, ny, nx), "out": np.zeros((nz, ny, nx), np.float32), "nz": nz, "ny": ny, "nx": nx,
            "middle": 0.5, "beside": 0.125}  # fmt: skip


def _stencilled(u: np.ndarray, middle: float, beside: float) -> np.ndarray:
    out = u.copy()
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    out[1:-1, 1:-1, 1:-1] = middle * u[1:-1, 1:-1, 1:-1] + beside * (around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:])
    return out


def _transpose(shape: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
    m, n = shape
    return {"x": _normal(rng, m, n), "out": np.zeros((n, m), np.float32), "m": m, "n": n}


def _histogram(shape: Sequence[int], rng: np.random.Generator) -> dict[str, Any]:
    (n,) = shape
    bell = np.clip(128.0 + 12.0 * rng.standard_normal(n), 0, 255)  # as a picture's grey values, many of them alike
    return {"x": bell.astype(np.uint8), "out": np.zeros(256, np.int32), "n": n}


PROGRAMS = (
    Program(
        "product", ("m", "n", "k"), (256, 256, 256), _product, lambda a, b: a @ b,
        ((32, 32, 32), (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (8, 512, 512), (512, 8, 512),
         (512, 512, 8), (16, 2048, 64), (1024, 24, 256), (100, 300, 200), (37, 45, 1024)),
    ),
    Program("stencil", ("nz", "ny", "nx"), (128, 128, 128), _stencil, _stencilled),
    Program(
        "transpose", ("m", "n"), (1024, 1024), _transpose, lambda x: x.T,
        ((32, 32), (64, 64), (128, 128), (256, 256), (512, 512), (1024, 1024), (2000, 1000), (8, 8192), (8192, 8),
         (64, 4096), (4096, 64), (333, 777)),
    ),
    Program("histogram", ("n",), (1 << 20,), _histogram, lambda x: np.bincount(x, minlength=256)),
)  # fmt: skip
