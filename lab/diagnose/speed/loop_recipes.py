"""What a loop over elements, rows or pairs becomes when it goes: the ops that do all turns at once, by their names.

Each recipe reads a loop's text alone and gives "" where it does not know it.
"""

from __future__ import annotations

import ast
import builtins
import re

from ...recorder.cell_trace import Chain, Trace
from ..reading.calls import operands
from ..reading.sources import called, names_in
from .loop_rows import (
    assigned_in,
    body_of,
    columns,
    element_of,
    follows,
    of_one,
    of_rows,
    parts_of,
    place_of,
    targets_of,
    whole_of,
    wholes,
)
from .time_shares import Loop, around, header, loops_around

SUMMING = {"mean": " / lengths[:, None]", "sum": ""}
LISTS = (
    "Put all lists into one, before training: index = torch.cat(lists), owner = repeat_interleave(arange(n), lengths). "
    "Then torch.zeros(n, d).index_add(0, owner, {rows}[index]) sums for all at once{divided}."
)
COUNTED = (
    "Count all at once: {table} += torch.bincount({row} * n + {col}, minlength=n * n).view(n, n), with n classes and "
    "{row} and {col} as whole tensors of integers (np.bincount of arrays)."
)
HISTOGRAM = (
    "Count all at once: {table} += torch.bincount({of}, minlength=len({table})), np.bincount of an array, or "
    "collections.Counter({of}) of what are no numbers."
)
ADDED = (
    "Compute what the turns add all at once, and add it by index: {table}.index_add_(0, {index}, values), with {rows}."
)
PLACED = "Write the places all at once: {table}[torch.arange(len({of})), {of}] = {value}."
FILLED = "Fill all rows at once by a mask: {table}[torch.arange({table}.shape[1]) >= {ends}[:, None]] = {value}."
CUT = (
    "Take all rows at once by a mask: mask = torch.arange({table}.shape[1]) < {ends}[:, None], then "
    "({table} * mask[..., None]).sum(1){divided}."
)
WINDOWS = "Take the windows all at once, as a view: {of}.unfold(0, {size}, 1), whose rows are `{window}`."
NEAREST = (
    "Compare all at once: torch.cdist({one}, {other}) (in blocks where that is large), then topk or argmin by rows."
)
DISTANCES = "Compute all pairs in one call: torch.cdist({one}, {other}){power}."
PAIRS = (
    "Compute the pairs all at once, by broadcasting: {one} in place of `{row}` and {other} in place of `{col}`{more}."
)
LEVELS = (
    "The turns of `{inner}` need one another, those of `{outer}` do not: let each turn of the inner loop take all of "
    "them at once, as one more dimension."
)
MODEL = "Call {models} once for all of them, before the loop: {calls}, and take a row of what that gives in each turn."
SUMS = (
    "Sum for all of them at once: torch.zeros(n, d).index_add(0, {ends}, {rows}), and divided by "
    "torch.bincount({ends}, minlength=n)[:, None] the means."
)
JOINT = (
    "Count the overlaps all at once: torch.bincount({one}.flatten() * k + {other}.flatten(), minlength=n * k)"
    ".view(n, k), whose sums over rows and columns are the sizes."
)
PRODUCT = "Take the pairs all at once, as one batch: {model}(torch.cartesian_prod({one}, {other})), before the loops."
GROUPS = (
    "Make the masks of all rows at once: {of}[:, None] == {of}[None]; then sums, minima and maxima of whole matrices "
    "over dim=1, with torch.where or masked_fill."
)
TRIANGLE = "Take the pairs all at once: {i}, {j} = torch.triu_indices({n}, {n}, 1), and index by both: {form}."
ROWS = "Take the turns of `{head}` all at once, as one more dimension: {rows}{added}."
LOADS = re.compile(r"loader|(\b|_)dl\b|\.split\(", re.I)
BOXES = ", with torch.maximum and torch.minimum in place of max and min"
SUMS_UP = {"sum", "mean", "dot", "prod"}
LIBRARIES = {"torch", "core", "np", "F", "nn", "math", "random", "numpy"}


