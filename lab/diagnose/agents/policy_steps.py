"""Steps of a policy: ratios that are clipped or turned wrongly, advantages over the ends of episodes, densities of
actions that were squashed, drawn anew or never summed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import function_of, mentions, name_of, operands, rows_at
from ..reading.expressions import Flow
from ..reading.scope import Index, Scope, stripped, words
from ..reading.sources import Source, called, names_in, own_nodes
from ..training.left_unused import DISCOUNT
from .policy_gradients import REWARDED
from .probability_ratios import LOG, OLD

CLIPS = {"clamp", "clip"}
ALIVE = re.compile(
    r"^(b_|batch_|next_|next)?(is_)?(not_?)?(done|dones|terminal|terminals|terminated|term|nonterminal|non_terminal|"
    r"next_?non_?terminal|mask|masks|alive|end|ends|over)(_batch|_b|_t|_mask|s)?$", re.I,
)  # fmt: skip
GOES_ON = re.compile(r"term|done|mask|alive|(^|_)(ends?|over)(_|$)", re.I)
PROBABILITY = re.compile(r"(^|_)(probs?|pi|pis|prob_a|p)(_|$)", re.I)
STEPWISE = re.compile(r"^(delta|deltas|td|td_?errors?|d_t|r|rew|reward)s?(_t|_i)?$", re.I)
RANDOM = {"randrange", "randint", "choice", "sample", "random_action", "integers", "randint_like"}
DRAWS = {"random", "rand", "uniform", "random_sample"}
FALLS = re.compile(r"eps\w* *(\*=|-=)|eps\w* = max\(|eps\w* = [^\n]*(\beps\w* \*|exp\(-|- )|EPS_?START", re.I)
EPSILON = re.compile(r"(^|_)(eps|epsilon)(_|$)|^eps", re.I)


@text_rule(472, "min")
def ratio_clipped_alone(scope: Scope) -> Iterator[Found]:
    """``torch.min(ratio, ratio.clamp(0.8, 1.2)) * advantage``: of a negative advantage the wrong one is taken."""
    source, index = scope.source, scope.index
    for call in index.called("min", "minimum"):
        both = operands(call)
        if len(both) != 2:
            continue
        for plain, other in ((both[0], both[1]), (both[1], both[0])):
            held = index.flow.inner(other)
            if called(held) not in CLIPS or not operands(held):
                continue
            if ast.unparse(operands(held)[0]) != ast.unparse(plain) or not _multiplied(source, index, call):
                continue
            message = (
                f"takes the smaller of the ratio and the clipped ratio and multiplies it with the advantage "
                f"(`{ast.unparse(call)}`): where the advantage is negative that is the larger gain, and nothing "
                "bounds how far the action is pushed away."
            )
            remedy = "Multiply first: torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv)."
            yield scope.tell(call, "loss", message, remedy)


def _multiplied(source: Source, index: Index, call: ast.Call) -> bool:
    """Whether a call's value is a factor of a product, there or by the variable it is given to."""
    above = source.parents.get(call)
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult):
        return True
    names = {pair.name for pair in index.given if pair.value is call}
    return any(isinstance(s, ast.Name) and s.id in names for p in index.products for s in (p.left, p.right))


@text_rule(473)
def ratio_turned(scope: Scope) -> Iterator[Found]:
    """``ratio = torch.exp(old_log_prob - log_prob)``: the old policy over the new one."""
    index = scope.index
    for call in index.called("exp"):
        of = index.flow.inner(operands(call)[0]) if operands(call) else None
        if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Sub):
            continue
        left, right = ast.unparse(of.left), ast.unparse(of.right)
        named = OLD.search(left) and not OLD.search(right) and LOG.search(left) and LOG.search(right)
        if not named and not _falls_with_the_new(scope, call, of):
            continue
        names = {pair.name for pair in index.given if pair.value is call}
        used = [p for p in index.products if call in (p.left, p.right) or names & names_in(p)]
        if named and not any(REWARDED.search(w) for p in used for w in names_in(p)):
            continue  # a divergence, maybe
        message = (
            f"takes the old policy's probability over the new one's (`{ast.unparse(call)}`): the more likely an "
            "action becomes, the smaller is its gain, so what was good is made less likely."
        )
        yield scope.tell(call, "loss", message, f"Take it the other way round: exp({right} - {left}).")
    for node in index.binary.get(ast.Div, ()):
        left, right = name_of(node.left), name_of(node.right)
        if not OLD.search(left) or OLD.search(right) or not (PROBABILITY.search(left) and PROBABILITY.search(right)):
            continue
        if LOG.search(left):
            continue
        message = (
            f"takes the old policy's probability over the new one's (`{ast.unparse(node)}`): the more likely "
            "an action "
            "becomes, the smaller is its gain, so what was good is made less likely."
        )
        yield scope.tell(node, "loss", message, f"Take it the other way round: {right} / {left}.")


