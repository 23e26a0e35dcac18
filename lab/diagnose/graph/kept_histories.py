"""Tensors that keep the graphs of earlier iterations alive: `total += loss`, or a list of losses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from widgets.figures import size_text

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, end_of, last_line, where
from ..speed.time_shares import around

MANY = 16  # passes without any backward() from which a list of results with their graphs is worth a note
AGAIN = 3  # so many links make a chain
ADDING = ("append", "appendleft", "extend", "insert", "add", "put", "update", "setdefault")


def held(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A sum that nothing runs backward through, and a list of tensors with history."""
    if again := _through_earlier(trace):
        return again
    if trace.failed or (explained and trace.error is not None):
        return []
    cut = {ref for row in trace.rows if "cut" in row.flags for ref in ancestors([row])} if explained else set()
    summed, listed = _summed(trace, cut), _listed(trace, cut)
    if summed and any(row in ancestors(summed[0].rows) for kept in trace.kept for row in kept.rows):
        return listed + summed  # what is summed is kept by itself, too
    return summed or listed or _appended(trace, cut) or _retained(trace)


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
        name = _renewed(trace, chain)
        cut = f"{name} = {name}.detach()"
        if "." in name or not name:
            cut = "h = h.detach()" + (f", here {cut}" if name else "")
        remedy = f"Cut the state between iterations: {cut}. Then retain_graph=True is not needed."
        return [Found("memory", "warning", line, col, message, remedy, [first])]
    return []


def _renewed(trace: Trace, chain: Chain) -> str:
    """The variable or attribute that a statement makes of its own value, at a place; "" where it makes another."""
    statement = next((n for n in around(trace, chain[0]) if isinstance(n, ast.Assign | ast.AugAssign)), None)
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    target = ast.unparse(statement.targets[0]) if statement is not None else ""
    made_of = {ast.unparse(n) for n in ast.walk(statement.value)} if statement is not None else set()
    return target if target in made_of else ""


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


def _summed(trace: Trace, cut: set[Ref]) -> list[Found]:
    links: dict[Row, int] = {}
    trained = {row.chain for row in trace.rows if row.reached and row.op in ("add", "add_")}  # of several sums, one is
    for row in trace.rows:
        if row.op not in ("add", "add_") or not row.requires_grad or row.reached or row.shape or row in cut:
            continue
        if row.chain in trained:
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


def _listed(trace: Trace, cut: set[Ref]) -> list[Found]:
    """What the cell's variables hold at its end."""
    for kept in trace.kept:
        if any(row in cut for row in kept.rows):
            continue
        name = _spoken(kept.path)
        at = _keeping(trace, kept.path)
        nodes = f"{kept.nodes:,} nodes of their graphs" + (f" and {size_text(kept.size)}" if kept.size > 1023 else "")
        row = kept.rows[-1]
        if at is None:
            line, col, place = where(trace, row.chain)
            message = (
                f"{place} makes tensors that stay alive with the graph of every iteration: {name} holds {kept.count:,} "
                f"of them (`{code_of(trace, row)}`), {nodes}."
            )
        else:
            line, col, code = at
            message = (
                f"Line {line} keeps the graph of every iteration alive: `{code}` puts tensors with their history into "
                f"{name}, {kept.count:,} of them with {nodes}."
            )
        remedy = "Keep the number (loss.item()), or loss.detach()."
        if row.shape:
            remedy = "Keep a copy without history: append x.detach() in place of x."
        if not kept.reached and (kept.judged or not trace.backwards):
            remedy = "Run it under torch.no_grad() where nothing is trained, or keep the number (.item()) or .detach()."
        # where nothing was trained, a loss may be made of it elsewhere
        severity = "warning" if trace.backwards or trace.evaluated else "note"
        return [Found("memory", severity, line, col, capital(message), remedy, kept.rows[-1:])]
    return []


def _spoken(path: tuple[str, ...]) -> str:
    """A path as the cell would write it: what is inside the last named container is told by that.

    >>> _spoken(("trainer", ".log", "'loss'", "")), _spoken(("f", ".seen", "", "'loss'"))
    ("trainer.log['loss']", 'f.seen')
    """
    while len(path) > 1 and not path[-1]:
        path = path[:-1]
    if "" in path:
        path = path[: path.index("")]
    return path[0] + "".join(p if p.startswith(".") else f"[{p}]" for p in path[1:])


