"""Random numbers of a replay: set aside in core's generator as the function itself does, so that masks are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..rng.generator import default_generator
from ..rng.philox import Philox

Drawn = tuple[int, int]
"""The seed, and the number at which what is drawn begins."""


def standing() -> Drawn | None:
    """Return where the default generator stands; None where its numbers come in order alone, as PyTorch's do."""
    engine: Any = default_generator.engine
    return (engine.seed, engine.offset) if type(engine) is Philox and engine.place is None else None


def take(count: int) -> Drawn:
    """Set numbers aside."""
    drawn = default_generator.take(count)
    if drawn is None:
        raise RuntimeError("the generator's kind has changed")
    return drawn


def stand_at(drawn: Drawn) -> None:
    """Let the default generator stand where it stood."""
    engine: Any = default_generator.engine
    engine.seed, engine.offset = drawn


@contextmanager
def again(drawn: Drawn) -> Iterator[None]:
    """What is drawn in the block is what was drawn before, and the generator stands afterwards where it stood."""
    now = standing()
    stand_at(drawn)
    try:
        yield
    finally:
        if now is not None:
            stand_at(now)
