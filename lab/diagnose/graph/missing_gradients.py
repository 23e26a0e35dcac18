"""Parameters that get no gradient although no cut explains it: not used, or used and not on a path to the loss."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from ...recorder.cell_trace import Chain, Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, last_line, listed, made_to_train, verb, where
from ..order import rule
from ..reading.sources import Function, sources
from ..speed.time_shares import around
from .cut import freezing, indices_alone, without_gradient
from .unheld_parameters import made_at


@rule(620)
def missing(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding for every reason, with the names."""
    if not trace.backwards or not trace.gradients:
        return []
    readers = trace.consumers()
    dead = without_gradient(trace) - explained
    copies = _copies(trace, dead, readers)
    explained.update(copies)
    dead -= copies
    copied = _only_copied(trace, readers)
    unused: list[Leaf] = []
    quiet: dict[Row, list[Leaf]] = {}
    halted: dict[Row, list[Leaf]] = {}
    aside: dict[tuple[str, Chain, Chain | None], tuple[Row, Row | None, list[Leaf]]] = {}
    for leaf in trace.leaves:
        template = leaf.module and leaf not in trace.optimized and bool(trace.optimized)
        template = template and (leaf not in trace.order or leaf.name.partition(".")[0] in copied)
        if leaf not in dead:
            continue
        uses = [row for row in readers.get(leaf, ()) if row.phase == "forward" and not row.cut]
        alive = [row for row in uses if row.requires_grad]
        stopped = _stopped(alive, readers)
        if not uses:
            if not template:  # what a model was copied from is no part of it
                unused.append(leaf)
        elif stopped is not None:
            if any(made_to_train(g) or g in trace.optimized for g in trace.gradients):
                halted.setdefault(stopped, []).append(leaf)
        elif not alive:
            if leaf in trace.optimized:
                quiet.setdefault(uses[0], []).append(leaf)
        elif not template and not any(row.reached for row in alive):
            last = _last(alive[0], readers)
            end = next((r for r in readers.get(last, ()) if r.stops and not r.quiet), None)
            if end is not None and end.cut in ("item", "tolist", "numpy") and not readers.get(end):
                end = None  # it was looked at
            # a loop over layers or tasks comes to one end after the other: those of one place are one finding
            _, _, leaves = aside.setdefault((last.op, last.chain, None if end is None else end.chain), (last, end, []))
            leaves.append(leaf)
    explained.update(dead)
    onward = ancestors(r for r in trace.rows if r.reached)
    found = []
    line, col, place = where(trace, trace.backwards[-1])
    trained = [leaf for leaf in unused if leaf in trace.optimized]
    idle = [
        leaf for leaf in unused if leaf not in trace.optimized and not (trace.optimized and leaf.name in trace.defined)
    ]
    for leaves, severity in ((trained, "warning"), (idle, "note" if trace.optimized else "warning")):
        if leaves:
            none = f"{listed(leaves)} {verb(leaves, 'gets', 'get')} no gradient from backward() on {place}"
            message = f"{none}: no op of this cell reads {verb(leaves, 'it', 'them')}{_made(trace, leaves)}."
            them = verb(leaves, "it", "them")
            remedy = f"Use {them} in forward(), or take {them} out of the model and the optimizer."
            found.append(Found("no-gradient", severity, line, col, message, remedy, [], leaves))
    for row, leaves in halted.items():
        line, col, there = where(trace, row.chain)
        none, them = f"{listed(leaves)} {verb(leaves, 'gets', 'get')} no gradient", verb(leaves, "it", "them")
        defined = _backward_of(trace, row.op)
        lines = f", line {defined}," if defined is not None else ""
        what = them if set(leaves) & set(row.refs) else f"what was computed from {them}"
        reached = f"`{code_of(trace, row)}` ({there}) was reached"
        message = f"{none}: {reached}, and {row.op}.backward(){lines} gave None for {what}."
        remedy = f"Let {row.op}.backward() return a gradient for every input of forward() that trains, in their order."
        found.append(Found("no-gradient", "warning", line, col, message, remedy, [row], leaves))
    for row, leaves in quiet.items():
        line, col, there = where(trace, row.chain)
        none, them = f"{listed(leaves)} {verb(leaves, 'gets', 'get')} no gradient", verb(leaves, "it", "them")
        read = f"{there} (`{code_of(trace, row)}`) reads {them} under no_grad"
        message = f"{none}: {read}, and the optimizer holds {them}."
        remedy = f"Run it outside no_grad, or take {them} out of the optimizer."
        found.append(Found("no-gradient", "warning", line, col, message, remedy, [row], leaves))
    for row, end, leaves in aside.values():
        line, col, there = where(trace, row.chain)
        none, them = f"{listed(leaves)} {verb(leaves, 'gets', 'get')} no gradient", verb(leaves, "it", "them")
        made = f"what {there} computes from {them} (`{code_of(trace, row)}`)"
        remedy = "Add it to the loss, or leave it out."
        if end is not None and code_of(trace, end) != code_of(trace, row):
            there = f"`{code_of(trace, end)}`"
            made += (
                f" leaves the graph by {there} and" if end.cut else f" goes into {there}, which has no gradient, and"
            )
        message = f"{none}: {made} does not lead to the loss of {place}."
        if row in onward and end is None:
            found.append(indices_alone(trace, row, leaves))
            continue
        row.flags.add("unreached")
        wanted = not trace.optimized or any(leaf in trace.optimized for leaf in leaves)
        if end is None and _thrown_away(trace, row.chain):
            wanted = False
        severity = "warning" if wanted else "note"  # a model that is only run: a teacher, a copy; a replaced parameter
        if end is not None and end.cut:
            remedy = "Go on with the tensor itself: a new tensor made of its value begins a graph of its own."
            cut_line, cut_col, at = where(trace, end.chain)
            if at != where(trace, row.chain)[2]:
                made = f"what {where(trace, row.chain)[2]} computes from {them} (`{code_of(trace, row)}`)"
                message = capital(f"{at} cuts the graph: `{code_of(trace, end)}` takes {made} off it, so {none}.")
            end.flags.add("cut")
            found.append(Found("cut", severity, cut_line, cut_col, message, remedy, [row, end], leaves))
            continue
        found.append(Found("no-gradient", severity, line, col, message, remedy, [row], leaves))
    return found


