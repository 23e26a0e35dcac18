"""Probabilities of what was drawn: ratios of their logarithms, ratios that are always 1, likelihoods made smaller."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule, text_rule
from ..reading.calls import operands
from ..reading.expressions import Flow, flow_of, losses
from ..reading.recorded import entering
from ..reading.scope import Scope
from ..reading.sources import Function, Source, called, sources
from .policy_gradients import LOG_PROBABILITY

RATIO = re.compile(r"ratio|(^|_)(rt|r_t|iw|importance)(_|$)", re.I)
OLD = re.compile(r"(^|_)old|behaviou?r|(^|_)mu_", re.I)
LOG = re.compile(r"log_?p(rob|i)?s?($|_)|logp|log_prob", re.I)
VARIANCE = re.compile(r"(^|[_.(])(var|variances?|cov|covariance|sigma_?2|sigma_sq)s?($|[_.)\d])", re.I)
ROOT = re.compile(r"sqrt|cholesky|log_?var|exp\(0\.5|\* 0\.5|\*\* 0\.5|std", re.I)
CLIPS = {"clamp", "clip", "clamp_"}
ONE = 1e-5  # by which a ratio that is always 1 may differ from it


@text_rule(444)
def ratio_of_logarithms(scope: Scope) -> Iterator[Found]:
    """``ratio = log_prob / old_log_prob``: a ratio of probabilities is the exponential of the difference."""
    source, flow = scope.source, scope.flow
    for node in flow.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.Sub):
            continue
        both = [_is_logarithm(flow, side) for side in (node.left, node.right)]
        taken = next((p for p in source.around(node) if isinstance(p, ast.Assign)), None)
        name = ast.unparse(taken.targets[0]) if taken is not None and taken.value is node else ""
        clipped = (
            isinstance(node.op, ast.Div)
            and name.isidentifier()
            and any(called(n) in CLIPS and ast.unparse(operands(n)[0]) == name for n in flow.nodes)
        )
        if not all(both) or "log" in name.lower() or not (RATIO.search(name) or clipped):
            continue
        does = "divides" if isinstance(node.op, ast.Div) else "subtracts"
        message = (
            f"{does} logarithms of probabilities for a ratio (`{name} = {ast.unparse(node)}`): the "
            "ratio of two probabilities is the exponential of the difference of their logarithms."
        )
        remedy = f"{name} = torch.exp({ast.unparse(node.left)} - {ast.unparse(node.right)})."
        yield scope.tell(node, "loss", message, remedy)


def _is_logarithm(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is a logarithm of a probability, by its name or by what it was given."""
    while isinstance(node, ast.Subscript):
        node = node.value
    name = str(getattr(node, "id", getattr(node, "attr", "")))
    inner = ast.unparse(flow.inner(node))
    return bool(LOG_PROBABILITY.search(name) or LOG.search(name) or re.search(r"log_softmax|log_prob\(", inner)) and (
        not re.search(r"\.exp\(|torch\.exp\(", inner)
    )


