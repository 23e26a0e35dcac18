"""A generator that is trained from one kind of noise, and asked for samples from another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import operands
from ..reading.scope import Scope, scopes, spread, stripped, told
from ..reading.sources import Function, Source, called, key

NORMAL, UNIFORM = {"randn", "randn_like"}, {"rand", "rand_like"}
SAMPLES = re.compile(r"sampl|generat|infer|decod|show|plot|visual|eval|test", re.I)


class Draw(NamedTuple):
    """What a model is given: noise of one kind, drawn where, in which text, and whether for training."""

    normal: bool
    node: ast.Call
    source: Source
    trains: bool
    alone: bool
    """Whether it is given noise and nothing else."""


@rule(501)
def from_other_noise(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``net(torch.randn(n, 64))`` in the training, and ``net(torch.rand(9, 64))`` for what is shown."""
    calls: dict[str, list[tuple[Scope, ast.Call, bool]]] = {}
    for scope in scopes(trace, "randn", "rand(", earlier=True):
        for node in scope.nodes:
            if isinstance(node, ast.Call) and key(node.func) and node.args:
                asked = scope, node, _without_gradients(scope, node)
                calls.setdefault(key(node.func).lstrip("."), []).append(asked)
    draws: dict[str, list[Draw]] = {}
    for name, asked_for in calls.items():
        shown = [draw for scope, node, quiet in asked_for if quiet and (draw := _drawn(scope, node, False)) is not None]
        for scope, node, quiet in asked_for if shown else ():
            if not quiet and (draw := _drawn(scope, node, True)) is not None:
                draws.setdefault(name, [*shown]).append(draw)
    for name, given in draws.items():
        trained, shown = [d for d in given if d.trains], [d for d in given if not d.trains]
        kinds = {d.normal for d in trained}
        alike = {d.alone for d in trained}
        other = next((d for d in shown if d.normal not in kinds and d.alone in alike), None)
        if other is None or len(kinds) != 1:
            continue
        one, another = ("uniform", "normal") if not other.normal else ("normal", "uniform")
        message = (
            f"begins with {one} noise (`{ast.unparse(other.node)}`), and {name} was trained with {another} noise "
            f"(`{ast.unparse(trained[0].node)}`, {trained[0].source.place(trained[0].node).words}): it is asked where "
            "it has learned little."
        )
        alike_to = "randn" if another == "normal" else "rand"
        drawn = re.sub(r"\brandn?(?=\(|_like)", alike_to, ast.unparse(other.node))
        return told(other.source, other.node, "loss", message, f"Draw it alike: {drawn}.")
    return []


def _drawn(scope: Scope, call: ast.Call, trains: bool) -> Draw | None:
    """What noise a model's first argument is, or begins with, or has in it."""
    first = call.args[0]
    of = stripped(scope.flow, first)
    if isinstance(of, ast.Call) and called(of) in NORMAL | UNIFORM:
        return Draw(called(of) in NORMAL, of, scope.source, trains, True) if _anew(scope, of) or not trains else None
    if trains:
        noise = next((n for n in spread(scope.flow, first) if called(n) in NORMAL and _anew(scope, n)), None)
        return Draw(True, noise, scope.source, True, False) if isinstance(noise, ast.Call) else None
    begun = _begun(scope, call)
    return Draw(called(begun) in NORMAL, begun, scope.source, False, False) if begun is not None else None


def _anew(scope: Scope, node: ast.AST) -> bool:
    """Whether something is drawn in a loop or a function, and is no data that was drawn once."""
    return any(isinstance(a, ast.For | ast.While | Function) for a in scope.source.around(node))


def _begun(scope: Scope, call: ast.Call) -> ast.Call | None:
    """The noise that a loop begins with, which changes it in each turn by what a model makes of it."""
    loop = next((a for a in scope.source.around(call) if isinstance(a, ast.For | ast.While)), None)
    if loop is None:
        return None
    inside = set(ast.walk(loop))
    changed = {p.name for p in scope.index.given if p.node in inside}
    changed |= {n.target.id for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    if any(called(n) in NORMAL | UNIFORM for n in inside):
        return None
    for name in (n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name) and n.id in changed):
        before = [p.value for p in scope.index.given if p.name == name and p.node.lineno < loop.lineno]
        if before and isinstance(before[-1], ast.Call) and called(before[-1]) in NORMAL | UNIFORM:
            return before[-1]
    return None


def _without_gradients(scope: Scope, call: ast.Call) -> bool:
    """Whether a call stands under ``no_grad``, or in a function that makes samples or bears such a mark."""
    for above in scope.source.around(call):
        if isinstance(above, ast.With) and any("no_grad" in t or "inference_mode" in t for t in
                                               (ast.unparse(i.context_expr) for i in above.items)):  # fmt: skip
            return True
        if isinstance(above, Function):
            marks = " ".join(map(ast.unparse, above.decorator_list))
            return "no_grad" in marks or "inference_mode" in marks or bool(SAMPLES.search(above.name))
    return False


@text_rule(613, "randn", trains=True, earlier=True)
def time_from_a_bell(scope: Scope) -> Iterator[Found]:
    """``t = torch.randn(n, 1)`` and ``(1 - t) * noise + t * data``: a share lies between 0 and 1."""
    flow = scope.flow
    for call in scope.calls("lerp", "lerp_"):
        share = operands(call)[2] if len(operands(call)) == 3 else None
        if share is not None and (drawn := _normal(scope, share)) is not None:
            yield _no_share(scope, drawn, call)
    for node in scope.index.binary.get(ast.Add, ()):
        factors = [{ast.unparse(f.node): f.node for f in flow.factors(side)} for side in (node.left, node.right)]
        for one, other in (factors, factors[::-1]):
            for text, factor in one.items():
                if any(re.fullmatch(rf"1(\.0)? - {re.escape(text)}", rest) for rest in other):
                    drawn = _normal(scope, factor)
                    if drawn is not None:
                        yield _no_share(scope, drawn, node)


def _normal(scope: Scope, node: ast.expr) -> ast.Call | None:
    """The call that draws normal numbers, where an expression is that alone."""
    of = stripped(scope.flow, node)
    return of if isinstance(of, ast.Call) and called(of) in NORMAL else None


def _no_share(scope: Scope, drawn: ast.Call, mixed: ast.AST) -> Found:
    message = (
        f"draws a time or a share from a normal distribution (`{ast.unparse(drawn)}`), and `{ast.unparse(mixed)}` "
        f"({scope.place(mixed).words}) mixes by it: half of the draws are below 0 and many above 1, which is beyond "
        "both ends."
    )
    uniform = re.sub(r"\brandn(?=\(|_like)", "rand", ast.unparse(drawn))
    return scope.tell(drawn, "loss", message, f"Draw it between 0 and 1: {uniform}.")
