"""Changes of code by example: `(_a + _e) / _b` for `(2 * _a + _e) / _b`, where what a name with `_` stands for is kept.

In a pattern `_a` is any expression, the same one wherever it stands again; `_x._m` any attribute; `*_r` the arguments
that are left, named ones too. `torch.exp(_x)` is `_x.exp()` as well, and the sides of `+` and `*` may be exchanged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from core.base import syntax

from .cell import Cell, last_name

LIBRARIES = {"torch", "core", "nn", "F", "np", "math", "functional"}
Bound = dict[str, ast.AST | str | list[ast.AST]]
_WILD = re.compile(r"(\*?)\b(_[a-z])\b")
_ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.ListComp, ast.Slice)


def pattern(code: str) -> ast.expr | ast.stmt:
    """Return the tree of a pattern: an expression, or a statement.

    >>> pattern("_a.mean()").__class__.__name__, pattern("_a = _b").__class__.__name__
    ('Call', 'Assign')
    """
    (statement,) = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def match(wanted: ast.AST, node: ast.AST, bound: Bound | None = None) -> Bound | None:
    """Return what the names of a pattern stand for in a node, some of them known; None where it is not like it.

    >>> tree = pattern("(x + 1) * y.exp()")
    >>> {name: ast.unparse(part) for name, part in match(pattern("torch.exp(_a) * _b"), tree).items()}
    {'_a': 'y', '_b': 'x + 1'}
    """
    return next(_match(wanted, node, bound or {}), None)


def _match(wanted: ast.AST, node: ast.AST, bound: Bound) -> Iterator[Bound]:
    """Go through the ways in which a node is like a pattern, given what names stand for already."""
    if isinstance(wanted, ast.Name) and _WILD.fullmatch(wanted.id):
        yield from _bind(wanted.id, node, bound)
        return
    if isinstance(wanted, ast.Call) and isinstance(node, ast.Call):
        yield from _match_call(wanted, node, bound)
        return
    if isinstance(wanted, ast.Attribute) and isinstance(node, ast.Attribute) and _WILD.fullmatch(wanted.attr):
        for first in _bind(wanted.attr, node.attr, bound):
            yield from _match(wanted.value, node.value, first)
        return
    if type(wanted) is not type(node):
        return
    if isinstance(wanted, ast.Constant) and isinstance(node, ast.Constant):
        same = wanted.value == node.value and isinstance(wanted.value, bool) == isinstance(node.value, bool)
        yield from [bound] if same else []
        return
    if isinstance(wanted, ast.BinOp) and isinstance(node, ast.BinOp):
        if type(wanted.op) is type(node.op):
            yield from _match_all([wanted.left, wanted.right], [node.left, node.right], bound)
            if isinstance(wanted.op, ast.Add | ast.Mult):
                yield from _match_all([wanted.left, wanted.right], [node.right, node.left], bound)
        return
    pairs: tuple[list[ast.AST], list[ast.AST]] = ([], [])
    for field in wanted._fields:
        a, b = getattr(wanted, field), getattr(node, field, None)
        if field in ("ctx", "type_comment", "kind"):
            continue
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            pairs[0].extend(a)
            pairs[1].extend(b)
        elif isinstance(a, ast.AST) and isinstance(b, ast.AST):
            pairs[0].append(a)
            pairs[1].append(b)
        elif a != b:
            return
    yield from _match_all(*pairs, bound)


def _match_all(wanted: Sequence[ast.AST], nodes: Sequence[ast.AST], bound: Bound) -> Iterator[Bound]:
    if not wanted:
        yield bound
        return
    for first in _match(wanted[0], nodes[0], bound):
        yield from _match_all(wanted[1:], nodes[1:], first)


def _bind(name: str, part: ast.AST | str, bound: Bound) -> Iterator[Bound]:
    known = bound.get(name)
    if known is None:
        yield {**bound, name: part}
    elif _dumped(known) == _dumped(part):
        yield bound


def _dumped(part: ast.AST | str | list[ast.AST]) -> str:
    return ast.dump(part).replace("Store()", "Load()") if isinstance(part, ast.AST) else str(part)


def _match_call(wanted: ast.Call, node: ast.Call, bound: Bound) -> Iterator[Bound]:
    """Match calls; a function of a library and a method of a tensor are the same."""
    arguments: list[ast.AST] = list(node.args)
    if _of_library(wanted.func):
        if last_name(wanted.func) != last_name(node.func):
            return
        if isinstance(node.func, ast.Attribute) and not _of_library(node.func):
            arguments.insert(0, node.func.value)
        firsts: Iterator[Bound] = iter([bound])
    else:
        firsts = _match(wanted.func, node.func, bound)
    rest = next((a.value.id for a in wanted.args if isinstance(a, ast.Starred) and isinstance(a.value, ast.Name)), None)
    plain = [a for a in wanted.args if not isinstance(a, ast.Starred)]
    given = {word.arg: word for word in node.keywords}
    words = [word for word in wanted.keywords if word.arg in given]
    left = [word for word in node.keywords if word.arg not in {w.arg for w in words}]
    if len(words) < len(wanted.keywords) or len(arguments) < len(plain):
        return
    more: list[ast.AST] = [*arguments[len(plain) :], *left]
    if more and rest is None:
        return
    pairs = [*plain, *(w.value for w in words)], [*arguments[: len(plain)], *(given[w.arg].value for w in words)]
    for first in firsts:
        kept: Bound = first if rest is None else {**first, rest: more}
        yield from _match_all(*pairs, kept)


def _of_library(function: ast.AST) -> bool:
    """Whether a function is named by its module, as in `torch.exp` and `nn.functional.relu`."""
    base = function.value if isinstance(function, ast.Attribute) else None
    while isinstance(base, ast.Attribute):
        base = base.value
    return isinstance(base, ast.Name) and base.id in LIBRARIES


def filled(cell: Cell, template: str, bound: Bound) -> str:
    """Return a template with the code of what its names stand for, in parentheses where it needs them.

    >>> cell = Cell("y = (a + b).mean()")
    >>> filled(cell, "2 * _x - _f(_x, *_r)", match(pattern("_x.mean()"), cell.all(ast.Call)[0]) | {"_f": "g", "_r": []})
    '2 * (a + b) - g(a + b)'
    """

    def put(found: re.Match[str]) -> str:
        part = bound.get(found[2])
        if isinstance(part, str):
            return part
        if isinstance(part, list):
            return ", ".join(map(cell.code, part))
        if part is None:
            return found[0]
        code = cell.code(part)
        before, after = template[: found.start()].rstrip(), template[found.end() :].lstrip()
        alone = (not before or before[-1] in "([,=" or before.endswith("return")) and (not after or after[0] in ")],")
        number = isinstance(part, ast.Constant) and after.startswith(".")
        return code if (alone or isinstance(part, _ATOMS)) and not number else f"({code})"

    text = _WILD.sub(put, template)
    return re.sub(r"\(, ", "(", re.sub(r", (?=\))", "", text))


def in_its_place(cell: Cell, node: ast.AST, code: str) -> str:
    """Return code as it can stand for a node: in parentheses where an operator or a dot is beside it."""
    parent = cell.parents.get(node)
    beside = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp)
    lead = isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node
    lead |= isinstance(parent, ast.Call) and parent.func is node
    begin, end = cell.span(node)
    around = (
        cell.text[begin - 1 : begin] == "(" and cell.text[end : end + 1] == ")" and not isinstance(parent, ast.Call)
    )
    try:
        new = syntax.expression(code)
    except SyntaxError:
        return code
    return f"({code})" if (beside or lead) and not around and not isinstance(new, _ATOMS) else code


def chain(cell: Cell, node: ast.AST) -> ast.AST:
    """Return what is made of a value by calls of its methods, as far as they go.

    >>> cell = Cell("print((a == b).float().mean())")
    >>> cell.code(chain(cell, cell.all(ast.Compare)[0]))
    '(a == b).float().mean()'
    """
    while isinstance(up := cell.parents[node], ast.Attribute | ast.Call) and node not in getattr(up, "args", ()):
        node = up
    return node