def _thrown_away(trace: Trace, chain: Chain) -> bool:
    """Whether the caller gives the name ``_`` to what a function returns: ``_, actions, _ = model(states)``."""
    for inner, outer in pairwise(chain):
        gives = around(trace, inner)
        made = next(
            (n.targets[0].id for n in gives if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)), ""
        )
        body = next((n.body for n in gives if isinstance(n, Function)), [])
        told = next((n for n in gives if isinstance(n, ast.Return)), None)
        told = told or next((n for n in body if isinstance(n, ast.Return) and made), None)
        taken = next((n for n in around(trace, outer) if isinstance(n, ast.Assign)), None)
        if taken is None or told is None or not isinstance(told.value, ast.Tuple):
            continue
        places = [
            k for k, one in enumerate(told.value.elts) if one in gives or (isinstance(one, ast.Name) and one.id == made)
        ]
        names = taken.targets[0].elts if isinstance(taken.targets[0], ast.Tuple) else []
        if len(names) == len(told.value.elts) and any(ast.unparse(names[k]).startswith("_") for k in places):
            return True
    return False


def _copies(trace: Trace, dead: set[Leaf], readers: dict[Ref, list[Row]]) -> set[Leaf]:
    """The parameters of a whole model that no gradient came to, made like another that trains: a deep copy, a teacher,
    a target network, which are there to be run."""
    found: set[Leaf] = set()
    for depth in (1, 2):
        models: dict[str, list[Leaf]] = {}
        for leaf in sorted(trace.parameters(), key=lambda leaf: trace.order.get(leaf, len(trace.order))):
            parts = leaf.name.split(".")
            if leaf.module and len(parts) > depth:
                models.setdefault(".".join(parts[:depth]), []).append(leaf)
        trained = [_form(leaves) for leaves in models.values() if any(leaf in trace.gradients for leaf in leaves)]
        for leaves in models.values():
            idle = all(leaf in dead and leaf not in trace.optimized and leaf not in trace.waiting for leaf in leaves)
            if idle and any(leaf in readers for leaf in leaves) and _form(leaves) in trained:
                found.update(leaves)
    return found


def _only_copied(trace: Trace, readers: dict[Ref, list[Row]]) -> set[str]:
    """The models of an earlier cell that this one runs nowhere, and whose state it gives to another."""
    models: dict[str, list[Leaf]] = {}
    for leaf in trace.parameters():
        models.setdefault(leaf.name.partition(".")[0], []).append(leaf)
    idle = {
        name
        for name, leaves in models.items()
        if not any(leaf in trace.gradients or leaf in trace.optimized for leaf in leaves)
        and not any(row.phase == "forward" and not row.cut for leaf in leaves for row in readers.get(leaf, ()))
    }
    given = [
        ast.unparse(argument)
        for node in trace.nodes()
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("load_state_dict", "copy_")
        for argument in node.args[:1]
    ]
    return {name for name in idle if any(re.search(rf"\b{re.escape(name)}\b", text) for text in given)}


def _form(leaves: list[Leaf]) -> list[tuple[str, tuple[int, ...]]]:
    """What two models of one kind have in common: the names and shapes of their parameters, in order."""
    return [(leaf.name.rpartition(".")[2], leaf.shape) for leaf in leaves]


def _made(trace: Trace, leaves: list[Leaf]) -> str:
    """In words: where the module of some parameters is made."""
    names = {leaf.name.rpartition(".")[0].rpartition(".")[2] for leaf in leaves}
    name = names.pop() if len(names) == 1 else ""
    line = made_at(trace, name) if name and not name.isdigit() else None
    return "" if line is None else f" (line {line} makes {name})"


