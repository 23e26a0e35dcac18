"""The rules, each with its place: a function of a folder beside this one that looks for one thing, in the
order in which they look.

A rule gets the trace and the parameters that an earlier one has explained, and adds to them: what is cut off from the
loss is not said to have no gradient as well. A rule that reads the text alone is a `text_rule`.

A warning points to rows or leaves of the recording that show what it says. Where something else shows it (a time, a
count of steps), or where the text needs no context, the rule says so, `@rule(place, proof="...")`, or a finding alone
by its own `proof`. Any other warning becomes a note that reads like a mistake (`Found.weigh`).

The places by hundreds:

    100  what ends the cell, or cuts the graph
    200  the training step: what it forgets, and what it does too late
    300  values: how they start, grow, and stop being finite
    400  losses, and dimensions in another order
    500  writes that are lost, targets, batches, schedules
    600  parameters that get no gradient
    700  modes of modules, and what is kept in evaluation
    800  scales of gradients, and what costs time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from ..recorder.cell_trace import Leaf, Trace
from .finding import Found
from .reading.scope import Scope, scopes
from .reading.sources import sources
from .reading.spelling import as_written

Rule = Callable[[Trace, set[Leaf]], list[Found]]
TextRule = Callable[[Scope], Iterator[Found]]
_places: dict[int, Rule] = {}
proofs: dict[int, str] = {}
"""What shows the findings of a rule, by its place, where neither rows nor leaves do."""


def rule(place: int, *, proof: str = "") -> Callable[[Rule], Rule]:
    """Decorator: make a function one of the rules, at this place among them. Raise ValueError where there is one.

    `proof` says in a few words what shows its findings, where neither rows nor leaves do.
    """

    def decorate(look: Rule) -> Rule:
        if place in _places:
            raise ValueError(f"the rule {_places[place].__name__} has the place {place} already; choose another one")
        _places[place] = weighed(as_the_user_writes(look), proof)
        if proof:
            proofs[place] = proof
        return _places[place]

    return decorate


def weighed(look: Rule, proof: str) -> Rule:
    """Return a rule whose findings are as grave as what shows them allows."""

    @wraps(look)
    def sure(trace: Trace, explained: set[Leaf]) -> list[Found]:
        found = look(trace, explained)
        for one in found:
            one.weigh(proof)
        return found

    return sure


def as_the_user_writes(look: Rule) -> Rule:
    """Return a rule whose messages have the user's own spelling, where `reading/spelling.py` has changed it."""

    @wraps(look)
    def written(trace: Trace, explained: set[Leaf]) -> list[Found]:
        found = look(trace, explained)
        for one in found:
            for source in sources(trace):
                one.message = as_written(source.tree, source.text, one.message)
        return found

    return written


def text_rule(
    place: int, *words: str, trains: bool = False, earlier: bool = False, proof: str = ""
) -> Callable[[TextRule], Rule]:
    """Decorator: make a rule of a function that reads one `Scope` of the text at a time; its first finding counts.

    With `words` it is asked only of sources that have all of them in their text, with `trains` only in a cell that
    steps an optimizer; with `earlier` the statements of earlier cells stand before this cell's. What it says is a note,
    unless its finding has rows of the recording, or `proof` says why the text needs no context.
    """

    def decorate(look: TextRule) -> Rule:
        @wraps(look)
        def first(trace: Trace, explained: set[Leaf]) -> list[Found]:
            if trains and not trace.steps.count:
                return []
            found = (one for scope in scopes(trace, *words, earlier=earlier) for one in look(scope))
            return [one for one in [next(found, None)] if one is not None]

        return rule(place, proof=proof)(first)

    return decorate


def in_order() -> tuple[Rule, ...]:
    """Return all rules by their places."""
    return tuple([_places[place] for place in sorted(_places)])
