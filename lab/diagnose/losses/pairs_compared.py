"""Embeddings that are compared in pairs: not of one length, along the batch, the easiest for the hardest, friends
pushed apart, no gradient stopped, targets of 0 where -1 is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Row, Trace
from ..finding import Found
from ..order import text_rule
from ..reading.calls import function_of, made_as, mentions, name_of, operands, option, rows_at
from ..reading.expressions import losses
from ..reading.recorded import entering
from ..reading.scope import Index, Scope, spread, stripped, words
from ..reading.sources import Source, called
from .compared_samples import DISTANCES, NEGATIVE, POSITIVE

TEMPERATURE = re.compile(r"^(self\.)?(temperature|temp|tau|T|t)$")
SAME = re.compile(r"^(is_)?(same|similar|match|matched|positive)(_pair|_label)?$", re.I)
OTHER = re.compile(r"^(is_)?(diff|different|dissimilar|negative)(_pair|_label)?$", re.I)
PREDICTS = re.compile(r"pred(ictor|ict|_head)?$", re.I)
SIGNED = {"cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss",
          "CosineEmbeddingLoss", "MarginRankingLoss", "HingeEmbeddingLoss", "SoftMarginLoss"}  # fmt: skip
APART = re.compile(r"queue|off_diag|cross_entropy|logsumexp|margin|log_softmax|NTXent|InfoNCE|center|whiten")
SPREADS = {"var", "std", "cov", "var_mean", "std_mean"}
SATURATED = 30.0  # logits of this size: a softmax says one class for certain
PRODUCTS = {"matmul", "mm", "einsum", "bmm", "linear"}


@text_rule(454, "arange", trains=True)
def lengths_for_angles(scope: Scope) -> Iterator[Found]:
    """``z1 @ z2.T / 0.07`` of vectors of any length: scores of 100 and more, where cosines are meant."""
    trace, source, index = scope.trace, scope.source, scope.index
    for node in index.binary.get(ast.Div, ()):
        number = index.flow.number(node.right)
        low = (number is not None and 0 < number <= 0.2) or TEMPERATURE.match(ast.unparse(node.right))
        if not low or not _products(index.flow.inner(node.left)):
            continue
        rows = [r for r in rows_at(trace, source, node) if r.op == "div" and r.requires_grad and len(r.shape) == 2]
        rows = [r for r in rows if r.shape[0] == r.shape[1] and r.refs and isinstance(r.refs[0], Row)]
        if not rows or rows[0].stats is None or not isinstance(rows[0].refs[0], Row):
            continue
        before = rows[0].refs[0].stats
        size = max(abs(rows[0].stats.min or 0.0), abs(rows[0].stats.max or 0.0))
        if before is None or max(abs(before.min or 0.0), abs(before.max or 0.0)) < 1.05 or size < SATURATED:
            continue
        message = (
            f"divides products of vectors of any length by a temperature for cosines (`{ast.unparse(node)}`): the "
            f"logits reach {size:.3g}, where a softmax is certain of one class, and the lengths decide which."
        )
        remedy = "Bring them to length 1 first: z = F.normalize(z, dim=-1)."
        yield scope.tell(node, "loss", message, remedy, rows=rows[:1])


def _products(node: ast.expr) -> bool:
    """Whether an expression is a product of matrices."""
    return called(node) in PRODUCTS or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))


def _zero(along: ast.expr | None) -> bool:
    return along is not None and ast.unparse(along) == "0"


@text_rule(455, "norm")
def normalised_along_the_batch(scope: Scope) -> Iterator[Found]:
    """``F.normalize(z, dim=0)`` of (N, D), whose products with others are logits: each feature has length 1."""
    trace, source, index = scope.trace, scope.source, scope.index
    calls: list[ast.expr] = [c for c in index.called("normalize") if _zero(option(c, "dim", 2))]
    for node in index.binary.get(ast.Div, ()):
        norms = [n for n in spread(index.flow, node.right, 40) if called(n) in ("norm", "vector_norm")]
        if any(_zero(option(n, "dim", 2)) for n in norms):  # type: ignore[arg-type]
            calls.append(node)
    for call in calls:
        rows = [r for r in rows_at(trace, source, call) if r.op in ("div", "normalize") and len(r.shape) == 2]
        if not rows:
            continue
        n, d = rows[0].shape
        readers = [r for r in trace.rows if rows[0] in r.refs]
        readers += [r for v in readers if v.view for r in trace.rows if v in r.refs]
        square = [r for r in readers if r.op in PRODUCTS and r.shape == (n, n)]
        if not square or n == d:
            continue
        message = (
            f"brings each of {d} features to length 1 over the {n} samples (`{ast.unparse(call)}`), and line "
            f"{square[0].line} multiplies samples with each other: those have any length, and no product is "
            "a cosine."
        )
        yield scope.tell(call, "layout", message, "Normalise each sample: dim=-1.", rows=rows[:1])


def _pushes(index: Index, node: ast.expr) -> bool:
    """Whether a term is small where two are at least a margin apart: ``relu(margin - d)``."""
    hinge = [n for n in spread(index.flow, node, 40) if called(n) in ("relu", "clamp", "clamp_min", "maximum")]
    margin = [t for h in hinge for o in operands(h)[:1] for t in index.flow.terms(o)]
    return any("margin" in ast.unparse(t.node) and t.sign > 0 for t in margin)


@text_rule(460, "margin")
def easiest_for_hardest(scope: Scope) -> Iterator[Found]:
    """``neg = dist.masked_fill(same, 0).max(1).values``: the farthest negative is the one that is learnt already."""
    source, index = scope.source, scope.index
    for name, value, node in index.given:
        inner = stripped(index.flow, value)
        while isinstance(inner, ast.Attribute | ast.Subscript):
            inner = stripped(index.flow, inner.value)
        far = called(inner) in ("max", "amax")
        near = called(inner) in ("min", "amin")
        wrong = (far and NEGATIVE.search(name)) or (near and POSITIVE.search(name))
        if not wrong or not any(called(n) in DISTANCES for n in spread(index.flow, value, 120)):
            continue
        if not mentions(r"relu|clamp|softplus|margin_ranking_loss", source.text):
            continue
        what = "farthest of the others" if far else "nearest of its own kind"
        message = (
            f"takes for the hardest pair the {what} (`{ast.unparse(node)}`): it is the easiest one, the "
            "margin is kept "
            "soon, and the samples that are mixed up are not looked at."
        )
        remedy = "Take the nearest of the others: dist.masked_fill(same, inf).min(1), and the farthest of its own kind."
        yield scope.tell(node, "loss", message, remedy)


@text_rule(462, "margin")
def friends_apart(scope: Scope) -> Iterator[Found]:
    """``(1 - same) * d ** 2 + same * relu(margin - d) ** 2``: what is the same is pushed apart."""
    index = scope.index
    for call in index.called("where"):
        label = stripped(index.flow, call.args[0]) if len(call.args) == 3 else call
        label = operands(label)[0] if called(label) == "bool" and operands(label) else label
        same, other = SAME.match(name_of(label)) is not None, OTHER.match(name_of(label)) is not None
        if (
            same == other
            or not _pushes(index, call.args[1 if same else 2])
            or _pushes(index, call.args[2 if same else 1])
        ):
            continue
        message = (
            f"keeps what belongs together at least a margin apart (`{ast.unparse(call)}`): the hinge is taken where "
            f"{name_of(label)} says that the two are alike, and it is for pairs that differ."
        )
        yield scope.tell(call, "loss", message, "Exchange the two: the distance for pairs that are alike.")
    for node in index.products:
        for factor, rest in ((node.left, node.right), (node.right, node.left)):
            turned = (
                isinstance(factor, ast.BinOp)
                and isinstance(factor.op, ast.Sub)
                and ast.unparse(factor.left) in ("1", "1.0")
            )
            label = factor.right if turned and isinstance(factor, ast.BinOp) else factor
            same = SAME.match(name_of(label)) is not None
            if not same and not OTHER.match(name_of(label)):
                continue
            if not _pushes(index, rest) or same == turned:
                continue
            message = (
                f"keeps what belongs together at least a margin apart (`{ast.unparse(node)}`): "
                f"{ast.unparse(label)} is "
                f"{'1 where the two are alike' if same else '0 where the two are alike'}, and the hinge is "
                "for pairs "
                "that differ."
            )
            name = ast.unparse(label)
            remedy = f"Turn the weights round: {name} * d ** 2 + (1 - {name}) * F.relu(margin - d) ** 2."
            yield scope.tell(node, "loss", message, remedy)


@text_rule(340, "pred", trains=True)
def nothing_stopped(scope: Scope) -> Iterator[Found]:
    """``-cosine_similarity(predictor(z1), z2)`` with a gradient to both: all embeddings become one."""
    source, index = scope.source, scope.index
    if not mentions("(?i)cosine_?similarity|normalize|norm\\(", source.text) or mentions(APART, source.text):
        return
    if any(called(n) in SPREADS for of, _ in losses(index.flow) for n in spread(index.flow, of)):
        return  # what differs from sample to sample is held apart
    for call in _similar(source, index):
        asked = [stripped(index.flow, a) for a in call.args[:2]]
        predicted = [isinstance(a, ast.Call) and PREDICTS.search(ast.unparse(a.func)) is not None for a in asked]
        if sum(predicted) != 1:
            continue
        free = call.args[predicted.index(False)]
        if _stopped(source, index, free):
            continue
        message = (
            f"draws {ast.unparse(call.args[0])} and {ast.unparse(call.args[1])} together with a gradient to both "
            f"(`{ast.unparse(call)}`), and nothing holds different samples apart: the quickest way is to "
            "give all of "
            "them one vector."
        )
        yield scope.tell(call, "loss", message, f"Stop the gradient of the one: {ast.unparse(free)}.detach().")


def _similar(source: Source, index: Index) -> list[ast.Call]:
    """Calls of cosine_similarity, or of a function of the user's that only takes it of its two arguments."""
    found = [c for c in index.called("cosine_similarity") if len(c.args) >= 2]
    for calls in index.calls.values():
        for call in calls:
            own = function_of(source, call) if len(call.args) == 2 else None
            text = ast.unparse(own) if own is not None else ""
            by_hand = text.count("normalize(") == 2 and re.search(r"\* \w+\)?\.sum\(|sum\(\w+ \* \w+|@|einsum", text)
            if ("cosine_similarity(" in text or by_hand) and "detach" not in text:
                found.append(call)
    return found


