"""Test samples that a model has seen all the same: in the scale of its inputs, in the choice of its columns, in a split
whose parts share samples or that nobody uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital, verb
from ..order import rule
from ..reading.calls import function_of
from ..reading.sources import Pair, Source, assigned, called, names_in, own_nodes, sources

TRAIN = re.compile(r"(^|_)([xy]?tr|fit)(_|\d|$)|train", re.I)
TEST = re.compile(r"(^|_)([xy]?te|tst|val|va|eval|dev|hold|holdout|held|exam|check)(_|\d|$)|test|valid", re.I)
STATISTICS = {"mean", "std", "min", "max", "amin", "amax", "var", "median", "quantile", "nanmean", "std_mean",
              "var_mean", "aminmax", "norm"}  # fmt: skip
OPEN = 1 << 60  # where a part ends that goes on to the end
PARTS = {"train_test_split", "random_split"}


class Split(NamedTuple):
    """Where a variable is first taken apart for training and testing, and how."""

    node: ast.AST
    code: str


PIECES = {"stack", "cat", "tensor", "as_tensor", "from_numpy", "array", "asarray", "float", "unfold", "reshape",
          "view", "unsqueeze", "squeeze", "permute", "Tensor", "FloatTensor", "range", "len", "astype"}  # fmt: skip


@rule(732)
def seen(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One finding about what is held out."""
    if trace.error is not None:
        return []
    for source in sources(trace):
        for scope in source.scopes(earlier=trace.steps.count > 0):
            nodes = list(own_nodes(scope))
            pairs = list(assigned(nodes))
            splits = splits_in(nodes, pairs)
            looks = [
                _shared_rows,
                _two_draws,
                _whole_set,
                _chosen_columns,
                _scaled_together,
                _scaled_apart,
                _fitted_anew,
            ]
            if scope is source.program and source.earlier:
                looks.remove(_whole_set)  # who reads a part may be a cell that is not among them
            for look in looks:
                found = look(source, nodes, pairs, splits)
                if found is not None:
                    return [found]
    return []


