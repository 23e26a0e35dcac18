"""What a few values of an array tell: the same ones again, and nothing where they are all alike or lost."""

from __future__ import annotations

import numpy as np
import pytest

from lab.recorder.repeats import _digest

NAN = np.full((8, 8), np.nan, np.float32)
MIXED = np.where(np.eye(8, dtype=bool), np.float32(2), NAN)
KNOWN = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.mark.parametrize("a", [NAN, NAN.astype(np.complex64), MIXED, np.zeros((8, 8), np.float32), np.ones(9, int)])
def test_values_that_are_all_alike_or_lost_tell_nothing(a: np.ndarray) -> None:
    assert _digest(a) == 0


def test_other_values_are_told_apart() -> None:
    assert _digest(KNOWN) == _digest(KNOWN.copy()) != _digest(KNOWN + 1)
    assert _digest(np.where(np.eye(8, dtype=bool), np.nan, KNOWN)) != 0
