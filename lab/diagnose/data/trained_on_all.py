"""Nodes or samples that a mask or an index takes apart for training and testing, and a loss over all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import bare, name_of
from ..reading.expressions import Flow
from ..reading.scope import Scope, goals, spread
from ..reading.sources import Source
from .held_out import TEST, TRAIN

LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
          "l1_loss", "smooth_l1_loss", "huber_loss"}  # fmt: skip
PARTS = (("testing", "training"), ("test", "train"), ("tst", "trn"), ("te", "tr"), ("validation", "training"),
         ("validation", "train"), ("valid", "train"), ("val", "train"), ("holdout", "train"),
         ("dev", "train"))  # fmt: skip
"""What the names of the parts of a split are called: that for testing, and its other one."""


@text_rule(611, "backward", trains=True, earlier=True)
def loss_over_all(scope: Scope) -> Iterator[Found]:
    """``criterion(model(x, adj), labels)``, where ``labels[test_mask]`` is what the model is judged by."""
    for goal in goals(scope.source, scope.flow):
        parts = list(spread(scope.flow, goal))
        if any(TRAIN.search(name_of(n)) for n in parts):
            continue
        for call in (n for n in parts if isinstance(n, ast.Call) and scope.does(n) in LOSSES and len(n.args) >= 2):
            known = {text: _tested(scope.source, text, call) for text in _names(scope.flow, call.args[1])}
            text = next((text for text, test in known.items() if test is not None), "")
            if not text:
                continue
            part, train = known[text]  # type: ignore[misc]
            message = (
                f"takes the loss over all of {text} (`{ast.unparse(call)}`), those that the model is judged by too "
                f"(`{ast.unparse(part)}`, {scope.place(part).words}): it is trained on the test labels, and "
                f"{train} is not asked."
            )
            remedy = f"Take the training part of both: prediction[{train}] and {text}[{train}]."
            row = scope.row(call)
            labels = scope.trace.arrays.get(text)
            of_all = row is not None and labels is not None and row.refs and row.refs[0].shape[:1] == labels.shape[:1]
            yield scope.tell(call, "evaluation", message, remedy, rows=[row] if row is not None and of_all else [])


def _names(flow: Flow, node: ast.expr) -> Iterator[str]:
    """Yield the names of the variable that an expression is, and of those that it was given as they are."""
    one: ast.expr | None = bare(node)
    while isinstance(one, ast.Name | ast.Attribute):
        yield ast.unparse(one)
        value = flow.value(one)
        one = None if value is None else bare(value)


def _tested(source: Source, text: str, loss: ast.Call) -> tuple[ast.Subscript, str] | None:
    """Where a later figure takes the test part of what a loss compares with, and what its training part is called."""
    nodes = list(ast.walk(source.program))
    reads: list[ast.Subscript] = []
    for node in nodes:
        if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != text:
            continue
        if not isinstance(node.ctx, ast.Load):
            return None  # what is not for training may have been taken out
        reads.append(node)
    named = {name for node in nodes for name in [_text(node)] if name}
    for read in reads:
        for rows in _rows(source, read):
            train = _training_part(rows, named)
            if train and read.lineno > loss.lineno:
                return read, train
    return None


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _rows(source: Source, read: ast.Subscript) -> Iterator[str]:
    """Yield by what an index takes samples: by each part that a loop goes over."""
    index = read.slice.elts[0] if isinstance(read.slice, ast.Tuple) and read.slice.elts else read.slice
    if not isinstance(index, ast.Name | ast.Attribute):
        return
    yield ast.unparse(index)
    for above in source.around(read):
        loops = [above] if isinstance(above, ast.For) else getattr(above, "generators", [])
        for loop in loops:
            if ast.unparse(index) in names_in_target(loop.target) and isinstance(loop.iter, ast.Tuple | ast.List):
                yield from (_text(n) for one in loop.iter.elts for n in ast.walk(one) if _text(n))


def names_in_target(node: ast.AST) -> set[str]:
    """Return the variables that a loop sets."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _training_part(rows: str, named: set[str]) -> str:
    """The name that the training part has if this is that of a test part; "" where there is none."""
    last = rows.rpartition(".")[2]
    if not TEST.search(last) or TRAIN.search(last):
        return ""
    for test, train in PARTS:
        other = re.sub(rf"(?<![a-z]){test}(?![a-z])|{test}(?=_)|(?<=_){test}", train, last, count=1)
        if other != last and rows[: len(rows) - len(last)] + other in named:
            return rows[: len(rows) - len(last)] + other
    return ""
