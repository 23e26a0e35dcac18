"""Networks that follow another one: never brought up to date, loaded from themselves, or mixed the wrong way round;
and values of states behind the end of an episode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import Flow, defaults, flow_of
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources
from ..training.left_unused import DISCOUNT, ENDED, ENDS, REWARD, end_ignored, ends_stored, recast
from ..training.names_shared import itself

TARGET = re.compile(r"target|tgt|(^|_)(old|frozen|ema|teacher|slow|momentum)(_|$)", re.I)
FOLLOWS = re.compile(r"target|tgt", re.I)
HARMLESS = {"eval", "train", "to", "cuda", "cpu", "requires_grad_", "parameters", "state_dict", "double", "float"}
OWN = 0.3  # share of its own value from which a network that follows another hardly does
DONE = re.compile(r"^(is_)?(done|dn|terminal|terminated|term|over|end|ended|finished|game_over)s?$", re.I)


def _other_of(source: Source, into: str) -> str:
    """The network of which a target network was made, or took its weights at another place."""
    for node in source.nodes:
        if called(node) == "load_state_dict" and isinstance(node, ast.Call) and node.args:
            of = node.args[0]
            if ast.unparse(getattr(node.func, "value", node.func)) == into and called(of) == "state_dict":
                other = ast.unparse(getattr(of.func, "value", of))  # type: ignore[attr-defined]
                if other != into:
                    return other
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == into and called(node.value) == "deepcopy":
            return ast.unparse(node.value.args[0])  # type: ignore[attr-defined]
    return ""


@rule(595, proof="a network that loads its own state is the same before and after")
def loaded_from_itself(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``target_net.load_state_dict(target_net.state_dict())``: nothing changes."""
    for source in sources(trace):
        for node in source.nodes:
            if called(node) != "load_state_dict" or not isinstance(node, ast.Call) or not node.args:
                continue
            into = ast.unparse(getattr(node.func, "value", node.func))
            if ast.unparse(node.args[0]) != f"{into}.state_dict()":
                continue
            line, col, place = source.place(node)
            message = capital(
                f"{place} loads {into} with its own weights (`{ast.unparse(node)}`): it stays as it is, and takes "
                "nothing over from the network that is trained."
            )
            other = _other_of(source, into) or "net"
            remedy = f"Load those of the other: {into}.load_state_dict({other}.state_dict())."
            return [Found("alias", "warning", line, col, message, remedy)]
    return []