def rows_of(node: ast.AST) -> ast.expr | None:
    """By what an expression ``x[rows]`` or ``x[rows, ...]`` takes samples of a variable."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice


def splits_in(nodes: list[ast.AST], pairs: list[Pair]) -> dict[str, Split]:
    """The variables of which one part is for training and another for tests."""
    found: dict[str, Split] = {}
    taken: dict[str, list[tuple[ast.expr, ast.AST]]] = {}
    data = {p.name: names_in(p.value) for p in pairs if called(p.value).endswith("Dataset")}
    for node in nodes:
        rows = rows_of(node)
        if rows is not None and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            taken.setdefault(node.value.id, []).append((rows, node))  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and called(node) in PARTS:
            for argument in node.args[: 1 if called(node) == "random_split" else None]:
                for name in names_in(argument):
                    for inner in (name, *data.get(name, ())):
                        found.setdefault(inner, Split(node, called(node)))
    each = {  # a variable of a loop within an expression -> the variables that it is, one after the other
        n.target.id: [ast.unparse(e) for e in n.iter.elts]
        for n in nodes
        if isinstance(n, ast.comprehension)
        and isinstance(n.target, ast.Name)
        and isinstance(n.iter, ast.Tuple | ast.List)
    }
    cuts = {  # a part of an order -> the order, where it begins and where it ends
        p.name: (ast.unparse(p.value.value), *(ast.unparse(end) if end else "" for end in (part.lower, part.upper)))
        for p in pairs
        if isinstance(p.value, ast.Subscript) and isinstance(part := p.value.slice, ast.Slice)
    }
    for name, parts in taken.items():
        ends = {ast.unparse(r.upper) for r, _ in parts if isinstance(r, ast.Slice) and r.upper and not r.lower}
        both = [n for r, n in parts if isinstance(r, ast.Slice) and r.lower and ast.unparse(r.lower) in ends]
        words = [(text, n) for r, n in parts if isinstance(r, ast.Name) for text in each.get(r.id, [r.id])]
        apart = [n for text, n in words if TEST.search(text)] if any(TRAIN.search(text) for text, _ in words) else []
        orders = {
            (tail, end)
            for text, _ in words
            for tail, begin, end in [cuts.get(text, ("", "", ""))]
            if tail and not begin
        }
        apart = apart or [n for text, n in words if text in cuts and cuts[text][:2] in orders]
        for node in (both or apart)[:1]:
            first = min((n for _, n in parts), key=lambda n: n.lineno)  # type: ignore[attr-defined]
            found.setdefault(name, Split(first, ast.unparse(node)))
    return found


def _found(source: Source, node: ast.AST, severity: str, says: str, remedy: str) -> Found:
    line, col, place = source.place(node)
    return Found("evaluation", severity, line, col, capital(f"{place} {says}"), remedy)


# -- parts that share samples ------------------------------------------------------------------------------------------


def _shared_rows(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """``train = x[:900]; test = x[800:]``."""
    numbers = {p.name: p.value.value for p in pairs if isinstance(p.value, ast.Constant)}
    parts: dict[str, list[tuple[Pair, int, int]]] = {}
    for pair in pairs:
        rows = rows_of(pair.value)
        if isinstance(rows, ast.Slice) and rows.step is None:
            begin, end = _number(rows.lower, numbers, 0), _number(rows.upper, numbers, OPEN)
            if begin is not None and end is not None and 0 <= begin < end:
                parts.setdefault(pair.value.value.id, []).append((pair, begin, end))  # type: ignore[attr-defined]
    for name, some in parts.items():
        for train, begin, end in some:
            for test, first, last in some:
                if not _trains(train.name) or not _tests(test.name):
                    continue
                common = min(end, last) - max(begin, first)
                if common == 1 and re.search(r"\[:-1\]|\[1:\]", source.text):  # a series, whose targets are the next
                    continue
                if common > 0 and min(end, last) < OPEN:
                    says = (
                        f"takes {common:,} {verb(range(common), 'sample', 'samples')} of {name} for {test.name} that "
                        f"{train.name} holds too ({source.place(train.node).words}): a model is judged by what it has "
                        "been trained on."
                    )
                    remedy = f"Begin where the other ends: {name}[{end}:]."
                    if end == OPEN:
                        remedy = f"End where the other begins: {name}[:{begin}]."
                    return _found(source, test.value, "warning", says, remedy)
    return None


def _trains(name: str) -> bool:
    """Whether a name is that of a training part; one that speaks of both is of neither."""
    return bool(TRAIN.search(name)) and not TEST.search(name)


def _tests(name: str) -> bool:
    """Whether a name is that of a test part."""
    return bool(TEST.search(name)) and not TRAIN.search(name)


def _number(node: ast.expr | None, numbers: Mapping[str, object], default: int) -> int | None:
    if node is None:
        return default
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else numbers.get(ast.unparse(node))
    return value if isinstance(value, int) else None


def _two_draws(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """``train = randperm(n)[:k]; test = randperm(n)[k:]``: two orders, whose parts share samples."""
    drawn = [
        (p, p.value.slice)
        for p in pairs
        if isinstance(p.value, ast.Subscript) and called(p.value.value) in ("randperm", "permutation")
        and isinstance(p.value.slice, ast.Slice)
    ]  # fmt: skip
    for first, head in drawn:
        for second, tail in drawn:
            ends = head.upper, tail.lower
            if first is second or None in ends or head.lower is not None:
                continue
            if ast.unparse(ends[0]) == ast.unparse(ends[1]):  # type: ignore[arg-type]
                says = (
                    f"draws another order than {source.place(first.node).words}: {second.name} and {first.name} are "
                    "parts of two permutations, and have samples in common."
                )
                order = ast.unparse(first.value.value)  # type: ignore[attr-defined]
                remedy = f"Draw one: order = {order}; then order[:k] and order[k:]."
                return _found(source, second.node, "warning", says, remedy)
    return None


def _whole_set(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """``train, test = random_split(data, ...)``, and a loader of all of ``data``."""
    for pair in pairs:
        if called(pair.value) not in PARTS or not TRAIN.search(pair.name):
            continue
        whole = pair.value.args[0] if isinstance(pair.value, ast.Call) and pair.value.args else None
        if not isinstance(whole, ast.Name):
            continue
        reads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == pair.name]
        reads = [n for n in reads if called(source.parents.get(n, n)) != "len"]
        loads = [
            n
            for n in nodes
            if isinstance(n, ast.Call) and called(n) == "DataLoader" and n.lineno > pair.node.lineno
            if n.args and ast.unparse(n.args[0]) == whole.id
        ]
        if loads and not reads:
            says = (
                f"loads all of {whole.id}: {pair.name}, the part without the test samples "
                f"({source.place(pair.node).words}), is used nowhere."
            )
            return _found(source, loads[0], "warning", says, f"Load the part: DataLoader({pair.name}, ...).")
    return None


# -- what was computed from all samples --------------------------------------------------------------------------------


def _chosen_columns(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """Columns that are chosen by how they go with the targets of all samples, before these are split."""
    flows: dict[str, set[str]] = {}
    for pair in pairs:
        read = _whole(pair.value)
        flows[pair.name] = {pair.name} | read | {n for name in read for n in flows.get(name, ())}
        subscript = pair.value
        if not isinstance(subscript, ast.Subscript) or not isinstance(subscript.slice, ast.Tuple):
            continue
        if not isinstance(subscript.value, ast.Name) or len(subscript.slice.elts) != 2:
            continue
        rows, columns = subscript.slice.elts
        whole = isinstance(rows, ast.Slice) and rows.lower is None and rows.upper is None
        data = subscript.value.id
        later = splits.get(pair.name)
        if not whole or not isinstance(columns, ast.Name) or later is None or later.node.lineno < pair.node.lineno:  # type: ignore[attr-defined]
            continue
        targets = [n for n in splits if n in flows.get(columns.id, ()) and n not in (data, pair.name)]
        if data in flows.get(columns.id, set()) and targets:
            says = (
                f"keeps the columns of {data} that go best with {targets[0]} of all samples, those of the test part "
                f"too ({source.place(later.node).words} splits them): the test samples have chosen what they are "
                "judged by, and noise looks like skill."
            )
            return _found(source, pair.node, "warning", says, "Split first, and choose by the training part alone.")
    return None


def _whole(node: ast.AST) -> set[str]:
    """The variables that an expression reads, but for those of which it takes some samples only."""
    rows = rows_of(node)
    if rows is not None and not (isinstance(rows, ast.Slice) and rows.lower is None and rows.upper is None):
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    return {name for inner in ast.iter_child_nodes(node) for name in _whole(inner)}


def _scaled_together(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """``x = (x - x.mean(0)) / x.std(0)``, or a scaler's fit, and then the split."""
    for pair, of in [*_scaled(nodes, pairs), *_scaled_by_functions(source, pairs)]:
        later = next((splits[name] for name in _parts_of(pair.name, pairs) if name in splits), None)
        if later is None or TRAIN.search(of) or later.node.lineno <= pair.node.lineno:  # type: ignore[attr-defined]
            continue
        says = (
            f"scales {pair.name} by figures of all samples, those of the test part too: "
            f"{source.place(later.node).words} splits it only afterwards (`{later.code}`), so the test samples are "
            "known to what is trained."
        )
        remedy = "Split first; take mean and standard deviation of the training part, and scale both parts by them."
        return _found(source, pair.node, "note", says, remedy)
    return None


