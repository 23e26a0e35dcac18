"""Figures whose parts take each other's place: precision and recall, what was missed and what was wrongly found, the
arguments of a metric, classes where an AUC wants scores."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import PREDICTED, TRUE, bare, function_of, functions, name_of, operands
from ..reading.expressions import Flow, flow_of
from ..reading.scope import Scope, calls, flow_around, tell
from ..reading.sources import Source, assigned, called, sources

ORDERED = {"precision_score", "recall_score", "r2_score", "roc_auc_score", "average_precision_score", "log_loss",
           "classification_report", "confusion_matrix", "precision_recall_fscore_support", "fbeta_score",
           "mean_absolute_percentage_error", "explained_variance_score", "roc_curve", "precision_recall_curve",
           "balanced_accuracy_score", "brier_score_loss"}  # fmt: skip
"""Functions of scikit-learn's that take what is true first, and for which it matters."""
AREAS = re.compile(
    r"(^|_)(area_under\w*|roc_?auc|auroc|auc|average_precision|roc_curve|precision_recall_curve)(_|$)", re.I
)
RIGHT = re.compile(r"^(n_|num_)?(tp|true_?pos\w*)$", re.I)
WRONG = re.compile(r"^(n_|num_)?(fp|false_?pos\w*)$", re.I)
MISSED = re.compile(r"^(n_|num_)?(fn|false_?neg\w*)$", re.I)


