"""Values of actions: a target that is of another action, of a state behind the end, of the larger critic, or that the
gradient goes through."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import name_of, operands, option, rows_at
from ..reading.expressions import Flow
from ..reading.scope import Index, Scope, spread, stripped
from ..reading.sources import Source, called
from ..training.left_unused import DISCOUNT
from .target_networks import DONE

OFF = {"detach", "item", "argmax", "max_action", "no_grad"}
TURNED = re.compile(r"(?<!\w)not (\w+\.)?(is_)?(done|term)|0(\.0)? if \w*(done|term)|1(\.0)? - |~|logical_not|== 0")
"""How people turn the ends of episodes into what is alive."""
NEXT = re.compile(r"next|prime|_new$|^(s|obs|states?)_?(2|p|_)$|^ns$", re.I)
CRITIC = re.compile(r"(^|_)(q|qf|critic|value|qnet|targ|target)s?\d*(_|\d|$)|critic|q_?net", re.I)


def _sums(index: Index) -> list[tuple[ast.BinOp, ast.BinOp]]:
    """Return each reward + gamma * (something), and the product."""
    found = []
    for node in index.binary.get(ast.Add, ()):
        for side in (node.left, node.right):
            if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) and _discount(index.flow, side):
                found.append((node, side))
                break
    return found


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product as it is written."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _discount(flow: Flow, node: ast.expr) -> bool:
    """Whether a product has the discount among its factors."""
    for factor in _factors(node):
        if DISCOUNT.match(ast.unparse(factor)):
            return True
        number = flow.number(factor) if isinstance(factor, ast.Constant) else None
        if number is not None and 0.8 < number < 1:
            return True
    return False


def _best(flow: Flow, node: ast.expr) -> ast.Call | None:
    """The call that takes the largest value of what a network gives: ``net(s).max(1)[0]``, ``.max(1).values``."""
    inner = stripped(flow, node)
    if (isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant) and inner.slice.value == 0) or (
        isinstance(inner, ast.Attribute) and inner.attr == "values"
    ):
        inner = stripped(flow, inner.value)
    if not isinstance(inner, ast.Call) or called(inner) not in ("max", "amax") or not operands(inner):
        return None
    many = len(operands(inner)) > 1 or inner.keywords
    return inner if many and isinstance(stripped(flow, operands(inner)[0]), ast.Call) else None


@text_rule(602)
def best_for_taken(scope: Scope) -> Iterator[Found]:
    """``F.mse_loss(q_net(s).max(1)[0], r + gamma * ...)``: the value of the best action, and not of the one taken."""
    flow, index = scope.flow, scope.index
    flow = index.flow
    for pair in index.pairs if _sums(index) and _acts(index) else ():
        for own, target in ((pair.one, pair.other), (pair.other, pair.one)):
            best = _best(flow, own)
            if best is None or not _bootstrapped(index, target) or _bootstrapped(index, own):
                continue
            message = (
                f"takes the value of the best action for that of the action taken (`{ast.unparse(best)}`, compared "
                f"in `{ast.unparse(pair.node)}`): the reward of one action is learnt as that of another, and the "
                "values of the actions do not come apart."
            )
            yield scope.tell(best, "loss", message, "Take that of the action: q.gather(1, action[:, None]).")


def _acts(index: Index) -> bool:
    """Whether a function knows which actions were taken."""
    names = (n.id if isinstance(n, ast.Name) else n.arg for n in [*index.flow.nodes, *ast.walk(index.flow.scope)]
             if isinstance(n, ast.Name | ast.arg))  # fmt: skip
    return any(re.match(r"(b_|batch_)?(a|acts?|actions?)(_\w+)?$", name) for name in names)


def _bootstrapped(index: Index, node: ast.expr) -> bool:
    """Whether an expression is a reward and a discounted value."""
    near = set(spread(index.flow, node, 120))
    return any(whole in near for whole, _ in _sums(index))


@text_rule(466, "backward", trains=True)
def through_the_target(scope: Scope) -> Iterator[Found]:
    """``r + gamma * net(s2).max(1).values`` with a gradient, compared with a value of the same net."""
    trace, source, flow, index = scope.trace, scope.source, scope.flow, scope.index
    flow = index.flow
    for pair in index.pairs if _sums(index) else ():
        for own, target in ((pair.one, pair.other), (pair.other, pair.one)):
            whole = next((w for w, _ in _sums(index) if w in set(spread(flow, target, 120))), None)
            if whole is None or _bootstrapped(index, own) or not isinstance(own, ast.expr):
                continue
            mine, its = set(_networks(flow, own)), set(_networks(flow, target))
            exact = scope.row(whole)
            rows = rows_at(trace, source, whole) if exact is None else [exact]
            rows = [row for row in rows if row.requires_grad and row.reached]
            if not mine & its or not rows:
                continue
            name = sorted(mine & its)[0]
            message = (
                f"lets the gradient go through the target (`{ast.unparse(whole)}`): it asks {name} as well, which "
                f"`{ast.unparse(pair.node)}` trains, so each step also moves the value of the next state towards "
                "what was expected, and not only the other way."
            )
            remedy = "Compute the target under torch.no_grad(), or take target.detach()."
            yield scope.tell(whole, "loss", message, remedy, rows=rows[-1:])


def _networks(flow: Flow, node: ast.expr) -> Iterator[str]:
    """Yield the names of what is called with states in an expression, other than to choose an action."""
    return (ast.unparse(call.func) for call in _asked(flow, node))


def _asked(flow: Flow, node: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls of networks with states in an expression, other than to choose an action."""
    stack: list[ast.AST] = [node]
    most = 200
    while stack and most:
        most -= 1
        one = stack.pop()
        value = flow.value(one) if isinstance(one, ast.Name) else None
        if value is not None:
            stack.append(value)
            continue
        if isinstance(one, ast.Call):
            if called(one) in OFF:
                continue
            text = ast.unparse(one.func)
            if (re.fullmatch(r"(self\.)?\w+(\.\w+)?", text) and one.args and CRITIC.search(text)) or re.fullmatch(
                r"(self\.)?(q|v|net|model|agent|policy|policy_net|actor_critic|ac|dqn)", text
            ):
                yield one
        stack.extend(ast.iter_child_nodes(one))


