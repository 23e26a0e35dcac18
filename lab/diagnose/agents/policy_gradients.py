"""Policies that are trained the wrong way: what was rewarded made less likely, an entropy made smaller, returns that
are summed from the wrong end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule, text_rule
from ..reading.expressions import Flow, flow_of, losses, reduced
from ..reading.recorded import entering
from ..reading.scope import Scope
from ..reading.sources import called, names_in, sources

LOG_PROBABILITY = re.compile(r"^(new_|saved_|action_|curr_|pi_)?log_?(prob|pi|p)(s|a|abilities|ability)?(_\w+)?$", re.I)
REWARDED = re.compile(
    r"(^|_)(rewards?|returns?|rets?|rtgs?|advs?|advantages?|rs?|rws?|gt?|td_error|delta|discounted\w*|prizes?|gains?|"
    r"pay_?offs?|profits?|surprise|utilit(y|ies)|wins?|to_?go)(_|$|\d)",
    re.I,
)
EXPECTED = re.compile(r"(^|_)(baselines?|values?|vals?|vs?|critic|mean)(_|$|\d)", re.I)
LOST = re.compile(
    r"cost|delay|latency|effort|fuel|spent|loss|penalt|regret|neg|nll|kl|temperature|target_entropy", re.I
)
ENTROPY = re.compile(r"entropy|entropies|(^|_)ent$", re.I)
PROBABILITY = re.compile(r"^(self\.)?(p|pi|probs?|probabilit(y|ies)|action_probs?)$")
POLICY = re.compile(r"polic|actor|surr|ratio|log_?prob|logp|advant|(^|_)pg(_|$)|reinforce", re.I)
DISCOUNTS = {"gamma", "discount", "discount_factor"}


@rule(417)
def less_likely(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``loss = (log_probs * returns).mean()``: each step makes what was rewarded less likely."""
    if not trace.steps.count:
        return []
    for source in sources(trace):
        if any(k.arg == "maximize" for n in source.nodes if isinstance(n, ast.Call) for k in n.keywords):
            continue
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for of, _ in losses(flow):
                for sign, node in flow.terms(of):
                    signs = _weighed(flow, node) if isinstance(node, ast.BinOp) else None
                    if signs is None or sign * signs[0] < 0:
                        continue
                    shown = entering(trace, source, node, sign)
                    if shown is None:
                        continue
                    line, col, place = source.place(node)
                    message = capital(
                        f"{place} makes what was rewarded less likely: `{ast.unparse(node)}` enters the loss with a "
                        "plus, and each step makes the loss smaller, the log-probability of actions with a high return "
                        "most."
                    )
                    remedy = "Put a minus before it: loss = -(log_prob * advantage).mean()."
                    if signs[1] is not None:
                        line, col, place = source.place(signs[1])
                        message = capital(
                            f"{place} takes what was expected minus what came (`{ast.unparse(signs[1])}`), and "
                            f"`{ast.unparse(node)}` weighs log-probabilities by that ({source.place(node).words}): "
                            "what brought more than expected is made less likely."
                        )
                        remedy = "Take it the other way round: advantage = returns - values.detach()."
                    return [Found("loss", "warning", line, col, message, remedy, shown)]
    return []


def _weighed(flow: Flow, node: ast.BinOp) -> tuple[int, ast.expr | None] | None:
    """Of a product of log-probabilities with what they brought: the sign that variables add to those that are seen in
    it, and what turns it round; None for any other product."""
    logs = rewards = False
    sign = 1
    turned: ast.expr | None = None
    for _, factor in flow.factors(node):
        if _log_probability(flow, factor) is not None:
            sign, logs = sign * (_log_probability(flow, factor) or 1), True
            continue
        inner = flow.inner(factor)
        while (of := _same(inner)) is not None:
            inner = flow.inner(of)
        names = names_in(factor) | names_in(inner) | {str(getattr(factor, "attr", ""))}
        if any(LOST.search(name) for name in names):
            return None
        if isinstance(inner, ast.UnaryOp) and inner is not factor:
            return None
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            left, right = _words(inner.left), _words(inner.right)
            if right and not left and any(EXPECTED.search(name) for name in names_in(inner.left)):
                sign, turned = -sign, inner
                rewards = True
                continue
        rewards = rewards or _words(factor) or _words(inner)
    return (sign, turned) if logs and rewards else None