@rule(755)
def arguments_exchanged(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``r2(pred, y)`` of a function ``r2(y_true, y_pred)``, by its arguments' names."""
    known = functions(trace)
    for source, node in calls(trace, *ORDERED, *known):
        name = called(node)
        if len(node.args) < 2 or any(isinstance(a, ast.Starred) for a in node.args[:2]):
            continue
        first, second = (bare(a) for a in node.args[:2])
        if name in known and isinstance(node.func, ast.Name):
            names = [a.arg for a in known[name][1].args.args if a.arg not in ("self", "cls")][:2]
            if len(names) < 2 or _alike(known[name][1], *names):
                continue
            order = [_side(n) for n in names]
        elif name in ORDERED and "sklearn" in source.text:
            names, order = ["y_true", "y_pred"], ["true", "predicted"]
        else:
            continue
        if None in order or order[0] == order[1] or [_side(_word(a)) for a in (first, second)] != order[::-1]:
            continue
        says = (
            f"gives {name} its arguments the wrong way round (`{ast.unparse(node)}`): it takes {names[0]} first and "
            f"{names[1]} second, and it makes a difference which is which."
        )
        remedy = f"Write {name}({', '.join(ast.unparse(a) for a in (node.args[1], node.args[0], *node.args[2:]))})."
        return tell(source, node, "evaluation", "warning", says, remedy)
    return []


def _word(node: ast.expr) -> str:
    """The name that an argument goes by."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and node.args and called(node) in ("cat", "concatenate", "stack", "hstack", "round"):
        node = bare(node.args[0])
    return name_of(node)


def _side(name: str) -> str | None:
    """Whether a name is that of a prediction or of what is true; None for neither."""
    if PREDICTED.search(name):
        return "predicted"
    return "true" if TRUE.search(name) else None


def _alike(function: ast.FunctionDef, one: str, other: str) -> bool:
    """Whether a function seems to use its two arguments alike: as often, and by the same methods."""

    def uses(name: str) -> list[str]:
        found = []
        for node in ast.walk(function):
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.Name) and inner.id == name:
                    how = node.attr if isinstance(node, ast.Attribute) else type(node).__name__
                    found.append(called(node) if isinstance(node, ast.Call) else how)
        return sorted(found)

    return uses(one) == uses(other)


@rule(756, proof="of classes an area under the curve knows a single threshold")
def classes_for_scores(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``roc_auc_score(y, prob > 0.5)``: of classes there is one threshold, and no order to judge."""
    names = {name for source, node in calls(trace, *_areas(trace)) for name in (called(node),)}
    for source, node in calls(trace, *sorted(names)):
        if len(node.args) < 2:
            continue
        flow = flow_around(source, node)
        for score in node.args[:2]:
            made = _classes(flow, score)
            if made is None or (TRUE.search(_word(bare(score))) and not PREDICTED.search(_word(bare(score)))):
                continue
            says = (
                f"gives {called(node)} classes (`{ast.unparse(score)}`, which is `{ast.unparse(made)}`): the area "
                "is one "
                "over all thresholds, and of classes there is one alone, so it comes out too low."
            )
            return tell(source, node, "evaluation", "warning", says, "Give it the probabilities, or the logits.")
    return []


def _areas(trace: Trace) -> set[str]:
    return {name for source in sources(trace) for name in source.calls if AREAS.search(name)}


def _classes(flow: Flow, node: ast.expr) -> ast.expr | None:
    """The expression that makes classes of scores."""
    for _ in range(6):
        node = bare(node)
        if isinstance(node, ast.Compare) and speaks_of_half(node):
            return node
        if isinstance(node, ast.Call) and called(node) in ("round", "argmax"):
            return node
        value = flow.value(node)
        if value is None:
            return None
        node = value
    return None


def speaks_of_half(node: ast.Compare) -> bool:
    """Return whether a comparison is one with a threshold."""
    return isinstance(node.ops[0], ast.Gt | ast.GtE) and not isinstance(node.comparators[0], ast.Call)


@text_rule(757, earlier=True)
def precision_for_recall(scope: Scope) -> Iterator[Found]:
    """``precision = tp / (tp + fn)``; ``fp = ((pred == 0) & (true == 1)).sum()``."""
    flow = scope.flow
    for node in flow.of(ast.Assign):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        name, value = name_of(node.targets[0]), node.value
        counted = _counted(value) if WRONG.match(name) or MISSED.match(name) else None
        if counted is not None:
            found, truth = counted
            is_missed = (found, truth) == (0, 1)
            if {found, truth} != {0, 1} or bool(MISSED.match(name)) == is_missed:
                continue
            what = "were missed" if is_missed else "were wrongly found"
            says = (
                f"counts for {name} the samples that {what} (`{ast.unparse(value)}`): predicted {found} where "
                f"{truth} is true."
            )
            remedy = "A false positive is predicted 1 and is 0; a false negative is predicted 0 and is 1."
            yield scope.tell(node, "evaluation", says, remedy)
        kind = (
            "precision"
            if re.search(r"prec|ppv", name, re.I)
            else "recall"
            if re.search(r"rec(all)?(_|$)|sensitiv|tpr", name, re.I)
            else ""
        )
        other = _divisor(flow, value) if kind else ""
        if not other or other == kind:
            continue
        says = (
            f"calls {name} what is the {other} (`{ast.unparse(value)}`): of "
            f"{'all that are positive' if other == 'recall' else 'all that were found'} "
            "how many were right."
        )
        remedy = "precision = tp / (tp + fp); recall = tp / (tp + fn)."
        yield scope.tell(node, "evaluation", says, remedy)


@text_rule(772, earlier=True)
def sums_of_the_other_side(scope: Scope) -> Iterator[Found]:
    """``cm[true, pred] += 1`` and ``recall = cm.diag() / cm.sum(0)``: the columns are what was predicted."""
    source, flow = scope.source, scope.flow
    rows: dict[str, str] = {}  # a matrix -> of what its rows are
    for node in flow.of(ast.AugAssign):
        target = node.target if isinstance(node, ast.AugAssign) else None
        if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Tuple):
            continue
        sides = [_side(_word(bare(_looped(source, e)))) for e in target.slice.elts[:2]]
        if sides in (["true", "predicted"], ["predicted", "true"]):
            rows[ast.unparse(target.value)] = str(sides[0])
    for pair in assigned(flow.nodes):
        first = _rows_of_matrix(source, pair.value)
        if first is not None:
            rows[pair.name] = first
    for node in flow.of(ast.Assign) if rows else ():
        assert isinstance(node, ast.Assign)
        name = name_of(node.targets[0])
        kind = "precision" if re.search(r"prec", name, re.I) else "recall" if re.search(r"rec", name, re.I) else ""
        for matrix, first in rows.items() if kind else ():
            text = ast.unparse(node.value)
            found = re.search(rf"/ \(?{re.escape(matrix)}\.sum\((?:dim=|axis=)?(0|1|-1)", text)
            if found is None or f"{matrix}.diag" not in text:
                continue
            over_columns = found[1] != "0"  # what is left are the rows' sums
            of = first if over_columns else {"true": "predicted", "predicted": "true"}[first]
            if of == ("true" if kind == "recall" else "predicted"):
                continue
            says = (
                f"calls {name} what is divided by the sums of what was {of} (`{text}`; {matrix} has what is "
                f"{first} in its rows): that is the {'precision' if kind == 'recall' else 'recall'}."
            )
            remedy = "Recall divides by what is true of a class, precision by what was predicted as one."
            yield scope.tell(node, "evaluation", says, remedy)


