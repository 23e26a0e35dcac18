"""Adding rows at given places: NumPy's own loop, the sorted runs, and the pairwise sums of a GPU's library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.backends.accumulate import add_at, add_rows


class OtherLibrary:
    """NumPy under another name, so that the path of a GPU's library is taken."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.lists(st.integers(0, 5), max_size=40),
    st.sampled_from([np, OtherLibrary()]),
)
def test_as_numpy_adds(n: int, k: int, places: list[int], xp: Any) -> None:
    at = np.array([p % n for p in places], np.int64)
    rows = np.random.default_rng(len(places)).normal(size=(len(at), k))
    got, want = np.ones((n, k)), np.ones((n, k))
    kept = rows.copy()
    add_rows(xp, got, at, rows)
    np.add.at(want, at, kept)
    np.testing.assert_allclose(got, want)
    np.testing.assert_array_equal(rows, kept)


@pytest.mark.parametrize("key", [
    (np.array([2, 0, 2]),), (slice(None), np.array([[0, 1], [1, 1]])),
    (np.array([0, 2]), slice(None), np.array([1, 1])),
    (np.array([-1, 2, 2]), np.array([0, 1, 1])), (np.zeros(0, np.int64),),
])  # fmt: skip
@pytest.mark.parametrize("xp", [np, OtherLibrary()], ids=["numpy", "other"])
def test_whole_keys(key: Any, xp: Any) -> None:
    got, want = np.zeros((3, 4, 5)), np.zeros((3, 4, 5))
    values = np.random.default_rng(0).normal(size=want[key].shape)
    add_at(xp, got, key, values)
    np.add.at(want, key, values)
    np.testing.assert_allclose(got, want)
