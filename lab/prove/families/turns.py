"""Remedies for loops with one row in each turn: a function of one, which vmap runs for all; a model called once."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from widgets.record import Finding

from ..cell import Cell, Patch, last_name
from ..remedies import remedy
from ..rewriting import LIBRARIES
from .loops import BY_ROWS, SLOW, loops_of, sources_of, stored


def _nested(cell: Cell, loop: ast.For) -> list[ast.For]:
    """Return a loop with those that hold it alone, the outermost first."""
    found = [loop]
    while isinstance(up := cell.parents[found[0]], ast.For) and up.body == [found[0]]:
        found.insert(0, up)
    return found


@remedy(*SLOW)
def mapped(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What one loop, or one in another, does in each turn becomes a function of the turn's rows, which vmap runs."""
    if not BY_ROWS.search(f"{finding.message} {finding.remedy}") and "keep the result" not in finding.remedy:
        return
    for loop in loops_of(cell, finding):
        loops = _nested(cell, loop)
        for level in range(len(loops)):
            yield from _without_loop(cell, loops, level)
        for chosen in (loops[-2:], loops[-1:])[len(loops) < 2 :]:
            code = _by_vmap(cell, chosen)
            if code is not None:
                depth = "\n" + " " * chosen[0].col_offset
                yield Patch(
                    "All of them at once, by vmap", cell.put((chosen[0], code.replace("\n", depth))), guess=True
                )


class _Rows(ast.NodeTransformer):
    """Puts a name for each `x[i]` of which `x` is not made in the loop, and notes what stands for it as a whole."""

    def __init__(self, count: str, own: set[str]) -> None:
        self.count, self.own = count, own
        self.rows: dict[str, str] = {}
        self.left = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        names = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
        plain = isinstance(node.value, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        if plain and isinstance(node.slice, ast.Name) and node.slice.id == self.count and not names & self.own:
            whole = ast.unparse(node.value)
            name = f"{re.sub(r'[^a-zA-Z0-9]+', '_', whole)}_{self.count}"
            self.rows[name] = whole
            return ast.Name(name, ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.left |= node.id == self.count
        return node


def _by_vmap(cell: Cell, loops: list[ast.For]) -> str | None:
    """Return a function of one turn, and the call that runs it for all turns of one loop or two; None where the last
    statement does not say where each result goes."""
    body = [ast.parse(ast.unparse(s)).body[0] for s in loops[-1].body]
    own = {name for loop in loops for name in stored(loop)}
    counts, given = [], []
    *steps, last = body
    put = _goes_to(last)
    if put is None or any(isinstance(n, ast.Return | ast.Break | ast.Continue) for s in body for n in ast.walk(s)):
        return None
    steps.append(ast.Return(put))
    for loop in loops:
        found = sources_of(cell, loop.target, loop.iter)
        if found is None or loop.orelse:
            return None
        names, count = found
        rows = _Rows(count, own - set(names))
        steps = [rows.visit(s) for s in steps]
        limit = cell.code(loop.iter.args[0]) if count and not names and isinstance(loop.iter, ast.Call) else ""
        wholes = {name: _limited(whole, limit) for name, whole in rows.rows.items()}
        if rows.left or (count and not wholes and not names):
            wholes[count] = f"torch.arange({limit})" if limit else ""
        if not all(wholes.values()):
            return None
        counts.append(count)
        given.append(names | wholes)
    asked = ", ".join(name for level in given for name in level)
    lines = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in steps).replace("\n", "\n    ")
    call = f"of_one({asked})" if len(given) > 1 else "of_one"
    for level in reversed(given):
        inner = f"lambda {', '.join(level)}: {call}" if len(given) > 1 else call
        call = f"torch.func.vmap({inner})({', '.join(level.values())})"
    written = _written(last, call, counts)
    return f"def of_one({asked}):\n    {lines}\n{written}" if written else None


def _limited(whole: str, limit: str) -> str:
    return whole if limit in ("", f"len({whole})", f"{whole}.shape[0]", f"{whole}.size(0)") else f"{whole}[:{limit}]"


def _goes_to(last: ast.stmt) -> ast.expr | None:
    """Return what the last statement of a turn writes, appends or adds."""
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Subscript):
        return last.value
    if isinstance(last, ast.AugAssign) and isinstance(last.op, ast.Add) and isinstance(last.target, ast.Name):
        return last.value
    call = last.value if isinstance(last, ast.Expr) else None
    if isinstance(call, ast.Call) and last_name(call.func) == "append" and len(call.args) == 1:
        return call.args[0]
    return None


def _written(last: ast.stmt, values: str, counts: list[str]) -> str:
    """Return the statement that puts all values where each went; "" where the places are others."""
    if isinstance(last, ast.Assign) and isinstance(target := last.targets[0], ast.Subscript):
        index = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        same = [ast.unparse(part) for part in index] == counts
        return f"{ast.unparse(target.value)}[:] = {values}" if same else ""
    if isinstance(last, ast.AugAssign):
        return f"{ast.unparse(last.target)} = {ast.unparse(last.target)} + {values}.sum()"
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and isinstance(last.value.func, ast.Attribute):
        flat = ".flatten(0, 1)" if len(counts) > 1 else ""
        return f"{ast.unparse(last.value.func.value)}.extend({values}{flat})"
    return ""


