"""Every sentence that a card can say: its severity, its line, its names and its remedy, on the planted mistakes.

`sentences.md` holds them, times aside. ``python -m tests.lab.diagnose.test_sentences`` writes it anew after
a finding has changed on purpose; the difference is then to be read like any other change.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import lab.diagnose
from lab.diagnose import Found
from widgets.record import Finding, Record

from .planted import CELLS
from .planted_sentences import SENTENCES

PAGE = Path(__file__).parent / "sentences.md"
TEXTS = {name: planted.text for name, planted in CELLS.items()} | SENTENCES
TIMED = {
    "data-loader",
    "overhead",
    "wait",
    "copy",
    "slow",
}  # their words depend on what they measure: see test_loop_waits
_KEPT = re.compile(r"(`[^`]*`|\b[Ll]ines? \d+(?:(?:, | and )\d+)*)")
_FIGURE = re.compile(r"(?<![\w.\[])-?\d[\d.,]*(?:e[+-]?\d+)?(?<![.,])")
_TIME = re.compile(_FIGURE.pattern + r"(?= (?:ns|µs|ms|s|min)\b)")
SAME = 0.1  # a measured figure may differ by a tenth from the page's: sums have another order on other processors


def without_figures(text: str) -> str:
    """A sentence, its figures aside; code, names and line numbers stay.

    >>> without_figures("Line 3 (`h[0]`) gets 1/1,234 of the 2.5e-06, model.0.weight and lines 4 and 5 none.")
    'Line 3 (`h[0]`) gets #/# of the #, model.0.weight and lines 4 and 5 none.'
    """
    parts = _KEPT.split(text)
    return "".join(part if k % 2 else _FIGURE.sub("#", part) for k, part in enumerate(parts))


def without_times(text: str) -> str:
    """A sentence, its times aside, and no figure with more digits than the page compares.

    >>> without_times("Line 3 (`h[0]`) takes 2.5 ms each, 25,000 times, for 2.54872e-06 of 8.")
    'Line 3 (`h[0]`) takes # ms each, 25,000 times, for 2.55e-06 of 8.'
    """
    parts = _KEPT.split(text)
    return "".join(part if k % 2 else _FIGURE.sub(_short, _TIME.sub("#", part)) for k, part in enumerate(parts))


def _short(figure: re.Match[str]) -> str:
    text = figure.group()
    return text if re.fullmatch(r"[\d,]+", text) or text.count(".") > 1 else f"{float(text.replace(',', '')):.3g}"


def figures(text: str) -> list[str]:
    """The figures of a sentence that `without_figures` leaves out."""
    return [figure for part in _KEPT.split(text)[::2] for figure in _FIGURE.findall(part)]


def alike(ours: str, page: str) -> bool:
    """Whether two texts say the same: counts and shapes exactly, measured figures nearly, the very large and the very
    small ones (a loss that diverges, what rounding leaves) in their order of magnitude.

    >>> alike("8 of 0.251", "8 of 0.249"), alike("8 of 0.251", "8 of 0.351"), alike("8 of 0.25", "9 of 0.25")
    (True, False, False)
    >>> alike("from 1.5 to -9.3e-10", "from 1.5 to -0"), alike("of 3 to -9.3e-10", "of 0 to -0")
    (True, False)
    >>> alike("up to 2.1e+17", "up to 9e+17"), alike("up to 2.1e+17", "up to 2.1e+19")
    (True, False)
    """
    pairs = zip(figures(ours), figures(page), strict=False)
    return without_figures(ours) == without_figures(page) and all(a == b or _near(a, b) for a, b in pairs)


def _near(a: str, b: str) -> bool:
    if all(text.count(".") < 2 and abs(float(text.replace(",", ""))) < 1e-8 for text in (a, b)):
        return True  # zero, or what rounding leaves of it
    if any(re.fullmatch(r"[\d,]+", text) or text.count(".") > 1 for text in (a, b)):
        return False
    x, y = float(a.replace(",", "")), float(b.replace(",", ""))
    return 0.1 <= x / y <= 10 if "e" in b else abs(x - y) <= SAME * abs(y)


def told(record: Record) -> str:
    """The findings of a record, those by a clock only where they come first, as the page has them: with the ops that
    each marks."""
    lines = []
    for k, f in enumerate(record.findings):
        if k and f.kind in TIMED:
            continue
        said = without_figures if f.kind in TIMED else without_times
        named = f" · {', '.join(dict.fromkeys(f.parameters))}" if f.parameters else ""
        lines.append(f"{how_sure(f)} · {f.kind} · {place(f)}{named}")
        lines += [f"> {line}" for line in (*said(f.message).splitlines(), "", *f.remedy.splitlines())]
        if f.ops:
            lines += ["", f"Marks {', '.join(marked(record, f.ops))}."]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def how_sure(f: Finding | Found) -> str:
    """The severity of a finding, or that it only reads like a mistake."""
    return "worth a look" if f.reads else f.severity


def place(f: Finding) -> str:
    """The line that a finding names, and the column."""
    return f"line {f.line}" if f.col is None else f"line {f.line}:{f.col}"


def marked(record: Record, ops: Sequence[int]) -> list[str]:
    """Ops in words: which, in which line of the cell or of another file, and how many of them."""
    names = [f"{op.op} ({op.file + ' ' if op.file else ''}line {op.line})" for op in (record.ops[k] for k in ops)]
    return [name + (f" × {n}" if n > 1 else "") for name, n in Counter(names).items()]


def page(path: Path = PAGE) -> dict[str, str]:
    """The sections of the page by their titles."""
    parts = re.split(r"^## (.+)\n\n", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    return dict(zip(parts[::2], (text.rstrip() + "\n" for text in parts[1::2]), strict=True))


def run(name: str, cell: Any, space: dict[str, Any], texts: dict[str, str] = TEXTS) -> Record:
    """The record of a planted cell."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cell(texts[name].lstrip("\n"), {**space, "y": space["x"][:, 0] * 0.5})  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return page()