@rule(593)
def never_brought_up(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A target network that is copied once before the training loop and then asked in each step."""
    if not trace.steps.count or trace.error is not None:
        return []
    found = sources(trace)
    copies = {
        ast.unparse(n.targets[0])
        for source in found
        for n in source.nodes
        if isinstance(n, ast.Assign) and called(itself(n.value)) == "deepcopy"
    }
    for source in found:
        for scope in source.scopes():
            for loop in (n for n in own_nodes(scope) if isinstance(n, ast.For | ast.While)):
                inside = list(ast.walk(loop))
                if not any(called(n) == "backward" for n in inside):
                    continue
                for node in inside:
                    name = _asked(node, copies)
                    if name is None or not _discounted(source, node) or _renewed(found, name):
                        continue
                    line, col, place = source.place(node)
                    message = capital(
                        f"{place} asks {name} for the value of the next state, and nothing here brings it up to date: "
                        "it keeps the weights that it was made with, so what is learnt never enters the targets."
                    )
                    remedy = f"Load it every so many steps: {name}.load_state_dict(net.state_dict())."
                    return [Found("alias", "warning", line, col, message, remedy)]
    return []


@rule(599)
def buffers_left_behind(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An average of a model's parameters that is asked in evaluation mode with the statistics that it began with."""
    if not any("batch_norm" in row.op for row in trace.rows):
        return []
    for source in sources(trace):
        if re.search(r"buffers\(|state_dict\(|running_mean|update_bn|swa_utils", source.text):
            continue
        for scope in source.scopes():
            for loop in (n for n in own_nodes(scope) if isinstance(n, ast.For)):
                of = averaged_models(loop)
                if of is None or not any("deepcopy" in other.calls for other in sources(trace)):
                    continue
                if not _evaluated(trace, of[0].rpartition(".")[2]):
                    continue
                line, col, place = source.place(loop)
                message = capital(
                    f"{place} takes over the parameters of {of[1]} into {of[0]} (`{ast.unparse(loop.iter)}`) and not "
                    "its buffers: the means and variances of its batch norms stay as they were when it was copied, and "
                    "in evaluation mode it is asked with those."
                )
                remedy = f"Copy them as well: for a, b in zip({of[0]}.buffers(), {of[1]}.buffers()): a.copy_(b)."
                return [Found("evaluation", "warning", line, col, message, remedy)]
    return []


def _evaluated(trace: Trace, name: str) -> bool:
    """Whether a model of this name is put into evaluation mode, or given to a function that does so."""
    calls = [n for source in sources(trace) for n in source.nodes if isinstance(n, ast.Call)]
    puts = {f.name for source in sources(trace) for f in source.nodes
            if isinstance(f, Function) and any(called(n) == "eval" for n in ast.walk(f))}  # fmt: skip
    for call in calls:
        whom = [call.func.value] if called(call) == "eval" and isinstance(call.func, ast.Attribute) else []
        whom += call.args if called(call) in puts else []
        if any(ast.unparse(one).rpartition(".")[2] == name for one in whom):
            return True
    made = [
        n for source in sources(trace) for n in source.nodes if isinstance(n, ast.Assign) and called(n.value) == "eval"
    ]
    return any(ast.unparse(target).rpartition(".")[2] == name for n in made for target in n.targets)


def averaged_models(loop: ast.For) -> tuple[str, str] | None:
    """Return the two models of a loop that moves the parameters of one towards those of the other: that one first."""
    if called(loop.iter) != "zip" or not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Tuple):
        return None
    calls = [a for a in loop.iter.args if called(a) == "parameters"]
    models = [ast.unparse(a.func.value) for a in calls if isinstance(getattr(a, "func", None), ast.Attribute)]  # type: ignore[attr-defined]
    names = [ast.unparse(t) for t in loop.target.elts]
    if len(models) != 2 or models[0] == models[1] or len(names) != 2:
        return None
    for node in (n for s in loop.body for n in ast.walk(s)):
        into = None
        if isinstance(node, ast.Call) and called(node) in ("mul_", "lerp_", "copy_", "add_"):
            into = ast.unparse(getattr(node.func, "value", node.func))
        elif isinstance(node, ast.Assign):
            into = ast.unparse(node.targets[0])
        for k, name in enumerate(names):
            if into in (name, f"{name}.data"):
                return models[k], models[1 - k]
    return None


def _asked(node: ast.AST, copies: set[str]) -> str | None:
    """The name of the target network that a call runs: by what it is called, or since it is a copy."""
    text = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return text if re.fullmatch(r"(self\.)?\w+", text) and (FOLLOWS.search(text) or text in copies) else None


def _discounted(source: Source, node: ast.AST) -> bool:
    """Whether what a call gives is discounted, there or by the variable that it is given to."""
    name = ""
    for above in source.around(node):
        if _times_discount(above):
            return True
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            name = above.targets[0].id
            break
        if isinstance(above, ast.stmt):
            break
    return bool(name) and any(_times_discount(n) and name in names_in(n) for n in source.nodes)


def _times_discount(node: ast.AST) -> bool:
    """Whether an expression is a product with the discount."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    return any(DISCOUNT.match(ast.unparse(n)) for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute))


def _renewed(found: list[Source], name: str) -> bool:
    """Whether anything may change a network: a load in a loop or a function, its parameters, a call it is given to."""
    last = name.rpartition(".")[2]
    made = False
    for source in found:
        for node in source.nodes:
            if not isinstance(node, ast.Name | ast.Attribute) or ast.unparse(node).rpartition(".")[2] != last:
                continue
            above = source.parents.get(node)
            if isinstance(getattr(node, "ctx", None), ast.Store):
                made = True
                continue
            if isinstance(above, ast.Call) and above.func is node:
                continue  # it is asked
            if not isinstance(above, ast.Attribute):
                return True
            if above.attr == "load_state_dict":
                around = list(source.around(node))
                function = next((a for a in around if isinstance(a, Function)), None)
                if any(isinstance(a, ast.For | ast.While | ast.If) for a in around):
                    return True
                if function is not None and function.name != "__init__":
                    return True
            elif above.attr == "parameters":
                loop = next((a for a in source.around(node) if isinstance(a, ast.For)), None)
                if loop is None or "requires_grad" not in ast.unparse(loop):
                    return True
            elif above.attr not in HARMLESS:
                return True
    return not made


@rule(596)
def mixed_the_wrong_way(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``t.copy_(tau * t + (1 - tau) * p)`` with a tau of 0.005: the target is nearly replaced each time."""
    for source in sources(trace):
        outer = flow_of(source, source.tree)
        for scope in [source.tree, *(n for n in source.nodes if isinstance(n, Function))]:
            flow = flow_of(source, scope)
            for loop in (n for n in flow.nodes if isinstance(n, ast.For) and called(n.iter) == "zip"):
                own = _follower(loop)
                for node in ast.walk(loop) if own else ():
                    share = _own_share(node, own, (flow, outer), scope)
                    if share is None or not 0 < share < OWN:
                        continue
                    line, col, place = source.place(node)
                    message = capital(
                        f"{place} keeps {share:.2g} of {own} and takes {1 - share:.4g} of the network that is trained "
                        f"(`{ast.unparse(node)}`): after one step the two are nearly the same, and nothing is averaged."
                    )
                    remedy = f"Turn the two shares round: {own} is to keep {1 - share:.4g} of its own value."
                    return [Found("alias", "warning", line, col, message, remedy)]
    return []


