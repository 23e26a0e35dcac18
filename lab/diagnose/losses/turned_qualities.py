"""What is to grow and is made small, and scores that are turned: qualities as losses, ranks with the other sign, sums
before the logarithm, positives without a negative."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Row, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import function_of, mentions, name_of, operands, option, reduction, rows_at
from ..reading.expressions import Flow, losses
from ..reading.passed import result
from ..reading.recorded import entering
from ..reading.scope import Index, Scope, goals, indices, stripped, told
from ..reading.sources import Source, called, key, own_nodes
from .compared_samples import NEGATIVE, POSITIVE

QUALITY = re.compile(
    r"(^|_)(ms_?ssim|ssim|psnr|si_?sdr|si_?snr|snr|sdr|iou|miou|jaccard|dice|dice_(coef|coeff|score)|f1|f1_score|"
    r"accuracy|auc|auroc|ndcg|pesq|stoi|r2_?score|ncc|pearson|structural_?similarity(_?(index|measure))?|correlation|overlap|"
    r"signal_to_noise(_ratio)?|peak_signal_to_noise(_ratio)?|intersection_over_union|explained_variance)$", re.I,
)  # fmt: skip
NAMED = re.compile(r"ssim|psnr|sd?n?r\(|iou|jaccard|dice|f1|accuracy|auc|ndcg|pesq|stoi|r2|ncc|pearson|structural|"
                   r"correlation|overlap|signal_to_noise|intersection_over|explained_var", re.I)  # fmt: skip
UNTRUE = re.compile(rf"{NEGATIVE.pattern}|(^|_)(noise|bad|fake|corrupt(ed)?|random|unseen|false)s?(_|\d|$)", re.I)
TRULY = re.compile(r"(^|_)(good|true|context|ctx|liked|taken|seen)s?(_|\d|$)", re.I)
LOSS = re.compile(r"loss|neg|dist|error|1_?minus|inv", re.I)
DRAWN = {"randint", "multinomial", "randperm", "random_integers"}
DISTANCE = re.compile(r"dist|(^|_)d(_|$)", re.I)
APART = {"mse_loss", "l1_loss", "sub", "squared_error", "smooth_l1_loss", "absolute_error", "huber_loss"}


@text_rule(358, "backward", trains=True)
def quality_made_small(scope: Scope) -> Iterator[Found]:
    """``loss = ssim(out, clean)``: each step makes the pictures less alike."""
    source, index = scope.source, scope.index
    if "maximize=True" in source.text:
        return
    for of, _ in losses(index.flow):
        for term in index.flow.terms(of, whole=QUALITY) if mentions(NAMED, source.text) else ():
            inner = stripped(index.flow, term.node)
            if term.sign < 0 or not isinstance(inner, ast.Call) or not QUALITY.search(called(inner)):
                continue
            if LOSS.search(called(inner)) or _turned(source, inner):
                continue
            shown = entering(scope.trace, source, term.node, term.sign)
            if shown is None:
                continue
            message = (
                f"gives the loss {called(inner)} with a plus (`{ast.unparse(inner)}`), which is large where all is "
                "well: each step makes the loss smaller, and the result worse."
            )
            remedy = f"Take 1 - {called(inner)}(...), or put a minus before it."
            yield scope.tell(inner, "loss", message, remedy, rows=shown)


def _turned(source: Source, call: ast.Call) -> bool:
    """Whether the user's function gives a quality that is turned round already, or is a class of which nobody knows."""
    own = function_of(source, call)
    if own is None:  # a class, or an instance of one
        program = list(ast.walk(source.program)) if not source.name else source.nodes
        return any(
            (isinstance(n, ast.ClassDef) and n.name == called(call))
            or (isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and name_of(n.targets[0]) == called(call))
            for n in program
        )
    ends = [n.value for n in own_nodes(own) if isinstance(n, ast.Return) and n.value is not None]
    for end in ends:
        while isinstance(end, ast.Call) and called(end) in ("mean", "sum") and operands(end):
            end = operands(end)[0]
        minus = isinstance(end, ast.UnaryOp) and isinstance(end.op, ast.USub)
        if minus or (
            isinstance(end, ast.BinOp) and isinstance(end.op, ast.Sub) and ast.unparse(end.left) in ("1", "1.0")
        ):
            return True
    return False