REACHED: set[tuple[str, int]] = set()
RUN: set[str] = set()


@pytest.fixture(autouse=True)
def sites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note which calls of `Found` have made a finding."""
    monkeypatch.setattr(Found, "__init__", _noting(Found.__init__))


def _noting(begin: Any) -> Any:
    def __init__(self: Found, *args: Any, **keywords: Any) -> None:
        frame = sys._getframe(1)
        REACHED.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        begin(self, *args, **keywords)

    return __init__


@pytest.mark.parametrize("name", TEXTS)
def test_the_card_says_what_the_page_says(
    name: str, expected: dict[str, str], cell: Any, space: dict[str, Any]
) -> None:
    record = run(name, cell, space)
    RUN.add(name)
    if record.findings and record.findings[0].kind in TIMED:
        first = record.findings[0]
        assert f"{first.kind} · {place(first)}" in expected[name]
        assert first.remedy
    else:
        assert alike(told(record), expected[name]), told(record)


def made() -> Iterator[tuple[str, str, int, int]]:
    """Where lab/diagnose makes a finding: file, function, first line, last line."""
    for path in sorted(Path(lab.diagnose.__file__).parent.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Found":
                    yield path.name, function.name, node.lineno, node.end_lineno or node.lineno


ELSEWHERE = {
    "__init__.py": "needs a rule that fails: test_failing_rule.py",
    "loop_waits.py": "needs a GPU or a clock: test_loop_waits.py",
    "cpu_fallback.py": "needs a GPU: test_cpu_fallback.py",
    "gradient_check.py": "needs --check: test_gradient_check.py",
    "unseen_losses.py": "needs steps that are not recorded: tests/lab/recorder/test_sampled_steps.py",
    "precision.py": "needs --precision: test_precision.py",
    "diagnose": "needs a rule that fails: test_failing_rule.py",
    "loaded_unseen": "needs an earlier cell: test_earlier_cells.py",
    "_by_hand": "core draws no mask by an op: tests/parity/test_adapter.py",
}


def test_every_finding_has_its_sentence_on_the_page() -> None:
    if len(RUN) < len(TEXTS):
        pytest.skip("needs all cells to have run in this process")
    left = [
        f"{file} line {first}"
        for file, function, first, last in made()
        if not ELSEWHERE.keys() & {file, function}
        and not any(f == file and first <= line <= last for f, line in REACHED)
    ]
    assert left == [], "no planted cell makes these findings: add one to the finding's cells_*.py"


def test_the_page_has_no_other_sections() -> None:
    assert set(page()) == set(TEXTS)


def write(names: Sequence[str] = ()) -> None:
    """Write the page anew; where names are given, only their sections, and those that it has not yet."""
    import numpy as np

    from ..conftest import run_cell
    from ..conftest import space as fixture

    make: Any = fixture.__wrapped__  # type: ignore[attr-defined]
    assert np
    there = page() if names else {}
    sections = [
        f"## {name}\n\n{there[name] if name in there and name not in names else told(run(name, run_cell, make()))}"
        for name in TEXTS
    ]
    intro = "What the card says of the planted mistakes, times aside (see test_sentences.py).\n"
    PAGE.write_text("# Sentences\n\n" + intro + "\n" + "\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
