"""Dimensions mixed up without an error: view() where permute() was meant, a recurrent layer that takes the samples for
time steps, classes that are not in dimension 1."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from core.base import syntax

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, spot, where
from ..order import rule
from ..reading.scope import scope_around
from ..reading.sources import Place, Source, called, own_nodes, sources

PRIMES = (2, 3, 5, 7, 11, 13)
"""Numbers that stand for sizes of which only the names are looked at: no two products of them are equal."""
VIEWS = {"view", "reshape", "unflatten", "flatten", "view_as"}
RECURRENT = {"LSTM", "GRU", "RNN"}
ATTENDING = {"MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder",
             "TransformerDecoderLayer", "Transformer"}  # fmt: skip
REDUCING = {"mean", "sum", "max", "amax", "select", "getitem", "index", "logsumexp"}
FLAT = {"view", "reshape", "flatten"}
LAST = {"linear", "matmul", "addmm", "add"}
"""Ops that leave the classes in the last dimension."""


@rule(430)
def scrambled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A view or reshape that gives a dimension another place: the elements keep theirs, and mean something else."""
    if trace.error is not None:
        return []
    reached = [row for row in trace.rows if row.reached]
    behind = ancestors(reached) if reached else {}
    for row in trace.rows:
        if row.op not in VIEWS or not row.refs or row.phase != "forward" or row not in behind:
            continue
        if not _called(code_of(trace, row)):
            continue  # a library's own
        before, after = tuple(row.refs[0].shape), tuple(row.shape)
        moved = _moved(before, after)
        if moved is None:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} mixes up dimensions: `{code_of(trace, row)}` reads ({_words(before)}) as "
            f"({_words(after)}) without moving an element, so the dimension of {moved} is spread over "
            "others."
        )
        return [Found("layout", "warning", line, col, message, remedy_of(before, after), [row])]
    return _by_names(trace, behind)


def _by_names(trace: Trace, behind: Mapping[Ref, None]) -> list[Found]:
    """``B, C, H, W = x.shape`` and ``x.view(B, H * W, C)``: the names tell it where the sizes happen to be equal."""
    views = [row for row in trace.rows if row.op in VIEWS and row in behind and row.refs and row.chain]
    ran = {spot(trace, row.chain[0]): row for row in views}
    for source in sources(trace) if ran else ():
        for call in (n for name in ("view", "reshape") for n in source.calls.get(name, ())):
            row, sizes = ran.get(source.place(call).words), _unpacked(source, call)
            if row is None or sizes is None or len(row.refs[0].shape) != len(sizes):
                continue
            real = dict(zip(sizes, row.refs[0].shape, strict=True))
            sizes = {name: number if real[name] > 1 else 1 for name, number in sizes.items()}
            before, after = tuple(sizes.values()), _asked(call, sizes)
            moved = _moved(before, after) if after is not None else None
            if after is None or moved is None:
                continue
            texts = {number: name for name, number in sizes.items()}
            texts |= {n: ast.unparse(a) for n, a in zip(after, call.args, strict=True) if n != 1}
            line, col, place = where(trace, row.chain)
            message = capital(
                f"{place} mixes up dimensions: `{ast.unparse(call)}` reads ({', '.join(sizes)}) as "
                f"({', '.join(map(ast.unparse, call.args))}) without moving an element, so the dimension of "
                f"{texts.get(moved, moved)} is spread over others."
            )
            return [Found("layout", "warning", line, col, message, remedy_of(before, after, texts), [row])]
    return []


