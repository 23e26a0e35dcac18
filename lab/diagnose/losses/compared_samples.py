"""Losses that compare samples with each other: a triplet that pushes the wrong pair apart, a similarity of each sample
with itself among those that it is to be told from, a temperature for some of the logits alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow, speaks_of
from ..reading.scope import Scope, spread
from ..reading.sources import assigned, called, names_in

POSITIVE = re.compile(r"(^|_)(p|pos|positive|positives|same|ap|match)(_|\d|$)|pos(_?dist)?$", re.I)
NEGATIVE = re.compile(r"(^|_)(n|neg|negative|negatives|diff|different|an)(_|\d|$)|neg(_?dist)?$", re.I)
TEMPERATURE = re.compile(r"^(temperature|temp|tau|T|t)$")
SIMILAR = {"matmul", "mm", "bmm", "einsum", "cosine_similarity"}
JOINS = {"cat", "concat", "concatenate", "hstack"}
DISTANCES = {"pairwise_distance", "norm", "cdist", "dist", "vector_norm", "euclidean", "distance"}


@text_rule(425, trains=True)
def pushed_the_wrong_way(scope: Scope) -> Iterator[Found]:
    """``relu(d_neg - d_pos + margin)`` of distances: what belongs together is pushed apart."""
    flow = scope.flow
    for node in flow.nodes:
        inside = _hinged(node)
        if inside is None:
            continue
        terms = list(flow.terms(inside, whole=re.compile(r"\w")))
        pos = [t for t in terms if _speaks(flow, t.node, POSITIVE, NEGATIVE)]
        neg = [t for t in terms if _speaks(flow, t.node, NEGATIVE, POSITIVE)]
        if len(pos) != 1 or len(neg) != 1 or pos[0].sign != -1 or neg[0].sign != 1:
            continue
        if not all(_distance(flow, t.node) for t in (pos[0], neg[0])):
            continue
        message = (
            f"makes the distance to what belongs together larger, and that to others smaller "
            f"(`{ast.unparse(inside)}`): the first enters the loss with a minus, the second with a plus."
        )
        remedy = f"Turn them round: {ast.unparse(pos[0].node)} - {ast.unparse(neg[0].node)} + margin."
        yield scope.tell(node, "loss", message, remedy)


def _speaks(flow: Flow, node: ast.expr, one: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Whether the names in a term are of one kind, or those of what its distance is between."""
    if speaks_of(node, one, other) or speaks_of(node, other, one):
        return speaks_of(node, one, other)
    inner = flow.inner(node)
    between = [flow.inner(a) for a in operands(inner)] if called(inner) in DISTANCES else []
    if len(between) == 2:
        return sum(speaks_of(b, one, other) for b in between) == 1 and not any(
            speaks_of(b, other, one) for b in between
        )
    return False


def _hinged(node: ast.AST) -> ast.expr | None:
    """What a call cuts off below 0."""
    if not isinstance(node, ast.Call):
        return None
    if called(node) == "relu" and len(node.args) == 1:
        return node.args[0]
    given = {k.arg: ast.unparse(k.value) for k in node.keywords}
    if called(node) in ("clamp", "clip", "clamp_min", "clamp_"):
        of = getattr(node.func, "value", None)
        args = list(node.args)
        if isinstance(of, ast.Name) and of.id in ("torch", "core", "F"):
            of, args = (args[0] if args else None), args[1:]
        low = given.get("min", ast.unparse(args[0]) if args else "")
        return of if low in ("0", "0.0", "0.") and isinstance(of, ast.expr) else None
    if called(node) in ("max", "maximum") and len(node.args) == 2:
        zero = [
            a for a in node.args if ast.unparse(a) in ("0", "0.0") or called(a) in ("zeros_like", "zeros", "tensor")
        ]
        rest = [a for a in node.args if a not in zero]
        return rest[0] if len(rest) == 1 else None
    return None