@text_rule(606, trains=True)
def state_for_the_next(scope: Scope) -> Iterator[Found]:
    """``r + gamma * target(s).max(1).values``, compared with ``net(s)``, where nobody reads the next state."""
    flow, index = scope.flow, scope.index
    names = [n for n in scope.nodes if isinstance(n, ast.Name) and NEXT.search(n.id)]
    unread = {n.id for n in names} - {n.id for n in names if isinstance(n.ctx, ast.Load)}
    for pair in index.pairs if unread and _sums(index) else ():
        for own, target in ((pair.one, pair.other), (pair.other, pair.one)):
            if _bootstrapped(index, own) or not _bootstrapped(index, target):
                continue
            mine = {ast.unparse(call.args[0]) for call in _asked(flow, own) if call.args}
            its = [call for call in _asked(flow, target) if call.args]
            if not its or any(ast.unparse(call.args[0]) not in mine for call in its):
                continue
            name, given = sorted(unread)[0], its[0].args[0]
            state = ast.unparse(given.value if isinstance(given, ast.Subscript) else given)
            asks = ast.unparse(its[0]).replace(f"({state}", f"({name}")
            message = (
                f"takes the value of the state itself for that of the next one (`{ast.unparse(its[0])}`; "
                f"`{ast.unparse(pair.node)}` asks for the same states): {name} is read nowhere, so no reward finds its "
                "way from one state to another."
            )
            yield scope.tell(its[0], "loss", message, f"Ask for the next state: {asks}.")


@text_rule(467)
def ended_for_alive(scope: Scope) -> Iterator[Found]:
    """``r + gamma * q_next * done``: the value of the next state counts where the episode has ended, and only there."""
    source, index = scope.source, scope.index
    for whole, product in _sums(index):
        for factor in _factors(product):
            inner = stripped(index.flow, factor)
            if not DONE.match(name_of(factor)) and not DONE.match(name_of(inner)):
                continue
            if TURNED.search(_about_ends(source)):
                continue
            name = ast.unparse(factor)
            message = (
                f"multiplies the value of the next state with {name} (`{ast.unparse(whole)}`): it is left "
                "out where "
                "the episode goes on, so each action is worth its next reward alone, and it counts where the "
                "episode has ended."
            )
            yield scope.tell(factor, "loss", message, f"Multiply with (1 - {name}).")


def _about_ends(source: Source) -> str:
    """The lines of a source that speak of the ends of episodes."""
    return "\n".join(line for line in source.text.splitlines() if re.search(r"done|term|over|end", line))


@text_rule(468)
def index_for_value(scope: Scope) -> Iterator[Found]:
    """``r + gamma * target(s2).argmax(1)``: which action is best, where its value is meant."""
    index = scope.index
    for whole, product in _sums(index):
        for factor in _factors(product):
            inner = stripped(index.flow, factor)
            second = isinstance(inner, ast.Subscript) and ast.unparse(inner.slice) == "1"
            if (isinstance(inner, ast.Subscript) and second) or (
                isinstance(inner, ast.Attribute) and inner.attr == "indices"
            ):
                inner, chosen = stripped(index.flow, inner.value), "max"
            else:
                chosen = "argmax"
            if called(inner) != chosen or (chosen == "max" and len(operands(inner)) < 2):
                continue
            message = (
                f"takes the number of the best action for its value (`{ast.unparse(inner)}`, in "
                f"`{ast.unparse(whole)}`): the target is the reward and 0, 1, 2 ..., whatever the network says."
            )
            row = scope.row(inner) if chosen == "argmax" else scope.row(whole)
            remedy = "Take the value: target_net(next_state).max(1).values."
            yield scope.tell(inner, "loss", message, remedy, rows=[row] if row is not None else [])


