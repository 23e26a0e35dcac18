"""Two names of one thing, of which one was meant to be a copy: weights of the best epoch that go on changing, labels
that are read while they are written, an average that begins before the weights are loaded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..agents.target_networks import averaged_models
from ..finding import Found, capital, last_line
from ..order import rule, text_rule
from ..reading.expressions import Flow
from ..reading.scope import Scope
from ..reading.sources import Function, Pair, Source, assigned, called, names_in, own_nodes, sources
from .names_shared import itself

STEPS = {"step", "fit", "update"}  # and what speaks of training or epochs
LOOPS = ast.For | ast.While


@text_rule(580, proof="state_dict() holds the parameters themselves, which every step changes")
def state_kept(scope: Scope) -> Iterator[Found]:
    """``best = net.state_dict()`` in a training loop: the dictionary holds the parameters themselves."""
    trace, source, function = scope.trace, scope.source, scope.flow.scope
    if not trace.steps.count and not trace.steps.by_hand:
        return
    for node in own_nodes(function):
        found = _state(source, function, node) or _model(trace, source, function, node)
        found = found or _in_object(trace, source, node)
        if found is not None:
            yield found


@text_rule(583, trains=True)
def drift_from_itself(scope: Scope) -> Iterator[Found]:
    """``start = list(net.parameters())``, and later a penalty for how far they have moved from there: they are the
    same tensors, and it is 0."""
    source, nodes = scope.source, scope.nodes
    kept = {pair.name: (pair, of) for pair in assigned(nodes) if (of := _same_parameters(pair.value))}
    kept |= _kept_by_object(source, scope.flow.scope)
    for node in nodes if kept else ():
        beside = _compared(node, kept)
        if beside is None:
            continue
        pair, module = kept[beside]
        message = (
            f"keeps the parameters of {module} themselves in {beside} "
            f"(`{ast.unparse(pair.value)}`) and no copy of their values: what {source.place(node).words} "
            "compares them with are the same tensors, so the difference is 0 however far they move."
        )
        remedy = f"Copy the values: [p.detach().clone() for p in {module}.parameters()]."
        yield scope.tell(pair.node, "alias", message, remedy)


def _kept_by_object(source: Source, method: ast.AST) -> dict[str, tuple[Pair, str]]:
    """Such lists that ``__init__`` gives to attributes of the object whose method it is, of a module that another
    attribute is."""
    kind = source.parents.get(method)
    begin = next((n for n in getattr(kind, "body", ()) if getattr(n, "name", "") == "__init__"), None)
    if begin is None or not isinstance(kind, ast.ClassDef) or begin is method:
        return {}
    set_ = [n for n in own_nodes(begin) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Attribute)]
    also = {ast.unparse(n.value): ast.unparse(n.targets[0]) for n in set_}
    found = {}
    for node in set_:
        of, name = _same_parameters(node.value), ast.unparse(node.targets[0])
        if of is not None:
            found[name] = Pair(name, node.value, node), also.get(of, of)
    return found


def _same_parameters(value: ast.expr) -> str | None:
    """The module whose parameters a list or dictionary holds, themselves or sharing their memory."""
    harmless = {"list", "tuple", "dict", "enumerate", "detach", "parameters", "named_parameters"}
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    lists = called(value) in ("list", "tuple", "dict") or isinstance(value, ast.ListComp | ast.DictComp)
    if (
        not lists
        or not all(called(n) in harmless for n in calls)
        or any(isinstance(n, ast.BinOp) for n in ast.walk(value))
    ):
        return None
    if isinstance(value, ast.ListComp | ast.DictComp):
        given = value.elt if isinstance(value, ast.ListComp) else value.value
        bare = ast.unparse(given).replace(".detach()", "").replace(".data", "")
        if not bare.isidentifier() or any(part.ifs for part in value.generators):
            return None
    made = next((n for n in calls if called(n) in ("parameters", "named_parameters")), None)
    return ast.unparse(made.func.value) if made is not None and isinstance(made.func, ast.Attribute) else None


def _compared(node: ast.AST, kept: dict[str, tuple[Pair, str]]) -> str | None:
    """The list that a loop subtracts from what it holds: by zip() with the parameters, or by their names."""
    loops: list[tuple[ast.expr, list[ast.AST]]] = []
    if isinstance(node, ast.For):
        loops = [(node.iter, [n for s in node.body for n in ast.walk(s)])]
    elif isinstance(node, ast.GeneratorExp | ast.ListComp):
        loops = [(part.iter, list(ast.walk(node.elt))) for part in node.generators]
    for over, inside in loops:
        if not any(isinstance(n, ast.Sub) for n in inside) and not any(
            called(n) in ("mse_loss", "dist") for n in inside
        ):
            continue
        text = ast.unparse(over)
        for name, (_, module) in kept.items():
            again = f"{module}.parameters()" in text or f"{module}.named_parameters()" in text
            by_name = any(isinstance(n, ast.Subscript) and ast.unparse(n.value) == name for n in inside)
            read = name in names_in(over) or any(ast.unparse(n) == name for n in ast.walk(over) if "." in name)
            if again and (read or by_name):
                return name
    return None


def _bare(value: ast.expr) -> str | None:
    """The module whose state_dict() a value is, or holds, without a copy of the tensors."""
    if isinstance(value, ast.Dict | ast.Tuple | ast.List):
        parts = value.values if isinstance(value, ast.Dict) else value.elts
        return next((module for part in parts if (module := _bare(part)) is not None), None)
    if not isinstance(value, ast.Call):
        return None
    if called(value) in ("dict", "OrderedDict") or ast.unparse(value.func) == "copy.copy":
        return _bare(value.args[0]) if len(value.args) == 1 else None
    if isinstance(value.func, ast.Attribute) and value.func.attr == "copy":
        return _bare(value.func.value)
    if called(value) != "state_dict" or value.args or value.keywords or not isinstance(value.func, ast.Attribute):
        return None
    return ast.unparse(value.func.value)


def _in_object(trace: Trace, source: Source, node: ast.AST) -> Found | None:
    """``self.best = model.state_dict()`` in a method that a training loop calls again and again."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
        return None
    target, module = node.targets[0], _bare(node.value)
    method = next((n for n in source.around(node) if isinstance(n, Function)), None)
    if module is None or method is None or ast.unparse(target.value) != "self" or method.name == "__init__":
        return None
    if not any(isinstance(n, ast.If) for n in source.around(node)):
        return None
    for other in sources(trace):
        for n in other.nodes:
            if not isinstance(n, ast.Call) or called(n) not in ("load_state_dict", "save") or not n.args:
                continue
            if method in other.around(n):
                continue  # at once, before the next step
            if any(isinstance(a, ast.Attribute) and a.attr == target.attr for a in ast.walk(n.args[0])):
                return _kept(source, node, module, ast.unparse(target), other.place(n).words, called(n))
    return None


