"""Actors and their temperature: a value that is lowered, an entropy that is taken off, a target that is turned."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, operands
from ..reading.expressions import Flow, flow_of, losses
from ..reading.recorded import entering
from ..reading.scope import Scope, goals, index_of, spread, stripped, whole
from ..reading.sources import called, names_in

TEMPERATURE = re.compile(r"^(log_?)?(alpha(_temp)?|temp)$|temperature|ent_coef", re.I)
CRITIC = re.compile(r"(^|_)(q|qf|q_?net|critic|min_q|q_?min|qs?_?pi|q_value)s?\d*(_|\d|$)", re.I)
ACTOR = re.compile(r"(^|_)(actor|policy|mu|pi)(_|$)", re.I)
LOG_PI = re.compile(r"(^|_)log_?(prob|pi|p)(s|a)?(_|\d|$)|^logp|^lp\d?$", re.I)
WHOLE = re.compile(r"target_ent|^log_?(prob|pi|p)", re.I)
COST = re.compile(r"cost|risk|penalt|constraint", re.I)


def _signed(flow: Flow, node: ast.expr) -> Iterator[tuple[int, ast.expr]]:
    """Yield the terms of a sum with their signs."""
    for term in flow.terms(node, whole=WHOLE):
        yield term.sign, term.node


def _log_pi(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is a log-probability, by its name or by what gave it."""
    return any(called(n) == "log_prob" or LOG_PI.search(name_of(n)) for n in [node, *spread(flow, node, 40)])


def _entropy_term(flow: Flow, node: ast.expr) -> bool:
    """Whether a term is a temperature times a log-probability."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        return any(
            any(TEMPERATURE.search(name_of(n)) for n in ast.walk(a)) and _log_pi(flow, b)
            for a, b in (sides, sides[::-1])
        )
    return bool(LOG_PI.search(name_of(node))) or called(node) == "log_prob"


def _value_term(flow: Flow, node: ast.expr) -> bool:
    """Whether a term is what critics say: ``torch.min(q1, q2)``, ``critic(s, a)``, ``q_pi``."""
    inner = stripped(flow, node)
    if CRITIC.search(name_of(node)):
        return True
    if called(inner) in ("min", "minimum"):
        if any(isinstance(o, ast.Starred) and isinstance(o.value, ast.Call) for o in operands(inner)):
            return True  # of all that a twin critic gives
        return any(CRITIC.search(n) for o in operands(inner) for n in names_in(o))
    return isinstance(inner, ast.Call) and bool(CRITIC.search(called(inner)))


@text_rule(481, "alpha")
def entropy_taken_off(scope: Scope) -> Iterator[Found]:
    """``min_q + alpha * log_pi``: what is certain is worth more, where entropy is to be."""
    index = scope.index
    for node in index.binary.get(ast.Add, ()):
        for value, other in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(other, ast.BinOp) or not _entropy_term(index.flow, other):
                continue
            if not _value_term(index.flow, value) or isinstance(value, ast.UnaryOp):
                continue
            message = (
                f"adds alpha times the log-probability to a value (`{ast.unparse(node)}`): the entropy is "
                "minus the "
                "mean of that, so what is certain is worth more, and the policy settles on it."
            )
            remedy = f"Subtract it: {ast.unparse(value)} - {ast.unparse(other)}."
            yield scope.tell(node, "loss", message, remedy)


def _wanted(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression is the entropy that is aimed at: by its name, or minus the number of an action's parts."""
    given = [p.value for p in index_of(flow_of(scope.source, whole(scope.source))).given if p.name == name_of(node)]
    negative = [isinstance(v, ast.UnaryOp) and isinstance(v.op, ast.USub) for v in [scope.flow.inner(node), *given]]
    return "target_ent" in ast.unparse(node) or any(negative)


@text_rule(482, "backward", trains=True)
def value_lowered(scope: Scope) -> Iterator[Found]:
    """``actor_loss = critic(s, actor(s)).mean()``: each step of the actor makes the value smaller."""
    source, flow, index = scope.source, scope.flow, scope.index
    if "maximize=True" in source.text:
        return
    flow = index.flow
    for of, call in losses(flow):
        terms = list(_signed(flow, of))
        values = [(s, n) for s, n in terms if _asked_of_actor(flow, n)]
        entropies = [s for s, n in terms if _entropy_term(flow, n)]
        if len(values) != 1 or values[0][0] < 0 or len(terms) != 1 + len(entropies) or 1 in entropies:
            continue
        node = values[0][1]
        if COST.search(ast.unparse(of)) or COST.search(ast.unparse(node)):
            continue
        shown = entering(scope.trace, source, node, values[0][0])
        if shown is None:
            continue
        message = (
            f"gives the actor's loss what the critic says with a plus (`{ast.unparse(node)}`): each step makes the "
            f"loss smaller, and with it the value of the actions that are chosen ({source.place(call).words})."
        )
        remedy = "Put a minus before it: loss = -critic(state, actor(state)).mean()."
        yield scope.tell(flow.inner(of), "loss", message, remedy, rows=shown)


def _asked_of_actor(flow: Flow, node: ast.expr) -> bool:
    """Whether a term is what a critic says of what an actor does."""
    inner = stripped(flow, node)
    if not isinstance(inner, ast.Call) or not CRITIC.search(called(inner)):
        return False
    calls = [n for a in inner.args for n in spread(flow, a, 60) if isinstance(n, ast.Call)]
    return any(ACTOR.search(called(n)) or ACTOR.search(name_of(getattr(n.func, "value", n))) or called(n) == "rsample"
               for n in calls)  # fmt: skip


@text_rule(483, "backward")
def temperature_turned(scope: Scope) -> Iterator[Found]:
    """``alpha_loss = (log_alpha * (log_pi + target_entropy)).mean()``: it grows where it is to shrink."""
    flow = scope.flow
    for of in goals(scope.source, flow):
        for sign, node in _signed(flow, of):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for factor, rest in ((node.left, node.right), (node.right, node.left)):
                if not any(TEMPERATURE.search(name_of(n)) for n in ast.walk(factor)):
                    continue
                inner = stripped(flow, rest)
                parts = {("log" if _log_pi(flow, n) else "goal" if _wanted(scope, n) else ""): s
                         for s, n in _signed(flow, inner)}  # fmt: skip
                if parts.get("log", 0) * parts.get("goal", 0) <= 0 or sign * parts["log"] < 0:
                    continue
                message = (
                    f"turns the temperature the wrong way (`{ast.unparse(node)}` enters the loss with a "
                    "plus): where "
                    "the policy has less entropy than it should, log_pi + target_entropy is above 0, and each step "
                    "makes the temperature smaller still."
                )
                remedy = "Put a minus before it: -(log_alpha * (log_pi + target_entropy).detach()).mean()."
                yield scope.tell(node, "loss", message, remedy)
