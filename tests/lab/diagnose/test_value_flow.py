"""Where a value goes that left the graph, as the cell's source tells: `value_flow` on small sources, without a run."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from lab.diagnose.graph import value_flow

MARK = "x.item()"

# name of the case: the source, what the marked call reaches, what it does not
SOURCES: dict[str, tuple[str, set[str], set[str]]] = {
    "assignment": ("a = x.item()\nb = a * 2\nc = x", {"a", "b"}, {"c", "x"}),
    "attribute": ("self.h = x.item()\ny = self.h\nz = self.g", {".h", "y"}, {"z", "self"}),
    "item of a dictionary": ("d['k'] = x.item()\ny = d['j']", {"d", "y"}, set()),
    "unpacking": ("(a, [b, *c]) = x.item()", {"a", "b", "c"}, set()),
    "augmented": ("total += x.item()\nmean = total / 3", {"total", "mean"}, set()),
    "annotated": ("a: float = x.item()\nb: int\nc = a", {"a", "c"}, {"b"}),
    "walrus": ("if (n := x.item()) > 0: m = n", {"n", "m"}, set()),
    "for": ("for v in x.item(): w = v\nu = 1", {"v", "w"}, {"u"}),
    "comprehension": ("a = [v + 1 for v in x.item()]", {"v", "a"}, set()),
    "with": ("with x.item() as f: y = f", {"f", "y"}, set()),
    "a list that grows": ("out = []\nout.append(x.item())\nb = sum(out)", {"out", "b"}, set()),
    "a method that only reads": ("out.index(x.item())\nb = out", set(), {"out", "b"}),
    "returned": ("def f(x):\n    return x.item()\na = f(1)\nb = o.f(1)\nc = g(1)", {"f", "a", "b"}, {"c"}),
    "nothing returned": ("def f(x):\n    x.item()\n    return\na = f(1)", set(), {"f", "a"}),
    "passed by position": ("def f(p, q):\n    r = q\n    s = p\nf(1, x.item())", {"q", "r"}, {"p", "s"}),
    "passed by name": ("def f(p, q):\n    r = q\nf(1, q=x.item())", {"q", "r"}, {"p"}),
    "passed to another": ("def f(p): r = p\ndef g(q): s = q\nf(x.item())", {"p", "r"}, {"q", "s"}),
    "passed to a method": (
        "class A:\n    def step(self, p):\n        r = p\nA().step(x.item())",
        {"p", "r"},
        {"self"},
    ),
    "passed to a method of a name": (
        "class A:\n    def step(self, p, q): r = q\na = A()\na.step(1, x.item())",
        {"q", "r"},
        {"self", "p"},
    ),
    "passed to a module": (
        "class A:\n    def forward(self, p):\n        return p\na = A()\nb = a(x.item())\nc = e(1)",
        {"p", "a", "b"},
        {"self", "c"},
    ),
    "passed to a module kept in another": (
        "class A:\n    def forward(self, p): r = p\nself.part = A()\nb = self.part(x.item())",
        {"p", "r"},
        {"self"},
    ),
    "a module of another class": (
        "class A:\n    def forward(self, p): r = p\na = B()\nb = a(x.item())",
        {"b"},
        {"p", "r"},
    ),
    "a method that is no forward": (
        "class A:\n    def other(self, p): r = p\na = A()\nb = a(x.item())",
        {"b"},
        {"p", "r"},
    ),
}


def span_of(tree: ast.AST, text: str) -> value_flow.Span:
    """Return where an expression stands in a tree."""
    places = (value_flow._of(node) for node in ast.walk(tree)
              if isinstance(node, ast.expr) and ast.unparse(node) == text)  # fmt: skip
    return next(at for at in places if at is not None)


@pytest.mark.parametrize("name", SOURCES)
def test_a_value_reaches_what_the_source_says(name):
    source, reached, spared = SOURCES[name]
    tree = ast.parse(dedent(source))
    found = value_flow._tainted(value_flow._flows(tree), span_of(tree, MARK))
    assert reached <= found
    assert not spared & found


def test_an_op_takes_a_value_up_and_what_else_its_line_reads_goes_on():
    tree = ast.parse("a = x.item()\nb = (a * w)\nc = a\nd = (b + a)")
    op = span_of(tree, "a * w")
    assert value_flow._tainted(value_flow._flows(tree, [op]), span_of(tree, MARK)) == {"a", "c", "d"}
    assert value_flow._tainted(value_flow._flows(tree), span_of(tree, MARK)) == {"a", "b", "c", "d"}


def test_names_are_those_read_inside_a_stretch():
    tree = ast.parse("y = f(a, o.h)\nz = b")
    span = span_of(tree, "f(a, o.h)")
    assert value_flow._names(tree, [span]) == {span: {"f", "a", "o", ".h"}}