@text_rule(469, "max")
def larger_critic(scope: Scope) -> Iterator[Found]:
    """``torch.max(q1_target(s2, a2), q2_target(s2, a2))`` of two critics: what errs upwards is believed."""
    index = scope.index
    values = {id(n) for _, product in _sums(index) for n in spread(index.flow, product, 60)}
    for call in index.called("max", "maximum", "amax"):
        both = [stripped(index.flow, o) for o in operands(call)]
        if both and called(both[0]) in ("stack", "cat") and isinstance(both[0], ast.Call) and both[0].args:
            several = both[0].args[0]
            both = [stripped(index.flow, o) for o in getattr(several, "elts", ())]
        if len(both) != 2 or not all(isinstance(o, ast.Call) and o.args for o in both):
            continue
        names = [ast.unparse(o.func) for o in both]  # type: ignore[attr-defined]
        arguments = [[ast.unparse(a) for a in o.args] for o in both]  # type: ignore[attr-defined]
        alike = re.sub(r"\d|_?[ab]$", "", names[0]) == re.sub(r"\d|_?[ab]$", "", names[1])
        if names[0] == names[1] or arguments[0] != arguments[1] or not alike:
            continue
        if not CRITIC.search(names[0]) and id(call) not in values:
            continue
        message = (
            f"takes the larger of two critics (`{ast.unparse(call)}`): what one of them overestimates goes into "
            "the target each time, and the values grow beyond what is ever earned."
        )
        yield scope.tell(call, "loss", message, f"Take the smaller one: torch.min({', '.join(names)}).")


@text_rule(470, "gather")
def gathered_across_samples(scope: Scope) -> Iterator[Found]:
    """``q.gather(0, actions.unsqueeze(1))``: values of the first samples, and not of each one's action."""
    index = scope.index
    for call in index.called("gather"):
        along = option(call, "dim", 1)
        chosen = option(call, "index", 2)
        if along is None or chosen is None or ast.unparse(along) != "0":
            continue
        text = ast.unparse(index.flow.inner(chosen))
        if not re.search(r"unsqueeze\((1|-1|dim=1|dim=-1)\)|\[:, None\]|(view|reshape)\(-1, 1\)", text):
            continue
        message = (
            f"gathers along dimension 0 (`{ast.unparse(call)}`): a column of numbers of actions picks those "
            "rows of "
            "the first column, which are other samples', and not the value of each one's own action."
        )
        row = scope.row(call)
        columns = row is not None and row.shape[1:] == (1,) and row.refs and row.refs[0].shape[1:] > (1,)
        remedy = "Gather along the actions: q.gather(1, index)."
        yield scope.tell(call, "layout", message, remedy, rows=[row] if row is not None and columns else [])


@text_rule(471, "[:,")
def columns_for_places(scope: Scope) -> Iterator[Found]:
    """``q(x)[:, actions]``: of every sample the columns of all the others' actions too, (N, N)."""
    trace, source, index = scope.trace, scope.source, scope.index
    for part in index.kinds.get(ast.Subscript, ()):
        places = part.slice.elts if isinstance(part.slice, ast.Tuple) else []
        if len(places) != 2 or not isinstance(places[0], ast.Slice) or ast.unparse(places[0]) != ":":
            continue
        if not isinstance(places[1], ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            continue
        if isinstance(part.ctx, ast.Store):
            continue
        for row in rows_at(trace, source, part):
            of = row.refs[0].shape if row.refs else ()
            if row.op not in ("index", "getitem", "index_select") or len(row.shape) != 2 or len(of) != 2:
                continue
            if not row.requires_grad or row.shape[0] != row.shape[1] or of[0] != row.shape[0] or of[1] >= of[0]:
                continue
            if any(r.op in ("diagonal", "diag") for r in trace.rows if row in r.refs):
                continue
            n, name = row.shape[0], ast.unparse(places[1])
            message = (
                f"takes of each of {n} samples the columns of all {n} (`{ast.unparse(part)}` is {n}×{n}): "
                f"{name} names one column for each sample, and a slice beside it means every row."
            )
            remedy = f"Name the rows as well: values[torch.arange({name}.shape[0]), {name}], or gather(1, ...)."
            yield scope.tell(part, "layout", message, remedy, rows=[row])
