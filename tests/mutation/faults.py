"""Where a source text can be changed by one small fault, in Python and in C.

A fault replaces one stretch of a line: a comparison by its neighbour, an operator by its opposite, a number by the
next one, a condition by its negation, a call by nothing. Comments, strings, docstrings and preprocessor lines are left
alone, since no test should depend on them, and so are an op's `samples`, which are the tests' own inputs; the sentences
of `lab/diagnose` are behaviour and are changed too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple


class Fault(NamedTuple):
    """One change of a file's text: what stands from `start` to `end` becomes `new`."""

    file: str
    line: int
    start: int
    end: int
    new: str
    kind: str

    def apply(self, text: str) -> str:
        """Return the text with the fault in it."""
        return text[: self.start] + self.new + text[self.end :]

    def told(self, text: str) -> str:
        """Return the fault as a person reads it: place, the line before and the line after."""
        begin = text.rfind("\n", 0, self.start) + 1
        stop = text.find("\n", self.end)
        before, after = text[begin:stop], text[begin : self.start] + self.new + text[self.end : stop]
        return f"{self.file}:{self.line} {self.kind}\n    - {before.strip()}\n    + {after.strip() or '(nothing)'}"


SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
         "&&": "||", "||": "&&", "and": "or", "or": "and", "//": "/", "%": "*", "is": "is not", "is not": "is",
         "in": "not in", "not in": "in", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+="}  # fmt: skip


def faults(file: str, text: str, sentences: bool = False) -> list[Fault]:
    """Return every fault that `text` can be given; `sentences` are strings that users read.

    >>> [fault.kind for fault in faults("a.py", "def f(x):\\n    if not x:\\n        return None\\n    return x\\n")]
    ['condition', 'returns None', 'negation removed']
    """
    found = _python(text, sentences) if file.endswith(".py") else _c(text)
    return [
        Fault(file, text.count("\n", 0, start) + 1, start, end, new, kind)
        for start, end, new, kind in found
        if text[start:end] != new  # `return None` returns nothing already
    ]


Change = tuple[int, int, str, str]

# -- C ----------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"(?P<skip>/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*)"
    r"|(?P<number>\b(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)[uUlLfF]*)"
    r"|(?P<operator> (?:<=|>=|==|!=|&&|\|\||<<|>>|\+=|-=|[<>+\-*/%]) )",
    re.S | re.M,
)
CALL = re.compile(r"^ +(?:[a-zA-Z_]\w*\(|Py_|NAME\(\w+\)\()[^;{}=]*\);$", re.M)
CONDITION = re.compile(r"\bif \(")


def _c(text: str) -> Iterator[Change]:
    spans = []
    for token in TOKEN.finditer(text):
        if token.lastgroup == "skip":
            spans.append(token.span())
        elif token.lastgroup == "operator":
            operator = token.group().strip()
            yield token.start() + 1, token.end() - 1, SWAPS[operator], "operator"
        elif (number := token.group()).isdigit():
            yield *token.span(), str(int(number) + 1), "number"
    skipped = {at for span in spans for at in range(*span)}
    for call in CALL.finditer(text):
        if call.start() not in skipped and "return" not in call.group() and "free" not in call.group():
            yield *call.span(), "", "call removed"
    for condition in CONDITION.finditer(text):
        if condition.start() in skipped:
            continue
        end = _closing(text, condition.end() - 1)
        inner = text[condition.end() : end]
        yield condition.end(), end, f"!({inner})", "condition"


def _closing(text: str, opening: int) -> int:
    """Return where the parenthesis that opens at `opening` closes."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at
    return len(text) - 1


# -- Python -----------------------------------------------------------------------------------------------------------

COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
               ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}  # fmt: skip
ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}


def _python(text: str, sentences: bool) -> Iterator[Change]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def at(line: int, column: int) -> int:
        """Return the offset in the text of a column, which Python counts in bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.AST) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def between(left: ast.AST, right: ast.AST, operator: str) -> Change | None:
        start, end = span(left)[1], span(right)[0]
        found = re.search(r"(?<![\w<>=!*/])" + re.escape(operator) + r"(?![\w<>=*/])", text[start:end])
        if found is None:
            return None
        return start + found.start(), start + found.end(), SWAPS[operator], "operator"

    tree = ast.parse(text)
    # docstrings, those of constants among them
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    annotations = {id(sub) for n in ast.walk(tree) for name in ("annotation", "returns")
                   for top in [getattr(n, name, None)] if top is not None for sub in ast.walk(top)}  # fmt: skip
    samples = _samples(tree)
    formats = {id(sub) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for sub in ast.walk(n) if sub is not n}
    for node in ast.walk(tree):
        if id(node) in docs or id(node) in annotations or id(node) in samples:
            continue
        change: Change | None = None
        if isinstance(node, ast.Compare):
            change = between(node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            change = between(node.left, node.right, ARITHMETIC[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            change = between(node.values[0], node.values[1], "and" if isinstance(node.op, ast.And) else "or")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            change = span(node)[0], span(node.operand)[0], "", "negation removed"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            start, end = span(node.test)
            change = start, end, f"not ({text[start:end]})", "condition"
        elif isinstance(node, ast.Constant) and id(node) not in formats:
            change = _constant(node, *span(node), sentences)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            change = *span(node), "pass", "call removed"
        elif isinstance(node, ast.Return) and node.value is not None:
            change = *span(node.value), "None", "returns None"
        if change is not None:
            yield change


def _samples(tree: ast.Module) -> set[int]:
    """Return the nodes of what a declaration gives the tests as inputs, `samples=`, by identity."""
    given = [k.value for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords if k.arg == "samples"]
    names = {n.id for value in given for n in ast.walk(value) if isinstance(n, ast.Name)}
    makers = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names and "sample" in n.name]
    return {id(sub) for top in (*given, *makers) for sub in ast.walk(top)}


def _constant(node: ast.Constant, start: int, end: int, sentences: bool) -> Change | None:
    value = node.value
    if value is True or value is False:
        return start, end, str(not value), "constant"
    if isinstance(value, int):
        return start, end, str(value + 1), "constant"
    if isinstance(value, float):
        return start, end, repr(value * 2 + 1), "constant"
    if sentences and isinstance(value, str) and value:
        return start, end, repr("?" + value), "sentence"
    return None
