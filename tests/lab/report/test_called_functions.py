"""The functions of other cells and files that a cell called come with their source and the time of each line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import core
import lab
import widgets
from lab.report import called_functions
from widgets.record import Page, Record

MODEL = '''"""A user's module."""
import core


def double(x):
    y = x + x
    return y


def deep(x, n):
    """Calls itself."""
    if n == 0:
        return x.exp()
    return deep(double(x), n - 1)


def many(x):
    return [x * k for k in (1.0, 2.0)]
'''


def imported(folder: Path, name: str, text: str, monkeypatch: Any) -> Any:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def by_name(record: Record) -> dict[str, Page]:
    return {p.name: p for p in record.pages}


def test_functions_of_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    users = imported(tmp_path, "users_model_a", MODEL, monkeypatch)
    x = core.randn(100, requires_grad=True)
    with lab.record() as rec:
        users.deep(x, 3).sum().backward()
        users.many(x)
    found = by_name(rec.record)
    assert list(found) == ["deep", "double", "many"]
    assert (found["double"].file, found["double"].first) == ("users_model_a.py", 5)
    assert found["double"].text == "def double(x):\n    y = x + x\n    return y"
    assert [(row.line, row.count) for row in found["double"].lines] == [(6, 3)]
    assert found["double"].lines[0].backward_ms > 0
    # a function that calls itself bears the time of what is below once a line
    assert {row.line: row.count for row in found["deep"].lines} == {13: 1, 14: 4}
    # what a comprehension does stands in the text of its function
    assert [(row.line, row.count) for row in found["many"].lines] == [(18, 2)]
    exp = next(op for op in rec.record.ops if op.op == "exp")
    assert exp.via == [0, 13, 0, 14, 0, 14, 0, 14]
    assert exp.calls  # and the cell's own line that led there
    assert Record.from_json(rec.record.to_json()) == rec.record


def test_a_function_of_an_earlier_cell(cell: Any) -> None:
    space: dict[str, Any] = {}
    cell("import core\ndef f(x):\n    return x.exp().sum()", space)
    record = cell("x = core.randn(5, requires_grad=True)\nf(x).backward()", space)
    (page,) = record.pages
    assert page.name == "f"
    assert (page.first, page.text) == (2, "def f(x):\n    return x.exp().sum()")
    assert [row.line for row in page.lines] == [3]
    assert [op.via for op in record.ops] == [[0, 3], [0, 3]]


def test_functions_of_the_cell_itself_and_of_libraries_are_no_pages() -> None:
    model = core.nn.Sequential(core.nn.Linear(3, 3), core.nn.ReLU())

    with lab.record() as rec:
        model(core.ones(2, 3)).sum().backward()
        sorted([core.ones(2)], key=lambda x: x.exp().sum().item())
    assert rec.record.pages == []
    assert all(op.via == [] for op in rec.record.ops)


def test_their_size_is_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    long = "def long(x):\n    y = x.exp()\n" + "    y = y\n" * 5000 + "    return y\n"
    few = "".join(f"def f{k}(x):\n    return x + {k}  # {'long ' * 20}\n" for k in range(60))
    users = imported(tmp_path, "users_model_b", long + few, monkeypatch)
    x = core.ones(3)
    with lab.record() as rec:
        users.long(x)
        for k in range(60):
            getattr(users, f"f{k}")(x)
    assert len(rec.record.pages) <= called_functions.PAGES
    assert all(p.text.count("\n") < called_functions.LINES for p in rec.record.pages)
    assert sum(len(p.text) for p in rec.record.pages) <= called_functions.CHARACTERS


def test_what_a_file_holds_is_inert_in_the_card(tmp_path: Path, monkeypatch: Any) -> None:
    evil = "def f(x):\n    return x.exp()  # </script><script>alert(1)</script>\n"
    users = imported(tmp_path, "users_model_c", evil, monkeypatch)
    with lab.record() as rec:
        users.f(core.ones(2))
    assert "alert(1)" in rec.record.pages[0].text
    assert "<script>alert" not in widgets.html(rec.record)


def test_an_old_record_has_no_pages() -> None:
    record = Record.from_json('{"version":1,"ops":[{"id":0,"op":"exp","line":1}]}')
    assert (record.pages, record.ops[0].via) == ([], [])
    assert "exp" in widgets.html(record)
