"""Single rules asked about small programs: which of them they tell of, and in which words.

`traced_sentences.md` holds what is said; ``python -m tests.lab.diagnose.test_traced_rules`` writes it anew.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from lab.diagnose import diagnose
from lab.diagnose.finding import Found
from lab.recorder.cell_trace import Leaf

from .test_sentences import alike, how_sure, page
from .test_slow_code import space_of, traced_of
from .traced_case import Case
from .traced_cuts import CUTS
from .traced_data import ABOUT_DATA
from .traced_errors import ERRORS
from .traced_graphs import GRAPHS
from .traced_loops import LOOPS
from .traced_losses import PROGRAMS
from .traced_parts import PARTS
from .traced_slow import SLOW
from .traced_terms import TERMS
from .traced_training import TRAINING
from .traced_values import VALUES
from .traced_waits import WAITS

PAGE = Path(__file__).parent / "traced_sentences.md"
Space = dict[str, Any]
GROUPS = (ERRORS, VALUES, PROGRAMS, GRAPHS, LOOPS, SLOW, WAITS, TERMS, TRAINING, CUTS, ABOUT_DATA, PARTS)
CASES: dict[str, Case] = {name: case for group in GROUPS for name, case in group.items()}


def shown(found: list[Found]) -> str:
    """What is found: line and column, the message, the remedy, the ops and the parameters that are marked."""
    lines = []
    for f in found:
        marks = [f"{row.op} (line {row.line})" for row in f.rows] + [leaf.name for leaf in f.leaves]
        message = re.sub(r"<cell \d+>", "<cell>", f.message)
        lines += [
            f"{how_sure(f)} · {f.kind} · line {f.line}:{f.col}",
            f"> {message}",
            ">",
        ]
        lines += [f"> {f.remedy}", "", f"Marks {', '.join(marks) or 'nothing'}.", ""]
    return "\n".join(lines)


def said(name: str, traced: Any, space: Space) -> str:
    """What is said of a case."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {**space, "y": space["x"][:, 0] * 0.5}  # what the cell makes lives on while the rule looks
        trace = traced(case.text, names)
    case.facts(trace)
    explained: set[Leaf] = set()
    told = shown(case.rule(trace, explained))
    names = sorted({leaf.name for leaf in explained})
    return told + (f"\nExplains {', '.join(names)}.\n" if names else "")


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return page(PAGE)


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_program(name: str, expected: dict[str, str], traced: Any, space: Space) -> None:
    told = said(name, traced, space)
    assert bool(told) == CASES[name].found, told
    assert alike(told.rstrip(), expected.get(name, "").rstrip()), told


@pytest.mark.parametrize("name", list(CASES)[::5])
def test_a_cell_that_cannot_be_read_is_no_error(name: str, traced: Any, space: Space) -> None:
    """Of a cell whose text is no Python, as that of a magic, rules tell what ran, or nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = traced(CASES[name].text, {**space, "y": space["x"][:, 0] * 0.5})
    CASES[name].facts(trace)
    trace.code = "%%magic ("
    for one in diagnose(trace):
        assert "One of our rules failed" not in one.message, one.message
    assert isinstance(CASES[name].rule(trace, set()), list)


def test_no_two_programs_have_one_name() -> None:
    assert len(CASES) == sum(map(len, GROUPS))
    assert set(page(PAGE)) == {name for name, case in CASES.items() if case.found}


def write() -> None:
    """Write the page anew."""
    sections = []
    for name in (name for name, case in CASES.items() if case.found):
        with pytest.MonkeyPatch.context() as patch:
            sections.append(f"## {name}\n\n{said(name, traced_of(patch), space_of())}")
    intro = "What single rules say of small programs (see test_traced_rules.py).\n"
    PAGE.write_text("# Single rules\n\n" + intro + "\n" + "\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write()