def _last(row: Row, readers: dict[Ref, list[Row]]) -> Row:
    """The last op of the branch that `row` begins: the one whose result nothing reads."""
    seen = {row}
    while True:
        after = [
            r
            for r in readers.get(row, ())
            if r.phase == "forward" and not r.cut and r not in seen and r.requires_grad and not r.reached
        ]
        if not after:
            return row
        row = max(after, key=lambda r: r.number)
        seen.add(row)


@rule(630)
def frozen(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """Parameters that the cell froze, ran and gave to an optimizer stay as they are: a note, and more where a loop
    that trains freezes again what has been frozen all along."""
    held = [leaf for leaf in trace.optimized if leaf.module and not leaf.requires_grad]
    line = freezing(trace)
    if not held or not trace.gradients:
        return []
    read = trace.consumers()
    leaves = [leaf for leaf in held if leaf in read and leaf not in trace.gradients]
    if not leaves:
        return []
    again = _frozen_again(trace)
    if again is not None:
        at, code = again
        message = (
            f"Line {at} freezes again in the loop what has been frozen all along: after `{code}` {listed(leaves)} "
            f"{verb(leaves, 'stays', 'stay')} as at the start, though the optimizer holds {verb(leaves, 'it', 'them')}."
        )
        remedy = "To let them train from there on, set requires_grad to True on this line."
        return [Found("no-gradient", "warning", at, None, message, remedy, [], leaves)]
    if line is None:
        return []
    message = (
        f"Line {line} froze {listed(leaves)}: {verb(leaves, 'it stays', 'they stay')} as at the start, though the "
    )
    message += "optimizer holds " + verb(leaves, "it.", "them.")
    remedy = "All is well if that is meant; else call requires_grad_(True) before the training that shall move them."
    return [Found("no-gradient", "note", line, None, message, remedy, [], leaves)]


def _frozen_again(trace: Trace) -> tuple[int, str] | None:
    """A statement inside a loop with a backward() that sets requires_grad, itself or by a function of the cell."""
    back = {trace.line(chain) for chain in trace.backwards}
    setting = [n for n in trace.nodes() if isinstance(n, ast.stmt) and _sets(n)]
    functions = {
        f.name: f
        for f in trace.nodes()
        if isinstance(f, ast.FunctionDef) and any(f.lineno < n.lineno <= last_line(f) for n in setting)
    }
    places: list[ast.AST] = [*setting]
    places += [
        n
        for n in trace.nodes()
        if isinstance(n, ast.Call) and getattr(n.func, "id", getattr(n.func, "attr", "")) in functions
    ]
    for loop in (n for n in trace.nodes() if isinstance(n, ast.For | ast.While)):
        last = last_line(loop)
        if not any(line is not None and loop.lineno < line <= last for line in back):
            continue
        for node in places:
            if loop.lineno < node.lineno <= last:  # type: ignore[attr-defined]
                return node.lineno, ast.unparse(node)  # type: ignore[attr-defined]
    return None


def _sets(node: ast.stmt) -> bool:
    """Whether a statement sets requires_grad."""
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "requires_grad_"


@rule(640)
def misspelt(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``p.require_grad = False``, or requires_grad of a whole module: an attribute that nothing reads."""
    if not trace.idle_attributes or not trace.gradients:
        return []
    for source in sources(trace):
        for node in source.nodes:
            if not isinstance(node, ast.Assign):
                continue
            target = node.targets[0]
            if not isinstance(target, ast.Attribute) or target.attr not in trace.idle_attributes:
                continue
            of, leaves = trace.idle_attributes[target.attr]
            trained = [leaf for leaf in leaves if leaf in trace.gradients]
            if not trained:
                continue
            code = ast.unparse(node)
            if of:
                why = f"a module has no requires_grad of its own, so {listed(trained)}"
                remedy = f"Write {ast.unparse(target.value)}.requires_grad_(False), which goes to all its parameters."
            else:
                why = f"the attribute is called requires_grad, so {listed(trained)}"
                remedy = f"Write {ast.unparse(target.value)}.requires_grad = {ast.unparse(node.value)}."
            line, col, place = source.place(node)
            message = f"{capital(place)} freezes nothing (`{code}`): {why} {verb(trained, 'trains', 'train')} on."
            return [Found("no-gradient", "warning", line, col, message, remedy, [], trained)]
    return []


def _stopped(alive: list[Row], readers: dict[Ref, list[Row]]) -> Row | None:
    """The function with a gradient of the user's own that was reached and passed nothing on to these rows."""
    stack, seen = list(alive), set(alive)
    while stack:
        row = stack.pop()
        if row.reached:
            if row.kernel != f"{row.op}.forward":
                return None
            return row
        for after in readers.get(row, ()):
            if after.requires_grad and after not in seen:
                seen.add(after)
                stack.append(after)
    return None


def _backward_of(trace: Trace, name: str) -> int | None:
    """The line on which the cell's class of that name defines backward()."""
    for node in trace.nodes():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return next((f.lineno for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "backward"), None)
    return None