def recipe(trace: Trace, chain: Chain, model: bool = False) -> str:
    """Return what takes the place of the loops around a place of the user's, where layers run in them or not; "" where
    nobody knows it."""
    levels = [n for n in around(trace, chain[0]) if isinstance(n, Loop)] if chain else []  # what it goes through, too
    for frame in chain[1:]:
        levels += loops_around(trace, frame)
    return (_modelled(levels) if model else "") or recipe_of(levels)


def recipe_of(loops: list[Loop]) -> str:
    """Return what takes the place of loops, of which each holds those before it.

    >>> def of(text):
    ...     loop = ast.parse(text).body[0]
    ...     return recipe_of([n for n in ast.walk(loop) if isinstance(n, Loop)][::-1])
    >>> of("for i in range(n):\\n    y[i, labels[i]] = 1.0")
    'Write the places all at once: y[torch.arange(len(labels)), labels] = 1.0.'
    >>> of("for a in xs:\\n    for b in ys:\\n        d.append(torch.norm(a - b))")
    'Compute all pairs in one call: torch.cdist(xs, ys).'
    >>> of("for i in range(n):\\n    ids[i, lens[i]:] = 0")
    'Fill all rows at once by a mask: ids[torch.arange(ids.shape[1]) >= lens[:, None]] = 0.'
    >>> of("for k in range(n):\\n    h = f(h)")
    ''
    """
    if not loops:
        return ""
    for look in LOOKS:
        if found := look(loops):
            return found
    return ""


def _counted(loops: list[Loop]) -> str:
    """``table[a, b] += 1``."""
    names = wholes(loops)
    for node in body_of(loops):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        one = isinstance(node.value, ast.Constant) and node.value.value == 1
        if not one or not isinstance(node.target, ast.Subscript):
            continue
        table, index = place_of(node.target)
        made = assigned_in(loops)
        of = [whole_of(made.get(ast.unparse(part), part), names) for part in index]
        if not all(of):
            of = [ast.unparse(element_of(part)) for part in index]
        if len(of) == 2:
            return COUNTED.format(table=ast.unparse(table), row=of[0], col=of[1])
        if len(of) == 1 and isinstance(table, ast.Name | ast.Attribute):
            return HISTOGRAM.format(table=ast.unparse(table), of=of[0])
    return ""


def _added(loops: list[Loop]) -> str:
    """``inbox[d] += message(h[s], h[d])`` for each edge."""
    names = {**columns(loops[0]), **wholes(loops[:1])}
    for node in body_of(loops):
        target = node.target if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) else None
        if not isinstance(target, ast.Subscript) or isinstance(node.value, ast.Constant):  # type: ignore[attr-defined]
            continue
        table, index = ast.unparse(target.value), parts_of(target)
        places = whole_of(index[0], names) if len(index) == 1 else ""
        read = [n for n in ast.walk(node.value) if isinstance(n, ast.Subscript)]  # type: ignore[attr-defined]
        rows = {ast.unparse(n): f"{ast.unparse(n.value)}[{of}]" for n in read if (of := whole_of(n.slice, names))}
        if places and rows and table not in names_in(node.value):  # type: ignore[attr-defined]
            words = " and ".join(f"{whole} in place of `{row}`" for row, whole in list(rows.items())[:2])
            return ADDED.format(table=table, index=places, rows=words)
    return ""


def _placed(loops: list[Loop]) -> str:
    """``y[i, labels[i]] = 1``."""
    names = wholes(loops)
    for node in body_of(loops):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Subscript) or not isinstance(node.value, ast.Constant):  # type: ignore[attr-defined]
            continue
        table, index = place_of(target)
        if len(index) != 2 or not isinstance(index[0], ast.Name) or names.get(index[0].id) != "":
            continue
        of = whole_of(index[1], names)
        if of and not isinstance(element_of(index[1]), ast.Slice):
            return PLACED.format(table=ast.unparse(table), of=of, value=ast.unparse(node.value))  # type: ignore[attr-defined]
    return ""


