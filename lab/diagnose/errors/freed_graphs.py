"""Errors of backward() over a graph that is no longer what it was: freed by an earlier pass, or its values changed."""

from __future__ import annotations

import ast
import itertools
import os
import re

from widgets.record import ErrorRow

from ...recorder.cell_trace import Chain, Leaf, Row, Trace, ancestors
from ..finding import Found, capital, code_of, last_line, where

CHANGED = "modified by an inplace operation"
INTO = "Put the parts together anew: torch.cat([...]), torch.where(...), or write into a clone()."
OUT_OF_PLACE = "Write the change out of place (y = y + ... in place of y += ...), or clone() before it."
STEPPED = "Run backward() of every loss before the step, or run the forward pass anew for the loss that follows it."
AGAIN = "backward through the graph a second time"
FRESH = (
    "Run the forward pass again for each backward(), detach() what comes from an earlier iteration, or "
    "backward(retain_graph=True) the first time."
)
_CHANGED_AT = re.compile(r"(?P<op>\w+) changed it at (?P<file>.+?) line (?P<line>\d+)")
_SAVED = re.compile(r"op: (?P<what>.+?) at (?P<file>.+?) line (?P<line>\d+)")
_RAN_AT = re.compile(r"it ran at (?P<file>.+?) line (?P<line>\d+)")
_SHAPE = re.compile(r"Tensor \[([\d, ]*)\]")
_OUTPUT = re.compile(r"output \d+ of (\w+?)(?:Backward\d*)?,")
VIEWS = {"asstrided", "t", "transpose", "view", "permute", "unsafeview"}  # by which a layer reads its weight


def _at(trace: Trace, found: re.Match[str] | None) -> tuple[int | None, str]:
    """A place that an error names, as a line of this cell and in words."""
    if found is None:
        return None, ""
    line = int(found["line"])
    for file, offset in trace.files.items():
        if found["file"] in (file, os.path.basename(file)) or found["file"].startswith("In ["):
            return line + offset, f"line {line + offset}"
    return None, f"{found['file']} line {line}"


# -- values that changed ---------------------------------------------------------------------------------------------


def changed(trace: Trace, error: ErrorRow, remedy: str | None) -> Found:
    """An in-place op changed what a gradient needs."""
    text = " ".join(error.detail.split())
    named = _CHANGED_AT.search(text)
    line, there = _at(trace, named)
    if named is not None:
        saved = _SAVED.search(text)
        what, kept_at = (saved["what"].partition(" ")[0], _at(trace, saved)[1]) if saved else ("", "")
        kept = f", which `{what}` ({kept_at}) needs for its gradient" if what else ""
        if named["op"].endswith("_step"):
            return _stepped(trace, error, line, there, kept)
        how = _assigned_part(trace, line) if named["op"] in ("copy_", "setitem_", "fill_") else ""
        message = f"{there} changes a tensor in place by `{how or named['op']}`{kept}, so line {error.line} fails."
        return _told(error, line, message, INTO if how else capital(remedy or OUT_OF_PLACE), [])
    if (found := _written(trace, text)) is not None:
        row, kept_by = found
        line, _, there = where(trace, row.chain)
        by = f", which `{kept_by.op}` ({where(trace, kept_by.chain)[2]}) needs for its gradient"
        how = _assigned_part(trace, line) if row.op in ("copy_", "setitem_", "fill_") else ""
        message = f"{there} changes a tensor in place by `{how or row.op}`{by}, so line {error.line} fails."
        return _told(error, line, message, INTO if how else OUT_OF_PLACE, [kept_by, row])
    if (weight := _trained(trace, text)) is not None:
        leaf, reader = weight
        line, _, there = where(trace, trace.steps.stepped[leaf])
        kept = f", which `{reader.op}` ({where(trace, reader.chain)[2]}) needs for its gradient"
        return _stepped(trace, error, line, there, kept)
    if (last := _last_written(trace)) is not None:
        line, _, there = where(trace, last.chain)
        message = f"{there} changes a tensor in place by `{last.op}`, and a gradient needs what was in it before"
        return _told(error, line, f"{message}, so line {error.line} fails.", OUT_OF_PLACE, [last])
    message = f"line {error.line} fails: a tensor that a gradient needs was changed in place since the forward pass."
    return _told(error, error.line, message, OUT_OF_PLACE, [])


def _assigned_part(trace: Trace, line: int | None) -> str:
    """The assignment to a part of a tensor on a line: ``out[:, 2:] = ...``."""
    for node in trace.nodes():
        if isinstance(node, ast.Assign) and node.lineno == line and isinstance(node.targets[0], ast.Subscript):
            return f"{ast.unparse(node.targets[0])} = ..."
    return ""


