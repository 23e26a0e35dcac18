"""Recording changes nothing that a program can notice: every case, and some of the programs, with and without it.

All programs: ``python -m tests.differential``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from .differential import compare, programs
from .differential.harness import Harness

SOME = ("programs/vae", "programs/maml", "notebooks/05_autograd_from_scratch", "healthy/a custom function")
ONCE = list(programs.cases())


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness("core") as running:
        yield running


@pytest.mark.by_turns
@pytest.mark.parametrize("program", [p for p in ONCE if "core" in p.packages], ids=lambda p: p.name)
def test_a_case_does_not_notice(harness: Harness, program: programs.Program) -> None:
    for verdict in harness.verdicts(program, {program.ways[0]}):
        assert not verdict.found, str(verdict)


@pytest.mark.parametrize("name", SOME)
def test_a_program_does_not_notice(harness: Harness, name: str) -> None:
    (program,) = [
        p for p in [*programs.own("core"), *programs.notebooks(), *programs.lab_cells("core")] if p.name == name
    ]
    for verdict in harness.verdicts(program):
        assert not verdict.found, str(verdict)
        assert verdict.ops > 0


# A program whose recorded run differs, for each part of an observation: the harness can fail.
SHOWS = {
    "stdout": "print(watched())",
    "stderr": "import sys; print(watched(), file=sys.stderr)",
    "errors": "if watched(): raise ValueError",
    "values": "x = watched()",
    "files": "open('it', 'w').write(str(watched()))",
    "random": "import random\nif watched(): random.random()",
    "process": "import gc\nif watched(): gc.disable()",
    "copies": "t = core.ones(1)\nt.f = (lambda: 1) if watched() else 1",
}
WATCHED = "import core\ndef watched():\n    from core.events import observe\n    return bool(observe.observers)\n"


@pytest.mark.parametrize("part", SHOWS)
@pytest.mark.parametrize("way", programs.WAYS)
def test_what_differs_is_seen(harness: Harness, part: str, way: str) -> None:
    before = list(harness.different)
    (verdict,) = harness.verdicts(programs.Program("planted", (WATCHED + SHOWS[part],)), {way})
    harness.different[:] = before
    assert any(line.startswith(part) for line in verdict.found), str(verdict)


def test_what_differs_between_plain_runs_is_left_out(harness: Harness) -> None:
    text = "import os, time\nx = time.perf_counter_ns()\nprint('took', x)\ny = 1"
    (verdict,) = harness.verdicts(programs.Program("unsteady", (text,)), {"script"})
    assert not verdict.found
    assert any(path.startswith("values/x") for path in verdict.loose)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="fresh memory is filled by glibc alone")
def test_what_is_read_from_memory_that_nobody_has_written_differs_between_plain_runs(harness: Harness) -> None:
    text = "import ctypes\nc = ctypes.CDLL(None)\nc.malloc.restype = ctypes.c_void_p\n"
    program = programs.Program("unwritten", (text + "x = ctypes.string_at(c.malloc(99_999), 9)",))
    plain, filled = (harness.run(program, "script", False, filled=filled) for filled in (False, True))
    assert "values/x" in compare.unsteady(plain, filled)


def test_lines_of_another_form_differ_though_plain_runs_do_too() -> None:
    plain, other = {"stdout": ["took 1.5 s"]}, {"stdout": ["took 1.7 s"]}
    loose = compare.unsteady(plain, other)
    assert compare.differences(plain, {"stdout": ["took 9 s"]}, loose) == []
    assert compare.differences(plain, {"stdout": ["failed"]}, loose) == ["stdout/0: plain 'took #', recorded 'failed'"]


def test_a_line_that_prints_a_time_may_have_the_same_digits_twice() -> None:
    plain = {"stdout": ["time: 0.2s", "time: 0.1s", "loss 0.5"]}
    loose = compare.unsteady(plain, {"stdout": ["time: 0.3s", "time: 0.1s", "loss 0.5"]})
    assert compare.differences(plain, {"stdout": ["time: 0.2s", "time: 0.2s", "loss 0.5"]}, loose) == []
    assert compare.differences(plain, {"stdout": ["time: 0.2s", "time: 0.2s", "loss 0.6"]}, loose) != []


def test_a_time_with_its_unit_and_a_clock_in_a_file_s_name_are_no_difference() -> None:
    plain = {"stdout": ["| time:  0.02s | loss 4.48"], "files": {"figs/1795520615.41/a.png": "d7"}}
    later = {"stdout": ["| time:  0.14s | loss 4.48"], "files": {"figs/1795520616.25/a.png": "d7"}}
    assert compare.differences(plain, later, set()) == []
    assert compare.differences(plain, {**later, "stdout": ["| time:  0.14s | loss 4.49"]}, set()) != []
    assert compare.differences(plain, {**later, "files": {"figs/1795520616.25/a.png": "d8"}}, set()) != []
    assert compare.differences(plain, {**later, "files": {}}, set()) != []