def _falls_with_the_new(scope: Scope, call: ast.Call, of: ast.BinOp) -> bool:
    """Whether a ratio is clipped, and has the policy that is trained below: what is taken away alone has a gradient."""
    index = scope.index
    names = {pair.name for pair in index.given if pair.value is call}
    clipped = [o for c in index.called(*CLIPS) for o in operands(c)[:1]]
    if not any(of_it is call or name_of(of_it) in names for of_it in clipped):
        return False
    rows = [r for r in rows_at(scope.trace, scope.source, of) if r.op == "sub" and len(r.refs) == 2 and r.reached]
    return bool(rows) and all(r.refs[1].requires_grad and not r.refs[0].requires_grad for r in rows)


def _recursions(index: Index) -> Iterator[tuple[ast.For, ast.Assign, ast.expr, ast.expr]]:
    """Yield each ``g = d + gamma * ... * g`` of a loop: the loop, the statement, d, and the product with g."""
    for loop in index.kinds.get(ast.For, ()):
        yield from _in_two_lines(loop)
        for node in loop.body:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
                continue
            targets = {ast.unparse(t) for t in node.targets}
            if not isinstance(node.value.op, ast.Add):
                continue
            for fresh, again in ((node.value.left, node.value.right), (node.value.right, node.value.left)):
                if not isinstance(again, ast.BinOp) or not isinstance(again.op, ast.Mult):
                    continue
                parts = [ast.unparse(n) for n in ast.walk(again) if isinstance(n, ast.Name | ast.Attribute)]
                if targets & set(parts) and any(DISCOUNT.match(p) for p in parts) and not targets & names_in(fresh):
                    yield loop, node, fresh, again


def _in_two_lines(loop: ast.For) -> Iterator[tuple[ast.For, ast.Assign, ast.expr, ast.expr]]:
    """Yield each ``g = gamma * ... * g`` that ``g = g + d`` or ``g += d`` follows: d is the whole of that sum."""
    for k, node in enumerate(loop.body):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        total, again = node.targets[0].id, node.value
        parts = {ast.unparse(n) for n in ast.walk(again) if isinstance(n, ast.Name | ast.Attribute)}
        product = isinstance(again, ast.BinOp) and isinstance(again.op, ast.Mult)
        if not product or total not in parts or not any(DISCOUNT.match(p) for p in parts):
            continue
        for after in loop.body[k + 1 :]:
            if isinstance(after, ast.AugAssign) and isinstance(after.op, ast.Add):
                onto = ast.unparse(after.target) == total
            else:
                sums = isinstance(after, ast.Assign) and ast.unparse(after.targets[0]) == total
                onto = sums and total in names_in(after.value)  # type: ignore[attr-defined]
            if onto:
                yield loop, node, after.value, again  # type: ignore[attr-defined]
                break


@text_rule(474)
def over_the_end(scope: Scope) -> Iterator[Found]:
    """``gae = delta + gamma * lam * gae`` where episodes end on the way: advantages of the next episode come in."""
    index = scope.index
    for loop, node, fresh, again in _recursions(index):
        inside = [n for s in loop.body for n in ast.walk(s)]
        inside += [*ast.walk(loop.target), *ast.walk(loop.iter)]
        ends = sorted(
            {name_of(n) for n in inside if isinstance(n, ast.Name | ast.Attribute) and ALIVE.match(name_of(n))}
        )
        if not ends or any(GOES_ON.search(w) for w in words(index.flow, again)) or _ends_in(loop, again, ends):
            continue
        reset = any(isinstance(n, ast.If) and any(ALIVE.match(name_of(m)) for m in ast.walk(n.test)) for n in inside)
        if reset:
            continue
        total = ast.unparse(node.targets[0])
        message = (
            f"carries {total} on from one episode into the one before it (`{ast.unparse(node)}`): {ends[0]} tells "
            "where an episode ends, and this sum goes over it, so the last actions of each are credited with what "
            "the next one brought."
        )
        taken = sorted(set(ends) & {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)})
        written = [ast.unparse(n) for n in inside if isinstance(n, ast.Subscript) and name_of(n.value) == ends[0]]
        end = [*taken, *written, f"{ends[0]}[t]"][0]
        factor = f"(1 - {end})" if re.match("done|term|end|over", end) else end
        first = "" if total in names_in(fresh) else f"{ast.unparse(fresh)} + "
        remedy = f"Begin anew there: {first}{ast.unparse(again)} * {factor}."
        yield scope.tell(node, "data", message, remedy)