def _parts_of(name: str, pairs: list[Pair]) -> list[str]:
    """A variable, and those that are pieces of it: windows, the next values, another shape."""
    found = [name]
    for pair in pairs:
        reads = names_in(pair.value) & set(found)
        plain = all(called(n) in PIECES for n in ast.walk(pair.value) if isinstance(n, ast.Call))
        piece = plain and isinstance(pair.value, ast.Subscript | ast.Call | ast.ListComp)
        if reads and piece and pair.name not in found:
            found.append(pair.name)
    return found


def _scaled_apart(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """Test samples that are scaled by their own figures, and not by those of the training part."""
    scaled = list(_scaled(nodes, pairs))
    for pair, of in scaled:
        if not _tests(of):
            continue
        train = [p for p, other in scaled if _trains(other)]
        if train:
            says = (
                f"scales {of} by its own figures, and {source.place(train[0].node).words} the training part by others: "
                "the model gets its test samples in another scale than it was trained in."
            )
            remedy = "Keep the figures of the training part, and scale the test part by those."
            return _found(source, pair.node, "warning", says, remedy)
    return None


def _fitted_anew(source: Source, nodes: list[ast.AST], pairs: list[Pair], splits: dict[str, Split]) -> Found | None:
    """A scaler that is fitted on the test part, after it was on the training part."""
    fits = [n for n in nodes if isinstance(n, ast.Call) and called(n) == "fit_transform" and len(n.args) == 1
            and isinstance(n.func, ast.Attribute)]  # fmt: skip
    for node in fits:
        scaler, of = ast.unparse(node.func.value), ast.unparse(node.args[0])  # type: ignore[attr-defined]
        before = next((n for n in nodes if isinstance(n, ast.Call) and called(n) in ("fit", "fit_transform") and n.args
                       and n is not node and ast.unparse(getattr(n.func, "value", n.func)) == scaler
                       and TRAIN.search(ast.unparse(n.args[0]))), None)  # fmt: skip
        if before is None or not TEST.search(of) or TRAIN.search(of):
            continue
        says = (
            f"fits {scaler} anew on {of} (`{ast.unparse(node)}`), after {source.place(before).words} has fitted it on "
            "the training part: the model gets its test samples in another scale, and what was scaled before can no "
            "longer be turned back."
        )
        return _found(source, node, "warning", says, f"Scale it as the training part was: {scaler}.transform({of}).")
    return None


def _scaled(nodes: list[ast.AST], pairs: list[Pair]) -> Iterator[tuple[Pair, str]]:
    """Yield what is scaled by its own figures over all samples, and of what these were taken."""
    figures: dict[str, str] = {}
    fitted: dict[str, str] = {}
    for node in nodes:
        if called(node) == "fit" and _method_of_one(node):
            fitted[ast.unparse(node.func.value)] = node.args[0].id  # type: ignore[attr-defined]
    for pair in pairs:
        value = pair.value
        if isinstance(value, ast.Call) and called(value) == "fit_transform" and value.args:
            if isinstance(value.args[0], ast.Name):
                yield pair, value.args[0].id
            continue
        if called(value) == "transform" and _method_of_one(value):
            of = fitted.get(ast.unparse(value.func.value))  # type: ignore[attr-defined]
            if of is not None and ast.unparse(value.args[0]) == of:  # type: ignore[attr-defined]
                yield pair, of
            continue
        own = _figure_of(value)
        if own is not None:
            figures[pair.name] = own
            continue
        if (of := _scaled_of(value, figures)) is not None:
            yield pair, of


def _scaled_of(value: ast.expr, figures: Mapping[str, str]) -> str | None:
    """The variable that an expression scales by figures of its own."""
    for part in ast.walk(value):
        if not isinstance(part, ast.BinOp) or not isinstance(part.op, ast.Sub | ast.Div):
            continue
        right = [_figure_of(n) or figures.get(getattr(n, "id", "")) for n in ast.walk(part.right)]
        of = next((name for name in right if name and name in names_in(part.left)), None)
        if of is not None:
            return of
    return None


def _scaled_by_functions(source: Source, pairs: list[Pair]) -> Iterator[tuple[Pair, str]]:
    """Yield what a function of the user's, of one argument, scales by that argument's figures."""
    for pair in pairs:
        call = pair.value
        function = function_of(source, call) if isinstance(call, ast.Call) else None
        if function is None or len(function.args.args) != 1 or len(call.args) != 1:  # type: ignore[attr-defined]
            continue
        if not isinstance(call.args[0], ast.Name):  # type: ignore[attr-defined]
            continue
        nodes = list(own_nodes(function))
        figures = {p.name: own for p in assigned(nodes) if (own := _figure_of(p.value)) is not None}
        ends = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
        if ends and all(_scaled_of(end, figures) == function.args.args[0].arg for end in ends):
            yield pair, call.args[0].id  # type: ignore[attr-defined]


def _method_of_one(node: ast.AST) -> bool:
    """Whether it is ``scaler.fit(x)``: a method that is given a variable first."""
    whole = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and bool(node.args)
    return whole and isinstance(node.args[0], ast.Name)  # type: ignore[attr-defined]


def _figure_of(node: ast.AST) -> str | None:
    """Of which variable an expression is a mean, a spread or an end, over its samples: not along its columns."""
    if not isinstance(node, ast.Call) or called(node) not in STATISTICS:
        return None
    assert isinstance(node.func, ast.Attribute | ast.Name)
    function = isinstance(node.func, ast.Name) or ast.unparse(node.func.value) in ("torch", "np", "numpy", "core")
    of = node.args[0] if function and node.args else getattr(node.func, "value", None)
    rest = node.args[1:] if function else node.args
    dims = [*rest, *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    if any(not re.match(r"^(0|\(0\b.*|\[0\b.*|None)$", ast.unparse(d)) for d in dims):
        return None
    return of.id if isinstance(of, ast.Name) else None