def _stopped(source: Source, index: Index, free: ast.expr) -> bool:
    """Whether the gradient to one of the two is stopped: by detach, under no_grad, or by a network that follows."""
    for node in spread(index.flow, free, 60):
        if called(node) in ("detach", "item") or (isinstance(node, ast.Attribute) and node.attr == "data"):
            return True
        if isinstance(node, ast.Call | ast.Name):
            if re.search(r"target|teacher|momentum|ema|key", ast.unparse(node)):
                return True
            if any(isinstance(a, ast.With) and "no_grad" in ast.unparse(a.items[0]) for a in source.around(node)):
                return True
    return False


@text_rule(341, "backward", trains=True)
def similarity_lowered(scope: Scope) -> Iterator[Found]:
    """``loss = F.cosine_similarity(student, teacher).mean()``: each step makes them less alike."""
    source, index = scope.source, scope.index
    for of, _ in losses(index.flow):
        terms = list(index.flow.terms(of))
        if len(terms) != 1 or terms[0].sign < 0 or scope.does(terms[0].node) != "cosine_similarity":
            continue
        call = terms[0].node
        names = words(index.flow, call)
        if any(re.search(r"neg|orth|divers|apart|other", n, re.I) for n in names) or not isinstance(call, ast.Call):
            continue
        shown = entering(scope.trace, source, call, 1)
        if shown is None:
            continue
        fixed = any(_stopped(source, index, a) for a in operands(call)[:2])
        message = (
            f"makes a similarity small (`{ast.unparse(call)}` enters the loss with a plus): each step turns "
            "the two "
            "away from each other."
        )
        severity = "warning" if fixed else "note"
        place = index.flow.value(of) or call
        remedy = "Take 1 - similarity, or put a minus before it."
        yield scope.tell(place, "loss", message, remedy, severity, shown)