def _distance(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is a distance: by what it was computed with, or its name where nobody can tell."""
    inner = flow.inner(node)
    calls = {called(n) for n in ast.walk(inner)}
    if calls & DISTANCES or any("dist" in c.lower() for c in calls):
        return not any("sim" in c.lower() or "cos" in c.lower() for c in calls)
    squared = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) for n in ast.walk(inner)) or calls & {
        "pow",
        "square",
    }
    if squared and any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) for n in ast.walk(inner)):
        return True
    return isinstance(inner, ast.Name) and "dist" in inner.id.lower()


REMOVED = {"eye", "fill_diagonal_", "fill_diagonal", "masked_fill", "masked_fill_", "masked_select", "triu", "tril",
           "triu_indices", "tril_indices", "identity", "where", "scatter", "scatter_", "index_fill"}  # fmt: skip
SUMMED = {"cross_entropy", "log_softmax", "logsumexp", "LogSoftmax"}


@text_rule(426, trains=True)
def beside_itself(scope: Scope) -> Iterator[Found]:
    """``cross_entropy(z @ z.T / t, pair)``: each sample is one of those that it is to be told from."""
    source, flow = scope.source, scope.flow
    calls = {called(n) for n in flow.nodes}
    by_hand = {"exp", "log"} <= calls and "sum" in calls
    if calls & REMOVED or not (calls & SUMMED or by_hand or "CrossEntropyLoss" in source.text):
        return
    if any(_takes_away(n) for n in flow.nodes):
        return
    for node in flow.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        of = _with_itself(node.value)
        sim = node.targets[0].id
        if of is None or not _goes_into_a_loss(flow, sim):
            continue
        message = (
            f"compares each row of {of} with all rows (`{ast.unparse(node)}`), itself among them, and "
            f"nothing takes the diagonal out of {sim} again: there the similarity is the highest possible, so "
            "each sample is pushed away from itself, and its real partner hardly counts."
        )
        remedy = f"Take it out before the softmax: {sim}.fill_diagonal_(float('-inf'))."
        if called(node.value) == "exp":
            remedy = f"Take it out of the sum: {sim} * (1 - torch.eye(len({sim})))."
        yield scope.tell(node, "loss", message, remedy)


def _with_itself(node: ast.expr) -> str | None:
    """The variable that a product is of, with its own transpose, divided by a temperature or not."""
    if called(node) == "exp" and operands(node):
        node = operands(node)[0]
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        node = node.left
    sides: list[ast.expr] = []
    if called(node) == "einsum" and isinstance(node, ast.Call) and len(node.args) == 3:
        of, other = (ast.unparse(a) for a in node.args[1:])
        rows = re.fullmatch(r"(\w)(\w),(\w)\2->\1\3", str(getattr(node.args[0], "value", "")).replace(" ", ""))
        return of if of == other and rows is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        sides = [node.left, node.right]
    elif called(node) in ("matmul", "mm") and isinstance(node, ast.Call):
        own = node.func.value if isinstance(node.func, ast.Attribute) else None
        outside = isinstance(own, ast.Name) and own.id in ("torch", "core")
        sides = [*([] if own is None or outside else [own]), *node.args]
    elif called(node) == "cosine_similarity" and isinstance(node, ast.Call) and len(node.args) >= 2:
        first, second = (ast.unparse(a) for a in node.args[:2])
        root = first.partition(".unsqueeze")[0].partition("[")[0]
        forms = (".unsqueeze(", "[:, None", "[None")
        same = root == second.partition(".unsqueeze")[0].partition("[")[0] and first != second
        return root if same and all(any(f in text for f in forms) for text in (first, second)) else None
    if len(sides) != 2:
        return None
    root = ast.unparse(sides[0])
    turned = (f"{root}.T", f"{root}.t()", f"{root}.mT", f"{root}.transpose(0, 1)", f"{root}.transpose(1, 0)",
              f"{root}.permute(1, 0)", f"torch.t({root})")  # fmt: skip
    return root if ast.unparse(sides[1]) in turned else None


def _takes_away(node: ast.AST) -> bool:
    """Whether a statement leaves places out: by a mask, a part of the matrix, its diagonal, or what is there."""
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return any(isinstance(p, ast.Slice) for p in parts) or any(isinstance(n, ast.Invert) for n in ast.walk(node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return any(called(n) in ("exp", "diag", "diagonal", "diag_embed") for n in ast.walk(node))
    mask = isinstance(node, ast.Name | ast.Attribute) and "mask" in ast.unparse(node).rpartition(".")[2].lower()
    alone = called(node) in ("diag", "diagonal") and isinstance(node, ast.Call) and len(node.args) == 1
    return mask or (alone and not node.keywords)  # type: ignore[attr-defined]


def _goes_into_a_loss(flow: Flow, name: str) -> bool:
    """Whether a matrix of similarities is summed up as the logits of classes."""
    for node in flow.nodes:
        if isinstance(node, ast.Call) and name in names_in(node):
            text = ast.unparse(node.func).lower()
            if called(node) in SUMMED or re.search(r"criterion|loss|^ce$|cross", text):
                return True
            grown = any(p.name == name and called(p.value) == "exp" for p in assigned(flow.nodes))
            if (called(node) == "exp" or (called(node) == "sum" and grown)) and any(
                called(n) == "log" for n in flow.nodes
            ):
                return True
    return False


@text_rule(609, trains=True)
def one_part_cooled(scope: Scope) -> Iterator[Found]:
    """``cross_entropy(cat([pos, neg / tau], 1), zeros)``: some logits are divided by the temperature, others not."""
    for call in scope.calls("cross_entropy", "log_softmax", "logsumexp"):
        whole = scope.flow.inner(operands(call)[0]) if operands(call) else call
        if called(whole) not in JOINS or not isinstance(whole, ast.Call) or not whole.args:
            continue
        parts = whole.args[0].elts if isinstance(whole.args[0], ast.List | ast.Tuple) else []
        made = [list(spread(scope.flow, part)) for part in parts]
        if len(parts) < 2 or not all(any(map(_is_similarity, nodes)) for nodes in made):
            continue
        if any("scale" in name_of(n).lower() for nodes in made for n in nodes):
            continue  # by which they are multiplied
        by = [next((c for n in nodes if (c := _cools(scope.flow, n)) is not None), None) for nodes in made]
        one = next((n for n in by if n is not None), None)
        if one is None or None not in by:
            continue
        left = parts[by.index(None)]
        message = (
            f"puts {ast.unparse(left)} beside scores that are divided by a temperature (`{ast.unparse(one)}`, "
            f"{scope.place(one).words}), as logits of one softmax (`{ast.unparse(whole)}`): {ast.unparse(left)} is not "
            f"divided, so beside the others it hardly counts."
        )
        remedy = f"Divide all of them: {ast.unparse(left)} / {ast.unparse(one.right)}."
        yield scope.tell(whole, "loss", message, remedy)


def _is_similarity(node: ast.AST) -> bool:
    """Whether it is a product of vectors, or summed products of their parts."""
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    summed = called(node) == "sum" and bool(operands(node)) and isinstance(operands(node)[0], ast.BinOp)
    return product or summed or called(node) in SIMILAR


def _cools(flow: Flow, node: ast.AST) -> ast.BinOp | None:
    """The division by a temperature that a node is: by its name, or a number below 1."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return None
    number = flow.number(node.right)
    low = number is not None and 0 < number < 1
    return node if low or TEMPERATURE.match(name_of(node.right)) else None
