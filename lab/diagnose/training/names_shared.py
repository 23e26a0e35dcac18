"""One object where several were meant: a list that is repeated, a second name for a network, a loop's variable in a
function that runs after the loop."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Source, called, names_in, own_nodes, sources

SECOND = re.compile(r"target|teacher|ema|old_|_old|frozen|momentum|reference|ref_", re.I)
NETWORK = re.compile(r"net|model|policy|critic|actor|online|student|encoder|q\b", re.I)
SELF = {"to", "cuda", "cpu", "train", "eval", "float", "requires_grad_"}
"""Methods of a module that give the module itself."""
HOOKS = {"register_forward_hook", "register_full_backward_hook", "register_hook", "register_forward_pre_hook"}


@rule(586, proof="one object has two names")
def shared(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """One of several things that a line makes or names only once."""
    for source in sources(trace):
        for scope in source.scopes(earlier=trace.steps.count > 0):
            nodes = list(own_nodes(scope))
            for node in nodes:
                found = _repeated(source, nodes, node) or _named_twice(trace, source, nodes, node)
                found = found or _late(source, node)
                if found is not None:
                    return [found]
    return []


def _repeated(source: Source, nodes: list[ast.AST], node: ast.AST) -> Found | None:
    """``rows = [[]] * n``, of which each is appended to."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return None
    value = node.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult) or not isinstance(value.left, ast.List):
        return None
    if len(value.left.elts) != 1 or not isinstance(value.left.elts[0], ast.List | ast.Dict | ast.Set):
        return None
    name = node.targets[0].id
    writes = [
        n
        for n in nodes
        if (isinstance(n, ast.Call) and called(n) in ("append", "extend", "add", "update") and _item_of(n.func, name))
        or (isinstance(n, ast.Assign | ast.AugAssign) and _item_of(_target(n), name))
    ]
    if not writes:
        return None
    line, col, place = source.place(node)
    message = capital(
        f"{place} makes one {type(value.left.elts[0]).__name__.lower()} and names it several times: all items of "
        f"{name} "
        f"are the same object, so what {source.place(writes[0]).words} puts into one of them is in each."
    )
    remedy = (
        f"Make one for each: {name} = [{ast.unparse(value.left.elts[0])} for _ in range({ast.unparse(value.right)})]."
    )
    return Found("alias", "warning", line, col, message, remedy)


def _target(node: ast.AST) -> ast.AST:
    return node.targets[0] if isinstance(node, ast.Assign) else node.target  # type: ignore[attr-defined,no-any-return]


def _item_of(node: ast.AST, name: str) -> bool:
    """Whether a node is an attribute or a part of an item of a list: ``name[k].append``, ``name[k][0]``."""
    inner = getattr(node, "value", None)
    return isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and inner.value.id == name


def _named_twice(trace: Trace, source: Source, nodes: list[ast.AST], node: ast.AST) -> Found | None:
    """``target_net = policy_net``: every step moves both."""
    if not isinstance(node, ast.Assign):
        return None
    if isinstance(node.targets[0], ast.Attribute):
        return _held_twice(source, nodes, node)
    base = itself(node.value)
    if not isinstance(node.targets[0], ast.Name) or not isinstance(base, ast.Name):
        return None
    name, model = node.targets[0].id, base.id
    roots = {leaf.name.partition(".")[0] for leaf in trace.optimized if "." in leaf.name}
    if model not in roots | {"self"} or not SECOND.search(name) or SECOND.search(model) or model == "self":
        return None
    rebound = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name]
    used = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == name]
    if len(rebound) > 1 or not used:
        return None
    line, col, place = source.place(node)
    message = capital(
        f"{place} gives {model} a second name and makes no copy: each step of the optimizer changes {name} as well."
    )
    return Found("alias", "warning", line, col, message, f"Copy it: {name} = copy.deepcopy({model}).")


def itself(node: ast.expr) -> ast.expr:
    """Return the module that ``net.to(device).eval()`` gives: itself, and no copy."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SELF:
        node = node.func.value
    return node


def _held_twice(source: Source, nodes: list[ast.AST], node: ast.Assign) -> Found | None:
    """``self.policy = net.to(d); self.target = net.to(d)``: two names of one network."""
    name = ast.unparse(node.targets[0])
    base = itself(node.value)
    if not isinstance(base, ast.Name | ast.Attribute) or not SECOND.search(name):
        return None
    own = ast.unparse(base)
    first = next(
        (
            n
            for n in nodes
            if isinstance(n, ast.Assign)
            and n.lineno < node.lineno
            and isinstance(n.targets[0], ast.Attribute)
            and (ast.unparse(n.targets[0]) == own or ast.unparse(itself(n.value)) == own)
        ),
        None,
    )
    if first is None or not NETWORK.search(f"{own} {name}"):
        return None
    other = ast.unparse(first.targets[0])
    if SECOND.search(other):
        return None
    line, col, place = source.place(node)
    message = capital(
        f"{place} makes {name} another name of {other} ({source.place(first).words}): both are {own}, of which there "
        "is one, so each step of the optimizer changes the two alike."
    )
    return Found("alias", "warning", line, col, message, f"Copy it: {name} = copy.deepcopy({own}).")


def _late(source: Source, node: ast.AST) -> Found | None:
    """A hook made in a loop that reads the loop's variable: when it runs, that is the last one."""
    if not isinstance(node, ast.Call) or called(node) not in HOOKS or not node.args:
        return None
    function = node.args[0]
    if not isinstance(function, ast.Lambda):
        return None
    loop = next((n for n in source.around(node) if isinstance(n, ast.For)), None)
    if loop is None or any(called(n) == "remove" for n in ast.walk(loop)):
        return None
    own = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    target = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    read = sorted((names_in(function.body) & target) - own)
    runs = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and called(n) in ("backward", "model", "net")]
    if not read or runs:
        return None
    line, col, place = source.place(function)
    message = capital(
        f"{place} makes a function in a loop that reads {read[0]} when it runs: that is after the loop, and all of "
        "them "
        f"find the last {read[0]}."
    )
    remedy = f"Bind it when the function is made: lambda ..., {read[0]}={read[0]}: ...; or functools.partial."
    return Found("alias", "warning", line, col, message, remedy)