def _ends_in(loop: ast.For | ast.While, again: ast.expr, ends: list[str]) -> bool:
    """Whether a sum is multiplied with what a loop takes from the ends of episodes: ``for r, d in zip(rewards, done)``
    and ``gae * (1 - d)``."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or called(loop.iter) != "zip":
        return False
    taken = zip(loop.target.elts, loop.iter.args, strict=False)  # type: ignore[attr-defined]
    inside = {n.id for n in ast.walk(again) if isinstance(n, ast.Name)}
    return any(name_of(one) in inside and {name_of(n) for n in ast.walk(of) if isinstance(n, ast.expr)} & set(ends)
               for one, of in taken)  # fmt: skip


@text_rule(475)
def from_the_front(scope: Scope) -> Iterator[Found]:
    """``for t in range(n): gae = delta + gamma * lam * gae``: what came before an action, and not what came after."""
    index = scope.index
    for loop, node, fresh, _ in _recursions(index):
        head = ast.unparse(loop.iter)
        if re.search(r"reversed|::-1|flip|, -1\)|\[-", head) or any(map(REWARDED.search, names_in(loop.iter))):
            continue  # of rewards that are gone through one by one another rule tells
        names = {name_of(n) for n in ast.walk(fresh)} | {name_of(n) for n in ast.walk(index.flow.inner(fresh))}
        if name_of(fresh) and name_of(fresh) == name_of(loop.target):
            names |= {name_of(n) for n in ast.walk(loop.iter)}
        if not any(STEPWISE.match(n) or REWARDED.search(n) for n in names):
            continue
        inside = [n for s in loop.body for n in ast.walk(s)]
        kept = any(called(n) == "append" for n in inside) or any(
            isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in inside
        )
        steps = re.search(r"step\(|act\(|sample\(", ast.unparse(loop))
        turned = "T - 1 - " in ast.unparse(loop) or re.search(r"\[-\s*\(?\w+|- t|- i\b|~t", ast.unparse(loop))
        if not kept or steps or turned:
            continue
        total = ast.unparse(node.targets[0])
        message = (
            f"sums from the first step on (`{ast.unparse(node)}`, and the loop runs over `{head}`): {total} "
            "at a step "
            "holds what came before it, in which its action has no part, and not what came after."
        )
        yield scope.tell(node, "data", message, f"Go from the end: for t in reversed({head}).")


@text_rule(476, "log_prob", "Normal(")
def parts_never_summed(scope: Scope) -> Iterator[Found]:
    """``torch.exp(normal.log_prob(a) - old)`` of actions of several numbers: a ratio for each number."""
    trace, source, flow, index = scope.trace, scope.source, scope.flow, scope.index
    flow = index.flow
    if "Independent" in source.text or "MultivariateNormal" in source.text:
        return
    for call in index.called("exp"):
        of = flow.inner(operands(call)[0]) if operands(call) else None
        if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Sub):
            continue
        new = next((s for s in map(flow.inner, (of.left, of.right)) if called(s) == "log_prob"), None)
        own = [f for s in (of.left, of.right) if isinstance(s, ast.Call) and (f := function_of(source, s)) is not None]
        ends = [n.value for f in own for n in own_nodes(f) if isinstance(n, ast.Return) and n.value is not None]
        if new is None and not any(called(end) == "log_prob" for end in ends):
            continue
        rows = [r for r in rows_at(trace, source, call) if r.op == "exp" and len(r.shape) > 1 and r.shape[-1] > 1]
        if not rows or any(r.op in ("sum", "prod") for r in trace.rows if rows[0] in r.refs):
            continue
        message = (
            f"has a ratio for each of the {rows[0].shape[-1]} numbers of an action (`{ast.unparse(call)}` is "
            f"{'×'.join(map(str, rows[0].shape))}): the probability of an action is the product of theirs, "
            "and each "
            "is clipped and weighed here as if it were an action of its own."
        )
        yield scope.tell(call, "loss", message, "Sum the logarithms: dist.log_prob(action).sum(-1).", rows=rows[:1])


@text_rule(477, "log_prob", "tanh")
def density_of_the_squashed(scope: Scope) -> Iterator[Found]:
    """``a = torch.tanh(u)`` and ``normal.log_prob(a)``: the density of another number than was drawn."""
    index = scope.index
    for call in index.called("log_prob"):
        if not operands(call)[1:]:
            continue
        taken = stripped(index.flow, operands(call)[1])
        drawn = stripped(index.flow, operands(taken)[0]) if called(taken) == "tanh" and operands(taken) else None
        if called(drawn or taken) not in ("rsample", "sample") or drawn is None:
            continue
        if ast.unparse(operands(drawn)[0]) != ast.unparse(operands(call)[0]):
            continue
        message = (
            f"takes the density at the squashed action (`{ast.unparse(call)}`): {ast.unparse(operands(call)[0])} "
            f"drew the number before the tanh (`{ast.unparse(taken)}`), so the entropy that is learnt by it is "
            "another one's."
        )
        remedy = "Take it at u, and correct it: normal.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2 + 1e-6)."
        yield scope.tell(call, "loss", message, remedy)


@text_rule(478, "tanh")
def squashed_twice(scope: Scope) -> Iterator[Found]:
    """``a = torch.tanh(u)`` and ``1 - torch.tanh(a) ** 2``: the slope at another place."""
    source, index = scope.source, scope.index
    for call in index.called("tanh"):
        inner = stripped(index.flow, operands(call)[0]) if operands(call) else None
        above = source.parents.get(call)
        power = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Pow)
        if called(inner or call) != "tanh" or inner is None or inner is call:
            continue
        if not power and not (isinstance(above, ast.Attribute) and above.attr in ("pow", "square")):
            continue
        message = (
            f"takes the tanh of what is a tanh already (`{ast.unparse(call)}`; {ast.unparse(operands(call)[0])} is "
            f"`{ast.unparse(inner)}`): the slope of the squashing is that at the number that was drawn, and "
            "this one "
            "is never near 0."
        )
        yield scope.tell(call, "loss", message, f"Take 1 - {ast.unparse(operands(call)[0])} ** 2.")


@text_rule(479, "log_prob", "sample")
def drawn_anew(scope: Scope) -> Iterator[Found]:
    """``a = dist.sample()`` and ``dist.log_prob(dist.sample())``: the log-probability of another action."""
    source, index = scope.source, scope.index
    for call in index.called("log_prob"):
        given = operands(call)[1:]
        if not given or called(given[0]) not in ("sample", "rsample") or not isinstance(given[0], ast.Call):
            continue
        who = ast.unparse(operands(call)[0])
        acted = [c for c in index.called("sample", "rsample")
                 if c is not given[0] and ast.unparse(operands(c)[0]) == who]  # fmt: skip
        if not acted:
            continue
        message = (
            f"draws once more for the log-probability (`{ast.unparse(call)}`): the action that was taken is "
            "that of "
            f"{source.place(acted[0]).words} (`{ast.unparse(acted[0])}`), and what it brought is credited to "
            "another."
        )
        yield scope.tell(given[0], "loss", message, "Give it the action that was taken: dist.log_prob(action).")


@text_rule(480, "eps")
def chance_turned(scope: Scope) -> Iterator[Found]:
    """``if random() < epsilon: return q(state).argmax()``: the less it is to explore, the more it acts at random."""
    source, index = scope.source, scope.index
    for node in (*index.kinds.get(ast.If, ()), *index.kinds.get(ast.IfExp, ())):
        below = _drawn_below(index.flow, index.flow.inner(node.test))
        if below is None or not mentions(FALLS, source.text):
            continue  # a share of greedy actions, maybe
        body = node.body if isinstance(node.body, list) else [node.body]
        rest = node.orelse if isinstance(node.orelse, list) else [node.orelse]
        if not rest and isinstance(body[-1], ast.Return | ast.With):
            block = getattr(source.parents.get(node), "body", [])
            rest = block[block.index(node) + 1 :] if node in block else []
        first, second = _acts(body), _acts(rest)
        if (first, second) != (("best", "random") if below else ("random", "best")):
            continue
        message = (
            f"acts by the network with the probability that is to explore (`{ast.unparse(node.test)}`): the "
            "smaller "
            "it becomes, the more actions are drawn at random, and what is learnt is hardly used."
        )
        yield scope.tell(node.test, "data", message, "Turn the two branches round, or the comparison.")


def _drawn_below(flow: Flow, test: ast.expr) -> bool | None:
    """Whether a test is that a number drawn at random is below epsilon; False for above, None for any other."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    if not any(EPSILON.search(name_of(side)) for side in (test.left, test.comparators[0])):
        return None
    left, right, op = test.left, test.comparators[0], test.ops[0]
    less = isinstance(op, ast.Lt | ast.LtE)
    if not less and not isinstance(op, ast.Gt | ast.GtE):
        return None
    for drawn, bound, below in ((left, right, less), (right, left, not less)):
        inner = stripped(flow, drawn)
        if called(inner) in DRAWS and EPSILON.search(name_of(bound)):
            return below
    return None


def _acts(block: list[ast.AST]) -> str:
    """How a block chooses its action."""
    calls = {called(n) for s in block for n in ast.walk(s)}
    if calls & {"argmax", "max"}:
        return "best"
    return "random" if calls & RANDOM else ""
