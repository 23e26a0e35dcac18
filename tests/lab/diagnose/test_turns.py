"""From how many turns of its loop on a mistake is told: not a turn sooner, and not a turn later."""

from __future__ import annotations

from typing import Any

import pytest

from .test_sentences import TEXTS, TIMED, run

# a planted cell, the turns that its loop makes, and the fewest with which its finding still comes first
TURNS = [
    ("no zero_grad", 10, 2),
    ("eval() and never train() again", 6, 2),
    ("a leaf that is made anew", 3, 2),
    ("a hidden state kept over batches", 4, 2),
    ("the gradients of one of two optimizers cleared", 5, 2),
    ("an optimizer that never steps", 4, 3),
    ("steps by hand that clear nothing", 6, 3),
    ("steps by .data that clear nothing", 6, 3),
    ("losses kept by an object", 5, 3),
    ("zero_grad once before loop", 20, 2),
    ("zero_grad on the wrong model", 6, 2),
    ("accumulate never zeroed", 16, 8),
    ("step before backward", 4, 2),
    ("step before backward no zero", 4, 2),
    ("optimizer inside the loop, adam", 10, 3),
    ("model re-created in the loop", 5, 3),
    ("frozen then unfrozen but not in optimizer", 6, 3),
    ("lr 1e-9", 20, 2),
    ("weight decay 10", 30, 2),
    ("scheduler kills lr", 12, 7),
    ("total = total + loss", 8, 3),
    ("ema of the loss with history", 10, 4),
    ("hidden state, retain_graph", 4, 3),
    ("GAN: D's optimizer given G's parameters", 5, 2),
    ("manual update of a loop variable", 6, 3),
    ("replay buffer keeps graphs", 40, 16),
    ("set_grad_enabled(False) left behind", 2, 2),
    ("RNN state carried without detach", 5, 2),
    ("outside loop", 3, 2),
    ("total loss", 4, 2),
    ("metrics inside functions", 3, 2),
    ("a history on self", 12, 3),
    ("a field of a dataclass", 5, 2),
    ("a list in a closure", 12, 3),
    ("a deque", 30, 3),
    ("tuples in a list", 12, 3),
    ("a global dictionary of dictionaries", 12, 3),
    ("a meter on an object", 12, 3),
    ("a dictionary by epoch", 12, 3),
    ("activations that a hook keeps", 12, 3),
    ("a cosine stepped every batch", 5, 2),
    ("a cosine that ends too early", 40, 16),
    ("a scheduler before the optimizer", 5, 2),
    ("a model made in the loop", 10, 3),
    ("the first batch in every step", 20, 2),
    ("a return inside the loop over batches", 5, 2),
    ("a scheduler that nothing steps", 10, 2),
    ("a schedule stepped for every batch", 5, 4),
    ("a seed in each step", 6, 2),
    ("a seed in the function that draws", 6, 2),
    ("one model through all folds", 5, 2),
    ("a name bound anew under no_grad", 3, 2),
    ("new tensors in place of the parameters", 2, 2),
]


def first(name: str, turns: int, now: int, cell: Any, space: dict[str, Any]) -> tuple[str, int | None] | None:
    text = TEXTS[name]
    assert text.count(f"range({turns})") == 1
    changed = {name: text.replace(f"range({turns})", f"range({now})")}
    found = [f for f in run(name, cell, space, changed).findings if f.kind not in TIMED]
    return (found[0].kind, found[0].line) if found else None


@pytest.mark.parametrize(("name", "turns", "fewest"), TURNS)
def test_the_fewest_turns(name: str, turns: int, fewest: int, cell: Any, space: dict[str, Any]) -> None:
    told = first(name, turns, fewest, cell, dict(space))
    assert told is not None
    assert told == first(name, turns, turns, cell, dict(space))
    assert told != first(name, turns, fewest - 1, cell, dict(space))
