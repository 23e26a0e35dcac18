"""Weights of classes that make the frequent ones count more, and not the rare ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import function_of, name_of
from ..reading.expressions import Flow, flow_of
from ..reading.scope import Scope
from ..reading.sources import Function, called, own_nodes

LOSSES = {"CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss"}
POSITIVE = re.compile(r"pos(?!_weight)|(^|_)n?_?p1?(_|$)|== ?1", re.I)
NEGATIVE = re.compile(r"neg|1 ?- |== ?0", re.I)
TARGETS = re.compile(r"(^|_|\b)(t|y|labels?|targets?|train_y|y_train|gt)(\b|_|\[|\.)", re.I)
COUNTING = {"bincount", "value_counts", "histc"}
KEEPING = {"float", "to", "double", "tensor", "as_tensor", "FloatTensor", "Tensor", "array", "cuda", "from_numpy",
           "softmax", "astype", "numpy", "cpu", "sqrt", "clamp", "normalize", "asarray"}  # fmt: skip
"""What gives larger values for larger ones."""


@text_rule(512)
def by_their_counts(scope: Scope) -> Iterator[Found]:
    """``CrossEntropyLoss(weight=counts / counts.sum())``: the classes with most samples weigh most."""
    flow = scope.flow
    for node in flow.nodes:
        given = _weights(node)
        counts = _rising(flow, given) if given is not None else None
        if given is None or counts is None:
            continue
        inner = flow.inner(given)
        own = function_of(flow.source, inner) if isinstance(inner, ast.Call) else None
        if own is not None:  # what it gives
            inner = next(n.value for n in own_nodes(own) if isinstance(n, ast.Return) and n.value is not None)
        message = (
            f"weighs each class by how many samples it has (`{ast.unparse(inner)}`, given to "
            f"{called(node)}): the frequent classes, which make up most of the loss as it is, count even more, "
            "and a model does well that never tells a rare one."
        )
        remedy = "Weigh by the inverse: weight = counts.sum() / (len(counts) * counts)."
        yield scope.tell(inner if inner is not given else node, "loss", message, remedy)


@text_rule(513)
def rare_ones_less(scope: Scope) -> Iterator[Found]:
    """``pos_weight=positives / negatives``: of rare positives it makes each count less, and not more."""
    flow = scope.flow
    for node in flow.nodes:
        given = [k.value for k in node.keywords if k.arg == "pos_weight"] if isinstance(node, ast.Call) else []
        share = _share_of_positives(flow, given[0]) if given else None
        if share is None:
            continue
        message = (
            f"weighs positive samples by how frequent they are (`{ast.unparse(share)}`, given to "
            f"{called(node)} as pos_weight): the rarer they are, the less each of them counts."
        )
        yield scope.tell(share, "loss", message, "Take the inverse: pos_weight = negatives / positives.")


def _share_of_positives(flow: Flow, node: ast.expr, depth: int = 10) -> ast.expr | None:
    """The share of positive samples, or how many they are for one that is not; None where a weight is anything else."""
    inner = flow.inner(node)
    if isinstance(inner, ast.Call) and called(inner) in KEEPING and depth:
        function = isinstance(inner.func, ast.Name) or ast.unparse(inner.func.value) in ("torch", "np", "core", "numpy")  # type: ignore[attr-defined]
        of = (inner.args[0] if inner.args else None) if function else inner.func.value  # type: ignore[attr-defined]
        of = of.elts[0] if isinstance(of, ast.List) and len(of.elts) == 1 else of
        return _share_of_positives(flow, of, depth - 1) if of is not None else None
    if isinstance(inner, ast.Call) and called(inner) == "mean" and TARGETS.search(ast.unparse(inner)):
        return inner
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
        above, below = ast.unparse(inner.left), ast.unparse(inner.right)
        if POSITIVE.search(above) and not NEGATIVE.search(above) and not POSITIVE.search(below):
            return inner
        rest = flow.inner(inner.right)
        odds = isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Sub) and flow.number(rest.left) == 1
        if odds and ast.unparse(rest.right) == above and depth and _share_of_positives(flow, inner.left, depth - 1):  # type: ignore[attr-defined]
            return inner
    return None


def _weights(node: ast.AST) -> ast.expr | None:
    """The weights that a loss is given for its classes, or a sampler for its samples."""
    if not isinstance(node, ast.Call):
        return None
    if called(node) in LOSSES:
        given = next((k.value for k in node.keywords if k.arg == "weight"), None)
        if given is None and called(node).endswith("Loss") and node.args:
            given = node.args[0]
        return given
    if called(node) == "WeightedRandomSampler":
        return node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "weights"), None)
    return None


def _rising(flow: Flow, node: ast.expr, depth: int = 10) -> ast.expr | None:
    """The counts that an expression rises with; None where it falls with them, or nobody can tell."""
    if not depth:
        return None
    if called(node) in COUNTING or _counted(node):
        return node
    value = flow.value(node)
    if value is not None:
        return _rising(flow, value, depth - 1)
    own = function_of(flow.source, node) if isinstance(node, ast.Call) else None
    if own is not None:
        ends = [n.value for n in own_nodes(own) if isinstance(n, ast.Return) and n.value is not None]
        return _rising(flow_of(flow.source, own), ends[0], depth - 1) if len(ends) == 1 else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [(node.left, node.right), (node.right, node.left)]
        of = next((a for a, b in sides if flow.number(b) is not None or _argument(flow, b)), None)
        return _rising(flow, of, depth - 1) if of is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        below = _rising(flow, node.right, depth - 1)
        whole = called(node.right) in ("sum", "len", "max", "numel", "size") or below is None
        return _rising(flow, node.left, depth - 1) if whole and called(node.left) not in ("sum", "max", "len") else None
    if isinstance(node, ast.Call) and called(node) in KEEPING:
        function = isinstance(node.func, ast.Name) or ast.unparse(node.func.value) in ("torch", "np", "core", "numpy")  # type: ignore[attr-defined]
        of = (node.args[0] if node.args else None) if function else node.func.value  # type: ignore[attr-defined]
        return _rising(flow, of, depth - 1) if of is not None else None
    if isinstance(node, ast.Subscript):
        return _rising(flow, node.value, depth - 1)  # of each sample its class's
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        return _of_each(flow, node, depth)
    return None


def _argument(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is an argument of the function: how many classes there are."""
    arguments = flow.scope.args.args if isinstance(flow.scope, Function) else []
    return any(a.arg == name_of(node) for a in arguments)


def _of_each(flow: Flow, node: ast.ListComp, depth: int) -> ast.expr | None:
    """``[c / total for c in counts]``, ``[counts[y] for y in labels]``."""
    loop, element = node.generators[0], node.elt
    while isinstance(element, ast.BinOp) and isinstance(element.op, ast.Div):
        if ast.unparse(loop.target) in {ast.unparse(n) for n in ast.walk(element.right)}:
            return None
        element = element.left
    if ast.unparse(element) == ast.unparse(loop.target):
        return _rising(flow, loop.iter, depth - 1)
    if isinstance(element, ast.Subscript) and ast.unparse(loop.target) in ast.unparse(element.slice):
        return _rising(flow, element.value, depth - 1)
    return element if _counted(element) else None


def _counted(node: ast.AST) -> bool:
    """Whether an expression counts a class: ``(y == c).sum()``, ``labels.count(c)``, ``Counter(labels)``."""
    if called(node) == "Counter":
        return True
    if called(node) == "count" and isinstance(node, ast.Call) and len(node.args) == 1:
        return True
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if called(node) in ("item", "float") and inner is not None:
        return _counted(inner)
    return called(node) == "sum" and isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Eq)
