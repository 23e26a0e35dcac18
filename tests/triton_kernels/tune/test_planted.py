"""Faults that are planted in kernels are refused by two sizes; see `planted` for all of them at once."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from .planted import faults, judge_of, proposals, verdicts
from .planted_programs import PROGRAMS


@pytest.mark.by_turns
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_fault_is_accepted_that_is_wrong_at_either_size(name):
    found = list(verdicts(name))
    assert Counter(v.became for v in found)["refused"] >= 4
    assert not [v for v in found if v.became == "accepted"]
    assert any(v.size == 1 for v in found)  # one size alone would have let it pass


@pytest.mark.by_turns
@pytest.mark.parametrize("name", ["scaled", "layer_norm"])
def test_no_block_is_proposed_that_is_wrong_at_a_third_size(name):
    assert not [v for v in proposals(name) if v.became == "accepted"]


def test_one_size_does_not_show_what_two_do():
    program, even, _, odd = PROGRAMS["scaled"]
    judge = judge_of("scaled", program, even, odd)
    became = {f.what: judge.became(f).became for f in faults(judge.text, "scaled", judge.every[0].grid)}
    assert next(v for k, v in became.items() if k.startswith("no mask: tl.store")) == "accepted"
    assert became["a program less"] == "refused"


def test_faults_are_one_at_a_place():
    text = "def f(x, n, m, B: tl.constexpr):\n    tl.store(x + n * m, tl.sum(tl.load(x, mask=x < n, other=0.0), 0))"
    found = list(faults(text, "f", (1,)))
    assert len({f.text for f in found}) == len(found) == 9
    assert all(ast.parse(f.text) for f in found)