def _unpacked(source: Source, call: ast.Call) -> dict[str, int] | None:
    """The names that the sizes of what a view is of were given just before, each with a prime in its place."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(of, ast.Name):
        return None
    found = None
    for node in own_nodes(scope_around(source, call)):
        if not isinstance(node, ast.Assign) or node.lineno >= call.lineno:
            continue
        target, value = node.targets[0], ast.unparse(node.value)
        if isinstance(target, ast.Tuple) and value in (f"{of.id}.shape", f"{of.id}.size()"):
            names = [part.id for part in target.elts if isinstance(part, ast.Name)]
            alone = len(set(names)) == len(names) == len(target.elts) <= len(PRIMES)
            found = dict(zip(names, PRIMES, strict=False)) if alone else None
        elif found is not None and {of.id, *found} & {n.id for t in node.targets for n in ast.walk(t)
                                                      if isinstance(n, ast.Name)}:  # fmt: skip
            found = None
    return found


def _asked(call: ast.Call, sizes: dict[str, int]) -> tuple[int, ...] | None:
    """The shape that a view asks for, by the numbers of the names: each of them once, and one -1 for all others."""
    shape = [_product(arg, sizes) for arg in call.args]
    known = math.prod(n for n in shape if n is not None and n > 0)
    whole = math.prod(sizes.values())
    if None in shape or shape.count(-1) > 1 or whole % known or (-1 not in shape and known != whole):
        return None
    return tuple(whole // known if n == -1 else n for n in shape if n is not None)


def _product(node: ast.expr, sizes: dict[str, int]) -> int | None:
    """The number of a name or of a product of names; -1 for -1."""
    if isinstance(node, ast.Name):
        return sizes.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left, sizes), _product(node.right, sizes)
        return None if left is None or right is None or min(left, right) < 0 else left * right
    return -1 if ast.unparse(node) == "-1" else 1 if ast.unparse(node) == "1" else None


def _called(code: str) -> bool:
    """Whether an expression itself is a view: `x.view(...)`, `torch.reshape(x, ...)`."""
    try:
        tree = syntax.expression(code.strip())
    except (SyntaxError, ValueError):
        return False
    return isinstance(tree, ast.Call) and getattr(tree.func, "attr", "") in VIEWS


def _words(shape: tuple[int, ...], texts: Mapping[int, str] = MappingProxyType({})) -> str:
    return ", ".join(texts.get(n, str(n)) for n in shape)


def remedy_of(before: tuple[int, ...], after: tuple[int, ...], texts: Mapping[int, str] = MappingProxyType({})) -> str:
    """The least move of dimensions that makes a reshape clean; `texts` are what sizes are called.

    >>> remedy_of((16, 20, 5), (20, 16, 5)), remedy_of((8, 4, 10, 4), (8, 10, 16))
    ('Swap the dimensions: transpose(0, 1).', 'Swap the dimensions first: transpose(1, 2).reshape(8, 10, 16).')
    >>> remedy_of((8, 10, 16), (8, 4, 10, 4))
    'Split first, then swap: view(8, 10, 4, 4).transpose(1, 2).'
    >>> remedy_of((16, 3, 8, 8), (16, 64, 3))
    'Move them first: permute(0, 2, 3, 1).reshape(16, 64, 3).'
    """
    first = [(o, _kept(before, o)) for o in _orders(len(before)) if _moved(_kept(before, o), after) is None]
    if first and first[0][1] == after:
        return f"Swap the dimensions: {_move(first[0][0])}."
    last = [(o, s) for o in _orders(len(after)) if _moved(before, s := _split(after, o)) is None]
    if len(after) > len(before) and last:
        return f"Split first, then swap: view({_words(last[0][1], texts)}).{_move(last[0][0])}."
    if first:
        how = _move(first[0][0])
        what = "Swap the dimensions" if how.startswith("transpose") else "Move them"
        return f"{what} first: {how}.reshape({_words(after, texts)})."
    return "Bring the dimensions that are joined next to each other first, with permute() or transpose(); then reshape."


def _orders(n: int) -> list[tuple[int, ...]]:
    """All orders of a few dimensions, those that move least first."""
    if n > 5:
        return []
    inversions = {o: sum(x > y for x, y in itertools.combinations(o, 2)) for o in itertools.permutations(range(n))}
    return sorted(inversions, key=lambda o: (inversions[o], o))


def _kept(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[k] for k in order)


def _split(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `order` brings to `shape`."""
    found = [0] * len(shape)
    for at, k in enumerate(order):
        found[k] = shape[at]
    return tuple(found)


def _move(order: tuple[int, ...]) -> str:
    moved = [k for k, p in enumerate(order) if k != p]
    if len(moved) == 2:
        return f"transpose({moved[0]}, {moved[1]})"
    return f"permute({', '.join(map(str, order))})"