def _ranked(index: Index, node: ast.expr) -> tuple[int, int] | None:
    """The signs of a positive and a negative sample's score in a difference."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        sides = [index.flow.inner(side) for side in (node.left, node.right)]
        drawn = [_drawn(index, side) for side in sides]
        if sorted(drawn) == [False, True] and called(sides[0]) == called(sides[1]) != "":
            return (1, -1) if drawn[1] else (-1, 1)
    found: dict[str, int] = {}
    terms = list(index.flow.terms(node, whole=re.compile(f"({POSITIVE.pattern})|({NEGATIVE.pattern})", re.I)))
    for term in terms:
        names = {name_of(n) for n in ast.walk(term.node)} - {""}
        if any(DISTANCE.search(n) for n in names):
            return None
        which = {("pos" if POSITIVE.search(n) else "neg") for n in names if POSITIVE.search(n) or NEGATIVE.search(n)}
        if len(which) == 1:
            found[which.pop()] = term.sign
    return (found["pos"], found["neg"]) if len(found) == 2 else None


def _drawn(index: Index, score: ast.expr) -> bool:
    """Whether a score is asked for something that was drawn at random, and for nothing that the data have."""
    made = [index.flow.inner(o) for o in operands(score)]
    made = [given for one in made if (given := result(index.flow.source, one) or one) is not None]
    return any(any(called(n) in DRAWN for n in ast.walk(one) if not _chosen_by(one, n)) for one in made)


def _chosen_by(node: ast.expr, inner: ast.AST) -> bool:
    """Whether an expression only chooses by another one: ``items[torch.randint(...)]``."""
    return any(isinstance(n, ast.Subscript) and inner in set(ast.walk(n.slice)) for n in ast.walk(node))


def _log_sigmoids(index: Index) -> list[tuple[ast.Call, ast.expr, int]]:
    """Logarithms of sigmoids, and softplus, minus one of them: the call, what of, and that it grows with that."""
    calls = index.called("logsigmoid", "log_sigmoid")
    found = [(c, operands(c)[0], 1) for c in calls if operands(c)]
    for call in index.called("log"):
        of = index.flow.inner(operands(call)[0]) if operands(call) else call
        while isinstance(of, ast.BinOp) and isinstance(of.op, ast.Add):
            of = index.flow.inner(of.left)
        if called(of) == "sigmoid" and operands(of):
            found.append((call, operands(of)[0], 1))
    found += [(c, operands(c)[0], 1) for c in index.called("softplus") if operands(c)]
    return found


@text_rule(359)
def ranks_turned(scope: Scope) -> Iterator[Found]:
    """``-F.logsigmoid(neg - pos).mean()``: what nobody has taken is ranked first."""
    source, index = scope.source, scope.index
    for call, of, way in _log_sigmoids(index):
        signs = _ranked(index, index.flow.inner(of))
        if signs is None or signs[0] == signs[1]:
            continue
        sign = _sign_in_loss(source, index, call)
        if sign * way * signs[0] >= 0:
            continue
        message = (
            f"rewards a negative sample's score above the positive one's (`{ast.unparse(call)}`): each step "
            "ranks what "
            "was not chosen higher."
        )
        yield scope.tell(call, "loss", message, "Turn the difference round: -F.logsigmoid(pos - neg).mean().")


def _sign_in_loss(source: Source, index: Index, call: ast.Call) -> int:
    """1 where the loss has minus a term, so that each step makes it large; -1 where it has the term; else 0."""
    for of in goals(source, index.flow):
        for term in index.flow.terms(of):
            if term.node is call:
                return -term.sign
    for node in index.kinds.get(ast.Return, ()):
        for term in index.flow.terms(node.value) if node.value is not None else ():
            if term.node is call and term.sign < 0:
                return 1
    return 0


@text_rule(360)
def both_rewarded(scope: Scope) -> Iterator[Found]:
    """``-(F.logsigmoid(pos_score) + F.logsigmoid(neg_score))``: negatives are raised as well."""
    source, index = scope.source, scope.index
    seen: dict[str, tuple[int, ast.Call]] = {}
    for call, of, way in _log_sigmoids(index):
        terms = list(index.flow.terms(of, whole=re.compile(f"({POSITIVE.pattern})|({NEGATIVE.pattern})", re.I)))
        names = {name_of(n) for n in ast.walk(of)} - {""}
        if not any(POSITIVE.search(n) or NEGATIVE.search(n) for n in names):
            names = {name_of(n) for t in terms for n in ast.walk(t.node)} - {""}
        which = {
            "neg" if UNTRUE.search(n) else "pos"
            for n in names
            if UNTRUE.search(n) or POSITIVE.search(n) or TRULY.search(n)
        }
        sign = _sign_in_loss(source, index, call)
        if len(terms) == 1 and len(which) == 1 and sign:
            seen[which.pop()] = sign * way * terms[0].sign, call
    if len(seen) != 2 or seen["pos"][0] != seen["neg"][0] or seen["pos"][0] < 0:
        return
    call = seen["neg"][1]
    message = (
        f"raises the scores of negative samples as it does those of positive ones (`{ast.unparse(call)}`): "
        "all scores "
        "grow, and nothing tells the two apart."
    )
    yield scope.tell(
        call, "loss", message, f"Put a minus before the score: F.logsigmoid(-{ast.unparse(operands(call)[0])})."
    )


@text_rule(361)
def summed_before_the_logarithm(scope: Scope) -> Iterator[Found]:
    """``F.logsigmoid((u * (i - j)).sum())``: one number of the whole batch, where each pair has its own."""
    trace, source, index = scope.trace, scope.source, scope.index
    for call, of, _ in _log_sigmoids(index):
        inner = index.flow.inner(of)
        if called(inner) not in ("sum", "mean") or option(inner, "dim", 1) is not None:  # type: ignore[arg-type]
            continue
        rows = [r for r in rows_at(trace, source, inner) if r.op in ("sum", "mean") and r.shape == () and r.refs
                and r.refs[0].shape and r.refs[0].shape[0] > 1]  # fmt: skip
        if not rows or not isinstance(inner, ast.Call):
            continue
        n = rows[0].refs[0].shape[0]
        message = (
            f"sums over all {n} samples (`{ast.unparse(inner)}`) before `{ast.unparse(call)}`: the loss has "
            "one number "
            "for the batch, which is soon large, and after that no pair teaches anything."
        )
        remedy = "Sum over the features alone: F.logsigmoid((...).sum(-1)), and the mean of that."
        yield scope.tell(inner, "loss", message, remedy, rows=rows[:1])


@rule(362)
def one_score_for_all(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``pred = (U(u) * V(i)).sum()`` compared with (N,) ratings: one number against every one."""
    for row in trace.rows:
        if row.op not in APART or len(row.refs) < 2 or not row.requires_grad:
            continue
        for one, other in ((row.refs[0], row.refs[1]), (row.refs[1], row.refs[0])):
            while isinstance(one, Row) and one.op in ("add", "sub", "mul") and one.shape == () and one.refs:
                one = next((r for r in one.refs if isinstance(r, Row)), one.refs[0])  # beside a bias
            if not isinstance(one, Row) or one.op != "sum" or one.shape != () or not one.requires_grad or not one.refs:
                continue
            before = one.refs[0]
            if not isinstance(before, Row) or before.op != "mul" or len(other.shape) != 1 or other.shape[0] < 2:
                continue
            if len(before.shape) != 2 or before.shape[0] != other.shape[0]:
                continue
            for source, index in indices(trace):
                for call in index.called("sum"):
                    if one not in rows_at(trace, source, call):
                        continue
                    n = other.shape[0]
                    message = (
                        f"sums over the samples as well (`{ast.unparse(call)}` is one number for {n}), and line "
                        f"{row.line} "
                        f"compares that with each of {n}: all samples get one prediction."
                    )
                    return told(source, call, "layout", message, "Sum over the features alone: .sum(-1).", rows=[one])
    return []


