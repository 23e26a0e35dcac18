"""What a finding's remedy says in code already: `x = x.clamp(-1, 1)`, `torch.tanh in place of np.tanh (line 3)`."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
from collections.abc import Iterator, Sequence

from core.base import syntax
from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..examples import lines_of, on_line, quoted, with_imports
from ..remedies import remedy
from ..rewriting import in_its_place

ENDS = ("; ", " before ", " after ", " once ", " for each", ", with ", ", so ", ": ", " (", ", and ", ", or ", " adds ",
        " on ", " then")  # fmt: skip


def fragments(said: str, mark: str) -> Iterator[str]:
    """Go through the pieces of a sentence that begin where a pattern says and are Python, the longest first.

    >>> next(fragments("Make one for each: rows = [[] for _ in range(4)].", r"\\w+ = "))
    'rows = [[] for _ in range(4)]'
    """
    for found in re.finditer(mark, said):
        rest = said[found.start() :]
        cuts = {len(rest), *(m.start() for end in ENDS for m in re.finditer(re.escape(end), rest))}
        cuts |= {m.start() for m in re.finditer(r"\.(?= |$)|,(?= )", rest)}
        for cut in sorted(cuts, reverse=True):
            piece = rest[:cut].rstrip(" .")
            if piece and "..." not in piece and _parses(piece):
                yield piece
                break


def _parses(text: str) -> bool:
    try:
        syntax.parse(text)
    except SyntaxError:
        return False
    return True


ALL = ("alias", "unused", "mode", "no-gradient", "optimizer", "cut", "error", "memory", "loss", "evaluation", "nan",
       "indexing", "loop", "learning-rate", "dtype", "layout", "data", "loading")  # fmt: skip


@remedy(*ALL)
def assignment(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`kept = copy.deepcopy(net.state_dict())`: for the statement of the line that assigns the same name.

    Where none of the lines does, the last one before them that makes it of a part of the new code.
    """
    for piece in fragments(finding.remedy, r"[\w.\[\]\"']+(?:, \w+)* [-+*/]?= "):
        new = syntax.parse(piece).body[0]
        target = _target(new)
        lines = lines_of(finding)
        first = target.strip("()").split(", ")[0]
        named = [s for line in lines for s in cell.statements(line)]
        olds: Sequence[ast.stmt] = [s for s in named if target and _target(s) in (target, first)]
        yield from _among(cell, new, named)
        if not olds and isinstance(new, ast.Assign):
            parts = [ast.dump(n) for n in ast.walk(new.value)]
            made = [a for a in cell.all(ast.Assign) if _target(a) == target and a.lineno <= max(lines, default=0)]
            olds = [a for a in made if ast.dump(a.value) in parts][-1:]
        if isinstance(new, ast.Assign) and "Begin" in finding.remedy:
            yield from _begun(cell, target, ast.unparse(new.value))
            continue
        for old in olds:
            if ast.dump(old) != ast.dump(new):
                yield Patch(f"Write {piece}", with_imports(piece, cell, (*cell.span(old), piece)))
        if not olds and isinstance(new, ast.Assign):
            yield from _part_of(cell, new.value, [a for a in cell.all(ast.Assign) if _target(a) == target])


def _among(cell: Cell, new: ast.stmt, statements: Sequence[ast.stmt]) -> Iterator[Patch]:
    """The value of one name of several: `dq, dp = f(a), f(b)`."""
    for old in statements:
        names, values = (old.targets[0], old.value) if isinstance(old, ast.Assign) else (None, None)
        if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple) and isinstance(new, ast.Assign):
            for name, value in zip(names.elts, values.elts, strict=False):
                if ast.unparse(name) == _target(new):
                    yield Patch(f"Write {ast.unparse(new)}", cell.put((value, ast.unparse(new.value))))


def _begun(cell: Cell, target: str, value: str) -> Iterator[Patch]:
    """The value that a name begins with, alone or among others: `best, kept = 0.0, None`."""
    for assign in cell.all(ast.Assign):
        names, values = assign.targets[0], assign.value
        pairs = [(names, values)]
        if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple) and len(names.elts) == len(values.elts):
            pairs = list(zip(names.elts, values.elts, strict=True))
        for name, old in pairs:
            if ast.unparse(name) == target and isinstance(old, ast.Constant | ast.UnaryOp):
                yield Patch(f"Begin with {value}", cell.put((old, value)))


def _part_of(cell: Cell, new: ast.expr, made: Sequence[ast.Assign]) -> Iterator[Patch]:
    """`x = rows[i].copy()`: where x is made of `torch.from_numpy(rows[i])`, for the part that is to be copied."""
    if not isinstance(new, ast.Call) or not isinstance(new.func, ast.Attribute) or new.args:
        return
    old = ast.dump(new.func.value)
    for assign in made:
        for node in ast.walk(assign.value):
            if ast.dump(node) == old:
                yield Patch(f"Write {ast.unparse(new)}", cell.put((node, f"{cell.code(node)}.{new.func.attr}()")))


