"""The collector of garbage after a while without it."""

from __future__ import annotations

import gc
import weakref

import pytest

from core.base.collector import paused


@pytest.fixture(autouse=True)
def nothing_frozen():
    """The suite freezes what it has imported."""
    gc.unfreeze()
    yield
    gc.freeze()


class Cell:
    """What can stand in a cycle."""


def test_what_was_made_counts_as_old_and_is_let_go_of_in_time() -> None:
    with paused():
        one = Cell()
        one.itself = one
        seen = weakref.ref(one)
    assert one not in gc.get_objects(generation=0)
    assert one in gc.get_objects(generation=2)
    del one
    gc.collect()
    assert seen() is None


def test_what_a_program_has_frozen_stays_so() -> None:
    gc.freeze()
    with paused():
        pass
    assert gc.get_freeze_count() > 0
