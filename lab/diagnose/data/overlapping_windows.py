"""Windows of a series that are dealt out at random: those of the test part overlap with those of the training part."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Function, Pair, Source, assigned, called, names_in, sources
from .held_out import TEST, TRAIN


@rule(745)
def dealt_out(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``windows = [s[i : i + L] for i in range(len(s) - L)]``, and ``random_split(windows, ...)``."""
    found = sources(trace)
    makers = {name for source in found for name in _makers(source)}
    if not makers:
        return []
    for source in found:
        pairs = list(assigned(source.nodes))
        windows = {p.name for p in pairs if called(p.value) in makers or _windows(p.value)} | (
            makers & {p.name for p in pairs}
        )
        for _ in range(3):  # what is made of them
            windows |= {p.name for p in pairs if _of(p.value, windows)}
        for pair in pairs:
            if not TEST.search(pair.name) or TRAIN.search(pair.name):
                continue
            by = _at_random(pair.value, pairs, windows)
            if by is None:
                continue
            line, col, place = source.place(pair.node)
            message = capital(
                f"{place} deals out overlapping windows of one series at random (`{by}`): nearly every value that the "
                f"model is judged by in {pair.name} stands in a window of the training part too, one step earlier or "
                "later."
            )
            remedy = "Split by time: cut the series first, and take the windows of each part by itself."
            return [Found("evaluation", "warning", line, col, message, remedy)]
    return []


def _slides(node: ast.AST) -> bool:
    """Whether it is ``s[i : i + L]``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return False
    part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(part, ast.Slice) or part.lower is None or part.upper is None or part.step is not None:
        return False
    return (
        isinstance(part.lower, ast.Name)
        and isinstance(part.upper, ast.BinOp)
        and isinstance(part.upper.op, ast.Add)
        and part.lower.id in names_in(part.upper)
    )


def _one_by_one(node: ast.expr) -> bool:
    """Whether a loop goes over ``range(n)``, one by one."""
    return called(node) == "range" and isinstance(node, ast.Call) and len(node.args) < 3


def _windows(node: ast.AST) -> bool:
    """Whether an expression holds overlapping windows."""
    for n in ast.walk(node):
        if isinstance(n, ast.ListComp | ast.GeneratorExp) and any(_slides(part) for part in ast.walk(n.elt)):
            loop = n.generators[0]
            slices = [p for p in ast.walk(n.elt) if _slides(p)]
            if _one_by_one(loop.iter) and any(ast.unparse(loop.target) in names_in(s) for s in slices):
                return True
        if called(n) == "unfold" and isinstance(n, ast.Call) and len(n.args) == 3 and ast.unparse(n.args[2]) == "1":
            return True
    return False


def _makers(source: Source) -> set[str]:
    """The functions, data sets and lists by which a source makes overlapping windows."""
    names: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.For) and _one_by_one(node.iter) and isinstance(node.target, ast.Name):
            for n in ast.walk(node):
                if (
                    called(n) == "append"
                    and isinstance(n, ast.Call)
                    and any(_slides(p) and node.target.id in names_in(p) for a in n.args for p in ast.walk(a))
                ):
                    function = next((a for a in source.around(node) if isinstance(a, Function)), None)
                    names.add(function.name if function is not None else ast.unparse(getattr(n.func, "value", n.func)))
        elif isinstance(node, Function) and any(
            isinstance(n, ast.Return) and n.value is not None and _windows(n.value) for n in ast.walk(node)
        ):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            getter = next((m for m in node.body if isinstance(m, Function) and m.name == "__getitem__"), None)
            index = getter.args.args[1].arg if getter is not None and len(getter.args.args) > 1 else ""
            if getter is not None and any(_slides(n) and _first(n) == index for n in ast.walk(getter)):
                names.add(node.name)
        elif isinstance(node, ast.Assign) and _windows(node.value) and isinstance(node.targets[0], ast.Name):
            names.add(node.targets[0].id)
    return names


def _first(node: ast.AST) -> str:
    """Where a window begins, in the user's words."""
    index: ast.AST = getattr(node, "slice", node)
    part = index.elts[0] if isinstance(index, ast.Tuple) else index
    lower = part.lower if isinstance(part, ast.Slice) else None
    return "" if lower is None else ast.unparse(lower)


def _of(node: ast.expr, windows: set[str]) -> bool:
    """Whether a value is made of windows as they are: a tensor, a data set."""
    kinds = called(node) in (
        "stack",
        "tensor",
        "array",
        "as_tensor",
        "cat",
        "from_numpy",
        "float",
        "TensorDataset",
        "unsqueeze",
    )
    return kinds and bool(names_in(node) & windows)


def _at_random(node: ast.expr, pairs: list[Pair], windows: set[str]) -> str | None:
    """By what windows are dealt out at random, in the user's words; None if they are not."""
    if called(node) in ("random_split", "train_test_split") and isinstance(node, ast.Call):
        ordered = any(k.arg == "shuffle" and getattr(k.value, "value", True) is False for k in node.keywords)
        if not ordered and any(names_in(a) & windows for a in node.args):
            return ast.unparse(node)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in windows:
        drawn = {p.name for p in pairs if called(p.value) in ("randperm", "permutation")}
        parts = {p.name for p in pairs if isinstance(p.value, ast.Subscript) and names_in(p.value.value) & drawn}  # type: ignore[attr-defined]
        if names_in(node.slice) & (drawn | parts) and re.fullmatch(r"\w+(\[[^\]]*\])?", ast.unparse(node.slice)):
            return ast.unparse(node)
    return None
