"""Fourier transforms by the array API standard: ``xp.fft``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import dtype as Dtype
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor
from .creation import named

_fft = namespaces["fft"]


def _one(name: str) -> Callable[..., Tensor]:
    op = _fft[name]

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return op(x, n, axis, norm)  # type: ignore[no-any-return]

    return named(function, name, f"fft.{name}")


def _several(name: str) -> Callable[..., Tensor]:
    op = _fft[name]

    def function(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
                 norm: str = "backward") -> Tensor:  # fmt: skip
        return op(x, s, axes, norm)  # type: ignore[no-any-return]

    return named(function, name, f"fft.{name}")


def _frequencies(name: str) -> Callable[..., Tensor]:
    op = _fft[name]

    def function(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
        return op(n, d, dtype=dtype, device=device)  # type: ignore[no-any-return]

    return named(function, name, f"fft.{name}")


def _shift(name: str) -> Callable[..., Tensor]:
    op = _fft[name]

    def function(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return op(x, axes)  # type: ignore[no-any-return]

    return named(function, name, f"fft.{name}")


fft = _one("fft")
ifft = _one("ifft")
rfft = _one("rfft")
irfft = _one("irfft")
hfft = _one("hfft")
ihfft = _one("ihfft")
fftn = _several("fftn")
ifftn = _several("ifftn")
rfftn = _several("rfftn")
irfftn = _several("irfftn")
fftfreq, rfftfreq = map(_frequencies, ("fftfreq", "rfftfreq"))
fftshift, ifftshift = map(_shift, ("fftshift", "ifftshift"))

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