def _words(node: ast.AST) -> bool:
    """Whether an expression speaks of rewards."""
    words = names_in(node) | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return any(REWARDED.search(word) for word in words)


def _same(node: ast.expr) -> ast.expr | None:
    """What a call gives on with its sign: ``adv.detach()``, ``log_probs.gather(1, actions)``, ``log_probs[:, 0]``."""
    if isinstance(node, ast.Call) and called(node) in ("detach", "unsqueeze", "to", "item", "gather", "index_select"):
        return getattr(node.func, "value", None)
    if isinstance(node, ast.Subscript):
        return node.value
    return reduced(node)


def _log_probability(flow: Flow, node: ast.expr) -> int | None:
    """With what sign a factor is the log-probability of actions; None where it is none, or nobody can tell."""
    terms = list(flow.terms(node))
    if len(terms) != 1:
        return None
    sign, one = terms[0]
    while (of := _same(one)) is not None:
        one = flow.inner(of)
    if called(one) in ("log_prob", "log_softmax"):
        return sign
    if called(one) in ("cross_entropy", "nll_loss"):
        return -sign
    text = one.id if isinstance(one, ast.Name) else one.attr if isinstance(one, ast.Attribute) else ""
    return sign if LOG_PROBABILITY.match(text) else None


@text_rule(418, trains=True)
def entropy_lowered(scope: Scope) -> Iterator[Found]:
    """``loss = policy_loss + 0.01 * entropy``: what is meant to keep a policy open closes it."""
    flow = scope.flow
    for of, _ in losses(flow):
        of_policy = any(POLICY.search(name) for name in _all_names(flow, of))
        for sign, node in flow.terms(of, whole=ENTROPY) if of_policy else ():
            if sign * _entropy(flow, node) <= 0:
                continue
            shown = entering(scope.trace, scope.source, node, sign)
            if shown is None:
                continue
            message = (
                f"makes the policy's entropy smaller: `{ast.unparse(node)}` enters the loss with a "
                "plus, and each step makes the loss smaller, so the policy settles on one action before it "
                "has tried the others."
            )
            remedy = "Subtract it: loss = policy_loss - 0.01 * entropy.mean()."
            yield scope.tell(flow.entrance(of, node), "loss", message, remedy, rows=shown)


def _entropy(flow: Flow, node: ast.expr) -> int:
    """1 for a term that is an entropy, -1 for one that is minus that; 0 for others, and where nobody can tell."""
    if called(node) == "entropy" and isinstance(node, ast.Call) and not node.args:
        return 1
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        logs = [side for side in (node.left, node.right) if _log_probability(flow, side) or called(side) == "log"]
        rest = [side for side in (node.left, node.right) if side not in logs]
        return -1 if len(logs) == 1 and _probability(flow, rest[0]) else 0
    text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if not ENTROPY.search(text) or LOST.search(text) or "cross" in text.lower():
        return 0
    value = flow.value(node)
    if value is None:
        return 0 if "loss" in text else 1
    terms = list(flow.terms(value))
    return terms[0].sign * _entropy(flow, terms[0].node) if len(terms) == 1 else 0


def _probability(flow: Flow, node: ast.expr) -> bool:
    """Whether a factor is the probabilities themselves."""
    return called(flow.inner(node)) in ("exp", "softmax") or bool(PROBABILITY.match(ast.unparse(node)))


def _all_names(flow: Flow, node: ast.expr) -> set[str]:
    """The names in an expression and in what its variables were given."""
    found: set[str] = set()
    stack, depth = [node], 0
    while stack and depth < 64:
        one, depth = stack.pop(), depth + 1
        for inner in ast.walk(one):
            if isinstance(inner, ast.Attribute):
                found.add(inner.attr)
            elif isinstance(inner, ast.Name) and inner.id not in found:
                found.add(inner.id)
                value = flow.value(inner)
                if value is not None:
                    stack.append(value)
    return found


