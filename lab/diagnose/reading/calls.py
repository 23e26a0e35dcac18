"""Calls of the user's text: what they work on, which arguments they are given, and the words of names."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...recorder.cell_trace import Row, Trace
from ...recorder.user_files import shown_name
from .expressions import LIBRARIES
from .sources import Function, Source, called, names_in, sources

OUTSIDE = LIBRARIES | {"nn.functional", "torch.nn.functional", "torch.special", "torch.linalg", "core.nn.functional",
                       "math", "torch.fft", "np.fft", "torch.autograd",
                       "core.autograd", "autograd", "core.fft", "np.linalg", "torch.nn", "nn", "random",
                       "np.random", "core.linalg", "fft", "optim"}  # fmt: skip
KEEPS = {"detach", "float", "double", "to", "view", "reshape", "squeeze", "unsqueeze", "flatten", "contiguous", "clone",
         "item", "cuda", "cpu", "tensor", "as_tensor", "long", "type", "numpy", "t", "expand", "type_as", "half",
         "expand_as", "requires_grad_"}  # fmt: skip
"""Functions and methods that leave the values of what they are given."""
NOTHING = {"tolist", "numpy", "cpu", "detach", "float", "long", "int", "flatten", "view", "reshape", "squeeze", "to",
           "astype", "double", "item", "ravel", "contiguous", "clone", "unsqueeze", "copy", "asarray", "array",
           "as_tensor", "tensor", "from_numpy", "FloatTensor", "Tensor", "bool"}  # fmt: skip
"""Methods and functions that give the same values."""
PREDICTED = re.compile(r"pred|out(put)?s?$|logit|prob|score|(^|_|y)hat$|^yh|hypo|guess|forecast|estimate", re.I)
TRUE = re.compile(
    r"(^|_)(y|ys|gt|tgt|label|labels|target|targets|truth|true|actual)(_|\d|$)|(?<!pred_)label|target", re.I
)


def operands(call: ast.AST) -> list[ast.expr]:
    """Return what a call works on: the tensor whose method it is, or the arguments of a function.

    >>> [[ast.unparse(o) for o in operands(ast.parse(t, mode="eval").body)] for t in ("torch.max(a, b)", "a.max(b)")]
    [['a', 'b'], ['a', 'b']]
    """
    if not isinstance(call, ast.Call):
        return []
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in OUTSIDE:
        return [call.func.value, *call.args]
    return list(call.args)


def option(call: ast.Call, name: str, place: int = -1) -> ast.expr | None:
    """Return an argument by its name, or by its place among the operands; None where it is not given."""
    given = next((k.value for k in call.keywords if k.arg in (name, "axis" if name == "dim" else name)), None)
    if given is not None or place < 0:
        return given
    args = operands(call)
    return args[place] if len(args) > place else None


def given(node: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """Return what an argument is given, by its name or its place.

    >>> call = ast.parse("f(1, dim=2)", mode="eval").body
    >>> [ast.unparse(given(call, *at)) for at in (("dim",), ("x", 0))], given(call, "y", 1)
    (['2', '1'], None)
    """
    named = next((k.value for k in node.keywords if k.arg == name), None)
    if named is not None or place is None or place >= len(node.args):
        return named
    return node.args[place]


def reduction(call: ast.Call) -> str:
    """Return how a loss brings the samples together, by its options, also the old ones; "" where the text cannot tell.

    >>> losses = ("loss(x, y)", "NLLLoss(reduction='sum')", "loss(x, y, size_average=False)", "loss(x, reduction=how)")
    >>> [reduction(ast.parse(text, mode="eval").body) for text in losses]
    ['mean', 'sum', 'sum', '']
    """
    said = {k.arg: getattr(k.value, "value", None) for k in call.keywords}
    if "reduction" in said:
        return str(said["reduction"] or "")
    old = [said.get(name, True) for name in ("reduce", "size_average")]
    return "" if None in old else "none" if not old[0] else "mean" if old[1] else "sum"


def bare(node: ast.expr) -> ast.expr:
    """Return an expression without what only casts or reshapes it.

    >>> [ast.unparse(bare(ast.parse(t, mode="eval").body)) for t in ("torch.tensor(y).float()", "x.view(-1)", "f(x)")]
    ['y', 'x', 'f(x)']
    """
    while isinstance(node, ast.Call) and called(node) in NOTHING:
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        library = of is None or (isinstance(of, ast.Name) and of.id in ("torch", "core", "np", "numpy"))
        if library and not node.args:
            break
        node = node.args[0] if library else of  # type: ignore[assignment]
    return node


def name_of(node: ast.AST) -> str:
    """Return the last name of a variable or an attribute; "" of anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def equalities(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield what asks element by element whether two things are equal, and the two: ``a == b``, ``a.eq(b)``."""
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            yield node, node.left, node.comparators[0]
        elif isinstance(node, ast.Call) and called(node) in ("eq", "equal") and len(both := operands(node)) == 2:
            yield node, both[0], both[1]


def speaks(node: ast.AST, words: re.Pattern[str]) -> bool:
    """Return whether a variable or attribute in an expression has such a name."""
    return any(words.search(n) for n in words_in(node))


def words_in(node: ast.AST) -> set[str]:
    """Return the variables and attributes that an expression reads."""
    return names_in(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def function_of(found: Source, node: ast.Call) -> Function | None:
    """Return the user's function that a call runs, of an earlier cell too, where its name is that of a single one."""
    name = called(node)
    if not name or (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in OUTSIDE):
        return None
    named = [n for n in found.nodes if isinstance(n, Function) and n.name == name]
    if not named and isinstance(node.func, ast.Name):
        return found.functions.get(name)
    return named[0] if len(named) == 1 else None


def made_as(source: Source, kind: str) -> set[str]:
    """Return the names, without what they are attributes of, that are given an object of a class."""
    if kind not in source.text:
        return set()
    found = set()
    for node in source.nodes:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            found |= {name_of(one) for one, value in pairs if called(value) == kind}
    return found - {""}


def functions(trace: Trace) -> dict[str, tuple[Source, ast.FunctionDef]]:
    """Return the functions of all sources by their names; of a class its `forward` or `__call__` by the class's."""
    found: dict[str, tuple[Source, ast.FunctionDef]] = {}
    for source in sources(trace):
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef) and node.name not in ("forward", "__call__"):
                found.setdefault(node.name, (source, node))
            elif isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name in ("forward", "__call__"):
                        found.setdefault(node.name, (source, inner))
    return found


