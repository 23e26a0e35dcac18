"""What is wrong between ranks: rules that look at a comparison of them, and give findings that name lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from widgets.record import Finding

from .compare import Comparison
from .copies import parameters, same_data, unbalanced
from .ended import dead, different, hung, left
from .waiting import by_hand, late

__all__ = ["RULES", "findings"]

RULES: tuple[Callable[[Comparison, str], Iterator[Finding]], ...] = (
    dead, hung, different, left, parameters, same_data, unbalanced, late, by_hand)  # fmt: skip


def findings(c: Comparison, cause: str) -> list[Finding]:
    """Return what is wrong, what ended the cell first. `cause` is why it was ended before its time."""
    return [found for rule in RULES for found in rule(c, cause)]
