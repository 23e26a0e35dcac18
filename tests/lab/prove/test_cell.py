"""A patch changes its place, and leaves the rest of the cell byte for byte."""

from __future__ import annotations

import ast

import pytest

from lab.prove import families  # noqa: F401 - fills the table of remedies
from lab.prove.cell import Cell
from lab.prove.remedies import patches
from widgets.record import Finding

TEXT = """%%autograd --try
# ä comment — kept
for i in range(3):   # odd  spaces
\tloss = f( x,i ) ; loss.backward()
\topt.step()  # «step»
print( loss )"""


def statement(cell: Cell, code: str) -> ast.stmt:
    return next(s for s in cell.all(ast.stmt) if cell.code(s) == code)


def test_a_line_is_put_as_deep_as_its_neighbour() -> None:
    cell = Cell(TEXT)
    text = cell.splice([cell.after(statement(cell, "opt.step()"), "opt.zero_grad()")])
    assert text == TEXT.replace("# «step»\n", "# «step»\n\topt.zero_grad()\n")


def test_before_a_statement_that_shares_its_line() -> None:
    cell = Cell(TEXT)
    text = cell.splice([cell.before(statement(cell, "loss.backward()"), "opt.zero_grad()")])
    assert text == TEXT.replace("; loss.backward()", "; opt.zero_grad(); loss.backward()")


def test_a_statement_is_taken_out_with_its_line_or_its_part_of_it() -> None:
    cell = Cell(TEXT)
    assert cell.splice([cell.without(statement(cell, "opt.step()"))]) == TEXT.replace("\topt.step()  # «step»\n", "")
    assert cell.splice([cell.without(statement(cell, "loss.backward()"))]) == TEXT.replace(" ; loss.backward()", "")
    alone = Cell("if x:\n    f()\ng()")
    assert alone.splice([alone.without(statement(alone, "f()"))]) == "if x:\n    pass\ng()"


def test_a_statement_moves() -> None:
    cell = Cell("for i in x:\n    a = (1,\n         2)\n    b()\n")
    assert cell.moved(cell.statements(2)[0], cell.tree.body[0]) == "a = (1,\n     2)\nfor i in x:\n    b()\n"


def test_after_the_last_line_without_its_end() -> None:
    cell = Cell(TEXT)
    assert cell.splice([cell.after(statement(cell, "print( loss )"), "x = 1")]) == TEXT + "\nx = 1"


def test_columns_count_characters() -> None:
    cell = Cell("é = 'ü' + name.item()")
    (call,) = cell.calls("item")
    assert cell.put((call, "name")) == "é = 'ü' + name"


@pytest.mark.parametrize("text", ["for", "%%time\nx = (", "x = 1\0"])
def test_what_is_no_python_has_no_patches(text: str) -> None:
    assert patches(text, Finding("zero-grad", "warning", 1, remedy="Call opt.zero_grad() before backward().")) == []


def test_patches_are_python_and_differ() -> None:
    finding = Finding("zero-grad", "warning", 4, remedy="Call opt.zero_grad() before backward().")
    found = patches(TEXT, finding)
    assert found[0].text == TEXT.replace("; loss", "; opt.zero_grad(); loss")
    assert len({p.text for p in found} | {TEXT}) == len(found) + 1
    for patch in found:
        Cell(patch.text)


def test_a_patch_changes_what_runs_and_keeps_the_end_of_the_text() -> None:
    """A statement that moves to where it is already changes the text's last newline alone."""
    text = "for i in x:\n    loss.backward()\n    opt.step()"
    finding = Finding("zero-grad", "warning", 2, message="opt.zero_grad() on line 4 clears them.", remedy="Call it.")
    found = patches(text, finding)
    assert found[0].text == text.replace("    loss", "    opt.zero_grad()\n    loss")
    assert not any(p.text.endswith("\n") for p in found)