def _told(error: ErrorRow, line: int | None, message: str, remedy: str, rows: list[Row]) -> Found:
    return Found("error", "error", line or error.line, None, capital(message), remedy, rows)


def _stepped(trace: Trace, error: ErrorRow, line: int | None, there: str, kept: str) -> Found:
    """A step of an optimizer between a forward pass and its backward pass."""
    lines = trace.texts()
    code = lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""
    call = re.search(r"[\w.\[\]]+\.step\(\)", code)
    by = f"by `{call[0]}`" if call else "by a step of the optimizer"
    message = f"{there} changes weights in place {by}{kept}, so line {error.line} fails."
    return _told(error, line, message, STEPPED, [])


def _shape(text: str) -> tuple[int, ...] | None:
    """The shape of the tensor that an error names."""
    match = _SHAPE.search(text)
    return None if match is None else tuple(int(n) for n in match[1].split(",") if n.strip())


def _written(trace: Trace, text: str) -> tuple[Row, Row] | None:
    """The in-place op and the op whose value it changed, found among the rows where the error does not name them."""
    named, shape = _OUTPUT.search(text), _shape(text)
    op = named[1].lower() if named else ""
    readers = trace.consumers()
    for row in reversed(trace.rows):
        if not (row.op.endswith("_") and not row.op.startswith("~")):
            continue
        stack = list(row.refs[:1])
        while stack:
            ref = stack.pop()
            if isinstance(ref, Leaf):  # a parameter, or data that a gradient needs
                kept = [r for r in readers.get(ref, ()) if r is not row and r.requires_grad and r.number < row.number]
                if kept and shape in (None, ref.shape, ref.shape[::-1]) and (not op or op in VIEWS):
                    return row, kept[-1]
                continue
            last = row.op.replace("_", "") == op  # the graph knows the tensor by its last change
            if ref.op.endswith("_") or (ref.view and ref.op.replace("_", "") != op):
                stack.extend(ref.refs[:1])
            elif ref.op.replace("_", "") == op or ((last or not op) and shape in (None, ref.shape)):
                return row, ref
    return None


def _last_written(trace: Trace) -> Row | None:
    """The last in-place op on what an op with a gradient has read."""
    readers = trace.consumers()
    for row in reversed(trace.rows):
        if row.op.endswith("_") and not row.op.startswith("~") and row.phase == "forward":
            behind = ancestors(row.refs[:1])
            if any(r.requires_grad and r is not row for ref in (row, *behind) for r in readers.get(ref, ())):
                return row
    return None


def _trained(trace: Trace, text: str) -> tuple[Leaf, Row] | None:
    """The weight that a step changed, and the last op that had read it."""
    shape, readers = _shape(text), trace.consumers()
    behind = ancestors([trace.broke]) if trace.broke is not None else None
    for leaf in trace.steps.stepped:
        if shape is not None and shape not in (leaf.shape, leaf.shape[::-1]):
            continue
        rows = [r for r in readers.get(leaf, ()) if r.requires_grad and (behind is None or r in behind)]
        if rows:
            return leaf, rows[-1]
    return None


# -- a graph that is gone --------------------------------------------------------------------------------------------