@text_rule(445)
def always_one(scope: Scope) -> Iterator[Found]:
    """``old = log_prob.detach()`` and ``ratio = (log_prob - old).exp()`` in each of several steps: the ratio is 1, and
    no clipping bounds anything."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    if trace.steps.count < 2:
        return
    clipped = any(called(n) in CLIPS for n in flow.nodes)
    for node in flow.nodes:
        of = _exponent(node)
        inner = flow.inner(of) if of is not None else None
        if not clipped or not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
            continue
        right = flow.inner(inner.right)
        if not isinstance(right, ast.Call):
            continue
        cut = called(right) == "detach" and ast.unparse(getattr(right.func, "value", right)) == ast.unparse(inner.left)
        if not cut and not _anew(source, flow, inner.left, right):
            continue
        if _turns_around(source, node) < 2:
            continue  # one step for each batch of samples, maybe: then the policy that acted is this one
        row = scope.row(node) if isinstance(node, ast.expr) else None
        span = None if row is None or row.stats is None else (row.stats.min, row.stats.max)
        if span is not None and None not in span and max(abs(end - 1) for end in span if end is not None) > ONE:
            continue
        message = (
            f"takes the old log-probability from the new one (`{ast.unparse(right)}`): their ratio "
            f"({source.place(node).words}) is 1 in every step, and clipping it bounds nothing."
        )
        remedy = "Keep the log-probabilities of the policy that acted, from when it acted, for all steps."
        yield scope.tell(right, "loss", message, remedy, rows=[row] if row is not None and span is not None else [])


def _anew(source: Source, flow: Flow, new: ast.expr, old: ast.Call) -> bool:
    """Whether an old log-probability is computed just as the new one in the same block, under no_grad."""
    made = flow.inner(new)
    if not isinstance(made, ast.Call) or ast.unparse(made) != ast.unparse(old) or made is old:
        return False
    loops = [[a for a in source.around(call) if isinstance(a, ast.For | ast.While)] for call in (made, old)]
    quiet = any(isinstance(a, ast.With) and "no_grad" in ast.unparse(a.items[0]) for a in source.around(old))
    return bool(loops[0]) and loops[0] == loops[1] and quiet


def _turns_around(source: Source, node: ast.AST) -> int:
    """In how many loops a node stands, with those around the one call of its function."""
    found = 0
    for above in source.around(node):
        found += isinstance(above, ast.For | ast.While)
        if isinstance(above, Function):
            calls = source.calls.get(above.name, [])
            return found + (
                _turns_around(source, calls[0]) if len(calls) == 1 and calls[0].lineno > above.lineno else 0
            )
    return found


def _exponent(node: ast.AST) -> ast.expr | None:
    """Return what a call takes the exponential of."""
    if called(node) != "exp" or not isinstance(node, ast.Call):
        return None
    return node.args[0] if node.args else getattr(node.func, "value", None)


@rule(446)
def likelihood_lowered(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = dist.log_prob(x).mean()``: each step makes the data less likely."""
    if not trace.steps.count:
        return []
    for source in sources(trace):
        if "maximize=True" in source.text:
            continue
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for of, _ in losses(flow):
                terms = list(flow.terms(of))
                if len(terms) != 1 or terms[0].sign < 0 or called(terms[0].node) != "log_prob":
                    continue
                node = terms[0].node
                shown = entering(trace, source, node, 1)
                if shown is None:
                    continue
                line, col, place = source.place(node)
                message = capital(
                    f"{place} gives the loss a log-probability with a plus (`{ast.unparse(node)}`): each step makes "
                    "the loss smaller, and with it the probability of the data."
                )
                remedy = "Put a minus before it: loss = -log_prob.mean()."
                return [Found("loss", "warning", line, col, message, remedy, shown)]
    return []


@rule(464)
def variance_for_scale(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``Normal(mu, var)``: the second argument is the standard deviation, as scale_tril is a root of the covariance."""
    for source in sources(trace):
        for scope in source.scopes(earlier=trace.steps.count > 0):
            flow = flow_of(source, scope)
            for node in flow.nodes:
                given = _scale(node)
                if (
                    given is None
                    or not VARIANCE.search(ast.unparse(given))
                    or ROOT.search(ast.unparse(flow.inner(given)))
                ):
                    continue
                line, col, place = source.place(node)
                name = called(node)
                wants = "a root of the covariance" if name == "MultivariateNormal" else "the standard deviation"
                message = capital(
                    f"{place} gives {name} a variance (`{ast.unparse(node)}`) where it takes {wants}: what is fitted "
                    "by it is the standard deviation, whatever its name."
                )
                return [Found("loss", "warning", line, col, message, f"Give it the root: {_rooted(given)}.")]
    return []


def _scale(node: ast.AST) -> ast.expr | None:
    """Return what a distribution is given as its standard deviation, or as the root of its covariance."""
    if not isinstance(node, ast.Call) or called(node) not in ("Normal", "LogNormal", "MultivariateNormal"):
        return None
    wanted = "scale_tril" if called(node) == "MultivariateNormal" else "scale"
    named = next((k.value for k in node.keywords if k.arg == wanted), None)
    return node.args[1] if named is None and wanted == "scale" and len(node.args) > 1 else named


def _rooted(node: ast.expr) -> str:
    """Return the root of a variance, in code."""
    inner = (
        node.args[0] if called(node) in ("diag", "diag_embed") and isinstance(node, ast.Call) and node.args else None
    )
    if inner is not None:
        return f"{ast.unparse(node.func)}({ast.unparse(inner)}.sqrt())"  # type: ignore[attr-defined]
    return f"{ast.unparse(node)}.sqrt()"
