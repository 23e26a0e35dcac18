"""Tensors that keep the graphs of earlier iterations alive: `total += loss`, or a list of losses."""

from __future__ import annotations

import ast
import re

from core.source import locate
from widgets.figures import size_text

from ..gathered import Chain, Leaf, Ref, Row, Trace, ancestors
from .found import Found, capital, code_of, where

MANY = 16  # passes without any backward() from which a list of results with their graphs is worth a note
AGAIN = 3  # so many links make a chain
ADDING = ("append", "extend", "insert")


def held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sum that nothing runs backward through, and a list of tensors with history."""
    if again := _through_earlier(trace):
        return again
    return [] if explained else _summed(trace) or _listed(trace) or _appended(trace) or _retained(trace)


def _through_earlier(trace: Trace) -> list[Found]:
    """backward() that goes through the graphs of all iterations before, because a state is carried over."""
    if trace.error is not None:
        return []
    places: dict[tuple[str, Chain], list[Row]] = {}
    for row in trace.rows:
        if row.reached and row.count == 1 and not row.cut and len(row.refs) > 1 and row.phase == "forward":
            places.setdefault((row.op, row.chain), []).append(row)
    for (_, chain), rows in places.items():
        first, last = min(rows, key=lambda r: r.number), max(rows, key=lambda r: r.number)
        if len(rows) < AGAIN or first.reached < 0.75 * len(rows) * last.reached or first not in ancestors([last]):
            continue
        line, col, place = where(trace, chain)
        back = where(trace, trace.backwards[-1])[2] if trace.backwards else "backward()"
        message = capital(
            f"{place} goes on with what the iteration before has computed (`{code_of(trace, first)}`), with its graph: "
            f"backward() ({back}) goes through all iterations so far, {first.reached:,} times through the first."
        )
        remedy = "Cut the state between iterations: h = h.detach(). Then retain_graph=True is not needed."
        return [Found("memory", "warning", line, col, message, remedy, [first])]
    return []


def _link(row: Row) -> list[Row]:
    """Rows of the same op and place that a sum of single numbers goes back to, through products and differences."""
    found: list[Row] = []
    stack: list[tuple[Ref, int]] = [(r, 0) for r in row.refs]
    while stack:
        ref, depth = stack.pop()
        if not isinstance(ref, Row) or ref.shape or ref.reached:
            continue
        if ref.op == row.op and ref.chain == row.chain:
            found.append(ref)
        elif depth < 2 and ref.op in ("mul", "div", "add", "sub"):
            stack.extend((r, depth + 1) for r in ref.refs)
    return found


def _summed(trace: Trace) -> list[Found]:
    links: dict[Row, int] = {}
    for row in trace.rows:
        if row.op not in ("add", "add_") or not row.requires_grad or row.reached or row.shape:
            continue
        before = _link(row)
        links[row] = 1 + max((links.get(r, 0) for r in before), default=0)
    if not links:
        return []
    row, count = max(links.items(), key=lambda pair: pair[1])
    if count < AGAIN or any(r.reached for r in trace.consumers().get(row, ())):
        return []
    line, col, place = where(trace, row.chain)
    alive = [r for r in ancestors([row]) if isinstance(r, Row) and r.requires_grad and not r.reached]
    size = sum(r.size * r.count for r in alive)
    backward = (
        "" if any(r.reached for r in ancestors([row]) if isinstance(r, Row)) else f", {size_text(size)} of results"
    )
    message = capital(
        f"{place} keeps the graph of every iteration alive: `{code_of(trace, row)}` adds tensors with their history, "
        f"{count:,} so far{backward}."
    )
    remedy = "Add the number: loss.item(), or loss.detach() to stay on the device."
    severity = "warning"
    return [Found("memory", severity, line, col, message, remedy, [row], [])]


def _listed(trace: Trace) -> list[Found]:
    for name, (count, size) in trace.kept.items():
        line, col, code = _append(trace, name)
        if line is None:
            continue
        message = (
            f"Line {line} keeps the graph of every iteration alive: `{code}` puts tensors with their history into "
            f"{name}, {count:,} of them{f', {size_text(size)} of saved values' if size else ''}."
        )
        remedy = "Keep the number (loss.item()) or loss.detach()."
        if not trace.backwards:
            remedy = "Run it under torch.no_grad() where nothing is trained, or keep the number (.item()) or .detach()."
        severity = "warning" if trace.backwards or trace.evaluated else "note"  # a loss may be made of it elsewhere
        return [Found("memory", severity, line, col, message, remedy)]
    return []


def _appended(trace: Trace) -> list[Found]:
    """A list in a function that takes a tensor on the graph in each pass, and from which no loss is made."""
    tree = trace.tree()
    if tree is None:
        return []
    readers, made = trace.consumers(), _made(trace)
    seen: set[ast.AST] = set()
    inner = [n for n in trace.nodes() if isinstance(n, ast.For | ast.While)]
    for loop in sorted(inner, key=lambda n: -n.lineno):  # an inner loop before those around it
        for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)):
            if call in seen:
                continue
            seen.add(call)
            if call.func.attr != "append" or len(call.args) != 1:  # type: ignore[attr-defined]
                continue
            name = ast.unparse(call.func.value)  # type: ignore[attr-defined]
            row = _given(made, loop, call.args[0])
            if row is None or row.count < AGAIN or not row.requires_grad or row.cut:
                continue
            alone = not trace.backwards and (trace.evaluated or row.count >= MANY)  # nothing is trained here
            if not (row.reached or alone) or _used(trace, readers, row, loop, name):
                continue
            code = ast.unparse(call)
            message = (
                f"Line {call.lineno} keeps the graph of every iteration alive: `{code}` puts tensors with their "
                f"history into {name}, {row.count:,} of them."
            )
            remedy = "Keep the number (loss.item()) or .detach()."
            if alone:
                remedy = "Run it under torch.no_grad() where nothing is trained."
            severity = "warning" if row.reached or trace.evaluated else "note"
            return [Found("memory", severity, call.lineno, call.col_offset, message, remedy, [row])]
    return []


def _made(trace: Trace) -> dict[tuple[int, int], Row]:
    """The last op of every expression of this cell, by where it ends."""
    found: dict[tuple[int, int], Row] = {}
    for row in trace.rows:
        for code, lasti in row.chain if row.phase == "forward" else ():
            offset = trace.files.get(code.co_filename)
            if offset is not None:
                place = locate(code, lasti)
                found[place.end_line + max(offset, 0), place.end_col] = row
    return found


def _given(made: dict[tuple[int, int], Row], loop: ast.AST, value: ast.expr) -> Row | None:
    """The op whose result an expression is: its own, or that of the last assignment to the name in the loop."""
    if isinstance(value, ast.Name):
        to = [n for n in ast.walk(loop) if isinstance(n, ast.Assign) and n.lineno <= value.lineno]
        named = [n for n in to if any(isinstance(t, ast.Name) and t.id == value.id for t in n.targets)]
        if not named:
            return None
        value = max(named, key=lambda n: n.lineno).value
    return made.get((value.end_lineno or 0, value.end_col_offset or 0))


def _used(trace: Trace, readers: dict[Ref, list[Row]], row: Row, loop: ast.AST, name: str) -> bool:
    """Whether backward() came through something that was made of the list."""
    last = loop.end_lineno or 0  # type: ignore[attr-defined]
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    for after in readers.get(row, ()):
        line = trace.line(after.chain)
        inside = line is not None and loop.lineno <= line <= last  # type: ignore[attr-defined]
        if after.reached and (not inside or word.search(code_of(trace, after))):
            return True
    return False


def _retained(trace: Trace) -> list[Found]:
    """retain_graph=True though nothing runs through the graph again."""
    if any(r.reached > r.count for r in trace.rows) or trace.error is not None or not trace.backwards:
        return []
    line, col, place = where(trace, trace.backwards[-1])
    text = trace.own_place(trace.backwards[-1])
    if text is None or not re.search(r"retain_graph\s*=\s*True", text.code) or "create_graph" in text.code:
        return []
    message = capital(
        f"{place} keeps the graph after backward() (retain_graph=True), and nothing runs through it again."
    )
    return [Found("memory", "note", line, col, message, "Leave retain_graph out: the graph is freed at once.")]


def _means(tree: ast.AST, at: ast.expr, name: str) -> bool:
    """Whether an expression is what the cell calls `name`: itself, self.x for model.x, or what a function returns."""
    text = ast.unparse(at)
    if text == name or (text.startswith("self.") and text.partition(".")[2] == name.partition(".")[2]):
        return True
    made = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets)]
    called = {ast.unparse(v.func) for v in made if isinstance(v, ast.Call)}
    return any(
        isinstance(inner, ast.Return) and inner.value is not None and ast.unparse(inner.value) == text
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef) and f.name in called
        for inner in ast.walk(f)
    )


def _append(trace: Trace, name: str) -> tuple[int | None, int | None, str]:
    """Where the cell adds to a list."""
    tree = trace.tree()
    if tree is None:
        return None, None, ""
    for node in trace.nodes():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend", "insert")
        ):
            if _means(tree, node.func.value, name):
                return node.lineno, node.col_offset, ast.unparse(node)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            item = isinstance(target, ast.Subscript) and _means(tree, target.value, name)
            if item or (isinstance(target, ast.Name) and target.id == name and isinstance(node.value, ast.ListComp)):
                return node.lineno, node.col_offset, ast.unparse(node)
    return None, None, ""