def loops_around(source: Source, node: ast.AST) -> list[ast.For]:
    """Return the loops that a node stands in, innermost first, up to its function."""
    found = []
    for above in source.around(node):
        if isinstance(above, Function):
            break
        if isinstance(above, ast.For):
            found.append(above)
    return found


def rows_at(trace: Trace, source: Source, node: ast.AST) -> list[Row]:
    """Return what ran on the lines of an expression of this cell."""
    if source.name or not hasattr(node, "lineno"):
        return []
    last = getattr(node, "end_lineno", None) or node.lineno
    return [row for row in trace.rows if row.place is not None and row.place.file in trace.files
            and node.lineno <= row.place.line + trace.files[row.place.file] <= last]  # fmt: skip


def rows_of(trace: Trace, source: Source, node: ast.AST) -> list[Row]:
    """Return what ran on the lines of an expression, of any of the sources."""
    if not source.name:
        return rows_at(trace, source, node)
    first, last = node.lineno, getattr(node, "end_lineno", None) or node.lineno  # type: ignore[attr-defined]
    return [row for row in trace.rows if row.place is not None and row.place.file not in trace.files
            and first <= row.place.line <= last and shown_name(row.place.file) == source.name]  # fmt: skip


def rows_under(trace: Trace, source: Source, node: ast.AST) -> list[Row]:
    """Return what ran on behalf of the lines of an expression of this cell, in the functions that it calls as well."""
    if source.name or not hasattr(node, "lineno"):
        return []
    last = getattr(node, "end_lineno", None) or node.lineno
    frames = dict.fromkeys(frame for row in trace.rows for frame in row.chain)
    within = {f for f in frames if (at := trace.place(*f)).file in trace.files
              and node.lineno <= at.line + trace.files[at.file] <= last}  # fmt: skip
    return [row for row in trace.rows if not within.isdisjoint(row.chain)]


@lru_cache(2048)
def mentions(pattern: re.Pattern[str] | str, text: str) -> bool:
    """Return whether a pattern is found in a text: of a source, whose functions all ask the same."""
    return re.search(pattern, text) is not None


def of_a_network(source: Source, node: ast.AST) -> bool:
    """Return whether it is a call of an object: ``net(x)``, and no function of the user's or Python's."""
    plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return plain and function_of(source, node) is None and not hasattr(builtins, called(node))  # type: ignore[arg-type]


def factor_asked(source: Source, node: ast.AST) -> ast.expr | None:
    """Return the factor of a product in which a network is asked, where it is one alone: the other one is its weight,
    as an energy is of the log-probability in a score-function estimate."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    sides = [node.left, node.right]
    asks = [any(of_a_network(source, n) for n in ast.walk(side)) for side in sides]
    return sides[asks.index(True)] if asks.count(True) == 1 else None