def _moved(before: tuple[int, ...], after: tuple[int, ...]) -> int | None:
    """The size of a dimension that a reshape takes to another place; None where it only joins and splits.

    >>> _moved((16, 20, 5), (20, 16, 5)), _moved((8, 6, 12), (96, 6)), _moved((8, 4, 10, 4), (8, 10, 16))
    (16, 6, 10)
    >>> _moved((8, 10, 16), (8, 10, 4, 4)), _moved((32, 3, 8), (32, 24)), _moved((64, 10), (128, 5))
    (None, None, None)
    """
    a, b = [n for n in before if n != 1], [n for n in after if n != 1]
    if a == b or math.prod(a) != math.prod(b) or 0 in a or len(a) < 2:
        return None
    for one, other in _blocks(a, b):
        if len(one) < 2:
            continue
        bounds = sorted({*_bounds(one), *_bounds(other)})
        clean = all(high % low == 0 for low, high in itertools.pairwise(bounds))
        place = dict(zip([1, *_bounds(one)[:-1]], one, strict=True))
        at = dict(zip([1, *_bounds(other)[:-1]], other, strict=True))
        same = [n for n in one if n in other and {k for k, v in place.items() if v == n} != {
            k for k, v in at.items() if v == n}]  # fmt: skip
        if same:
            return same[0]
        if not clean and len(other) > 1:
            return one[0]
    return None


def _bounds(shape: list[int]) -> list[int]:
    return list(itertools.accumulate(shape, lambda x, y: x * y))


