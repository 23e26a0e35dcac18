"""Probes: whoever runs a line passes its probe, and what the text does is what it did."""

from __future__ import annotations

import builtins
import ctypes
import subprocess
import types
from pathlib import Path

import pytest

from tests.mutation import probes
from tests.mutation.__main__ import PARTS, drawn, source
from tests.mutation.faults import Fault, faults

TEXT = '''
def f(x, k=2):
    """Do this and that."""
    if x > 1 and (
        x < 5
    ):
        return [n + 1 for n in range(3)]
    elif x == 9:
        x = 8
    while x > 6:
        x = x - 1; x = x - 1
    g = lambda y: (y + 4)
    with open("/dev/null") as file, open("/dev/null") as other:
        for each in range(2):
            x = g(x)
    match x:
        case 100: return 7
        case _: pass
    return f"{x}"
'''


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The numbers of the probes that were passed."""
    seen: set[int] = set()
    module = types.SimpleNamespace(passes=lambda number: seen.add(number) or True)
    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda n, *a, **k: module if n == probes.MODULE else real(n, *a, **k))
    return seen


def test_python(passed: set[int]) -> None:
    found = faults("a.py", TEXT)
    insertions = {k: probes.probe(fault, TEXT, k) for k, fault in enumerate(found)}
    without = {TEXT.splitlines()[found[k].line - 1].strip() for k, new in insertions.items() if new is None}
    assert without == {"def f(x, k=2):", "case 100: return 7"}  # of `return 7` there is one, see below
    text = probes.inserted(TEXT, [each for new in insertions.values() for each in new or ()])
    assert text.count("\n") == TEXT.count("\n")
    probed, plain = {}, {}
    exec(text, probed)
    exec(TEXT, plain)
    lines = {k: fault.line for k, fault in enumerate(found)}
    for x, also, never in ((3, {4, 5, 7}, {9, 11, 12}), (9, {8, 9, 11, 12, 14}, {7}), (0, {8, 12, 14}, {7, 9, 11})):
        passed.clear()
        assert probed["f"](x) == plain["f"](x)
        seen = {lines[k] for k in passed}
        assert also <= seen
        assert not never & seen


@pytest.mark.parametrize("part", [part for part in PARTS if part != "core/native"])
def test_faults_of_this_tree_have_probes(part: str) -> None:
    import random

    draws = drawn(part, random.Random(1))
    some = [next(draws) for _ in range(20)]
    there = 0
    for fault in some:
        text = source(fault.file)
        new = probes.probe(fault, text, 0)
        if new is not None:
            compile(probes.inserted(text, new), fault.file, "exec")
            there += 1
    assert there > 15


C = """
static const int table[] = {1, 2};
struct pair { int a; };

int f(int x) {
    /* { a brace in a comment */
    if (x > 1) {
        x += 5;
    } else {
        x += 6;
    }
    for (int k = 0; k < 3; k++) {
        if (x == 100) {
            x += 7;
        }
    }
    switch (x) {
        case 9: x += 8;
    }
    struct pair p = {4};
    return p.a + x;
}
"""


def test_c(tmp_path: Path) -> None:
    wanted = {"{1, 2}": None, "x > 1": 5, "+= 5": 7, "+= 6": 9, "k < 3": 5, "+= 7": 5, "+= 8": 5, "{4}": 5}
    text = C
    insertions = []
    for number, (old, line) in enumerate(wanted.items()):
        at = C.index(old)
        new = probes.probe(Fault("a.c", 0, at, at + 1, "", ""), C, number)
        assert (new and C.count("\n", 0, new[0][0]) + 1) == line, old
        insertions += new or []
    text = probes.inserted(C, insertions)
    memory = tmp_path / "memory"
    memory.write_bytes(bytes(probes.SIZE))
    (tmp_path / "a.c").write_text(text)
    (tmp_path / "b.c").write_text(probes.c_module(memory))
    subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "b.c", "-o", "lib.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    assert not any(memory.read_bytes())
    assert library.f(3) == 12  # 4 + (3 + 5)
    seen = {k for k, byte in enumerate(memory.read_bytes()) if byte}
    assert seen == {1, 2, 4, 5, 6, 7}  # not the other branch, and no table


def test_no_docstring_is_a_sentence_that_a_fault_changes() -> None:
    text = 'A = "said"\n"""Of a constant."""\n\ndef f():\n    """Of a function."""\n    return A\n'
    assert [fault.new for fault in faults("a.py", text, sentences=True)] == ["'?said'", "None"]
