"""Dimensions mixed up without an error: view() where permute() was meant, a recurrent layer that takes the samples for
time steps, classes that are not in dimension 1."""

from __future__ import annotations

import ast
import itertools
import math

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule
from ..reading.sources import Place, Source, called, sources

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
        return [Found("layout", "warning", line, col, message, _remedy(before, after), [row])]
    return []


def _called(code: str) -> bool:
    """Whether an expression itself is a view: `x.view(...)`, `torch.reshape(x, ...)`."""
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(tree, ast.Call) and getattr(tree.func, "attr", "") in VIEWS


def _words(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _remedy(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """The least move of dimensions that makes a reshape clean.

    >>> _remedy((16, 20, 5), (20, 16, 5)), _remedy((8, 4, 10, 4), (8, 10, 16))
    ('Swap the dimensions: transpose(0, 1).', 'Swap the dimensions first: transpose(1, 2).reshape(8, 10, 16).')
    >>> _remedy((8, 10, 16), (8, 4, 10, 4))
    'Split first, then swap: view(8, 10, 4, 4).transpose(1, 2).'
    >>> _remedy((16, 3, 8, 8), (16, 64, 3))
    'Move them first: permute(0, 2, 3, 1).reshape(16, 64, 3).'
    """
    first = [(o, _kept(before, o)) for o in _orders(len(before)) if _moved(_kept(before, o), after) is None]
    if first and first[0][1] == after:
        return f"Swap the dimensions: {_move(first[0][0])}."
    last = [(o, s) for o in _orders(len(after)) if _moved(before, s := _split(after, o)) is None]
    if len(after) > len(before) and last:
        return f"Split first, then swap: view({_words(last[0][1])}).{_move(last[0][0])}."
    if first:
        how = _move(first[0][0])
        what = "Swap the dimensions" if how.startswith("transpose") else "Move them"
        return f"{what} first: {how}.reshape({_words(after)})."
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
    without batch_first, whose output then loses dimension 1: the samples and not the time."""
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
            if not (gone or flat) or len(shape) != 2:
                continue
            line, col, place = where(trace, after.chain)
            name, kind = trace.paths[path], trace.entered[path][-1][0]
            over = "of the last sample alone" if after.op in ("select", "getitem", "index") else "over the samples"
            reads = f"reads its input of ({_words(row.shape[:2])}, ...) as {steps:,} time steps of {samples:,} samples"
            taken = f"takes `{code_of(trace, after)}` {over}"
            if flat:
                taken = f"makes a row of each of the {steps:,} (`{code_of(trace, after)}`)"
            message = f"{place} {taken}: {name} ({kind}) has no batch_first=True, so it {reads}."
            made = [at for s in sources(trace) if (at := _made_at(s, name.rpartition(".")[2], kind)) is not None]
            layer = kind
            if kind in ("TransformerEncoder", "TransformerDecoder"):  # what is set where its layer is made
                made = [s.place(n) for s in sources(trace) for n in s.calls.get(f"{kind}Layer", ())]
                layer = f"{kind}Layer"
            if len(made) == 1:
                there, (line, col, place) = place, made[0]
                message = f"{place} makes {name} ({kind}) without batch_first=True, so it {reads}; {there} {taken}."
            message = capital(message)
            remedy = f"Make it with batch_first=True: nn.{layer}(..., batch_first=True)."
            return [Found("layout", "warning", line, col, message, remedy, [after])]
    return []


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
