"""Data sets and loaders that show fewer samples than there are, and targets that wrap around their end."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule
from ..reading.calls import given, loops_around, name_of
from ..reading.expressions import Flow, flow_of
from ..reading.loaders import gone_over, loader_of, settled
from ..reading.scope import calls, flow_around, tell
from ..reading.sources import Function, Source, assigned, called, sources
from .held_out import TEST, TRAIN

BATCH = re.compile(r"(^|_)(batch|bs|batch_?size|bsz)(_|$)", re.I)
AHEAD = re.compile(r"target|next|label|future|ahead|(^|_)(y|tgt|nxt)(_|\d|$)", re.I)


def _methods(kind: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in kind.body if isinstance(n, ast.FunctionDef)}


def _length(trace: Trace) -> list[tuple[Source, ast.ClassDef, ast.FunctionDef, ast.expr]]:
    """What the `__len__` of each data set gives."""
    found = []
    for source in sources(trace):
        for kind in source.nodes:
            methods = _methods(kind) if isinstance(kind, ast.ClassDef) else {}
            if not {"__len__", "__getitem__"} <= methods.keys() or "__iter__" in methods:
                continue
            flow = flow_of(source, methods["__len__"])
            for node in flow.nodes:
                if isinstance(node, ast.Return) and node.value is not None:
                    found.append((source, kind, methods["__getitem__"], flow.inner(node.value)))
    return found  # type: ignore[return-value]


@rule(555, proof="len() of a dict counts its keys")
def counts_fields(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``self.data = {"x": xs, "y": ys}`` and ``return len(self.data)``: the fields are counted and not the samples."""
    for source, kind, item, value in _length(trace):
        if called(value) not in ("len", "__len__") or not isinstance(value, ast.Call):
            continue
        counted = value.args[0] if len(value.args) == 1 else getattr(value.func, "value", None)
        if not isinstance(counted, ast.Attribute):
            continue
        of = ast.unparse(counted)
        made = [n.value for n in ast.walk(kind) if isinstance(n, ast.Assign) and of in map(ast.unparse, n.targets)]
        fields = [
            n
            for n in ast.walk(item)
            if isinstance(n, ast.Subscript)
            and isinstance(n.value, ast.Subscript)
            and ast.unparse(n.value.value) == of
            and isinstance(n.value.slice, ast.Constant)
        ]
        each = [n for n in ast.walk(item) if isinstance(n, ast.comprehension | ast.For)
                and re.fullmatch(rf"{re.escape(of)}(\.items\(\)|\.values\(\))?", ast.unparse(n.iter))]  # fmt: skip
        if len(made) != 1 or not (fields or each):
            continue
        count = _fields(made[0])
        if count is None:
            continue
        says = (
            f"counts the fields of {of} and not its samples (`{ast.unparse(value)}`): the data set has a length of "
            f"{count}, so a loader shows its first {count} samples and no others."
        )
        first = ast.unparse(fields[0].value) if fields else f"next(iter({of}.values()))"
        return tell(source, value, "data", "warning", says, f"Count one field: len({first}).")
    return []


def _fields(node: ast.expr) -> int | None:
    """How many fields a dictionary, a tuple or a list of variables has."""
    if isinstance(node, ast.Dict):
        return len(node.keys)
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1:
        return len(node.elts)
    return len(node.keywords) or None if isinstance(node, ast.Call) and called(node) == "dict" else None


@rule(556)
def counts_batches(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``return len(self.x) // self.batch_size`` of a set whose ``__getitem__`` gives one sample."""
    for source, _, item, value in _length(trace):
        for node in ast.walk(value):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv | ast.Div):
                continue
            if not BATCH.search(name_of(node.right)) or any(BATCH.search(n) for n in _words(item)):
                continue
            says = (
                f"gives the number of batches as the length of the data set (`{ast.unparse(value)}`), and "
                "__getitem__ gives single samples: a loader shows that many samples and never the rest."
            )
            remedy = f"Leave the division out: the loader makes the batches. {ast.unparse(node.left)}."
            return tell(source, value, "data", "warning", says, remedy)
    return []


def _words(node: ast.AST) -> set[str]:
    return {name_of(n) for n in ast.walk(node)}