def _rows_to_ends(loops: list[Loop]) -> str:
    """``ids[i, lens[i]:] = 0``, ``h[i, :lens[i]].mean(0)``."""
    names = wholes(loops)
    for node in body_of(loops):
        if not isinstance(node, ast.Subscript):
            continue
        table, index = place_of(node)
        row = index[0]
        if len(index) != 2 or not isinstance(row, ast.Name) or names.get(row.id) != "":
            continue
        end = index[1]
        if not isinstance(end, ast.Slice) or end.step is not None:
            continue
        whole = ast.unparse(table)
        if isinstance(node.ctx, ast.Store) and end.upper is None and end.lower is not None:
            ends = whole_of(end.lower, names)
            values = [n.value for n in body_of(loops) if isinstance(n, ast.Assign) and node in n.targets]
            plain = [v for v in values if isinstance(v, ast.Constant | ast.Name | ast.Attribute)]
            value = ast.unparse(plain[0]) if plain else ""
            if ends and value:
                return FILLED.format(table=whole, ends=ends, value=value)
        if isinstance(node.ctx, ast.Load) and end.lower is None and end.upper is not None:
            ends = whole_of(end.upper, names)
            by = next((called(n) for n in body_of(loops) if called(n) in SUMMING and operands(n)[:1] == [node]), None)
            if ends and by is not None:
                divided = SUMMING[by].replace("lengths", ends)
                return CUT.format(table=whole, ends=ends, divided=divided)
    return ""


def _two(loops: list[Loop]) -> tuple[ast.expr, ast.expr, str, str] | None:
    """Of a loop in a loop: an expression that reads an element of one thing, one that reads another's, and the two."""
    if len(loops) < 2 or any(follows(loop) for loop in loops[:2]):
        return None
    inner, outer = wholes(loops[:1]), wholes(loops[1:2])
    body = loops[1].body if isinstance(loops[1], ast.For) else []
    made = [s for s in body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    outer |= {s.targets[0].id: of for s in made if (of := whole_of(s.value, outer))}  # type: ignore[attr-defined]
    names = {**outer, **inner}
    rows: dict[str, ast.expr] = {}
    cols: dict[str, ast.expr] = {}
    for node in body_of(loops):
        if isinstance(node, ast.Name | ast.Subscript) and isinstance(node.ctx, ast.Load):
            of = whole_of(node, names, part_of=True)
            if of and of not in names:
                (cols if names_in(node) & inner.keys() else rows).setdefault(of, node)
    if len(rows) != 1 or len(cols) != 1:
        return None
    (one, row), (other, col) = next(iter(rows.items())), next(iter(cols.items()))
    return (row, col, one, other) if names_in(row) & outer.keys() else None


def _pairs(loops: list[Loop]) -> str:
    """``d[i, j] = f(a[i], b[j])`` in two loops."""
    pair = _two(loops)
    if pair is None:
        return ""
    row, col, one, other = pair
    least = f"{ast.unparse(row)} - {ast.unparse(col)}", f"{ast.unparse(col)} - {ast.unparse(row)}"
    texts = [ast.unparse(n) for n in body_of(loops) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)]
    root = any(called(n) in ("norm", "sqrt", "pairwise_distance", "dist", "cdist") for n in body_of(loops))
    found = {called(n) for n in body_of(loops)}
    square = "sum" in found and (found & {"pow", "square"} or any(isinstance(n, ast.Pow) for n in body_of(loops)))
    if (root or square) and any(text in least for text in texts):
        return DISTANCES.format(one=one, other=other, power="" if root else " ** 2")
    more = BOXES if found & {"max", "min"} else ", and sums over the last dimension" if found & SUMS_UP else ""
    (first, row_text), (_, col_text) = _axes(row, one), _axes(col, other)
    return PAIRS.format(one=f"{one}[{first}, None]", other=f"{other}[None]", row=row_text, col=col_text, more=more)