def _blocks(a: list[int], b: list[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions that hold the same number of elements in both."""
    found = []
    one: list[int] = []
    other: list[int] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if not one and not other:
            one, other = [a[i]], [b[j]]
            i, j = i + 1, j + 1
        elif math.prod(one) < math.prod(other):
            one.append(a[i])
            i += 1
        elif math.prod(one) > math.prod(other):
            other.append(b[j])
            j += 1
        if math.prod(one) == math.prod(other):
            found.append((one, other))
            one, other = [], []
    return found


@rule(440)
def samples_as_time(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A recurrent layer, or attention, that takes dimension 0 for time and dimension 1 for the samples, as it does
    without batch_first, whose output then loses dimension 1, the samples and not the time; or whose input is cut in
    time along dimension 1."""
    if not trace.second:
        return []
    readers = trace.consumers()
    losses = [row for rows in trace.roots.values() for row in rows]
    behind = ancestors(losses)
    for row in trace.rows:
        path = trace.second.get(row.path)
        if path is None or len(row.shape) != 3 or row not in behind:
            continue
        for after in _outside(row, path, readers, trace):
            shape = tuple(after.shape)
            steps, samples = row.shape[0], row.shape[1]
            gone = after.op in REDUCING and steps != samples and shape[:1] == (steps,) and samples not in shape[:-1]
            flat = after.op in FLAT and steps != samples and shape == (steps, math.prod(row.shape[1:]))
            if not (gone or flat) or len(shape) != 2 or (flat and _given_back(after, row, readers)):
                continue
            if flat and samples == 1:
                continue  # one sequence, a row for each of its steps
            over = "of the last sample alone" if after.op in ("select", "getitem", "index") else "over the samples"
            does = f"takes `{code_of(trace, after)}` {over}"
            if flat:
                does = f"makes a row of each of the {steps:,} (`{code_of(trace, after)}`)"
            return _without_batch_first(trace, row, path, after, does)
    return _windows_as_batch(trace)


def _given_back(flat: Row, row: Row, readers: Mapping[Ref, Sequence[Row]]) -> bool:
    """Whether both dimensions come back a few ops after they were made one: for a layer of each step they are."""
    rows = [flat]
    for _ in range(4):
        rows = [after for r in rows for after in readers.get(r, ())]
        if any(len(r.shape) == 3 and r.shape[:2] == row.shape[:2] for r in rows):
            return True
    return False


def _windows_as_batch(trace: Trace) -> list[Found]:
    """Windows ``x[:, i:i + T]``, whose targets are ``x[:, i + 1:i + T + 1]``, in a layer that reads dimension 1 as the
    samples, as it does without batch_first."""
    windows = _windows(trace)
    for row in trace.rows if windows else ():
        path = trace.second.get(row.path)
        if path is None or not row.reached or len(row.shape) != 3 or row.shape[0] == row.shape[1]:
            continue
        for before in _before(row):
            code = code_of(trace, before)
            if code in windows:
                return _without_batch_first(trace, row, path, before, f"takes time along dimension 1 (`{code}`)")
    return []


def _windows(trace: Trace) -> set[str]:
    """The texts of slices along dimension 1 beside which the same is taken one place later."""
    found = {}
    for source in sources(trace):
        for node in source.nodes:
            index = node.slice if isinstance(node, ast.Subscript) else None
            if not isinstance(node, ast.Subscript) or not isinstance(index, ast.Tuple) or len(index.elts) < 2:
                continue
            first, part = index.elts[:2]
            if ast.unparse(first) == ":" and isinstance(part, ast.Slice) and part.lower is not None:
                found[ast.unparse(node)] = ast.unparse(node.value), ast.unparse(part.lower)
    return {
        text for text, (of, low) in found.items()
        if not low.isdigit() and not {(of, f"{low} + 1"), (of, f"1 + {low}")}.isdisjoint(found.values())
    }  # fmt: skip


def _before(row: Row) -> list[Row]:
    """What an op's input came from, as long as it kept its first two dimensions."""
    found: list[Row] = []
    stack = [row]
    while stack and len(found) < 16:
        for ref in stack.pop().refs:
            if isinstance(ref, Row) and tuple(ref.shape[:2]) == tuple(row.shape[:2]) and ref not in found:
                found.append(ref)
                stack.append(ref)
    return found


def _without_batch_first(trace: Trace, row: Row, path: int, at: Row, does: str) -> list[Found]:
    """The finding, of an op of a layer and of what tells that it takes the dimensions the other way."""
    line, col, place = where(trace, at.chain)
    name, kind = trace.paths[path], trace.entered[path][-1][0]
    steps, samples = row.shape[0], row.shape[1]
    reads = f"reads its input of ({_words(row.shape[:2])}, ...) as {steps:,} time steps of {samples:,} samples"
    message = f"{place} {does}: {name} ({kind}) has no batch_first=True, so it {reads}."
    made = [found for s in sources(trace) if (found := _made_at(s, name.rpartition(".")[2], kind)) is not None]
    layer = kind
    if kind in ("TransformerEncoder", "TransformerDecoder"):  # what is set where its layer is made
        made = [s.place(n) for s in sources(trace) for n in s.calls.get(f"{kind}Layer", ())]
        layer = f"{kind}Layer"
    made = list(dict.fromkeys(made))
    if len(made) == 1:
        there, (line, col, place) = place, made[0]
        message = f"{place} makes {name} ({kind}) without batch_first=True, so it {reads}; {there} {does}."
    remedy = f"Make it with batch_first=True: nn.{layer}(..., batch_first=True)."
    return [Found("layout", "warning", line, col, capital(message), remedy, [at])]


def _made_at(source: Source, attribute: str, kind: str) -> Place | None:
    """Where a source makes a layer of a kind and keeps it by a name."""
    for node in source.nodes:
        targets = node.targets if isinstance(node, ast.Assign) and called(node.value) == kind else []
        if any(getattr(t, "attr", getattr(t, "id", "")) == attribute for t in targets):
            return source.place(node)
    return None


def _outside(row: Row, path: int, readers: dict[Ref, list[Row]], trace: Trace) -> list[Row]:
    """The first ops after a layer's output that are no part of it."""
    found, stack, seen = [], [row], {row}
    while stack and len(seen) < 64:
        for after in readers.get(stack.pop(), ()):
            if after in seen or after.cut:
                continue
            seen.add(after)
            if trace.second.get(after.path) is not None and tuple(after.shape) == tuple(row.shape):
                stack.append(after)
            else:
                found.append(after)
    return found


@rule(420)
def classes_last(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """cross_entropy of (N, T, C) where T and C are the same size: no error tells that the classes must come second."""
    for row in trace.rows:
        if row.op not in ("cross_entropy", "nll_loss") or not row.reached or not row.refs:
            continue
        given = row.refs[0]
        while isinstance(given, Row) and given.chain == row.chain and given.refs:
            given = given.refs[0]  # what the loss does with it at first
        shape = tuple(given.shape)
        if len(shape) != 3 or shape[1] != shape[2] or not isinstance(given, Row) or given.op not in LAST:
            continue
        line, col, place = where(trace, row.chain)
        message = capital(
            f"{place} takes the classes from another dimension than the model gives them in: `{code_of(trace, row)}` "
            f"reads dimension 1 of ({_words(shape)}) as the classes, and `{code_of(trace, given)}` has them last."
        )
        remedy = "Flatten both: logits.reshape(-1, C) and target.reshape(-1); or give it logits.transpose(1, 2)."
        return [Found("loss", "warning", line, col, message, remedy, [row])]
    return []