def _follower(loop: ast.For) -> str:
    """The variable of the network that follows, in ``for t, p in zip(target.parameters(), net.parameters())``."""
    names = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    given = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    if len(names) != 2 or len(given) != 2:
        return ""
    follows = [bool(TARGET.search(ast.unparse(part).partition(".parameters")[0])) for part in given]
    if follows[0] == follows[1] or not all("parameters" in ast.unparse(part) for part in given):
        return ""
    name = names[follows.index(True)]
    return name.id if isinstance(name, ast.Name) else ""


def _own_share(node: ast.AST, own: str, flows: tuple[Flow, Flow], scope: ast.AST) -> float | None:
    """Which share of its own value a parameter keeps, where that is a number here."""
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (own, f"{own}.data"):
        mix: ast.AST = node.value
    elif isinstance(node, ast.Call) and called(node) == "copy_" and own in names_in(node.func) and node.args:
        mix = node.args[0]
    elif isinstance(node, ast.Call) and called(node) == "lerp_" and own in names_in(node.func) and len(node.args) == 2:
        taken = _number(node.args[1], flows, scope)
        return None if taken is None else 1 - taken
    else:
        return None
    if not isinstance(mix, ast.BinOp) or not isinstance(mix.op, ast.Add):
        return None
    for one, other in ((mix.left, mix.right), (mix.right, mix.left)):
        if own not in names_in(one) or own in names_in(other) or not isinstance(one, ast.BinOp):
            continue
        if isinstance(one.op, ast.Mult):
            shares = [_number(side, flows, scope) for side in (one.left, one.right)]
            return next((share for share in shares if share is not None), None)
    return None


def _number(node: ast.expr, flows: tuple[Flow, Flow], scope: ast.AST) -> float | None:
    """The number that an expression is, by what its names are given here: also by default, or at the top level."""
    values = defaults(scope)
    if isinstance(scope, Function):
        arguments = {n.arg for n in ast.walk(scope.args) if isinstance(n, ast.arg)}
        if arguments & names_in(node) - values.keys():
            return None
    for name in names_in(node) - values.keys():
        bound = [
            n for flow in flows for n in flow.nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name
        ]
        if len({ast.unparse(n.value) for n in bound}) != 1:
            return None
        values[name] = bound[0].value
    found = ast.fix_missing_locations(_Put(values).visit(ast.parse(ast.unparse(node), mode="eval")).body)
    return flows[0].number(found)


