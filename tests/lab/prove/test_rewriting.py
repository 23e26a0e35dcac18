"""Patterns of code: what they match, what their names stand for, and what is written in their place."""

from __future__ import annotations

import ast

import pytest

from lab.prove.cell import Cell
from lab.prove.rewriting import filled, in_its_place, match, pattern

ALIKE = [
    ("torch.exp(_x)", "h.exp()", {"_x": "h"}),
    ("torch.exp(_x)", "core.exp(a + b)", {"_x": "a + b"}),
    ("_a * _t + _b * _p", "p * 0.9 + 0.1 * t", {"_a": "p", "_t": "0.9", "_b": "0.1", "_p": "t"}),
    ("F.softmax(_l, *_r)", "F.softmax(z, dim=1)", {"_l": "z"}),
    ("self._p[: _x.size(0)]", "self.pe[:h.size(0)]", {"_x": "h"}),
    ("_p, _q = _x.max(*_r)", "pred, _ = out.max(1)", {"_p": "pred", "_q": "_", "_x": "out"}),
    ("(_p == 1) & (_t == 0)", "(a == 1) & (b == 0)", {"_p": "a", "_t": "b"}),
    ("nn.CrossEntropyLoss(weight=_w)", "nn.CrossEntropyLoss(weight=w / 2)", {"_w": "w / 2"}),
]
OTHER = [
    ("_a - _a", "x - y"), ("torch.exp(_x)", "torch.log(x)"), ("_a - _b", "x + y"), ("_f(_x)", "f(x, y)"),
    ("F.softmax(_l)", "F.softmax(z, dim=1)"), ("nn.CrossEntropyLoss(weight=_w)", "nn.CrossEntropyLoss()"),
    ("1 - _x", "True - x"), ("_x = 0", "x = 1"),
]  # fmt: skip


def node(code: str) -> ast.AST:
    (statement,) = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement


@pytest.mark.parametrize(("wanted", "code", "names"), ALIKE)
def test_what_a_pattern_stands_for(wanted: str, code: str, names: dict[str, str]) -> None:
    bound = match(pattern(wanted), node(code))
    assert bound is not None
    told = {name: ast.unparse(bound[name]) for name in names}  # type: ignore[arg-type]
    if "*" in wanted and "+" in wanted:  # either side may be the first
        assert set(told.values()) == set(names.values())
    else:
        assert told == names


@pytest.mark.parametrize(("wanted", "code"), OTHER)
def test_what_is_not_alike(wanted: str, code: str) -> None:
    assert match(pattern(wanted), node(code)) is None


def test_the_arguments_that_are_left() -> None:
    cell = Cell("F.softmax(z + 1, dim=1) / T")
    bound = match(pattern("F.softmax(_l, *_r) / _t"), node(cell.text)) and match(
        pattern("F.softmax(_l, *_r) / _t"), cell.all(ast.BinOp)[-1]
    )
    assert bound is None  # the inner sum
    bound = match(pattern("F.softmax(_l, *_r) / _t"), cell.all(ast.BinOp)[0])
    assert bound is not None
    assert filled(cell, "F.softmax(_l / _t, *_r)", bound) == "F.softmax((z + 1) / T, dim=1)"
    assert filled(cell, "f(*_r)", {"_r": []}) == "f()"


def test_parentheses_where_they_are_needed() -> None:
    cell = Cell("y = 2 * x.mean()")
    (call,) = cell.all(ast.Call)
    assert in_its_place(cell, call, "a - b") == "(a - b)"
    assert in_its_place(cell, call, "a.b()") == "a.b()"
    argument = Cell("f(x)").all(ast.Name)[1]
    assert in_its_place(Cell("f(x)"), argument, "a - b") == "a - b"