def _state(source: Source, scope: ast.AST, node: ast.AST) -> Found | None:
    """A state that is kept as it is while the module trains on, and is loaded or saved later."""
    given = _given(node)
    name, module = next(((name, of) for name, value in given if (of := _bare(value)) is not None), ("", None))
    loop = _loop(source, node, scope) if module is not None else None
    if module is None or loop is None:
        return None
    if not _conditional(source, node, loop) or not _trains(loop) or _rebound(loop, module):
        return None
    used = [
        n
        for n in own_nodes(scope)
        if isinstance(n, ast.Call)
        and n.lineno > last_line(loop)
        and called(n) in ("load_state_dict", "save")
        and any(ast.unparse(a) == name or ast.unparse(a).startswith(name + "[") for a in n.args)
    ]
    same = [n for n in used if called(n) == "save" or ast.unparse(n.func).startswith(module + ".")]
    if not same:
        return None
    return _kept(source, node, module, name, source.place(same[0]).words, called(same[0]))


def _given(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The variables and attributes that a statement gives a value, and which: of ``a, b = x, y`` each."""
    if not isinstance(node, ast.Assign):
        return []
    target, value = node.targets[0], node.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    return [(ast.unparse(one), part) for one, part in pairs if isinstance(one, ast.Name | ast.Attribute)]


def _kept(source: Source, node: ast.AST, module: str, name: str, use: str, how: str) -> Found:
    line, col, place = source.place(node)
    what = "loads" if how == "load_state_dict" else "saves"
    message = capital(
        f"{place} keeps no copy: the tensors of {module}.state_dict() are the parameters themselves, which every later "
        f"step changes, so {use} {what} the last weights and not those of then."
    )
    return Found("alias", "warning", line, col, message, f"Copy them: {name} = copy.deepcopy({module}.state_dict()).")


def _model(trace: Trace, source: Source, scope: ast.AST, node: ast.AST) -> Found | None:
    """``best_model = model`` under a condition in a training loop."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name) or len(node.targets) != 1:
        return None
    target, loop = node.targets[0], _loop(source, node, scope)
    if not isinstance(target, ast.Name | ast.Attribute) or loop is None or "best" not in ast.unparse(target):
        return None
    model = node.value.id
    roots = {leaf.name.partition(".")[0] for leaf in trace.optimized}
    if model not in roots or not _conditional(source, node, loop) or not _trains(loop) or _rebound(loop, model):
        return None
    name = ast.unparse(target)
    after = [n for n in own_nodes(scope) if getattr(n, "lineno", 0) > last_line(loop)]
    if not any(isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == name for n in after):
        return None
    line, col, place = source.place(node)
    message = capital(
        f"{place} gives {model} a second name and makes no copy: {name} goes on training with it, and at the end both "
        "are the model of the last step."
    )
    return Found("alias", "warning", line, col, message, f"Copy it: {name} = copy.deepcopy({model}).")


def _loop(source: Source, node: ast.AST, scope: ast.AST) -> LOOPS | None:
    """The outermost loop of a scope around a node."""
    found = None
    for above in source.around(node):
        if above is scope or isinstance(above, Function):
            break
        if isinstance(above, ast.For | ast.While):
            found = above
    return found


def _conditional(source: Source, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a statement of a loop stands under an `if`."""
    for above in source.around(node):
        if above is loop:
            return False
        if isinstance(above, ast.If):
            return True
    return False


def _trains(loop: ast.AST) -> bool:
    """Whether a loop makes steps, itself or in a function that is called so."""
    names = {called(n) for n in ast.walk(loop)}
    return bool(names & STEPS) or any("train" in name or "epoch" in name for name in names)


def _rebound(loop: ast.AST, name: str) -> bool:
    """Whether a loop binds a name (or the first part of a path) anew in every round."""
    root = name.partition(".")[0].partition("[")[0]
    bound = (n for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return "[" in name or any(n.id == root for n in bound)


@text_rule(582)
def written_while_read(scope: Scope) -> Iterator[Found]:
    """``b = a`` and then, in a loop, ``b[a == i] = ...``: later rounds match what earlier ones have written."""
    source, function = scope.source, scope.flow.scope
    nodes = scope.nodes
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
            continue
        into, index = node.targets[0].value, node.targets[0].slice
        loop = _loop(source, node, function)
        if not isinstance(into, ast.Name) or not isinstance(loop, ast.For) or not isinstance(index, ast.Compare):
            continue
        read = index.left
        counters = names_in(index.comparators[0]) & _bound(loop)
        if not isinstance(read, ast.Name) or not counters or not isinstance(index.ops[0], ast.Eq):
            continue
        if not _bound(loop) & names_in(node.value) or isinstance(node.value, ast.Constant):
            continue
        if into.id != read.id and not _same(nodes, into.id, read.id, loop):
            continue
        if not counters & names_in(node.value) and not _met_again(source, scope.flow, loop, into.id != read.id):
            continue
        if _ahead(loop, node.value, next(iter(counters))):
            continue
        first = next((n for n in nodes if _alias(n, into.id, read.id)), node)
        is_it = "" if into.id == read.id else f" ({into.id} is {read.id}, {source.place(first).words})"
        message = (
            f"writes to what it compares: `{ast.unparse(node)}` changes {read.id} itself{is_it}, so a "
            "later round finds what an earlier one has written and changes it once more."
        )
        remedy = f"Write to a copy: {into.id} = {read.id}.clone() before the loop; or look all up at once: "
        value = node.value.value if isinstance(node.value, ast.Subscript) else ast.Name("table")
        yield scope.tell(node, "alias", message, remedy + f"{ast.unparse(value)}[{read.id}].")  # fmt: skip


def _met_again(source: Source, flow: Flow, loop: ast.For, alias: bool) -> bool:
    """Whether a round of ``for old, new in pairs`` may find what an earlier one has written: some new one is an old one
    further on. Where nobody can tell what the pairs are, a second name says that a copy was meant."""
    over = loop.iter
    if isinstance(over, ast.Call) and called(over) == "items" and isinstance(over.func, ast.Attribute):
        over = over.func.value
    over = flow.inner(over)
    if isinstance(over, ast.Dict):
        pairs = list(zip(over.keys, over.values, strict=True))
    elif isinstance(over, ast.List | ast.Tuple):
        pairs = [(p.elts[0], p.elts[1]) for p in over.elts if isinstance(p, ast.Tuple) and len(p.elts) == 2]
    else:
        return alias
    texts = [(ast.unparse(old), ast.unparse(new)) for old, new in pairs if old is not None]
    return any(new == old for k, (_, new) in enumerate(texts) for old, _ in texts[k + 1 :])


def _bound(loop: ast.For) -> set[str]:
    return {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}


def _alias(node: ast.AST, into: str, read: str) -> bool:
    """Whether a statement gives one name to what another one is called."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    return isinstance(node.value, ast.Name) and {node.targets[0].id, node.value.id} == {into, read}


def _same(nodes: list[ast.AST], into: str, read: str, loop: ast.For) -> bool:
    """Whether two names were made one before a loop, and neither was bound again."""
    aliases = [n for n in nodes if _alias(n, into, read)]
    if len(aliases) != 1 or getattr(aliases[0], "lineno", 0) >= loop.lineno:
        return False
    bound = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in (into, read)]
    return not any(n.lineno > aliases[0].lineno for n in bound)  # type: ignore[attr-defined]


def _ahead(loop: ast.For, value: ast.expr, counter: str) -> bool:
    """Whether what is written can be matched by no later round: a number that is moved out of their range."""
    text = ast.unparse(value)
    plain = text in (counter, f"{counter} - 1", f"-{counter}", f"-{counter} - 1") or "len(" in text
    return plain or ("+" in text and "[" not in text)


@rule(584)
def averaged_before_loading(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A moving average of a model's weights that is made before the model loads its own."""
    if not trace.loaded or not trace.steps.count:
        return []
    everything = sources(trace)
    averaging = {n.name for s in everything for n in s.nodes if isinstance(n, ast.ClassDef) and _averages(n)}
    loops = (
        n for s in everything for n in s.nodes if isinstance(n, ast.For) and re.search("mul_|lerp_", ast.unparse(n))
    )
    averaging |= {models[0] for loop in loops if (models := averaged_models(loop))}
    for source in everything:
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            for node in nodes:
                found = _begun_early(source, nodes, node, averaging)
                if found is not None:
                    return [found]
    return []


def _averages(kind: ast.ClassDef) -> bool:
    """Whether a class copies a model's weights when it is made, and moves the copies towards them later."""
    text = {getattr(n, "name", ""): ast.unparse(n) for n in kind.body}
    copies = any(word in text.get("__init__", "") for word in ("clone()", "deepcopy("))
    moves = [t for name, t in text.items() if name != "__init__" and any(w in t for w in ("mul_(", "lerp_(", "decay"))]
    return copies and bool(moves)


def _begun_early(source: Source, nodes: list[ast.AST], node: ast.AST, averaging: set[str]) -> Found | None:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return None
    name = ast.unparse(node.targets[0])
    copy = itself(node.value)
    follows = called(copy) == "deepcopy" and name in averaging
    if not follows and called(node.value) not in averaging:
        return None
    made = copy if follows else node.value
    if not isinstance(made, ast.Call) or not made.args:
        return None
    model = ast.unparse(made.args[0])
    calls = [n for n in nodes if isinstance(n, ast.Call) and n.lineno > node.lineno]
    loads = [n for n in calls if ast.unparse(n.func) == f"{model}.load_state_dict"]
    # what brings the average up to date as well: its own state, or a copy of the model's
    renewed = [n for n in calls if called(n) in ("load_state_dict", "copy_", "reset", "register", "set", "sync", "load")
               and (ast.unparse(n.func).startswith(name + "."))]  # fmt: skip
    again = [n for n in nodes if isinstance(n, ast.Assign) and n is not node
             and any(ast.unparse(t).startswith(name) for t in n.targets)]  # fmt: skip
    trained = [n for n in calls if called(n) in ("step", "backward")]
    if not loads or renewed or again or any(n.lineno < loads[0].lineno for n in trained):
        return None
    if any(name in names_in(a) for a in loads[0].args):
        return None
    line, col, place = source.place(node)
    message = capital(
        f"{place} makes {name} of {model} before {source.place(loads[0]).words} loads the weights of {model}: the "
        "average "
        "begins at those that the model was made with, and keeps them for as long as it looks back."
    )
    return Found("order", "warning", line, col, message, f"Make {name} after {model}.load_state_dict().")