def _target(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    return ""


@remedy(*ALL)
def written(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`Write net.eval()`: for what names it, or calls the same function, on the line."""
    for piece in fragments(finding.remedy, r"(?<=Write )[\w.]+"):
        new = syntax.parse(piece).body[0]
        if not isinstance(new, ast.Expr):
            for old in cell.statements(finding.line):
                yield Patch(f"Write {piece}", cell.put((old, piece)))
            continue
        for statement in cell.statements(finding.line) or [s for s in [cell.statement(finding.line)] if s]:
            for node in ast.walk(statement):
                same = isinstance(new.value, ast.Call) and ast.unparse(node) == ast.unparse(new.value.func)
                if same and isinstance(node, ast.expr):
                    whole = cell.parents.get(node)
                    called = isinstance(whole, ast.Call) and whole.func is node
                    yield Patch(f"Write {piece}", cell.put((whole if called and whole else node, piece)))
                elif (
                    node is statement
                    and isinstance(node, ast.Assign)
                    and _target(node).split(".")[0] == piece.split(".")[0]
                ) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node is statement):
                    yield Patch(f"Write {piece}", cell.put((node, piece)))


SAID = r"(?<=: )[\w~([-]|(?<=[Uu]se )[\w~([-]|(?<=Write )[\w~([-]|(?<=, or )[\w~([-]|(?<=Take )[\w~([-]"
"""Where an expression may begin in a remedy."""
KNOWN = {"torch", "core", "nn", "F", "np", "math", *dir(builtins)}


@remedy()
def expression(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`Make a row of each sample: g.flatten(1).norm(dim=1)`: for the expression that the message quotes."""
    known = KNOWN | {n.id for n in cell.all(ast.Name)}
    quotes = [ast.dump(tree) for tree in quoted(finding.message)]
    nodes = [n for line in lines_of(finding) for n in on_line(cell, line) if isinstance(n, ast.expr)]
    read = {n: ast.dump(n).replace("Store()", "Load()") for n in nodes}
    places = [n for n, code in read.items() if code in quotes and not isinstance(n, ast.Constant)]
    for piece in dict.fromkeys(fragments(finding.remedy, SAID)):
        new = _expression(piece)
        if new is None or not _names(new) <= known:
            continue
        for node in sorted(places, key=lambda n: -_alike(cell.code(n), piece)):
            yield Patch(f"Write {piece}", cell.put((node, in_its_place(cell, node, piece))))


@remedy()
def wrapped(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`Bring it to radians: torch.deg2rad(angle)`: for what the quoted `torch.sin(angle)` is given."""
    known = KNOWN | {n.id for n in cell.all(ast.Name)}
    quotes = quoted(finding.message)
    for piece in dict.fromkeys(fragments(finding.remedy, SAID)):
        new = _expression(piece)
        if new is None or not _names(new) <= known or any(ast.dump(new) == ast.dump(q) for q in quotes):
            continue
        functions = {n.func for n in ast.walk(new) if isinstance(n, ast.Call)}
        parts = [n for n in ast.walk(new) if isinstance(n, ast.Name | ast.Attribute) and n not in functions
                 and n is not new and ast.unparse(n) not in KNOWN]  # fmt: skip
        inner = {ast.dump(n) for q in quotes for n in ast.walk(q) if n is not q}
        for part in [n for n in parts if ast.dump(n) in inner][:1]:
            for line in lines_of(finding)[:1]:
                found = [n for n in on_line(cell, line) if ast.dump(n) == ast.dump(part)]
                if found:
                    yield Patch(f"Write {piece}", cell.put(*((n, in_its_place(cell, n, piece)) for n in found)))


def _alike(code: str, other: str) -> float:
    return difflib.SequenceMatcher(None, code, other).ratio()


def _names(tree: ast.AST) -> set[str]:
    """Return the names that an expression reads and does not bind itself."""
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for n in ast.walk(tree) if isinstance(n, ast.Lambda) for a in n.args.args}
    return {n.id for n in names} - bound


def _expression(code: str) -> ast.expr | None:
    """Return the tree of an expression that computes something; None of a bare name, a value, or what is none."""
    try:
        tree = syntax.expression(code)
    except SyntaxError:
        return None
    computes = (ast.Call, ast.BinOp, ast.Subscript, ast.UnaryOp, ast.Compare, ast.List)
    several = isinstance(tree, ast.Tuple)  # names of what might be used
    return tree if any(isinstance(n, computes) for n in ast.walk(tree)) and not several else None


@remedy("cut")
def in_place_of(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """`torch.tanh in place of np.tanh (line 3)`: another library's function, and all that leads to it and back."""
    found = re.search(r"(\w+)\.(\w+) in place of (\w+)\.(\w+)", finding.remedy)
    if not found:
        return
    ours, name, theirs, other = found.groups()
    text = re.sub(rf"\b{theirs}\.(?=\w+\()", f"{ours}.", cell.text)
    text = text.replace(f"{ours}.{other}(", f"{ours}.{name}(")
    text = re.sub(r"(\.detach\(\)|\.cpu\(\))*\.numpy\(\)", "", text)
    yield Patch(f"Use {ours}.{name}", re.sub(r"\.item\(\)(?=\s*$)", "", _no_way_back(text)))
    if name == "logical_and":  # of comparisons: what has a gradient is the product of the values themselves
        soft = re.sub(rf"\b{ours}\.{name}\(([^(),]+), ([^(),]+)\)", r"(\1 * \2)", text)
        yield Patch("Multiply the probabilities", _no_way_back(re.sub(r" > 0?\.5\b", "", soft)))


def _no_way_back(text: str) -> str:
    """Without what made a tensor of an array: `torch.from_numpy(...)`, `torch.tensor(f(...))`."""
    try:
        cell = Cell(text)
    except SyntaxError:
        return text
    for call in cell.calls("from_numpy", "as_tensor", "tensor"):
        inner = call.args[0] if call.args else None
        if isinstance(inner, ast.Call) and last_name(inner.func) not in ("rand", "randn", "array", "zeros", "ones"):
            return cell.put((call, cell.code(inner)))
    return text