@text_rule(419)
def summed_from_the_start(scope: Scope) -> Iterator[Found]:
    """``for r in rewards: R = r + gamma * R; returns.append(R)``: what an action brings comes after it."""
    source, flow = scope.source, scope.flow
    for loop in (n for n in flow.nodes if isinstance(n, ast.For)):
        step = next((n for n in loop.body if isinstance(n, ast.Assign) and _discounted(n)), None)
        head = ast.unparse(loop.iter)
        if step is None or not _words(loop.iter):
            continue
        total = ast.unparse(step.targets[0])
        kept = next(
            (n for s in loop.body for n in ast.walk(s) if called(n) in ("append", "insert") and total in names_in(n)),
            None,
        )
        if not isinstance(kept, ast.Call):
            continue
        into = ast.unparse(getattr(kept.func, "value", kept.func))
        backwards = re.search(r"reversed|\[::-1\]|flip|-1\)", head)
        if not backwards and called(kept) == "append" and re.match(r"(enumerate\()?[\w.]+\)?$|range\(len\(", head):
            line, col, place = source.place(step)
            message = capital(
                f"{place} sums up the rewards from the first on (`{ast.unparse(step)}`): {into} holds what "
                "came before each action, which it has no part in, and not what came after it."
            )
            remedy = f"Go from the end: for ... in reversed(...), and {into}.insert(0, {total})."
            yield Found("data", "warning", line, col, message, remedy)
        if backwards and called(kept) == "append" and not _turned(flow, loop, into):
            line, col, place = source.place(kept)
            message = capital(
                f"{place} gathers the returns from the last to the first (`{ast.unparse(kept)}`, "
                f"{source.place(loop).words} goes backwards), and nothing turns {into} round again: the first "
                "action is weighed by the return of the last."
            )
            remedy = f"Put each in front: {into}.insert(0, {total}); or {into}.reverse() after the loop."
            yield Found("data", "warning", line, col, message, remedy)


def _discounted(node: ast.Assign) -> bool:
    """Whether a statement is ``R = r + gamma * R``."""
    value, total = node.value, ast.unparse(node.targets[0])
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    for part in (value.left, value.right):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            texts = {ast.unparse(part.left), ast.unparse(part.right)}
            if total in texts and any(t.rpartition(".")[2].lower() in DISCOUNTS for t in texts):
                return True
    return False


def _turned(flow: Flow, loop: ast.For, into: str) -> bool:
    """Whether anything outside of a loop goes backwards, so that the order may be meant."""
    inside = set(ast.walk(loop))
    for node in flow.nodes:
        if node in inside and node is not loop:
            continue
        if called(node) in ("reversed", "reverse", "flip", "flipud", "appendleft", "insert"):
            return True
        if (
            isinstance(node, ast.Slice)
            and node.step is not None
            and ast.unparse(node.step) == "-1"
            and node not in inside
        ):
            return True
    uses = [
        n for n in flow.nodes if n not in inside and isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == into
    ]
    return not any(getattr(n, "lineno", 0) > loop.lineno for n in uses)


@text_rule(421)
def larger_surrogate(scope: Scope) -> Iterator[Found]:
    """``-torch.max(ratio * adv, ratio.clamp(...) * adv)``: of two gains the larger one, which bounds no step."""
    flow = scope.flow
    for node in flow.nodes:
        if called(node) not in ("max", "maximum") or not isinstance(node, ast.Call) or len(node.args) != 2:
            continue
        surrogates = [_surrogate(flow, argument) for argument in node.args]
        if sorted(clipped for clipped, _ in filter(None, surrogates)) != [False, True]:
            continue
        if any(sign < 0 for _, sign in filter(None, surrogates)):
            continue  # of two losses it is the larger one
        message = (
            f"takes the larger of the gain and the clipped gain (`{ast.unparse(node)}`): the clip then "
            "never holds a step back, and the policy runs away from the one that gathered the samples."
        )
        yield scope.tell(node, "loss", message, "Take the smaller one: torch.min(...).")


def _surrogate(flow: Flow, node: ast.expr) -> tuple[bool, int] | None:
    """Whether a product of a ratio and an advantage is of a clipped ratio, and its sign; None for anything else."""
    terms = list(flow.terms(node))
    if len(terms) != 1 or not isinstance(terms[0].node, ast.BinOp) or not isinstance(terms[0].node.op, ast.Mult):
        return None
    factors = [flow.inner(factor.node) for factor in flow.factors(terms[0].node)]
    texts = [ast.unparse(factor.node) for factor in flow.factors(terms[0].node)]
    clipped = any(called(factor) in ("clamp", "clip") for factor in factors)
    of_ratio = clipped or any(called(factor) == "exp" for factor in factors) or any("ratio" in t for t in texts)
    rewarded = any(_words(factor.node) for factor in flow.factors(terms[0].node)) or any(
        re.search(r"\badv", t) for t in texts
    )
    return (clipped, terms[0].sign) if of_ratio and rewarded else None