def _rows_of_matrix(source: Source, node: ast.expr) -> str | None:
    """Of what the rows of a matrix are that a function of the user's counts by ``bincount(true * k + pred)``, or
    scikit-learn's confusion_matrix."""
    if called(node) == "confusion_matrix" and "sklearn" in source.text and isinstance(node, ast.Call) and node.args:
        side = _side(_word(bare(node.args[0])))
        return None if side == "predicted" else "true"
    function = function_of(source, node) if isinstance(node, ast.Call) else None
    for count in (n for n in ast.walk(function) if called(n) == "bincount") if function is not None else ():
        flow = flow_of(source, function)  # type: ignore[arg-type]
        of = flow.inner(operands(count)[0]) if operands(count) else None
        if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Add):
            continue
        product, rest = (of.left, of.right) if isinstance(of.left, ast.BinOp) else (of.right, of.left)
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            side = next((s for s in (_side(name_of(product.left)), _side(name_of(product.right))) if s), None)
            other = _side(name_of(rest))
            return side or ({"true": "predicted", "predicted": "true"}[other] if other else None)
    return None


def _looped(source: Source, node: ast.expr) -> ast.expr:
    """What a loop over ``zip(y, pred)`` gives a variable; anything else as it is."""
    for loop in source.around(node) if isinstance(node, ast.Name) else ():
        if isinstance(loop, ast.For) and called(loop.iter) == "zip" and isinstance(loop.target, ast.Tuple):
            names = [name_of(t) for t in loop.target.elts]
            if name_of(node) in names and isinstance(loop.iter, ast.Call):
                return loop.iter.args[names.index(name_of(node))]
    return node


def _divisor(flow: Flow, node: ast.expr) -> str:
    """What ``tp / (tp + ...)`` is: "precision", "recall" or "" for anything else."""
    if isinstance(node, ast.IfExp):
        node = node.body
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not RIGHT.match(name_of(bare(node.left))):
        return ""
    below = {name_of(n) for n in ast.walk(flow.inner(node.right))}
    if not any(RIGHT.match(n) for n in below):
        return ""
    wrong, missed = any(WRONG.match(n) for n in below), any(MISSED.match(n) for n in below)
    return "" if wrong == missed else "precision" if wrong else "recall"


def _counted(node: ast.expr) -> tuple[int, int] | None:
    """What ``((pred == 1) & (true == 0)).sum()`` counts: the prediction, and what is true."""
    both = next(
        (n for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.BitAnd | ast.Mult)), None
    )
    if both is None:
        return None
    held: dict[str, int] = {}
    for side in (both.left, both.right):
        number = 1
        if isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.Invert):
            side, number = side.operand, 0
        elif isinstance(side, ast.Compare) and isinstance(side.ops[0], ast.Eq):
            value = side.comparators[0]
            if not isinstance(value, ast.Constant) or value.value not in (0, 1, True, False):
                return None
            side, number = side.left, int(value.value == 1)
        elif isinstance(side, ast.BinOp) and isinstance(side.op, ast.Sub) and ast.unparse(side.left) == "1":
            side, number = side.right, 0
        which = _side(_word(bare(side))) or ("predicted" if _word(bare(side)) in ("p", "yp") else None)
        if which is None:
            return None
        held[which] = number
    return (held["predicted"], held["true"]) if len(held) == 2 else None
