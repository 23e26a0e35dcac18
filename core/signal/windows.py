"""Windows by `torch.signal.windows`' names: symmetric unless ``sym=False`` asks for one that repeats.

The top-level windows (`core.hann_window`) repeat unless they are asked not to, as PyTorch has it. *Source*: F. J.
Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (1978).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..ops.conversion import tensor
from ..tensors.tensor import Tensor

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]  # fmt: skip


def _made(op: str, M: int, formula: Any, dtype: Dtype | None, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return the window of `formula` over the places 0 to M - 1, computed in float64."""
    kind = dtype or dtypes.get_default_dtype()
    if M < 0:
        raise ValueError(text(f"{op} requires non-negative window length, got M={M}", op=op))
    if layout is not None and str(layout) not in ("core.strided", "strided"):
        raise ValueError(text(f"{op} is implemented for strided tensors only, got: {layout}", op=op))
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(text(f"{op} expects float32 or float64 dtypes, got: {kind}", op=op, remedy="window.to(dtype)"))
    values = formula(np.arange(M, dtype=np.float64)) if M else np.zeros(0)
    return tensor(values, dtype=kind, device=device, requires_grad=requires_grad)


def _periods(M: int, sym: bool) -> int:
    """Return the number of steps in which the window comes round."""
    return max(M - 1 if sym else M, 1)


def _middle(M: int, sym: bool) -> float:
    return (M if not sym and M > 1 else M - 1) / 2


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
                layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``exp(-|n - center| / tau)``, named after Poisson too.

    *Raises*: ValueError for a `tau` that is not positive, or a `center` for a symmetric window.

    >>> import core
    >>> core.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(text(f"Tau must be positive, got: {tau} instead.", op="exponential"))
    if sym and center is not None:
        raise ValueError(text("Center must be None for symmetric windows", op="exponential", came=f"center={center}",
                              remedy="sym=False"))  # fmt: skip
    middle = _middle(M, sym) if center is None else center
    return _made("exponential", M, lambda n: np.exp(-np.abs(n - middle) / tau), dtype, layout, device, requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``sin(π (n + 1/2) / M)``.

    >>> import core
    >>> core.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    whole = M + 1 if not sym and M > 1 else M
    return _made("cosine", M, lambda n: np.sin(np.pi * (n + 0.5) / whole), dtype, layout, device, requires_grad)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``exp(-(n - middle)² / (2 std²))``. *Raises*: ValueError for a `std` that is not positive.

    >>> import core
    >>> core.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(text(f"Standard deviation must be positive, got: {std} instead.", op="gaussian"))
    middle = _middle(M, sym)
    return _made("gaussian", M, lambda n: np.exp(-(((n - middle) / std) ** 2) / 2), dtype, layout, device,
                 requires_grad)  # fmt: skip


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None, layout: Any = None,
           device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``I0(beta sqrt(1 - (2 n / N - 1)²)) / I0(beta)``, I0 the modified Bessel function of order 0.

    *Raises*: ValueError for a negative `beta`.

    >>> import core
    >>> core.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise ValueError(text(f"beta must be non-negative, got: {beta} instead.", op="kaiser"))

    def formula(n: Any) -> Any:
        if M == 1:
            return np.ones(1)
        along = 2 * n / _periods(M, sym) - 1
        return np.i0(beta * np.sqrt(np.maximum(1 - along**2, 0))) / np.i0(beta)

    return _made("kaiser", M, formula, dtype, layout, device, requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the triangular window ``1 - |2 n / N - 1|``.

    >>> import core
    >>> core.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def formula(n: Any) -> Any:
        return np.ones(1) if M == 1 else 1 - np.abs(2 * n / _periods(M, sym) - 1)

    return _made("bartlett", M, formula, dtype, layout, device, requires_grad)


def general_cosine(M: int, *, a: Any, sym: bool = True, dtype: Dtype | None = None, layout: Any = None,
                   device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``Σ (-1)^i a[i] cos(2π i n / N)``.

    *Raises*: TypeError for an `a` that is no list, ValueError for an empty one.

    >>> import core
    >>> core.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _cosines(op: str, M: int, a: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    def formula(n: Any) -> Any:
        if M == 1:
            return np.ones(1)
        if not isinstance(a, list | tuple):
            raise TypeError(text("Coefficients must be a list/tuple", op=op, came=type(a).__name__))
        if not a:
            raise ValueError(text("Coefficients cannot be empty", op=op, came=repr(a)))
        turns = 2 * math.pi * n / _periods(M, sym)
        return sum((-1) ** i * c * np.cos(i * turns) for i, c in enumerate(a))

    return _made(op, M, formula, dtype, layout, device, requires_grad)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Dtype | None = None, layout: Any = None,
                    device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``alpha - (1 - alpha) cos(2π n / N)``.

    >>> import core
    >>> core.signal.windows.general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    return _cosines("general_hamming", M, [alpha, 1 - alpha], sym, dtype, layout, device, requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``0.54 - 0.46 cos(2π n / N)``.

    >>> import core
    >>> core.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _cosines("hamming", M, [0.54, 0.46], sym, dtype, layout, device, requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``0.5 - 0.5 cos(2π n / N)``.

    >>> import core
    >>> core.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosines("hann", M, [0.5, 0.5], sym, dtype, layout, device, requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return the window ``0.42 - 0.5 cos(2π n / N) + 0.08 cos(4π n / N)``.

    >>> import core
    >>> core.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, dtype, layout, device, requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Nuttall's minimum four-term window. *Source*: A. H. Nuttall, IEEE Trans. ASSP 29 (1981).

    >>> import core
    >>> core.signal.windows.nuttall(3)[1]
    tensor(1.)
    """
    return _cosines("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, dtype, layout, device,
                    requires_grad)  # fmt: skip
