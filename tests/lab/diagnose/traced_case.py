"""A program that was recorded, and the rule that is asked about it: what test_traced_rules.py has many of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lab.diagnose.finding import Found
from lab.diagnose.order import Rule
from lab.recorder.cell_trace import Trace


class Case(NamedTuple):
    """A rule, a program, whether it finds something there, and what facts of the recording are set to before."""

    rule: Callable[[Trace, set[Any]], list[Found]]
    text: str
    found: bool = True
    facts: Callable[[Trace], None] = lambda trace: None


def by_name(rule: Rule, marks: bool = True) -> Rule:
    """A rule of whose parameters one of each name is marked, or none: how many there are, the memory decides, and of
    layers without a name which of them stood at one place in it."""

    def look(trace: Trace, explained: set[Any]) -> list[Found]:
        found = rule(trace, explained)
        for one in found:
            named = {leaf.name: leaf for leaf in one.leaves}
            one.leaves = [named[name] for name in sorted(named) if marks]
        return found

    return look
