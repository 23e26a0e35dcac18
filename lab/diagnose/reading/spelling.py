"""One spelling for what can be written in several: methods and functions that do what an operator does become that
operator, an index counted from the end becomes a negative one. So rules need to know one of them alone."""

from __future__ import annotations

import ast
import re

from core.base import syntax

PACKAGES = {"torch", "core", "np", "numpy"}
OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "subtract": ast.Sub, "mul": ast.Mult, "multiply": ast.Mult, "div": ast.Div,
    "divide": ast.Div, "true_divide": ast.Div,
}  # fmt: skip
COMPARISONS: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
}  # fmt: skip
NEGATIVE = {"neg", "negative"}
WORDS = re.compile(
    rf"\b({'|'.join((*OPERATORS, *COMPARISONS, *NEGATIVE, 'select'))})\(|(shape\[|size\(|len\()[^\n]*- 1"
)


class Respelled(ast.NodeTransformer):
    """Changes a tree into one that has one spelling for each thing; `spans` says where.

    >>> text = "x = a.sub(b), torch.div(a, c.neg()), h.select(1, -1), y[:, y.shape[1] - 1, :], a.add(b, alpha=2)"
    >>> ast.unparse(Respelled().visit(ast.parse(text)))
    'x = (a - b, a / -c, h[:, -1], y[:, -1], a + 2 * b)'
    """

    def __init__(self) -> None:
        self.spans: set[tuple[int, int, int, int]] = set()

    def _put(self, new: ast.expr, old: ast.expr) -> ast.expr:
        self.spans.add(span(old))
        return ast.copy_location(new, old)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """Leave alone what is called for its own sake: ``seen.add(x)``."""
        for name, value in ast.iter_fields(node.value):
            parts = value if isinstance(value, list) else [value]
            new = [self.visit(part) if isinstance(part, ast.AST) else part for part in parts]
            setattr(node.value, name, new if isinstance(value, list) else new[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        times = [k.value for k in node.keywords if k.arg == "alpha"]
        if len(node.keywords) != len(times) or any(isinstance(a, ast.Starred) for a in node.args):
            return node
        name, args = "", list(node.args)
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id in PACKAGES):
                args = [node.func.value, *args]
        if times and name in ("add", "sub") and len(args) == 2:
            args[1] = ast.copy_location(ast.BinOp(times[0], ast.Mult(), args[1]), args[1])
        elif times:
            return node
        if name in OPERATORS and len(args) == 2:
            return self._put(ast.BinOp(args[0], OPERATORS[name](), args[1]), node)
        if name in COMPARISONS and len(args) == 2:
            return self._put(ast.Compare(args[0], [COMPARISONS[name]()], [args[1]]), node)
        if name in NEGATIVE and len(args) == 1:
            return self._put(ast.UnaryOp(ast.USub(), args[0]), node)
        dim = args[1].value if name == "select" and len(args) == 3 and isinstance(args[1], ast.Constant) else None
        if isinstance(dim, int) and 0 <= dim < 5:
            whole = [ast.copy_location(ast.Slice(), node) for _ in range(dim)]
            place = ast.copy_location(ast.Tuple([*whole, args[2]], ast.Load()), node) if whole else args[2]
            return self._put(ast.Subscript(args[0], place, ast.Load()), node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        of = ast.unparse(node.value)
        new = [_from_the_end(part, of, k) for k, part in enumerate(parts)]
        if all(a is b for a, b in zip(new, parts, strict=True)):
            return node
        while len(new) > 1 and isinstance(new[-1], ast.Slice) and ast.unparse(new[-1]) == ":":
            new.pop()
        place = ast.copy_location(ast.Tuple(new, ast.Load()), node.slice) if len(new) > 1 else new[0]
        return self._put(ast.Subscript(node.value, place, node.ctx), node)


def _from_the_end(part: ast.expr, of: str, dim: int) -> ast.expr:
    """Return -1 for the last place of a dimension, ``x.shape[1] - 1``; anything else as it is."""
    if not isinstance(part, ast.BinOp) or not isinstance(part.op, ast.Sub) or ast.unparse(part.right) != "1":
        return part
    sizes = [f"{of}.shape[{dim}]", f"{of}.size({dim})", f"{of}.size(dim={dim})", *([f"len({of})"] if not dim else [])]
    last = ast.UnaryOp(ast.USub(), ast.copy_location(ast.Constant(1), part))
    return ast.copy_location(last, part) if ast.unparse(part.left) in sizes else part


def span(node: ast.AST) -> tuple[int, int, int, int]:
    """Return where a node begins and ends: lines and columns."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined, no-any-return]


def respelled(tree: ast.Module, text: str) -> ast.Module:
    """Return the tree of a text with one spelling for each thing: the one given where there is no other in it."""
    if not WORDS.search(text):
        return tree
    change = Respelled()
    made: ast.Module = change.visit(syntax.parse(text))
    if not change.spans:
        return tree
    vars(made)["respelled"] = change.spans
    return made


def as_written(tree: ast.Module, text: str, message: str) -> str:
    """Return a sentence with the code in it as the user has written it, where that was respelled."""
    spans = vars(tree).get("respelled")
    if not spans or "`" not in message:
        return message
    lines = {line for first, _, last, _ in spans for line in range(first, last + 1)}
    user = {span(n): n for n in ast.walk(syntax.parse(text)) if getattr(n, "lineno", 0) in lines}
    words = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.Assign | ast.Return) and node.lineno in lines and span(node) in user:
            ours, theirs = ast.unparse(node), ast.unparse(user[span(node)])
            if ours != theirs:
                words[ours] = theirs
    found = "|".join(re.escape(ours) for ours in sorted(words, key=len, reverse=True))
    place = re.compile(rf"(?<![\w.])({found})(?![\w.(\[])")
    parts = message.split("`")
    parts[1::2] = [place.sub(lambda m: words[m[1]], part) for part in parts[1::2]] if words else parts[1::2]
    return "`".join(parts)