@text_rule(363, "ones")
def positives_alone(scope: Scope) -> Iterator[Found]:
    """``binary_cross_entropy_with_logits(score, torch.ones(n))`` and no other loss: the answer is always yes."""
    trace, source, index = scope.trace, scope.source, scope.index
    if not trace.steps.count or sum(len(rows) for rows in trace.roots.values()) != 1:
        return
    for of, _ in losses(index.flow):
        terms = list(index.flow.terms(of))
        call = terms[0].node if len(terms) == 1 else None
        if not isinstance(call, ast.Call) or "binary_cross_entropy" not in scope.does(call) or len(call.args) < 2:
            continue
        target = index.flow.inner(call.args[1])
        if called(target) not in ("ones", "ones_like") or mentions(r"neg|fake|(?i:discrim|netd\b|critic)", source.text):
            continue
        if mentions(r"(zeros|zeros_like|zero_)\([^()]", source.text) and _another(scope, call):
            continue
        message = (
            f"has no target but 1 (`{ast.unparse(call)}`): the loss is least where every score is large, "
            "whoever is "
            "asked for what, and that is what is learnt."
        )
        yield scope.tell(call, "loss", message, "Draw pairs that did not happen as well, and give them the target 0.")


def _another(scope: Scope, loss: ast.Call) -> bool:
    """Whether targets of 0 are made beside a loss whose targets are 1."""
    targets = [c for c in scope.calls("zeros", "zeros_like", "cat", "fill_") if "zeros" in ast.unparse(c)]
    return len(scope.calls("binary_cross_entropy_with_logits", "binary_cross_entropy")) > 1 or bool(targets)


