"""Losses that are written by hand: without their sign, their square or their second half, weighed when they are one
number already, averaged over what a mask leaves out, or of labels 0 and 1 where -1 and 1 are meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Ref, Row, Trace, ancestors
from ..finding import Found, capital, code_of, where
from ..order import rule, text_rule
from ..reading.calls import mentions, name_of
from ..reading.expressions import Flow, defaults, losses, reduced
from ..reading.scope import Scope, scopes
from ..reading.sources import called, sources
from ..training.start_values import _range
from .losses import EACH, PROBABILITIES, _source
from .overlaps import share_of

AVERAGES = {"mean", "sum", "div", "nanmean"}
ASCENDS = re.compile(
    r"adv|attack|unlearn|forget|ascen|maximi|fool|critic|disc|domain|revers|perturb|fgsm|entropy", re.I
)
PADDING = re.compile(r"(^|[._])(pad\w*|ignore\w*|blank)$", re.I)
LOSSES = re.compile(r"loss|nll|(^|_)(ce|bce|mse|err|error|nlls)(_|$)|cross_entropy|criterion", re.I)
MASKED = re.compile(r"mask|valid|(^|_)(m|pad|keep|observed|present)(_|$)", re.I)
SIGNED = {"SoftMarginLoss": "soft_margin_loss", "HingeEmbeddingLoss": "hinge_embedding_loss",
          "CosineEmbeddingLoss": "cosine_embedding_loss", "MarginRankingLoss": "margin_ranking_loss"}  # fmt: skip


def _roots(trace: Trace) -> list[Row]:
    """What backward() ran on, where an optimizer's step came after."""
    if not trace.steps.ran and not trace.steps.by_hand:
        return []
    return [row for rows in trace.roots.values() for row in rows]


def _inside(ref: Ref, ops: set[str]) -> tuple[Ref, list[str]]:
    """Walk down through some ops that have one operand on the graph; return what they are of, and which those were."""
    passed = []
    while isinstance(ref, Row) and (ref.op in ops or ref.view) and ref.refs:
        on_graph = [r for r in ref.refs if r.requires_grad]
        if len(on_graph) != 1 or (ref.op == "div" and any(r is not on_graph[0] and r.shape for r in ref.refs)):
            break
        passed.append(ref.op)
        ref = on_graph[0]
    return ref, passed


def _say(trace: Trace, row: Row, severity: str, says: str, remedy: str, *more: Row) -> list[Found]:
    line, col, place = where(trace, row.chain)
    return [Found("loss", severity, line, col, capital(f"{place} {says}"), remedy, [*more, row])]


