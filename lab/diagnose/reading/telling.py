"""What rules that read a text have in common: where an expression stands, what its names speak of, and one finding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Trace
from ..finding import Found, capital
from .expressions import Flow, flow_of
from .sources import Function, Source, called, names_in, sources

PREDICTED = re.compile(r"pred|out(put)?s?$|logit|prob|score|(^|_|y)hat$|^yh|hypo|guess|forecast|estimate", re.I)
TRUE = re.compile(
    r"(^|_)(y|ys|gt|tgt|label|labels|target|targets|truth|true|actual)(_|\d|$)|(?<!pred_)label|target", re.I
)
NOTHING = {"tolist", "numpy", "cpu", "detach", "float", "long", "int", "flatten", "view", "reshape", "squeeze", "to",
           "astype", "double", "item", "ravel", "contiguous", "clone", "unsqueeze", "copy", "asarray", "array",
           "as_tensor", "tensor", "from_numpy", "FloatTensor", "Tensor", "bool"}  # fmt: skip
"""Methods and functions that give the same values."""


def tell(source: Source, node: ast.AST, kind: str, severity: str, says: str, remedy: str) -> list[Found]:
    """Return one finding about an expression: its place, and what is wrong there."""
    line, col, place = source.place(node)
    return [Found(kind, severity, line, col, capital(f"{place} {says}"), remedy)]


def scope_around(source: Source, node: ast.AST) -> ast.AST:
    """Return the function that a node stands in, else the whole program."""
    inner = next((above for above in source.around(node) if isinstance(above, Function)), None)
    return inner or whole(source)


def whole(source: Source) -> ast.Module:
    """Return the statements of a source: of this cell after those of the earlier cells that made what it reads."""
    return source.program if source.earlier else source.tree


def flow_around(source: Source, node: ast.AST) -> Flow:
    """Return what the variables hold where a node stands."""
    return flow_of(source, scope_around(source, node))


def scopes(source: Source) -> Iterator[ast.AST]:
    """Yield the program, with the earlier cells, and every function; of a file or an earlier cell its functions."""
    if not source.name:
        yield whole(source)
    yield from (n for n in source.nodes if isinstance(n, Function))


def flows(trace: Trace) -> Iterator[tuple[Source, Flow]]:
    """Yield the flow of each of the `scopes` of all sources."""
    for source in sources(trace):
        for scope in scopes(source):
            yield source, flow_of(source, scope)


def calls(trace: Trace, *names: str) -> Iterator[tuple[Source, ast.Call]]:
    """Yield the calls of some names in all sources."""
    for source in sources(trace):
        for name in names:
            for node in source.calls.get(name, ()):
                yield source, node


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


def speaks(node: ast.AST, words: re.Pattern[str]) -> bool:
    """Return whether a variable or attribute in an expression has such a name."""
    return any(words.search(n) for n in words_in(node))


def words_in(node: ast.AST) -> set[str]:
    """Return the variables and attributes that an expression reads."""
    return names_in(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


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
