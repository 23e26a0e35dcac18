"""What is asked of all compiled functions: `set_stance`, `disable`, and that one inside another runs as its part."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

FORCED = "the stance is force_eager"
INSIDE = "inside another compiled function"
forced = 0
"""Whether any thread may have to run eagerly: where it is 0 nobody asks further."""


class _State(threading.local):
    inside = 0
    disabled = 0


_state = _State()
_stance = "default"


def said() -> str:
    """Return the stance."""
    return _stance


def choose(name: str) -> str:
    """Set the stance; what it was before."""
    global _stance, forced
    before, _stance = _stance, name
    forced += (name == "force_eager") - (before == "force_eager")
    return before


def why() -> str:
    """Return why this thread runs eagerly, or nothing."""
    if _stance == "force_eager":
        return FORCED
    if _state.disabled:
        return "inside core.compiler.disable"
    return INSIDE if _state.inside else ""


def is_inside() -> bool:
    """Return whether a call is being recorded in this thread."""
    return _state.inside > 0


@contextmanager
def inside() -> Iterator[None]:
    """What is compiled runs as part of what is recorded in the block."""
    global forced
    forced += 1
    _state.inside += 1
    try:
        yield
    finally:
        _state.inside -= 1
        forced -= 1


@contextmanager
def disabled() -> Iterator[None]:
    """Nothing is compiled in the block."""
    global forced
    forced += 1
    _state.disabled += 1
    try:
        yield
    finally:
        _state.disabled -= 1
        forced -= 1
