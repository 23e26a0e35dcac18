"""Windows: symmetric or periodic, against their formulas and the top-level ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

W = core.signal.windows


@pytest.mark.parametrize("name", ["hann", "hamming", "kaiser", "blackman", "bartlett"])
@pytest.mark.parametrize("M", [0, 1, 2, 7, 8])
def test_they_are_those_at_top_level_with_the_other_default(name: str, M: int) -> None:
    for sym in (True, False):
        got = getattr(W, name)(M, sym=sym, dtype=core.float64)
        want = getattr(core, f"{name}_window")(M, not sym, dtype=core.float64)
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", W.__all__)
def test_a_periodic_window_is_a_symmetric_one_without_its_last_point(name: str) -> None:
    more: dict[str, Any] = {"a": [0.4, 0.3, 0.2]} if name == "general_cosine" else {}
    f = getattr(W, name)
    np.testing.assert_allclose(f(6, sym=False, **more).numpy(), f(7, **more).numpy()[:6], atol=1e-6)
    np.testing.assert_allclose(f(7, **more).numpy(), f(7, **more).flip(0).numpy(), atol=1e-6)
    assert f(0, **more).shape == (0,)
    assert f(3, dtype=core.float64, requires_grad=True, **more).requires_grad
    with pytest.raises(ValueError, match="requires non-negative window length, got M=-1"):
        f(-1, **more)
    with pytest.raises(ValueError, match="expects float32 or float64 dtypes"):
        f(3, dtype=core.float16, **more)


@pytest.mark.parametrize(("call", "error", "phrase"), [
    (lambda: W.exponential(4, tau=0), ValueError, "Tau must be positive"),
    (lambda: W.exponential(4, center=1.0), ValueError, "Center must be None for symmetric windows"),
    (lambda: W.gaussian(4, std=-1), ValueError, "Standard deviation must be positive"),
    (lambda: W.kaiser(4, beta=-1), ValueError, "beta must be non-negative"),
    (lambda: W.general_cosine(4, a=0.5), TypeError, "Coefficients must be a list/tuple"),
    (lambda: W.general_cosine(4, a=[]), ValueError, "Coefficients cannot be empty"),
])  # fmt: skip
def test_errors(call: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()