def _axes(node: ast.expr, whole: str) -> tuple[str, str]:
    """The slices that stand for the numbers of loops in an index, and the row without what is taken of it.

    >>> _axes(ast.parse("a[i, 0]", mode="eval").body, "a"), _axes(ast.parse("p", mode="eval").body, "ps")
    ((':', 'a[i]'), (':', 'p'))
    """
    counts = [ast.unparse(part) for part in parts_of(node) if isinstance(part, ast.Name)] if isinstance(
        node, ast.Subscript) else []  # fmt: skip
    return ", ".join(":" for _ in counts or "1"), f"{whole}[{', '.join(counts)}]" if counts else ast.unparse(node)


def _levels(loops: list[Loop]) -> str:
    """A loop whose turns need one another inside of one whose turns do not."""
    for k, inner in enumerate(loops[:-1]):
        if not follows(inner) or isinstance(inner, ast.While):
            continue
        outer = next((loop for loop in loops[k + 1 :] if not follows(loop) and of_rows(loop)), None)
        if outer is not None and not any(called(n) in ("backward", "step") for n in ast.walk(outer)):
            heads = [ast.unparse(loop).partition("\n")[0].rstrip(":") for loop in (inner, outer)]
            if all(len(head) <= 70 for head in heads):
                return LEVELS.format(inner=heads[0], outer=heads[1])
    return ""


def _modelled(loops: list[Loop]) -> str:
    """``q = net(state.unsqueeze(0))`` for each of many, where nothing is stepped in between."""
    loop = loops[0] if loops else None
    if loop is None or follows(loop) or any(called(n) in ("backward", "step", "act") for n in ast.walk(loop)):
        return ""
    free = [loop, *(outer for outer in loops[1:3] if not follows(outer) and of_rows(outer))]
    names = wholes(free)
    if any(LOADS.search(ast.unparse(over)) for _, over in targets_of(loop)):
        return ""  # each turn takes a batch
    own = {n.id: pair for pair in targets_of(loop) for n in ast.walk(pair[0]) if isinstance(n, ast.Name)}
    made = assigned_in(loops)
    calls: dict[str, str] = {}
    for call in body_of(loops):
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.func, ast.Name | ast.Attribute):
            continue
        model = ast.unparse(call.func)
        first = model.partition(".")[0]
        if first in LIBRARIES | own.keys() or hasattr(builtins, model) or model.rpartition(".")[2][:1].isupper():
            continue
        given = made.get(ast.unparse(call.args[0]), call.args[0])
        joined = given.args[0] if called(given) in ("stack", "tensor", "cat") and given.args else None  # type: ignore[attr-defined]
        if isinstance(joined, ast.List | ast.Tuple):
            parts = [whole_of(part, names) for part in joined.elts]
            if len(parts) == 2 and all(parts) and parts[0] != parts[1]:
                return PRODUCT.format(model=model, one=parts[0], other=parts[1])
        if (window := _window(loop, of_one(given))) is not None:
            calls.setdefault(model, f"{model}({window[0]}.unfold(0, {window[1]}, 1))")
        given = of_one(call.args[0])
        rows = whole_of(given, names)
        if not rows and isinstance(given, ast.Name) and given.id in own:
            target, over = own[given.id]
            rows = f"torch.stack([{given.id} for {ast.unparse(target).strip('()')} in {ast.unparse(over)}])"
        if rows and rows not in names:
            calls.setdefault(model, f"{model}({rows})")
    some = dict(list(calls.items())[:2])  # of more, the second may need what the first gives
    return MODEL.format(models=" and ".join(some), calls=" and ".join(some.values())) if some else ""


def gradient_of_each(loop: Loop) -> str:
    """Return the remedy for a loop that takes the gradient of each row's loss by itself; "" for any other.

    >>> text = "for i in range(n):\\n    f(net(x[i:i + 1]), y[i]).backward()"
    >>> gradient_of_each(ast.parse(text).body[0])[:43]
    'Take the gradients of all rows in one call:'
    """
    names = wholes([loop])
    found = {called(n) for n in ast.walk(loop)}
    calls = [n for n in body_of([loop]) if isinstance(n, ast.Call) and n.args and isinstance(n.func, ast.Name)]
    rows = [whole_of(of_one(n.args[0]), names) for n in calls if not hasattr(builtins, n.func.id)]  # type: ignore[attr-defined]
    rows = [row for row in rows if row and row not in names]
    if "backward" not in found or not rows or follows(loop):
        return ""
    return (
        "Take the gradients of all rows in one call: torch.func.vmap(torch.func.grad(loss_of_one), "
        f"in_dims=(None, 0, 0))(parameters, {rows[0]}, targets), where loss_of_one calls the model by "
        "torch.func.functional_call."
    )


