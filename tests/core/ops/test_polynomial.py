"""Orthogonal polynomials against their explicit formulas, degree by degree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

X = np.linspace(-0.9, 0.95, 7)
A = np.arccos(X)
EXPLICIT: dict[str, Any] = {
    "chebyshev_polynomial_t": lambda n: np.cos(n * A),
    "chebyshev_polynomial_u": lambda n: np.sin((n + 1) * A) / np.sin(A),
    "chebyshev_polynomial_v": lambda n: np.cos((n + 0.5) * A) / np.cos(A / 2),
    "chebyshev_polynomial_w": lambda n: np.sin((n + 0.5) * A) / np.sin(A / 2),
    "hermite_polynomial_h": lambda n: np.polynomial.hermite.hermval(X, np.eye(n + 1)[n]),
    "hermite_polynomial_he": lambda n: np.polynomial.hermite_e.hermeval(X, np.eye(n + 1)[n]),
    "laguerre_polynomial_l": lambda n: np.polynomial.laguerre.lagval(X, np.eye(n + 1)[n]),
    "legendre_polynomial_p": lambda n: np.polynomial.legendre.legval(X, np.eye(n + 1)[n]),
}


@pytest.mark.parametrize("name", EXPLICIT)
def test_degrees(name: str) -> None:
    f, x = getattr(core.special, name), core.tensor(X)
    want = [EXPLICIT[name](n) for n in range(7)]
    for n in range(7):
        np.testing.assert_allclose(f(x, n).numpy(), want[n], atol=1e-12)
        np.testing.assert_allclose(f(x, core.tensor(n + 0.75)).numpy(), want[n], atol=1e-12)  # cut to a whole number
        if name.startswith("chebyshev"):  # on 0..1 instead of -1..1
            shifted = getattr(core.special, "shifted_" + name)
            np.testing.assert_allclose(shifted((x + 1) / 2, n).numpy(), want[n], atol=1e-12)
    mixed = f(x.reshape(-1, 1), core.tensor([4.0, 0.0, -1.0, 1.0, 6.0, 2.0]))
    columns = [want[4], want[0], 0 * X, want[1], want[6], want[2]]
    np.testing.assert_allclose(mixed.numpy(), np.stack(columns, 1), atol=1e-12)
    assert f(x[:0], 3).shape == (0,)
