"""The orthogonal polynomials of `core.special`, by their three-term recurrences (A&S 22.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..declare.kinds import Operand
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..tensors.tensor import Tensor
from .special import _pair, shown

# name -> the polynomial of degree 1, and the next one from k, x, this one and the one before
_FAMILIES: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "chebyshev_polynomial_t": (lambda x: x, lambda k, x, p, q: 2 * x * p - q, "Chebyshev polynomial of the first kind"),
    "chebyshev_polynomial_u": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q,
                               "Chebyshev polynomial of the second kind"),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q,
                               "Chebyshev polynomial of the third kind"),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q,
                               "Chebyshev polynomial of the fourth kind"),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q,
                             "physicists' Hermite polynomial"),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, p, q: x * p - k * q, "probabilists' Hermite polynomial"),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1),
                              "Laguerre polynomial"),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1),
                              "Legendre polynomial"),
}  # fmt: skip


def _declare(name: str, first: Callable[..., Any], step: Callable[..., Any], what: str, shifted: bool) -> None:
    def forward(xp: Any, x: Any, n: Any) -> Any:
        wide, degree = xp.broadcast_arrays(x.astype(np.float64), xp.trunc(n.astype(np.float64)))
        wide = 2 * wide - 1 if shifted else wide
        before, here = xp.ones_like(wide), first(wide)
        y = xp.where(degree == 0, before, xp.where(degree < 0, 0.0, here))
        for k in range(1, int(degree.max()) if degree.size else 0):
            before, here = here, step(k, wide, here, before)
            y = xp.where(degree == k + 1, here, y)
        return y.astype(x.dtype)

    op = operation(
        name,
        forward,
        inputs="x n",
        recorded=True,
        samples=lambda rng: [((rng.uniform(0, 1, (3, 4)), np.array([0.0, 1.0, 2.0, 4.0])), {})],
    )

    def function(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
        return into(out, op(*_pair(name, input, n)), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The {'shifted ' * shifted}{what} of degree `n` at `input`; either may be a number.\n\n"
        "    *Shapes*: both broadcast.\n\n"
        f"    >>> import core\n    >>> core.special.{name}(core.tensor([0.5]), 0)\n    tensor([1.])\n    "
    )
    shown[name] = function


for _name, (_first, _step, _what) in _FAMILIES.items():
    _declare(_name, _first, _step, _what, False)
    if _name.startswith("chebyshev"):
        _declare("shifted_" + _name, _first, _step, _what, True)