def _windows(loops: list[Loop]) -> str:
    """``x[i : i + n]`` in each turn."""
    for node in body_of(loops):
        if (found := _window(loops[0], node)) is not None:
            return WINDOWS.format(of=found[0], size=found[1], window=ast.unparse(node))
    return ""


def _window(loop: Loop, node: ast.AST) -> tuple[str, str] | None:
    """Of which tensor an expression takes the window that begins at a loop's number, and its length."""
    counts = {name for name, of in wholes([loop]).items() if not of}
    cut = node.slice if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else None
    if not isinstance(cut, ast.Slice) or cut.lower is None or cut.upper is None or cut.step is not None:
        return None
    low, high = ast.unparse(cut.lower), cut.upper
    if low not in counts or not isinstance(high, ast.BinOp) or not isinstance(high.op, ast.Add):
        return None
    size = ast.unparse(high.right) if ast.unparse(high.left) == low else ast.unparse(high.left)
    steps = next((over for target, over in targets_of(loop) if ast.unparse(target) == low), None)
    args = steps.args if isinstance(steps, ast.Call) else []
    if size == "1" or low in size or (len(args) == 3 and ast.unparse(args[2]) != "1"):
        return None
    return ast.unparse(node.value), size  # type: ignore[attr-defined]


def _nearest(loops: list[Loop]) -> str:
    """``((train - x) ** 2).sum(1)`` for each x of a set."""
    names = wholes(loops[:1])
    found = {called(n) for n in body_of(loops)}
    if not found & {"topk", "argmin", "argsort", "kthvalue"} or not found & {"sum", "norm", "mean"}:
        return ""
    for node in body_of(loops):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            continue
        for part, rest in ((node.left, node.right), (node.right, node.left)):
            of = whole_of(part, names)
            if of and isinstance(rest, ast.Name | ast.Attribute) and not names_in(rest) & names.keys():
                return NEAREST.format(one=of, other=ast.unparse(rest))
    return ""


def _compared(loops: list[Loop], level: int) -> list[tuple[ast.expr, str]]:
    """What is compared as a whole with the number or the element of a loop: ``dst == v``, ``labels == labels[i]``."""
    names = wholes(loops[level : level + 1])
    found = []
    for node in ast.walk(loops[level]):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            for whole, one in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                if isinstance(whole, ast.Name | ast.Attribute) and not names_in(whole) & names.keys():
                    number = isinstance(one, ast.Name) and one.id in names
                    if number or (isinstance(one, ast.Subscript) and whole_of(one, names)):
                        found.append((one, ast.unparse(whole)))
    return found


def _scanned(loops: list[Loop]) -> str:
    """``src[dst == v]`` for each v, or ``gt == i`` and ``seen == j`` for each i and j."""
    inner = _compared(loops, 0)
    for one, whole in inner:
        if isinstance(one, ast.Subscript) and ast.unparse(one.value) == whole:
            return GROUPS.format(of=whole)
    made = assigned_in(loops)
    for node in body_of(loops):
        if not isinstance(node, ast.Subscript) or called(node) or not inner:
            continue
        picks = made.get(ast.unparse(node.slice), node.slice)
        rows, by = ast.unparse(node.value), picks
        if isinstance(picks, ast.Subscript):  # h[src[dst == v]]
            rows, by = f"{rows}[{ast.unparse(picks.value)}]", picks.slice
        ends = [whole for one, whole in inner if isinstance(by, ast.Compare) and whole in ast.unparse(by)]
        parents = [n for n in body_of(loops) if called(n) in ("mean", "sum") and operands(n)[:1] == [node]]
        if ends and parents:
            return SUMS.format(ends=ends[0], rows=rows)
    if len(loops) > 1 and inner:
        outer = [whole for one, whole in _compared(loops, 1) if isinstance(one, ast.Name)]
        others = [whole for one, whole in inner if isinstance(one, ast.Name)]
        pairs = [(a, b) for a in outer for b in others if a != b]
        if pairs:
            return JOINT.format(one=pairs[0][0], other=pairs[0][1])
    return ""