class _Whole(ast.NodeTransformer):
    """Writes `x` for `x[i]`, and `t[:, j]` for `t[i, j]`."""

    def __init__(self, count: str) -> None:
        self.count, self.left = count, False

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        index = node.slice
        if isinstance(index, ast.Name) and index.id == self.count:
            return self.visit(node.value)  # type: ignore[no-any-return]
        if isinstance(index, ast.Tuple):
            whole = [ast.Slice() if isinstance(e, ast.Name) and e.id == self.count else e for e in index.elts]
            node.slice = ast.Tuple(whole, ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.left |= node.id == self.count
        return node


def _without_loop(cell: Cell, loops: list[ast.For], level: int) -> Iterator[Patch]:
    """Of two loops one goes, where its number only tells rows: the other's turns take all of them."""
    if len(loops) < 2:
        return
    found = sources_of(cell, loops[level].target, loops[level].iter)
    last = loops[-1].body[-1]
    if found is None or found[0] or not (isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Subscript)):
        return
    whole = _Whole(found[1])
    lines = [ast.unparse(whole.visit(ast.parse(ast.unparse(s)).body[0])) for s in loops[-1].body]
    if whole.left:
        return
    text = "\n".join(lines)
    for loop in [each for each in reversed(loops) if each is not loops[level]]:
        text = f"for {cell.code(loop.target)} in {cell.code(loop.iter)}:\n" + "\n".join(
            f"    {line}" for line in text.split("\n")
        )
    depth = "\n" + " " * loops[0].col_offset
    yield Patch("All rows in each turn of the other loop", cell.put((loops[0], text.replace("\n", depth))), guess=True)


# -- a model that is called once ----------------------------------------


@remedy(*SLOW)
def called_once(cell: Cell, finding: Finding) -> Iterator[Patch]:
    """What a model gives for one row in each turn is read of what it gives for all rows, computed before the loop."""
    if not BY_ROWS.search(f"{finding.message} {finding.remedy}"):
        return
    for loop in loops_of(cell, finding):
        found = sources_of(cell, loop.target, loop.iter)
        plain = isinstance(loop.iter, ast.Name | ast.Attribute)
        if found is None and not (plain and isinstance(loop.target, ast.Tuple)):
            continue
        count = found[1] if found is not None else ""
        made = {name for s in loop.body for name in stored(s)}
        pieces: list[tuple[int, int, str]] = []
        blocks: dict[str, list[str]] = {}
        for call in [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]:
            rows = _rows_given(cell, call, loop, made, count)
            if rows is None or _known(call.func) or _names(call.func) & stored(loop):
                continue
            code = f"{cell.code(call.func)}({rows[0]})"
            more = f"_{len(blocks)}" if blocks and code not in blocks else ""
            name = f"{re.sub(r'[^a-zA-Z0-9]+', '_', cell.code(call.func))}_rows{more}"
            line = f"{name} = {code}"
            around = cell.around(call, (ast.With,))
            if isinstance(around, ast.With) and around.lineno > loop.lineno:
                heads = ", ".join(cell.code(item.context_expr) for item in around.items)
                lines = [f"with {heads}:", f"    {line}"]
            else:
                lines = [line]
            name = blocks.setdefault(code, lines)[-1].partition(" = ")[0].strip()
            pieces.append((*cell.span(call), f"{name}{rows[1]}"))
        if not pieces:
            continue
        if not count:
            pieces += [(*cell.span(loop.target), f"turn, {_in_parentheses(cell, loop.target)}"),
                       (*cell.span(loop.iter), f"enumerate({cell.code(loop.iter)})")]  # fmt: skip
        pieces.append(cell.before(loop, *(line for lines in blocks.values() for line in lines)))
        yield Patch("Call it once for all rows", cell.splice(pieces), guess=True)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _known(function: ast.expr) -> bool:
    """Whether a function is Python's or a library's, which is no model."""
    first = ast.unparse(function).partition(".")[0]
    return first in LIBRARIES or hasattr(builtins, first)


def _in_parentheses(cell: Cell, target: ast.expr) -> str:
    code = cell.code(target)
    return f"({code})" if isinstance(target, ast.Tuple) and not code.startswith("(") else code


def _rows_given(cell: Cell, call: ast.Call, loop: ast.For, made: set[str], count: str) -> tuple[str, str] | None:
    """Return all rows of which a call is given one in each turn, as code, and the index of what it gives for that."""
    if len(call.args) != 1 or call.keywords:
        return None
    number = count or "turn"
    given, batch = call.args[0], f"{number}:{number} + 1"
    index = number
    if isinstance(given, ast.Call) and last_name(given.func) == "unsqueeze" and isinstance(given.func, ast.Attribute):
        if [ast.unparse(a) for a in given.args] != ["0"]:
            return None
        given, index = given.func.value, batch
    elif isinstance(given, ast.Subscript) and ast.unparse(given.slice) == "None":
        given, index = given.value, batch
    step = _step(given, loop, count)
    if step is not None and index == number and not _names(step.value) & made:
        return ast.unparse(step.value), f"[:, {count}]"
    if isinstance(given, ast.Subscript) and ast.unparse(given.slice) in (count, batch) and count:
        index = batch if ast.unparse(given.slice) == batch else index
        return (cell.code(given.value), f"[{index}]") if not _names(given.value) & made else None
    if isinstance(given, ast.Name) and given.id in _names(loop.target) - made - {count}:
        return f"torch.stack([{given.id} for {cell.code(loop.target)} in {cell.code(loop.iter)}])", f"[{index}]"
    return None


def _step(given: ast.expr, loop: ast.For, count: str) -> ast.Subscript | None:
    """Return the `x[:, t]` that a value is, or that its name is given once in the loop."""
    if isinstance(given, ast.Name):
        made = [n for n in ast.walk(loop) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == given.id]
        given = made[0].value if len(made) == 1 else given
    one = isinstance(given, ast.Subscript) and ast.unparse(given.slice) in (f":, {count}", f"(:, {count})")
    return given if one and isinstance(given, ast.Subscript) else None
