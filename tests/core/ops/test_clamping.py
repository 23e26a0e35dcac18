"""Values kept between bounds."""

from __future__ import annotations

import pytest

import core


def test_a_bound_past_the_dtype_is_refused() -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        core.tensor([1, 2], dtype=core.uint8).clamp(0, 300)
    assert core.tensor([1, 200], dtype=core.uint8).clamp(2, 100).tolist() == [2, 100]
    assert core.tensor([1, 2]).clamp(0, 1.5).tolist() == [1.0, 1.5]