def _keeping(trace: Trace, path: tuple[str, ...]) -> tuple[int, int, str] | None:
    """The statement that puts something into a container, found by how the container is called."""
    best: tuple[int, int, int, str] | None = None
    for node, target, code in _puts(trace):
        score = _alike(_steps(target), path)
        if score and (best is None or score > best[0]):
            best = score, node.lineno, node.col_offset, code
    return None if best is None else best[1:]


def _puts(trace: Trace) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, str]]:
    """Statements of the cell by which something grows: the statement, the container, the text."""
    for node in trace.nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
            yield node, node.func.value, ast.unparse(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    yield node, target.value, ast.unparse(node)
                elif isinstance(node.value, ast.ListComp | ast.DictComp):
                    yield node, target, ast.unparse(node)
        elif isinstance(node, ast.AugAssign):
            target = node.target.value if isinstance(node.target, ast.Subscript) else node.target
            yield node, target, ast.unparse(node)


def _steps(target: ast.expr) -> list[str]:
    """The parts of an expression, outermost first: ``self.log["loss"]`` is self, .log, 'loss'."""
    if isinstance(target, ast.Attribute):
        return [*_steps(target.value), "." + target.attr]
    if isinstance(target, ast.Subscript):
        key = target.slice
        named = isinstance(key, ast.Constant) and isinstance(key.value, str)
        return [*_steps(target.value), repr(key.value) if named else ""]  # type: ignore[attr-defined]
    if isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr == "setdefault":
        return [*_steps(target.func.value), ""]
    return [target.id] if isinstance(target, ast.Name) else ["?"]


def _alike(steps: list[str], path: tuple[str, ...]) -> int:
    """How much of a container's path an expression names, from its end; 0 where they differ."""
    held = list(path)
    best = 0
    for end in range(len(held), 0, -1):  # the path goes on inside what is put in: a tuple, a dictionary
        score, left = 0, held[:end]
        for step in reversed(steps):
            if not left:
                score += 1 if step == "self" else 0
                break
            part = left.pop()
            if "" in (step, part) and "." not in (step + part)[:1]:
                score += 1
            elif step.lstrip(".") == part.lstrip("."):
                score += 4
            elif step == steps[0]:  # a parameter, or self, is called otherwise outside
                break
            else:
                score = 0
                break
        best = max(best, score)
    return best if best >= 4 else 0


def _appended(trace: Trace, cut: set[Ref]) -> list[Found]:
    """A list in a function that takes a tensor on the graph in each pass, and from which no loss is made."""
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
            if row is None or row.count < AGAIN or not row.requires_grad or row.cut or row in cut:
                continue
            # nothing is trained here, or not of this
            alone = not row.reached and row.judged
            alone |= not trace.backwards and (bool(trace.evaluated) or row.count >= MANY)
            if not (row.reached or alone) or _used(trace, readers, row, loop, name):
                continue
            if isinstance(now := trace.space.get(name), list) and 2 * len(now) < row.count:
                continue  # it is emptied now and then
            code = ast.unparse(call)
            message = (
                f"Line {call.lineno} keeps the graph of every iteration alive: `{code}` puts tensors with their "
                f"history into {name}, {row.count:,} of them."
            )
            remedy = "Keep the number (loss.item()) or .detach()."
            if alone:
                remedy = "Run it under torch.no_grad() where nothing is trained."
            severity = "warning" if row.reached or row.judged or trace.evaluated else "note"
            return [Found("memory", severity, call.lineno, call.col_offset, message, remedy, [row])]
    return []


def _made(trace: Trace) -> dict[tuple[int, int], Row]:
    """The last op of every expression of this cell, by where it ends."""
    found: dict[tuple[int, int], Row] = {}
    for row in trace.rows:
        for code, lasti in row.chain if row.phase == "forward" else ():
            offset = trace.files.get(code.co_filename)
            if offset is not None:
                place = trace.place(code, lasti)
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
    return made.get(end_of(value))


def _used(trace: Trace, readers: dict[Ref, list[Row]], row: Row, loop: ast.AST, name: str) -> bool:
    """Whether backward() came through something that was made of the list."""
    last = last_line(loop)
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    for after in readers.get(row, ()):
        line = after.line
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