@rule(557, proof="backward() stands in the loop and never ran")
def no_full_batch(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A loader that drops its last batch, of a set that does not fill one: its loop never runs."""
    if trace.backwards or trace.error is not None:
        return []
    for source in sources(trace):
        for pair in assigned(source.nodes):
            if called(pair.value) != "DataLoader" or not _drops(pair.value):
                continue
            for loop in (n for n in source.nodes if isinstance(n, ast.For)):
                over = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
                if name_of(over) != pair.name or not any(called(n) == "backward" for n in ast.walk(loop)):
                    continue
                says = (
                    f"drops the last batch that is not full (`{ast.unparse(pair.value)}`), and the set does not fill a "
                    f"single one: the loop on {source.place(loop).words} has no turn, and nothing is trained."
                )
                remedy = "Leave drop_last=True out, or take a smaller batch_size."
                return tell(source, pair.value, "data", "warning", says, remedy)
    return []


def _drops(node: ast.AST) -> bool:
    """Whether a loader drops a last batch that is not full."""
    value = given(node, "drop_last") if isinstance(node, ast.Call) else None
    return isinstance(value, ast.Constant) and value.value is True


@rule(558)
def rest_not_judged(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``test_loader = DataLoader(..., drop_last=True)``: the samples of the last batch are not judged."""
    for source in sources(trace):
        for pair in assigned(source.nodes):
            if called(pair.value) != "DataLoader" or not _drops(pair.value):
                continue
            if not TEST.search(pair.name) or TRAIN.search(pair.name):
                continue
            says = (
                f"drops the last batch of what the model is judged by (`{ast.unparse(pair.value)}`): its samples "
                "are in no figure, and a figure that is divided by the size of the set is too small."
            )
            return tell(source, pair.value, "evaluation", "note", says, "Leave drop_last=True out for evaluation.")
    trained = {fetched.data for fetched in trace.fetched.values() if fetched.steps}
    for source in sources(trace) if trained else ():
        for loop in (n for n in source.nodes if isinstance(n, ast.For | ast.comprehension)):
            for fetched in gone_over(trace, source, loop):
                if not fetched.dropped[1] or fetched.steps or fetched.data in trained | {0}:
                    continue
                made = settled(source, loader_of(loop), flow_around(source, loop.iter))
                at = made if called(made) == "DataLoader" else loop.iter
                says = (
                    f"leaves out {fetched.dropped[1]:,} of the samples that the model is judged by "
                    f"(`{ast.unparse(at)}`): they fill no batch, and drop_last=True drops what is left."
                )
                return tell(source, at, "evaluation", "note", says, "Leave drop_last=True out for evaluation.")
    return []


@rule(559)
def wraps_around(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``target = torch.roll(series, -1)``: the target of the last step is the first value."""
    if not trace.steps.count:
        return []
    for source, node in calls(trace, "roll", "cat", "concatenate", "hstack"):
        above = source.parents.get(node)
        names, flow = _given_to(source, above), flow_around(source, node)
        of, by = _turned(flow, node)
        if by is None or not by < 0 or loops_around(source, node):
            continue
        name = next((n for n in names if AHEAD.search(n)), None)
        if name is None:
            continue
        cut = [
            n
            for n in flow.nodes
            if (isinstance(n, ast.Subscript) and ast.unparse(n.value) == name)
            or (isinstance(n, ast.Assign) and any(isinstance(t, ast.Subscript) for t in n.targets))
        ]
        if cut:
            continue
        says = (
            f"takes the next value as the target from a ring (`{ast.unparse(node)}`): the last "
            f"{'step is' if by == -1 else f'{-by:g} steps are'} to predict the beginning of {of}."
        )
        remedy = f"Cut both: {of}[:{by:g}] as the input and {of}[{-by:g}:] as the target."
        return tell(source, node, "data", "note", says, remedy)
    return []


def _given_to(source: Source, above: ast.AST | None) -> list[str]:
    """The variable that a value is given to; of what a function returns its name, and what its calls are given to."""
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        return [above.targets[0].id]
    function = next((a for a in source.around(above) if isinstance(a, Function)), None) if above is not None else None
    if not isinstance(above, ast.Return) or function is None:
        return []
    return [function.name, *(p.name for p in assigned(source.nodes) if called(p.value) == function.name)]


def _turned(flow: Flow, node: ast.Call) -> tuple[str, float | None]:
    """What is turned as a ring, and by how many steps: of ``roll(x, -1)`` and of ``cat((x[1:], x[:1]))``."""
    if called(node) == "roll":
        shift = given(node, "shifts", 1) or given(node, "shift", 1)
        return (ast.unparse(node.args[0]), flow.number(shift)) if node.args and shift is not None else ("", None)
    parts = node.args[0].elts if node.args and isinstance(node.args[0], ast.List | ast.Tuple) else []
    slices = [p.slice for p in parts if isinstance(p, ast.Subscript) and isinstance(p.slice, ast.Slice)]
    if len(slices) != 2 or len(parts) != 2 or len({ast.unparse(p.value) for p in parts}) != 1:  # type: ignore[attr-defined]
        return "", None
    (head, tail), by = slices, None
    if head.lower is not None and tail.upper is not None and head.upper is tail.lower is None:
        by = flow.number(head.lower) if ast.unparse(head.lower) == ast.unparse(tail.upper) else None
    return ast.unparse(parts[0].value), None if by is None else -by  # type: ignore[attr-defined]
