"""Terms of a loss that get lost or have the wrong weight: a total that is overwritten by one of its terms, an advantage
that is normalised between two uses, labels that sum to more than 1, a mean over classes, weights of a mixture that are
normalised along another dimension than they are summed over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from ..finding import Found
from ..order import text_rule
from ..reading.calls import bare, operands, option
from ..reading.expressions import Flow
from ..reading.scope import Scope
from ..reading.sources import called, names_in

ONE_HOT = re.compile(r"one_?hot", re.I)
CLIPS = {"clamp", "clip", "clamp_min", "clamp_max"}
PAIRS = {"min", "minimum", "max", "maximum", "stack"}
DEEP = 8


@text_rule(388)
def total_overwritten(scope: Scope) -> Iterator[Found]:
    """``total = a + b + c`` and then ``total = a``: what was left in from a test."""
    for node in scope.nodes:
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield from _overwritten(scope, block)
    yield from _overwritten(scope, list(getattr(scope.flow.scope, "body", [])))


def _overwritten(scope: Scope, block: list[ast.stmt]) -> Iterator[Found]:
    for first, second in pairwise(block):
        if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
            continue
        name = ast.unparse(first.targets[0])
        terms = list(scope.flow.terms(first.value))
        if ast.unparse(second.targets[0]) != name or len(terms) < 2 or not isinstance(first.value, ast.BinOp):
            continue
        was, now = names_in(first.value), names_in(second.value)
        if name in now or not now or not now < was or not isinstance(second.value, ast.Name | ast.BinOp):
            continue
        lost = sorted(was - now)
        message = (
            f"overwrites {name} (`{ast.unparse(second)}`), which {scope.place(first).words} has made of more terms: "
            f"{', '.join(lost[:4])} {'counts' if len(lost) == 1 else 'count'} for nothing."
        )
        row = scope.row(first.value)
        lost_rows = [row] if row is not None and row.requires_grad and not row.reached else []
        yield scope.tell(second, "loss", message, "Leave the line out, if it was there for a test.", rows=lost_rows)


@text_rule(389, "exp")
def changed_between(scope: Scope) -> Iterator[Found]:
    """``gain1 = ratio * adv``, ``adv = normed(adv)``, ``gain2 = clipped * adv`` and the smaller of both."""
    flow = scope.flow
    for call in scope.calls(*PAIRS):
        parts = [e for a in operands(call) for e in (a.elts if isinstance(a, ast.List | ast.Tuple) else [a])]
        names = [p for p in parts if isinstance(p, ast.Name)]
        values = [flow.value(p) for p in names]
        if len(names) != 2 or values[0] is None or values[1] is None:
            continue
        clips = [{called(n) for n in ast.walk(v)} & CLIPS for v in values if v is not None]
        if not any(clips) or all(clips):
            continue
        first, second = sorted((v for v in values if v is not None), key=lambda v: v.lineno)
        for pair in scope.index.given:
            between = first.lineno < pair.node.lineno < second.lineno
            if not between or pair.name not in names_in(first) & names_in(second) & names_in(pair.value):
                continue
            message = (
                f"changes {pair.name} between two uses (`{ast.unparse(pair.node)}`): {scope.place(first).words} has "
                f"taken it as it was (`{ast.unparse(first)}`), {scope.place(second).words} takes the new one, and "
                f"`{ast.unparse(call)}` compares the two."
            )
            yield scope.tell(pair.node, "loss", message, "Change it before both.")


@text_rule(390)
def smoothed_above_one(scope: Scope) -> Iterator[Found]:
    """``(1 - eps) * y + 1 / n``, where eps / n belongs: the labels of a sample sum to more than 1."""
    for node in scope.index.sums:
        for kept, spread in ((node.left, node.right), (node.right, node.left)):
            share = _rest(scope.flow, kept)
            if share is None or not isinstance(spread, ast.BinOp) or not isinstance(spread.op, ast.Div):
                continue
            one = isinstance(spread.left, ast.Constant) and spread.left.value == 1
            count = ast.unparse(spread.right)
            if not one or not re.search(r"size\(|shape\[|len\(|n_?class|num_|n_|\bK\b|\bC\b|vocab|entit", count, re.I):
                continue
            message = (
                f"smooths labels by (1 - {share}) and adds 1 / {count} to each (`{ast.unparse(node)}`): they sum to "
                f"2 - {share}, since {share} / {count} is what was taken away."
            )
            yield scope.tell(node, "loss", message, f"Add {share} / {count}.")


def _rest(flow: Flow, node: ast.expr) -> str | None:
    """What e is in ``(1 - e) * y``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    for factor in (node.left, node.right):
        if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub) and flow.number(factor.left) == 1:
            text = ast.unparse(factor.right)
            return text if re.search(r"smooth|eps|alpha", text, re.I) else None
    return None