@text_rule(342)
def zeros_for_minus_ones(scope: Scope) -> Iterator[Found]:
    """``CosineEmbeddingLoss()(a, b, same.float())``: its targets are 1 and -1."""
    trace, source, index = scope.trace, scope.source, scope.index
    if not any(name in source.text for name in SIGNED):
        return
    made = {name for kind in SIGNED for name in made_as(source, kind)}
    for calls in index.calls.values():
        for call in calls:
            name = called(call)
            if not (name in SIGNED or name_of(call.func) in made) or len(call.args) < 2:
                continue
            target = call.args[1] if len(call.args) == 2 else call.args[2]
            inner = stripped(index.flow, target)
            span = _span(trace, source, call)
            if not isinstance(inner, ast.Compare) and span != (0.0, 1.0):
                continue
            kind = name if name in SIGNED else next(n for n in SIGNED if n in source.text)
            message = (
                f"gives {kind} targets of 0 and 1 (`{ast.unparse(target)}`): they are to be 1 and -1, and a "
                "pair with "
                "the target 0 is in neither of its two cases."
            )
            yield scope.tell(call, "loss", message, f"Bring them there: 2 * {ast.unparse(target)} - 1.")


def _span(trace: Trace, source: Source, call: ast.Call) -> tuple[float, float] | None:
    """The least and largest target that a loss was given, where its data are there."""
    for row in rows_at(trace, source, call):
        for ref in row.refs:
            if getattr(ref, "kind", "") == "input" and getattr(ref, "span", None) is not None and len(ref.shape) == 1:
                return ref.span  # type: ignore[union-attr, return-value]
    return None