@text_rule(364)
def mean_over_classes(scope: Scope) -> Iterator[Found]:
    """``nn.KLDivLoss()`` as it is by default: the divergence divided by the number of classes too."""
    trace, source, index = scope.trace, scope.source, scope.index
    if "kl_div" not in source.text and "KLDivLoss" not in source.text:
        return
    for call in index.called("kl_div"):
        own = [value for value in source.given.get(key(call.func), ()) if called(value) == "KLDivLoss"]
        own += [call.func] if called(call.func) == "KLDivLoss" else []
        setting = own[0] if own and isinstance(own[0], ast.Call) else call
        above = source.parents.get(call)
        by_hand = reduction(setting) == "none" and _over_classes(index.flow, source.parents.get(above or call))
        given = any(k.arg in ("reduction", "size_average", "reduce") for k in setting.keywords)
        if not by_hand and (given or (isinstance(above, ast.Attribute) and above.attr in ("sum", "mean"))):
            continue
        rows = [r for r in rows_at(trace, source, call) if len(r.shape) == 2 or (r.refs and len(r.refs[0].shape) == 2)]
        classes = max((r.shape[1] if len(r.shape) == 2 else r.refs[0].shape[1] for r in rows), default=0)
        if classes < 2:
            continue
        what = f"`{ast.unparse(setting)}`, by default" if not by_hand else f"`{ast.unparse(above or call)}(...)`"
        message = (
            f"averages over the {classes} classes as well as over the samples ({what}): what is called a divergence "
            f"here is {classes} times smaller than it is, and weighs so."
        )
        remedy = "Sum over the classes: .sum(1), and then the mean." if by_hand else "Give it reduction='batchmean'."
        yield scope.tell(setting, "loss", message, remedy, "note")


def _over_classes(flow: Flow, node: ast.AST | None) -> bool:
    """Whether it is ``.mean(1)`` or ``.mean(dim=-1)``."""
    over = option(node, "dim", 1) if isinstance(node, ast.Call) and called(node) == "mean" else None
    return over is not None and flow.number(over) in (1, -1)