@text_rule(391, "log")
def mean_over_one_hot(scope: Scope) -> Iterator[Found]:
    """``(-onehot * logp).mean()`` of (N, C): of each sample one entry counts, and all C are averaged."""
    for call in scope.calls("mean"):
        of = operands(call)
        if len(of) != 1 or call.keywords or not _of_one_class(scope.flow, of[0]):
            continue
        message = (
            f"averages over the classes as well (`{ast.unparse(call)}`): of each sample all entries but one are 0, and "
            "the loss is as many times too small as there are classes."
        )
        yield scope.tell(call, "loss", message, "Sum over the classes first: loss.sum(dim=1).mean().")


def _of_one_class(flow: Flow, node: ast.expr, depth: int = DEEP) -> bool:
    """Whether an expression is a product of one-hot labels and logarithms that are not summed yet."""
    node = flow.inner(node)
    if isinstance(node, ast.UnaryOp):
        return _of_one_class(flow, node.operand, depth)
    if not depth or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    sides = [node.left, node.right]
    bares = [bare(flow.inner(s.operand if isinstance(s, ast.UnaryOp) else s)) for s in sides]
    chosen = [called(b) in ("one_hot", "scatter", "scatter_") or ONE_HOT.search(ast.unparse(b)) for b in bares]
    logs = [called(b) in ("log", "log_softmax", "logsigmoid") for b in bares]
    if (chosen[0] and logs[1]) or (chosen[1] and logs[0]):
        return True
    return any(_of_one_class(flow, side, depth - 1) for side in sides)


@text_rule(339, "logsumexp", "log_softmax")
def summed_before_mixed(scope: Scope) -> Iterator[Found]:
    """``logp.sum(-1, keepdim=True) + log_softmax(pi, -1)`` and ``logsumexp(..., -1)``: the parts are multiplied."""
    flow = scope.flow

    def along(call: ast.expr) -> float | None:
        return flow.number(option(call, "dim", 1) or ast.Constant(None)) if isinstance(call, ast.Call) else None

    mixed = {along(call): call for call in scope.calls("logsumexp")}
    for node in scope.index.sums:
        for term, weights in ((node.left, node.right), (node.right, node.left)):
            kept = isinstance(term, ast.Call) and called(term) == "sum" and option(term, "keepdim", 2) is not None
            end = mixed.get(along(term)) if kept else None
            if end is None or called(flow.inner(weights)) != "log_softmax":
                continue
            message = (
                f"sums the log-probabilities over the parts of a mixture (`{ast.unparse(term)}`) before it weighs "
                f"them, and {scope.place(end).words} adds up what is the same for all (`{ast.unparse(end)}`)."
            )
            remedy = f"Leave out the sum: {ast.unparse(operands(term)[0])} in place of `{ast.unparse(term)}`."
            row = scope.row(term)
            yield scope.tell(term, "loss", message, remedy, rows=[row] if row is not None else [])


@text_rule(392, "logsumexp", "log_softmax")
def mixed_along_another(scope: Scope) -> Iterator[Found]:
    """``logpi = log_softmax(pi, -2)`` and ``logsumexp(logpi + logp, -1)``: the weights do not sum to 1."""
    flow = scope.flow
    for call in scope.calls("logsumexp"):
        of = operands(call)
        over = flow.number(option(call, "dim", 1) or ast.Constant(None))
        for term in flow.terms(of[0]) if of and over is not None else ():
            weights = flow.inner(term.node)
            if called(weights) != "log_softmax" or not isinstance(weights, ast.Call):
                continue
            along = flow.number(option(weights, "dim", 1) or ast.Constant(None))
            if along is None or over is None or (along < 0) != (over < 0) or along == over:
                continue
            one, whole = scope.row(weights), scope.row(of[0])
            if one is not None and whole is not None and along >= 0 and len(one.shape) != len(whole.shape):
                continue  # its dimensions are others there, as those of a Markov chain's moves
            message = (
                f"normalises the weights of a mixture along dimension {along:.0f} (`{ast.unparse(weights)}`), and "
                f"{scope.place(call).words} sums over dimension {over:.0f} (`{ast.unparse(call)}`): of one sample they "
                "do not sum to 1."
            )
            yield scope.tell(weights, "loss", message, f"Take the softmax over what is summed: dim={over:.0f}.")