@rule(514)
def weighed_when_one(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(F.mse_loss(out, y) * weights).mean()``: the loss is one number by then, and weighs all samples alike."""
    for row in trace.rows:
        if row.op not in ("mul", "div") or not row.reached or len(row.refs) != 2 or not row.shape:
            continue
        one = next((r for r in row.refs if r.requires_grad and not r.shape and isinstance(r, Row)), None)
        weights = next((r for r in row.refs if not r.requires_grad and r.shape and r is not one), None)
        if one is None or weights is None or row.shape in ((), (1,)):
            continue
        inner, _ = _inside(one, AVERAGES)
        if not isinstance(inner, Row) or inner.op not in EACH or (inner is not one and one.op not in AVERAGES):
            continue
        says = (
            f"weighs a loss that is one number already (`{code_of(trace, row)}`): it was averaged before "
            f"(`{code_of(trace, one)}`), so each of the {len(weights.shape) and weights.shape[0]:,} weights multiplies "
            "the same number, and no sample counts more or less than another."
        )
        remedy = 'Ask for one loss a sample: reduction="none", times the weights, then the mean.'
        return _say(trace, row, "warning", says, remedy, one)
    return []


@rule(515)
def averaged_with_the_masked(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(loss * mask).mean()``: the zeros of the mask are counted in the mean."""
    for row in trace.rows:
        if row.op != "mean" or row.shape or not row.reached or not isinstance(row.refs[0], Row):
            continue
        times = row.refs[0]
        if times.op != "mul" or len(times.refs) != 2:
            continue
        loss = next((r for r in times.refs if r.requires_grad), None)
        mask = next((r for r in times.refs if not r.requires_grad and r.shape), None)
        inner = _source(loss) if loss is not None else None
        if mask is None or inner is None or inner.op not in EACH | {"pow", "square", "abs"} or not inner.shape:
            continue
        held = (0.0, 1.0) if mask.dtype == "bool" else _range(mask)
        if held != (0.0, 1.0) or not MASKED.search(code_of(trace, times)) or _by_confidence(mask):
            continue
        says = (
            f"averages over what the mask leaves out as well (`{code_of(trace, row)}`): the zeros are counted, so the "
            "loss is smaller the more is masked, and batches weigh by what they leave out."
        )
        return _say(trace, row, "note", says, "Divide by what is left: (loss * mask).sum() / mask.sum().", times)
    return []


def _by_confidence(mask: Ref) -> bool:
    """Whether a mask leaves out what a model is not sure of, as pseudo-labels do: whose loss is meant to be smaller."""
    for _ in range(6):
        if not isinstance(mask, Row) or not mask.refs:
            return False
        if mask.op in ("ge", "gt", "le", "lt") and str(mask.refs[0].dtype).startswith(("float", "bfloat")):
            return True
        mask = mask.refs[0]
    return False


@text_rule(516, earlier=True)
def padding_alone(scope: Scope) -> Iterator[Found]:
    """``mask = target == PAD`` and ``(loss * mask).sum() / mask.sum()``: the padding is trained, and nothing else."""
    source, flow = scope.source, scope.flow
    for node in flow.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [(node.left, node.right), (node.right, node.left)]
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            sides = [(node.value, node.slice)]
        else:
            continue
        for loss, mask in sides:
            if not LOSSES.search(name_of(loss) or called(loss)) or LOSSES.search(name_of(mask)):
                continue
            made = _keeps(flow, mask)
            if made is None:
                continue
            place = source.place(made).words
            says = (
                f"keeps the padding and leaves out the rest (`{ast.unparse(node)}`): the mask is 1 where "
                f"`{ast.unparse(made)}` ({place}), so the loss is that of the padding alone."
            )
            right = f"{ast.unparse(made.left)} != {ast.unparse(made.comparators[0])}"
            yield scope.tell(made, "loss", says, f"Turn it round: {right}.")


def _keeps(flow: Flow, node: ast.expr) -> ast.Compare | None:
    """The comparison with the padding that a mask is."""
    for _ in range(6):
        if isinstance(node, ast.Compare):
            equal = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
            pads = equal and bool(PADDING.search(ast.unparse(node.comparators[0])))
            return node if pads else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            node = node.func.value
        elif isinstance(node, ast.Call) and called(node) in ("to", "type", "view", "reshape", "unsqueeze"):
            node = node.func.value  # type: ignore[attr-defined]
        elif (value := flow.value(node)) is not None:
            node = value
        else:
            return None
    return None


def _terms(root: Row) -> tuple[Ref, list[str]]:
    """What a loss is the mean or sum of, looked at through numbers that it is multiplied with; and those ops."""
    return _inside(root, AVERAGES | {"neg", "mul"})


def _signed_by_values(root: Row) -> int:
    """1 for a loss that was never below 0, -1 for one that was never above, 0 where nobody knows."""
    course = root.stats
    if course is None or course.min is None or course.max is None or course.min == course.max == 0.0:
        return 0
    return 1 if course.min >= 0.0 else -1 if course.max <= 0.0 else 0


@rule(517)
def loss_raised(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = -F.cross_entropy(out, y)``: the step makes it larger."""
    for root in _roots(trace):
        inner, _ = _terms(root)
        if not isinstance(inner, Row) or _signed_by_values(root) >= 0 or not _is_error(inner):
            continue
        if inner is root or _signed_by_values(inner) < 0 or inner.stats is None or (inner.stats.min or 0.0) < 0.0:
            continue  # it is negative by itself, as of scores that are no log-probabilities
        if any(ASCENDS.search(n.id) for s in sources(trace) for n in s.nodes if isinstance(n, ast.Name)):
            continue
        if "maximize" in trace.code or any(not leaf.module for leaf in trace.gradients):
            continue
        row = root
        while row.op not in ("neg", "mul") and isinstance(row.refs[0], Row) and row is not inner:
            row = row.refs[0]
        if row.op not in ("neg", "mul"):
            continue  # a loss that is below 0 by what it was given, and not by a sign
        says = (
            f"takes minus the loss (`{code_of(trace, row)}`): `{code_of(trace, inner)}` is to become small already, so "
            "each step makes the model worse, and the number falls for ever."
        )
        return _say(trace, row, "warning", says, "Leave the minus out.", inner)
    return []


def _is_error(row: Row) -> bool:
    """Whether an op gives errors, which are best at 0: a loss, or the square of a difference with data."""
    if row.op in EACH:
        return True
    less = _source(row.refs[0]) if row.op in ("pow", "square", "abs") and row.refs else None
    return (
        less is not None and less.op == "sub" and len(less.refs) == 2 and sum(r.requires_grad for r in less.refs) == 1
    )


PICKS = {"gather", "getitem", "index", "take_along_dim"}


@rule(518)
def likelihood_by_hand(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``logp[range(n), y].mean()`` as the loss, without its minus."""
    for root in _roots(trace):
        inner, passed = _inside(root, AVERAGES | PICKS)
        if not isinstance(inner, Row) or "maximize" in trace.code or _signed_by_values(root) >= 0:
            continue
        picked = bool(PICKS & set(passed))
        if inner.op == "mul" and len(inner.refs) == 2 and sum(r.requires_grad for r in inner.refs) == 1:
            hot = next(r for r in inner.refs if not r.requires_grad)
            logs = _source(next(r for r in inner.refs if r.requires_grad))
            if logs is None or _range(hot) != (0.0, 1.0) or hot.shape != logs.shape:
                continue
            inner, picked = logs, True
        of = inner.refs[0] if inner.op == "log" and inner.refs else None
        if of is not None:
            of, through = _inside(of, PICKS | {"add", "clamp", "clamp_min", "maximum", "sum"})
            made, picked = _source(of), picked or bool(PICKS & set(through))
            if made is None or made.op not in PROBABILITIES:
                continue
        elif inner.op != "log_softmax":
            continue
        if not picked:
            continue
        says = (
            f"makes the probability of the right class smaller (`{code_of(trace, root)}`): it is the mean of their "
            "logarithms without a minus, and a step brings it down."
        )
        return _say(trace, root, "warning", says, "Take minus the mean, or F.nll_loss(logp, target).", inner)
    return []


@rule(519)
def half_of_it(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``-(y * torch.log(p)).mean()`` of a sigmoid: nothing is said against a 1 where the label is 0."""
    for root in _roots(trace):
        inner, _ = _inside(root, AVERAGES | {"neg"})
        if not isinstance(inner, Row) or inner.op != "mul" or len(inner.refs) != 2 or _signed_by_values(root) <= 0:
            continue
        logarithm = next((r for r in inner.refs if r.requires_grad), None)
        labels = next((r for r in inner.refs if not r.requires_grad and r.shape), None)
        log = _source(logarithm) if logarithm is not None else None
        if log is None or labels is None or log.op != "log" or _range(labels) != (0.0, 1.0):
            continue
        of, _ = _inside(log.refs[0], {"add", "clamp", "clamp_min", "maximum"})
        soft = _source(of)
        if soft is None or soft.op != "sigmoid":
            continue
        says = (
            f"has the first half of a binary cross-entropy (`{code_of(trace, inner)}`): where a label is 0 it is 0 "
            "whatever the model says, so the model learns to say 1 to everything."
        )
        remedy = "Use F.binary_cross_entropy, or add (1 - y) * torch.log(1 - p)."
        return _say(trace, inner, "warning", says, remedy, soft)
    return []


@rule(536)
def errors_cancel(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(pred - y).mean() ** 2``: errors above and below cancel before they are squared."""
    for root in _roots(trace):
        inner, passed = _inside(root, {"pow", "square", "abs", "mean", "sqrt"})
        if (
            not isinstance(inner, Row)
            or inner.op not in ("sub", "rsub")
            or len(inner.refs) != 2
            or "mean" not in passed
        ):
            continue
        if sum(r.requires_grad for r in inner.refs) != 1 or inner.refs[0].shape != inner.refs[1].shape:
            continue
        first = next((op for op in reversed(passed) if op in ("mean", "pow", "square", "abs")), "")
        if first != "mean" or not inner.shape:
            continue
        then = "before they are squared" if {"pow", "square", "abs"} & set(passed) else "and nothing squares them"
        says = (
            f"averages differences with their signs (`{code_of(trace, inner)}`, {then}): those above and below cancel, "
            "so a model whose mean is right has no loss, whatever it says of a sample."
        )
        at = root
        while at.op != "mean" and isinstance(at.refs[0], Row):
            at = at.refs[0]
        return _say(trace, at, "warning", says, "Square first: ((pred - y) ** 2).mean().", inner)
    return []


@rule(537)
def made_unlike(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = F.cosine_similarity(a, b).mean()``: a step makes the two less alike."""
    for root in _roots(trace):
        inner, passed = _inside(root, AVERAGES)
        entered = trace.entered[inner.path] if isinstance(inner, Row) and inner.path < len(trace.entered) else ()
        ends = isinstance(inner, Row) and (
            re.match(r"[\w.]*cosine_similarity\(", code_of(trace, inner)) is not None
            or any(kind == "CosineSimilarity" for kind, _ in entered)
        )
        averaged = "mean" in passed or {"sum", "div"} <= set(passed)
        if not ends or not averaged or not isinstance(inner, Row):
            continue
        says = (
            f"makes a similarity the loss (`{code_of(trace, inner)}`): a step brings it down, so what belongs together "
            "is pushed apart."
        )
        return _say(trace, root, "note", says, "For pairs that belong together take 1 - similarity.", inner)
    return []


@rule(538)
def labels_without_sign(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``nn.SoftMarginLoss()`` or a hinge by hand with labels 0 and 1: for a 0 the loss is the same whatever is said."""
    for row in trace.rows:
        if not row.reached and not any(r.requires_grad for r in row.refs) and row.op not in ("eq", "ne", "neg"):
            continue
        name = _signed(trace, row)
        hinge = None if name else _hinge(row)
        if name is None and hinge is None:
            continue
        labels = hinge or next(
            (r for r in row.refs if not r.requires_grad and r.shape and r.dtype != "bool" and _range(r) == (0.0, 1.0)),
            None,
        )
        if labels is None:
            continue
        what = name or "a hinge"
        says = (
            f"gives {what} labels 0 and 1 (`{code_of(trace, row)}`): it multiplies by them or asks for -1, so a sample "
            "with a 0 is not pushed the other way."
        )
        return _say(trace, row, "warning", says, "Give it -1 and 1: 2 * y - 1.")
    return []


def _signed(trace: Trace, row: Row) -> str | None:
    """The loss with labels -1 and 1 that an op is of."""
    entered = trace.entered[row.path] if row.path < len(trace.entered) else ()
    for kind, function in SIGNED.items():
        if any(k == kind for k, _ in entered) or function in code_of(trace, row):
            return function
    return None


def _hinge(row: Row) -> Ref | None:
    """The labels of ``relu(1 - y * score)``."""
    if row.op not in ("relu", "clamp", "clamp_min") or not row.reached:
        return None
    less = _source(row.refs[0])
    if less is None or less.op not in ("rsub", "sub"):
        return None
    times = next((s for s in (_source(r) for r in less.refs) if s is not None and s.op == "mul"), None)
    if times is None or len(times.refs) != 2 or sum(r.requires_grad for r in times.refs) != 1:
        return None
    labels = next(r for r in times.refs if not r.requires_grad)
    score = next(r for r in times.refs if r.requires_grad)
    return labels if labels.shape == score.shape and labels.shape and _range(labels) == (0.0, 1.0) else None


@text_rule(539, earlier=True)
def sums_to_more(scope: Scope) -> Iterator[Found]:
    """``one_hot * (1 - eps) + eps``: every class gets eps, and the shares sum to more than 1."""
    flow = scope.flow
    for call in scope.calls("scatter_"):
        if (made := _filled_beside_one(scope, call)) is not None:
            says = (
                f"smooths labels so that they sum to more than 1 (`{ast.unparse(made)}`; {scope.place(call).words}: "
                f"`{ast.unparse(call)}`): each class gets {ast.unparse(made.args[1])}, and not each its part of it."
            )
            yield scope.tell(
                made, "loss", says, f"Divide it among the other classes: {ast.unparse(made.args[1])} / (n - 1)."
            )
    for node in flow.of(ast.BinOp):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        for product, rest in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
                continue
            if not _one_less(product.left, rest) and not _one_less(product.right, rest):
                continue
            hot = product.right if _one_less(product.left, rest) else product.left
            if "one_hot" not in ast.unparse(flow.inner(hot)) and not re.search(r"hot", name_of(hot)):
                continue
            says = (
                f"smooths labels so that they sum to more than 1 (`{ast.unparse(node)}`): each class gets "
                f"{ast.unparse(rest)}, and not each its part of it."
            )
            remedy = f"Divide it among the n classes: + {ast.unparse(rest)} / n."
            yield scope.tell(node, "loss", says, remedy)


def _filled_beside_one(scope: Scope, call: ast.Call) -> ast.Call | None:
    """The call that fills shares with what smooths them, where the right one is then set to 1, or to 1 less that."""
    flow = scope.flow
    of = getattr(call.func, "value", call)
    made = flow.inner(of)
    if called(made) not in ("full", "full_like") or not isinstance(made, ast.Call) or len(made.args) < 2:
        return None
    fill, hot = flow.inner(made.args[1]), call.args[2] if len(call.args) > 2 else None
    own = defaults(flow.scope).get(name_of(fill))
    known = flow.number(fill) if own is None else flow.number(own)
    if hot is None or known is None or not 0.0 < known < 0.5:
        return None
    one = flow.number(hot) == 1 or _one_less(hot, made.args[1])
    mixes = mentions(r"log_softmax|cross_entropy|kl_div|KLDivLoss", scope.source.text)
    return made if one and mixes else None


def _one_less(node: ast.expr, rest: ast.expr) -> bool:
    """Whether an expression is 1 minus another."""
    less = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and ast.unparse(node.left) in ("1", "1.0")
    return less and bool(name_of(rest)) and ast.unparse(node.right) == ast.unparse(rest)  # type: ignore[attr-defined]


SCORES = re.compile(r"(^|_)(dice|iou|jaccard|tversky|f1|ssim|psnr|acc|accuracy|overlap|r2|ncc|corr|correlation)(_|$)|"
                    r"(dice|iou|jaccard|overlap)(_?(score|coef|coeff|index))?$", re.I)  # fmt: skip


@rule(543)
def score_lowered(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = dice(pred, y)`` of a score that is 1 at its best: a step brings it down."""
    read = next((one for scope in scopes(trace, earlier=True) for one in _scores_read(scope)), None)
    if read is not None:
        return [read]
    for root in _roots(trace):
        inner, _ = _inside(root, {"mean", "sum", "cast"})
        if not isinstance(inner, Row) or inner.op != "div" or not inner.requires_grad or _signed_by_values(root) <= 0:
            continue
        products = [r for r in ancestors([inner]) if isinstance(r, Row) and r.op == "mul" and len(r.refs) == 2]
        common = next((r for r in products if share_of(trace, r) is inner and _held_to_a_mask(r)), None)
        if common is not None:
            says = (
                f"makes an overlap the loss (`{code_of(trace, inner)}`): it is 1 where everything is right, and a step "
                "brings it down."
            )
            return _say(trace, root, "warning", says, "Take 1 minus it.", common)
    return []


def _held_to_a_mask(row: Row) -> bool:
    """Whether a product is of something on the graph with zeros and ones."""
    masks = [r for r in row.refs if not r.requires_grad and r.shape]
    return len(masks) == 1 and _range(masks[0]) == (0.0, 1.0)


def _scores_read(scope: Scope) -> Iterator[Found]:
    """Told of a score that the text makes the loss, by its name."""
    source, flow = scope.source, scope.flow
    for of, _ in losses(flow):
        for term in flow.terms(of, whole=SCORES):
            node = flow.inner(term.node)
            while (inner := reduced(node)) is not None:
                node = flow.inner(inner)
            if term.sign < 0 or not isinstance(node, ast.Call):
                continue
            function = called(node)
            if not SCORES.search(function) or re.search(r"loss|dist|err|_cost", function, re.I):
                continue
            many = len(list(flow.terms(of, whole=SCORES)))
            alone = many == 1 or re.search(r"dice|iou|jaccard|tversky", function, re.I)
            falls = _falls(source, function) and not re.search(r"(^|_)(r2|nse)(_|$)", function)
            if falls or not alone:
                continue
            says = (
                f"makes a score the loss (`{ast.unparse(node)}`): {function} is 1 where everything is right, and a "
                "step brings it down."
            )
            yield scope.tell(node, "loss", says, f"Take 1 - {ast.unparse(node)}.")


def _falls(source: object, function: str) -> bool:
    """Whether a function of the text gives 1 minus something, or minus it."""
    for node in source.nodes:  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for value in (n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None):
                if isinstance(value, ast.UnaryOp) or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)):
                    return True
                if isinstance(value, ast.Name | ast.Call) and re.search(r"loss", ast.unparse(value)):
                    return True
    return False