def again(trace: Trace, error: ErrorRow) -> Found:
    """A second backward through what the first has freed: where it was made, and why the second comes back to it."""
    _, first = _at(trace, _RAN_AT.search(" ".join(error.detail.split())))
    behind = ancestors([trace.broke] if trace.broke is not None else trace.rows)
    reached = [r for r in behind if isinstance(r, Row) and r.reached and r.requires_grad]
    start = f"line {error.line} runs backward a second time through the same graph"
    if (carried := _carried(trace, reached)) is not None:
        line, name, added, row = carried
        message = (
            f"line {error.line} runs backward a second time through the graph of the iteration before: `{name}`, which "
            f"line {line} makes of its own last value, still leads there, and that graph is freed."
        )
        cut = f"{name} = {name}.detach() (of each tensor, where it is a tuple)"
        if isinstance(trace.space.get(name), tuple):
            cut = f"{name} = {name}.detach() of each tensor: {name} = tuple(part.detach() for part in {name})"
        remedy = f"Begin every iteration with {cut}."
        if not added and _begins_as_none(trace, name):
            remedy = f"End every iteration with {cut}."
        if added:
            remedy = f"Run backward() of this iteration's own loss, and add up its value: {name} += loss.item()."
        return Found("error", "error", error.line, None, capital(message), remedy, [row])
    if (once := _once(trace, reached)) is not None:
        there = where(trace, once.chain)[2]
        message = (
            f"{start}: `{code_of(trace, once)}` ({there}) ran once, before the loop, and the first backward() has "
            "freed its graph."
        )
        remedy = "Compute it anew in every iteration, or detach() it if what is behind it shall not train."
        return Found("error", "error", error.line, None, capital(message), remedy, [once])
    shared, chain = _shared(trace)
    if chain is not None and not first:
        first = where(trace, chain)[2]
    by = f"backward() on {first}" if first and first != f"line {error.line}" else "the first"
    message = f"{start}, which {by} has freed."
    remedy, rows = FRESH, []
    if shared is not None:
        message = (
            f"{start}: `{code_of(trace, shared)}` ({where(trace, shared.chain)[2]}) leads to both losses, and {by} "
        )
        message += "has freed its graph."
        remedy = "Add the losses and run backward() once, or backward(retain_graph=True) the first time."
        weights = [leaf for leaf in ancestors([shared]) if isinstance(leaf, Leaf) and leaf.requires_grad]
        if weights and trace.optimized and not any(leaf in trace.optimized for leaf in weights):  # as a GAN's fakes
            remedy = "Give the first loss a detach()ed copy of it: its step is not for what lies behind."
        rows = [shared]
    return Found("error", "error", error.line, None, capital(message), remedy, rows)


def _begins_as_none(trace: Trace, name: str) -> bool:
    """Whether a variable is None before the first iteration, and has nothing that could be detached."""
    given = (n for n in trace.nodes() if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets))
    return any(isinstance(n.value, ast.Constant) and n.value.value is None for n in given)


def _carried(trace: Trace, reached: list[Row]) -> tuple[int, str, bool, Row] | None:
    """A variable that an iteration makes of its value of the iteration before: its line, its name, whether it is a
    running sum."""
    same: dict[object, list[Row]] = {}
    for row in sorted(reached, key=lambda r: r.number):
        same.setdefault((row.op, row.chain, row.path), []).append(row)
    for rows in same.values():
        for early, late in itertools.pairwise(rows):
            if early in ancestors([late]) and (found := _renewed(trace, late.chain)) is not None:
                return (*found, late)
    return None


def _renewed(trace: Trace, chain: Chain) -> tuple[int, str, bool] | None:
    """The variable that a statement on the way to an op reads and binds: ``h`` of ``out, h = cell(x, h)``."""
    for k in range(len(chain) - 1, -1, -1):
        place = trace.own_place(chain[k : k + 1])
        offset = trace.files.get(chain[k][0].co_filename)
        if place is None or offset is None:
            continue
        line = place.line - min(offset, 0)
        for node in trace.nodes():
            if not isinstance(node, ast.Assign | ast.AugAssign) or not node.lineno <= line <= last_line(node):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = {ast.unparse(n) for t in targets for n in ast.walk(t) if isinstance(n, ast.Name | ast.Attribute)}
            read = {ast.unparse(n) for n in ast.walk(node.value) if isinstance(n, ast.Name | ast.Attribute)}
            both = bound if isinstance(node, ast.AugAssign) else bound & read - {"self"}
            if both:
                name, value = max(both, key=len), node.value
                summed = isinstance(node, ast.AugAssign)
                if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
                    summed |= name in (ast.unparse(value.left), ast.unparse(value.right))
                return place.line, name, summed
    return None


def _once(trace: Trace, reached: list[Row]) -> Row | None:
    """The last op that ran less often than one that reads it: it stands before a loop."""
    readers = trace.consumers()

    def often(row: Row) -> bool:
        """Whether one that reads it, or a view of it, ran more often."""
        after = [r for r in readers.get(row, ()) if r.requires_grad and r.reached]
        return any(r.count > row.count or (r.view and often(r)) for r in after)

    found = [row for row in reached if not row.view and often(row)]
    return max(found, key=lambda r: r.number, default=None)


def _shared(trace: Trace) -> tuple[Row | None, Chain | None]:
    """The last op that leads to an earlier loss and to this one, and the backward() of the earlier."""
    if trace.broke is None:
        return None, trace.backwards[-1] if trace.backwards else None
    here = ancestors([trace.broke])
    best: tuple[Row | None, Chain | None] = (None, None)
    for chain, roots in trace.roots.items():
        both = [r for r in ancestors(roots) if isinstance(r, Row) and r in here and r.requires_grad and not r.view]
        last = max(both, key=lambda r: r.number, default=None)
        if last is not None and last is not trace.broke and (best[0] is None or last.number > best[0].number):
            best = last, chain
    return best
