"""Whose line it is on which time passes: the innermost of the user's own, in the cell or a file, and no library's."""

from __future__ import annotations

import json
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from lab.diagnose.speed.busy_lines import busy_lines
from lab.recorder.cell_trace import Sample

from .test_slow_code import SECOND, timed
from .traced_slow import Shares, frame

TEXT = "import json\nfor k in range(9):\n    y = x * k\n    z = json.dumps(k)"


def code_of(path: Path) -> CodeType:
    """A function of a file of the user's."""
    path.write_text("def work(k):\n    return sorted(range(k))\n", encoding="utf-8")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    return space["work"].__code__  # type: ignore[no-any-return]


@pytest.mark.parametrize(("inner", "line"), [("library", 4), ("file", 2), ("", 4)])
def test_whose_line_it_is(traced: Any, space: dict[str, Any], tmp_path: Path, inner: str, line: int) -> None:
    trace = traced(TEXT, space)
    timed(trace, 0)
    trace.wall_ns = 10 * SECOND
    inside = {"library": ((json.dumps.__code__, 2),), "file": ((code_of(tmp_path / "work.py"), 2),), "": ()}[inner]
    trace.samples[0] = Sample("python", (*inside, frame(trace, 4)), ns=6 * SECOND, beats=9)
    trace.samples[1] = Sample("op", (frame(trace, 3),), ns=4 * SECOND, beats=9)
    first, second = busy_lines(Shares(trace))[:2]
    place = trace.place(*first.chain[0])
    assert (place.line, Path(place.file).name == "work.py") == (line, inner == "file")
    assert (first.ns, first.python, first.loads) == (6 * SECOND, 6 * SECOND, 0)
    assert (second.ns, second.python, len(second.rows)) == (4 * SECOND, 0, 1)


def test_what_only_libraries_do_is_no_line_of_the_users(traced: Any, space: dict[str, Any]) -> None:
    trace = traced(TEXT, space)
    timed(trace, 0)
    trace.wall_ns = 10 * SECOND
    trace.samples[0] = Sample("python", ((json.dumps.__code__, 2),), ns=10 * SECOND, beats=9)
    assert [busy.ns for busy in busy_lines(Shares(trace))] == [0] * len(trace.rows)
