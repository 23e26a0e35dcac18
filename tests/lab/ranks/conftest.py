"""Four ranks that stay for all tests of a folder, started anew where a test has ended them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.ranks.cell import view
from lab.ranks.pool import Pool
from widgets.ranked import Ranked

from ...core.distributed.jobs import MISSING
from .cells import SETUP

Cell = Callable[..., Ranked]


@pytest.fixture(scope="session")
def pools() -> Iterator[dict[int, Pool]]:
    found: dict[int, Pool] = {}
    yield found
    for pool in found.values():
        pool.stop()


@pytest.fixture
def pool(pools: dict[int, Pool]) -> Pool:
    """Four ranks in which `SETUP` has run."""
    if MISSING:
        pytest.skip(MISSING)
    if 4 not in pools or not pools[4].alive:
        pools[4] = Pool(4)
        pools[4].start()
        pools[4].run(SETUP, "In [1]")
        assert [rank.error for rank in pools[4].ranks] == [None] * 4
    return pools[4]


@pytest.fixture
def cell(pool: Pool) -> Cell:
    """`cell(text)` runs a cell, whose text begins on line 2, and gives its card."""

    def run(text: str, timeout_s: float = 5.0) -> Ranked:
        pool.run("#" + text, "In [7]", timeout_s)
        return view(pool, "%%ranks 4 · In [7]", "In [7]", "%%ranks 4" + text)

    return run