class _Put(ast.NodeTransformer):
    """Puts values in place of variables."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)


@rule(591)
def end_unpacked(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``memory.append((s, a, r, s2, done))`` and ``s, a, r, s2, d = zip(*batch)``, of which d is read nowhere."""
    if not trace.steps.count or trace.error is not None:
        return []
    found = sources(trace)
    places = {k: len(t.elts) for source in found for t in _stored(source) for k in _ends(t)}
    for source in found:
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            target = next((n for n in nodes if _bootstraps(n)), None)
            for node in nodes if target is not None else ():
                names = _unpacked(node)
                for k, count in places.items():
                    if len(names) != count or not isinstance(names[k], ast.Name):
                        continue
                    name = names[k].id  # type: ignore[attr-defined]
                    if ENDS.match(name):
                        continue  # end_ignored tells of it
                    line_of = getattr(node, "lineno", names[k].lineno)
                    reads = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
                    if any(n.id == name and n.lineno >= line_of and not recast(source, n) for n in reads):
                        continue
                    assert target is not None
                    line, col, place = source.place(target)
                    message = capital(
                        f"{place} adds the value of the next state where an episode has ended too "
                        f"(`{ast.unparse(target)}`): {name}, the end of an episode, which "
                        f"{source.place(names[k]).words} takes out of the memory, is read nowhere."
                    )
                    remedy = (
                        f"Leave it out there: reward + gamma * next_value * (1 - {'done' if name == '_' else name})."
                    )
                    proof = ENDED if ends_stored(trace, k, count) else ""
                    return [Found("unused", "warning", line, col, message, remedy, proof=proof)]
    return []


@rule(607)
def end_of_columns_unread(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``S, A, R, S2, D = zip(*memory)`` for the whole program, and a step that takes rows of all of them but of D."""
    found = sources(trace)
    if not trace.steps.count or trace.error is not None or not found:
        return []
    if any(look(trace, explained) for look in (end_ignored, end_unpacked)):
        return []  # which is told already
    places = {k: len(t.elts) for source in found for t in _stored(source) for k in _ends(t)}
    top = found[0]
    columns = [(names, k) for node in own_nodes(top.program) for k, count in places.items()
               if len(names := _unpacked(node)) == count and all(isinstance(n, ast.Name) for n in names)]  # fmt: skip
    for names, k in columns:
        others = {n.id for n in names} - {(end := names[k].id)}  # type: ignore[attr-defined]
        reads = [(one, n) for one in found for n in one.reads.get(end, ())]
        if any(not _looked_at(one, n) and not recast(one, n) for one, n in reads):
            continue
        for source in found:
            targets = (n for scope in source.scopes() for n in own_nodes(scope) if _bootstraps(n))
            target = next((n for n in targets if others & names_in(n)), None)
            if target is None:
                continue
            line, col, place = source.place(target)
            message = capital(
                f"{place} adds the value of the next state where an episode has ended too (`{ast.unparse(target)}`): "
                f"{end}, the ends of the episodes, which {top.place(names[k]).words} takes out of the memory, is not "
                "asked."
            )
            reward = next(n for n in ast.walk(target) if isinstance(n, ast.Name) and n.id in others)
            rows = source.parents.get(reward)
            rows = rows if isinstance(rows, ast.Subscript) and rows.value is reward else reward
            alive = ast.unparse(rows).replace(reward.id, end, 1)
            remedy = f"Leave it out there: multiply the value of the next state with (1 - {alive}.float())."
            proof = ENDED if ends_stored(trace, k, len(names)) else ""
            return [Found("unused", "warning", line, col, message, remedy, proof=proof)]
    return []


def _looked_at(source: Source, node: ast.AST) -> bool:
    """Whether a variable is only shown, by print."""
    return any(called(above) == "print" for above in source.around(node))


def _stored(source: Source) -> Iterator[ast.Tuple]:
    """Yield the tuples that a memory is given."""
    for node in source.nodes:
        if called(node) in ("append", "push", "add", "store") and isinstance(node, ast.Call):
            if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple):
                yield node.args[0]
            elif len(node.args) > 3:
                yield ast.Tuple(list(node.args), ast.Load())


def _ends(stored: ast.Tuple) -> list[int]:
    """The places in a tuple at which the end of an episode stands."""
    return [k for k, n in enumerate(stored.elts) if any(DONE.match(name) for name in names_in(n))][:1]


def _unpacked(node: ast.AST) -> list[ast.expr]:
    """The variables that a statement takes a tuple apart into."""
    target = (
        node.targets[0]
        if isinstance(node, ast.Assign)
        else node.target
        if isinstance(node, ast.For | ast.comprehension)
        else None
    )
    return target.elts if isinstance(target, ast.Tuple) else []


def _bootstraps(node: ast.AST) -> bool:
    """Whether an expression is reward + gamma * (what a network says of the next state)."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    for reward, rest in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mult):
            continue
        if any(DISCOUNT.match(ast.unparse(part)) for part in (rest.left, rest.right)):
            asks = any(isinstance(n, ast.Call) for n in ast.walk(rest))
            return bool(REWARD.search(ast.unparse(reward))) or (asks and isinstance(reward, ast.Name))
    return False
