"""Patches that mend nothing or only hide: none of them may be accepted as a remedy."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from lab.prove.cell import Cell, Patch

REMOVABLE = ("mode", "slow", "overhead", "unused", "alias", "evaluation", "loop")
"""Kinds whose remedy may be that a statement goes: there its removal is none of the placebos."""
UNDER_NO_GRAD = ("memory", "evaluation", "cut", "no-gradient")
"""Kinds whose remedy may be no_grad in a cell that trains nothing."""


def placebos(text: str, kind: str, line: int | None) -> Iterator[Patch]:
    """Patches of a cell that do nothing for a finding of a kind on a line."""
    yield Patch("an extra draw", f"torch.randn(3)\n{text}")
    yield Patch("pass", f"{text}pass\n")
    yield Patch("a collection of garbage", f"import gc; gc.collect()\n{text}")
    yield Patch("warnings off", f"import warnings; warnings.simplefilter('ignore')\n{text}")
    if "lr=" in text and kind != "learning-rate":
        yield Patch("rate x 0.9", re.sub(r"lr=([\d.e-]+)", lambda m: f"lr={0.9 * float(m[1]):g}", text))
    inner = textwrap.indent(text, "    ")
    yield Patch("an error caught", f"try:\n{inner}except Exception:\n    pass\n")
    yield Patch("nothing runs", f"if False:\n{inner}")
    yield Patch(
        "an early end", f"import sys\n{text}".replace("\n", "\nsys.exit() if False else None\n", 1) + "sys.exit()\n"
    )
    if ".backward()" in text or kind not in UNDER_NO_GRAD:
        yield Patch("no_grad around all", f"with torch.no_grad():\n{inner}")
    if ".backward()" in text:
        yield Patch("no backward", re.sub(r"[\w.()]+\.backward\([^)]*\)", "None", text))
        yield Patch("a loss without its graph", text.replace(".backward()", ".detach().requires_grad_().backward()"))
        yield Patch("a backward that may fail", _guarded(text, "backward"))
    if re.search(r"range\(\d\d?\)", text):
        yield Patch("one round", re.sub(r"range\(\d\d?\)", "range(1)", text))
    cell = Cell(text)
    statement = cell.statement(line)
    if statement is not None and not isinstance(statement, ast.FunctionDef | ast.ClassDef) and kind not in REMOVABLE:
        yield Patch("without the statement", cell.splice([cell.without(statement)]))


def elsewhere(text: str, kind: str, line: int) -> Iterator[Patch]:
    """Patches of an earlier cell or a file that do nothing for a finding of a kind on one of its lines."""
    for patch in _elsewhere(text, kind, line):
        try:
            Cell(patch.text)
        except SyntaxError:  # of a function on a line of its own
            continue
        yield patch


def _elsewhere(text: str, kind: str, line: int) -> Iterator[Patch]:
    cell = Cell(text)
    yield Patch("pass", f"{text}pass\n")
    yield Patch("a comment", f"# seen\n{text}")
    statement = cell.statement(line)
    function = statement
    while function is not None and not isinstance(function, ast.FunctionDef):
        function = cell.parents.get(function)  # type: ignore[assignment]
    if function is not None:
        first = function.body[0]
        for said, code in (("an extra draw", "torch.randn(3)"), ("a draw of NumPy's", "np.random.rand(3)"),
                           ("no gradients", "torch.set_grad_enabled(False)"), ("a name of its own", "seen = True"),
                           ("warnings off", "__import__('warnings').simplefilter('ignore')")):  # fmt: skip
            yield Patch(said, cell.splice([cell.before(first, code)]))
        begin, end = cell.span(function.body[0])[0], cell.span(function.body[-1])[1]
        indent = " " * first.col_offset
        body = cell.text[begin:end]
        deeper = body.replace("\n", "\n    ")
        yield Patch("an error caught", cell.splice([
            (begin, end, f"try:\n{indent}    {deeper}\n{indent}except Exception:\n{indent}    pass")]))  # fmt: skip
        if kind not in UNDER_NO_GRAD:
            yield Patch("under no_grad", cell.splice([(begin, end, f"with torch.no_grad():\n{indent}    {deeper}")]))
        if len(function.args.args) > 1 and "return" in body:
            given = function.args.args[1].arg
            yield Patch("the input as it is", cell.splice([cell.before(first, f"return {given}")]))
        if statement is not None and statement is not function and not isinstance(statement, ast.Return):
            old = cell.code(statement).replace("\n", "\n    ")
            at = " " * statement.col_offset
            yield Patch("a line that never runs", cell.splice([(*cell.span(statement), f"if False:\n{at}    {old}")]))
            if kind not in REMOVABLE:
                yield Patch("without the statement", cell.splice([cell.without(statement)]))
    if re.search(r"range\(\d\d?\)", text):
        yield Patch("one round", re.sub(r"range\(\d\d?\)", "range(1)", text))


def _guarded(text: str, method: str) -> str:
    lines = []
    for line in text.split("\n"):
        indent = re.match(r"\s*", line)[0]  # type: ignore[index]
        guard = f".{method}(" in line and ";" not in line and ":" not in line
        lines += [f"{indent}try:", f"    {line}", f"{indent}except Exception: pass"] if guard else [line]
    return "\n".join(lines)