def _triangle(loops: list[Loop]) -> str:
    """``for j in range(i + 1, n)``: all pairs once."""
    over = targets_of(loops[0])[0] if targets_of(loops[0]) else None
    if over is None or called(over[1]) != "range" or len(loops) < 2 or follows(loops[0]):
        return ""
    args = over[1].args  # type: ignore[attr-defined]
    outer = [t.id for t, _ in targets_of(loops[1]) if isinstance(t, ast.Name)]
    if len(args) != 2 or ast.unparse(args[0]) not in [f"{name} + 1" for name in outer]:
        return ""
    i, j = ast.unparse(args[0]).partition(" ")[0], ast.unparse(over[0])
    reads = [n for n in body_of(loops) if isinstance(n, ast.Subscript) and {i, j} & names_in(n.slice)]
    forms = []
    for node in reads[:2]:
        parts = [":" if isinstance(p, ast.Name) and p.id not in (i, j) else ast.unparse(p) for p in parts_of(node)]
        forms.append(f"{ast.unparse(node.value)}[{', '.join(parts)}]")
    form = " and ".join(dict.fromkeys(forms))
    return TRIANGLE.format(i=i, j=j, n=ast.unparse(args[1]), form=form) if form else ""


def _rows(loops: list[Loop]) -> str:
    """Whatever else reads rows by the number of a turn, none of which needs another's."""
    if isinstance(loops[0], ast.While) or follows(loops[0]):
        return ""
    names = {**columns(loops[0]), **wholes(loops[:1])}
    head = header(loops[0])
    rows: dict[str, str] = {}
    for node in body_of(loops):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            of = whole_of(node, names)
            if not of and len(parts_of(node)) == 1 and (inner := whole_of(parts_of(node)[0], names)):
                of = f"{ast.unparse(node.value)}[{inner}]"
            if of and of not in names:
                rows[ast.unparse(node)] = of
    inside = {name for row in rows for name in rows if name != row and name in row}
    rows = {row: of for row, of in rows.items() if row not in inside}
    if not rows or len(rows) > 4 or any(called(n) in ("backward", "step", "grad") for n in body_of(loops)):
        return ""
    words = ", ".join(f"{of} in place of `{row}`" for row, of in rows.items())
    adds = any(called(n) in ("index_add", "index_add_") for n in body_of(loops))
    return ROWS.format(head=head, rows=words, added=", and one index_add for all" if adds else "")


def _lists(loops: list[Loop]) -> str:
    """``h[near[v]].mean(0)`` for each v: the rows of one list after another."""
    loop = loops[0]
    target, over = (loop.target, loop.iter) if isinstance(loop, ast.For) else (None, None)
    if isinstance(loop, ast.ListComp):
        target, over = loop.generators[0].target, loop.generators[0].iter
    if not isinstance(target, ast.Name):
        return ""
    for call in (n for n in ast.walk(loop) if called(n) in ("mean", "sum")):
        parts = operands(call)
        rows = parts[0] if parts else None
        of = rows.slice if isinstance(rows, ast.Subscript) else None
        one = isinstance(of, ast.Subscript) and isinstance(of.slice, ast.Name) and of.slice.id == target.id
        if one or (isinstance(of, ast.Name) and of.id == target.id and isinstance(over, ast.Name | ast.Attribute)):
            divided = ", and / lengths[:, None] averages" if called(call) == "mean" else ""
            return LISTS.format(rows=ast.unparse(rows.value), divided=divided)  # type: ignore[union-attr]
    return ""


LOOKS = (
    _lists,
    _counted,
    _added,
    _placed,
    _rows_to_ends,
    _scanned,
    _triangle,
    _pairs,
    _levels,
    _windows,
    _nearest,
    _rows,
)
