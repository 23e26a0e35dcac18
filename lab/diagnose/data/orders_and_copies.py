"""Samples that are not the ones that were meant: two permutations of what belongs together, results kept in the order
of one pass and read in that of another, states that are handed out and then changed, targets that are left on a scale
of their own, noise that is drawn once for the whole training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import TRUE, bare, equalities, given, name_of, operands, speaks
from ..reading.expressions import Flow
from ..reading.loaders import fetched_at, loader_of, settled
from ..reading.scope import Scope
from ..reading.sources import Function, called, names_in, own_nodes, sources

PERMUTES = {"randperm", "permutation"}
DRAWS = {"randn", "randn_like", "rand", "rand_like", "normal"}
STORES = {"append", "push", "add", "store", "remember"}
ARRAYS = {"array", "asarray", "zeros", "ones", "full", "empty", "tensor", "as_tensor", "zeros_like", "ones_like",
          "arange", "linspace", "copy", "clone", "astype", "randn", "rand", "stack", "concatenate"}  # fmt: skip
DRAWN = {"uniform", "normal", "integers", "standard_normal", "random"}
FIGURES = {"mean", "median", "std", "var"}
FIGURE = re.compile(r"accuracy|_error|_score|_loss|corrcoef|pearson|spearman|confusion|mae|mse|report|allclose|isclose")
"""Functions that compare predictions with labels, sample by sample."""
SOURCE = re.compile(r"src|source", re.I)  # of another domain, which has an order of its own


@text_rule(773, proof="two calls of randperm give two orders")
def permuted_apart(scope: Scope) -> Iterator[Found]:
    """``lam * x + (1 - lam) * x[torch.randperm(n)]``, and the same of y: each is mixed in an order of its own."""
    drawn = [n for n in scope.index.kinds.get(ast.Subscript, ()) if isinstance(n.ctx, ast.Load)
             and called(n.slice) in PERMUTES and isinstance(n.value, ast.Name | ast.Attribute)
             and isinstance(getattr(scope.source.parents.get(n), "op", None), ast.Mult)]  # fmt: skip
    for first in drawn:
        for second in drawn:
            near = 0 < second.lineno - first.lineno <= 3 or (second.lineno == first.lineno and second is not first)
            one, other = ast.unparse(first.value), ast.unparse(second.value)
            labels = [TRUE.search(one) is not None, TRUE.search(other) is not None]
            if not near or sum(labels) != 1 or SOURCE.search(one) or SOURCE.search(other):
                continue
            message = (
                f"mixes {one} with others in an order drawn at random (`{ast.unparse(first)}`), and "
                f"{scope.place(second).words} {other} in another one (`{ast.unparse(second)}`): they no longer belong "
                "together."
            )
            yield scope.tell(first, "data", message, f"Draw it once: order = torch.randperm(len({one})), for both.")
            return


@text_rule(774, "append", earlier=True)
def kept_in_another_order(scope: Scope) -> Iterator[Found]:
    """A list that one pass through a shuffled loader fills and another pass reads by the number of the batch."""
    flow = scope.flow
    loops = [n for n in scope.nodes if isinstance(n, ast.For)]
    for fill in loops:
        loader = loader_of(fill)
        if not isinstance(loader, ast.Name) or not _shuffled(scope, settled(scope.source, loader, flow)):
            continue
        calls = [n for s in fill.body for n in ast.walk(s) if isinstance(n, ast.Call) and called(n) == "append"]
        lists = {ast.unparse(n.func.value) for n in calls if isinstance(n.func, ast.Attribute)}
        for read in loops:
            if read.lineno <= (fill.end_lineno or 0) or ast.unparse(loader_of(read)) != loader.id:
                continue
            counter = read.target.elts[0] if isinstance(read.target, ast.Tuple) else None
            if called(read.iter) != "enumerate" or not isinstance(counter, ast.Name):
                continue
            for node in ast.walk(read):
                own = isinstance(node, ast.Subscript) and ast.unparse(node.value) in lists
                if not own or ast.unparse(node.slice) != counter.id:  # type: ignore[attr-defined]
                    continue
                message = (
                    f"takes what belongs to batch {counter.id} of an earlier pass (`{ast.unparse(node)}`, filled in "
                    f"the loop of {scope.place(fill).words}): {loader.id} draws another order in each pass, so it is "
                    "of other samples than those of this batch."
                )
                remedy = "Compute it for this batch, or keep it by the numbers of the samples, with shuffle=False."
                yield scope.tell(node, "data", message, remedy)
                return


def _shuffled(scope: Scope, made: ast.expr) -> bool:
    """Whether a loader draws an order for each pass."""
    if called(made) != "DataLoader" or not isinstance(made, ast.Call):
        return False
    shuffle = given(made, "shuffle", 2)
    sampler = given(made, "sampler", 3)
    return getattr(shuffle, "value", False) is True or "Random" in ast.unparse(sampler or ast.Constant(None))


@text_rule(775, trains=True, earlier=True)
def handed_out_and_changed(scope: Scope) -> Iterator[Found]:
    """A memory of states that the environment hands out and then changes in place: all of them become the last one."""
    source = scope.source
    if isinstance(scope.flow.scope, Function):
        return
    program = list(ast.walk(source.program if not source.name else source.tree))
    lists = {n.name for n in program if isinstance(n, Function) and any(called(m) == "append" for m in ast.walk(n))}
    stored = [n for n in program if isinstance(n, ast.Call) and called(n) in STORES & (lists | {"append"})]
    for kind in source.classes.values():
        for returned in (n for n in ast.walk(kind) if isinstance(n, ast.Return) and n.value is not None):
            method = next((a for a in source.around(returned) if isinstance(a, Function)), None)
            first = returned.value.elts[0] if isinstance(returned.value, ast.Tuple) else returned.value
            if method is None or not isinstance(first, ast.Attribute) or ast.unparse(first.value) != "self":
                continue
            name = ast.unparse(first)
            changed = next((n for n in ast.walk(kind) if _in_place(n, name)), None)
            taken = {
                t.id
                for n in program
                if isinstance(n, ast.Assign) and called(n.value) == method.name
                for target in n.targets
                for t in ast.walk(target)
                if isinstance(t, ast.Name)
            }
            kept = next((n for n in stored if taken & {m.id for a in n.args for m in _bare_names(a)}), None)
            if changed is None or kept is None:
                continue
            if isinstance(changed, ast.AugAssign) and not isinstance(changed.target, ast.Subscript):
                made = [n.value for n in ast.walk(kind) if isinstance(n, ast.Assign)
                        and name in map(ast.unparse, n.targets)]  # fmt: skip
                if not any(map(_array_made, made)):  # a number that grows is another number
                    continue
            message = (
                f"hands out {name} itself (`{ast.unparse(returned)}`), {source.place(changed).words} changes it in "
                f"place (`{ast.unparse(changed)}`), and {source.place(kept).words} keeps it: all that is kept is one "
                "array, and holds the last state."
            )
            yield scope.tell(returned, "alias", message, f"Hand out a copy: {name}.copy() (clone() of a tensor).")
            return


def _array_made(value: ast.expr) -> bool:
    """Whether an expression makes an array: numbers that are drawn are one where their size is said."""
    if isinstance(value, ast.Call) and called(value) in DRAWN:
        return len(value.args) > 2 or any(k.arg in ("size", "shape") for k in value.keywords)
    return any(isinstance(n, ast.Call) and called(n) in ARRAYS for n in ast.walk(value))


def _bare_names(node: ast.expr) -> Iterator[ast.Name]:
    """The names that a tuple, or an argument, holds as they are."""
    for part in node.elts if isinstance(node, ast.Tuple | ast.List) else [node]:
        if isinstance(part, ast.Name):
            yield part


def _in_place(node: ast.AST, name: str) -> bool:
    """Whether a statement changes an array in place: ``self.state += x``, ``self.state[0] = x``."""
    if isinstance(node, ast.AugAssign):
        target: ast.expr = node.target
        return ast.unparse(target) == name or (isinstance(target, ast.Subscript) and ast.unparse(target.value) == name)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(t, ast.Subscript) and ast.unparse(t.value) == name for t in targets)


@text_rule(776)
def target_on_its_own_scale(scope: Scope) -> Iterator[Found]:
    """A window that is normalised by its own mean and spread, and a target after it that is not."""
    flow = scope.flow
    if not isinstance(flow.scope, Function) or flow.scope.name not in ("__getitem__", "get_window", "make_window"):
        return
    parts = {p.name: p.value for p in scope.index.given if isinstance(p.value, ast.Subscript)}
    for pair in scope.index.given:
        value = pair.value
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div) or pair.name not in parts:
            continue
        own = {_stat(scope, name, pair.name) for name in names_in(value)}
        if not own & {"mean", "median"} or not own & {"std", "var"}:
            continue
        for node in scope.index.kinds.get(ast.Return, ()):
            given_back = node.value.elts if isinstance(node.value, ast.Tuple) else []
            names = [p.id for p in given_back if isinstance(p, ast.Name)]
            target = [n for n in names if n in parts and n != pair.name
                      and ast.unparse(parts[n].value) == ast.unparse(parts[pair.name].value)]  # fmt: skip
            again = [p for p in scope.index.given if p.name in target and p.value is not parts[p.name]]
            if len(given_back) != 2 or pair.name not in names or len(target) != 1 or again:
                continue
            message = (
                f"brings {pair.name} to mean 0 and spread 1 by its own figures (`{ast.unparse(pair.node)}`), and "
                f"{scope.place(node).words} gives {target[0]}, of the same series, as it is: its level is in nothing "
                "that the model sees."
            )
            stats = " and ".join(sorted(names_in(value) - {pair.name}))
            remedy = f"Scale {target[0]} by the same figures ({stats}), and take the forecast back by them."
            yield scope.tell(pair.node, "data", message, remedy)
            return


def _stat(scope: Scope, name: str, of: str) -> str:
    """Which figure of a variable another one holds: "mean", "std"."""
    for pair in scope.index.given:
        for call in ast.walk(pair.value) if pair.name == name else ():
            if called(call) in FIGURES and of in {ast.unparse(o) for o in operands(call)}:
                return called(call)
    return ""


@text_rule(777, "sqrt", trains=True, earlier=True)
def noise_drawn_once(scope: Scope) -> Iterator[Found]:
    """``noise = fixed[idx]`` of noise that was drawn before the epochs: each sample has one for all of the training."""
    flow, source = scope.flow, scope.source
    for pair in scope.index.given:
        value = pair.value
        loops = [a for a in source.around(pair.node) if isinstance(a, ast.For)]
        if not isinstance(value, ast.Subscript) or not isinstance(value.value, ast.Name) or not loops:
            continue
        made = flow.value(value.value)
        if called(made) not in DRAWS or any(isinstance(a, ast.For) for a in source.around(made)):  # type: ignore[arg-type]
            continue
        mixes = [n for n in scope.index.products if "sqrt" in ast.unparse(n) and pair.name in names_in(n)]
        if not mixes or made is None or not re.search(r"noise|eps", pair.name + ast.unparse(value)):
            continue
        message = (
            f"gives each sample the noise that was drawn once (`{ast.unparse(pair.node)}`, "
            f"{scope.place(made).words}: `{ast.unparse(made)}`): in every epoch it is the same, and the model learns "
            "it by heart."
        )
        yield scope.tell(value, "data", message, f"Draw it in each step: {pair.name} = torch.randn_like(x).")
        return


@text_rule(796, earlier=True)
def compared_in_another_order(scope: Scope) -> Iterator[Found]:
    """Predictions in the order that a shuffled loader drew, beside labels in the order of the data set."""
    if isinstance(scope.flow.scope, Function):
        return
    flow = scope.flow
    drawn = dict(_collected(scope))
    for one, other, node in _side_by_side(flow) if drawn else ():
        for predicted, true in ((one, other), (other, one)):
            loader = drawn.get(name_of(predicted))
            kept = flow.inner(true)
            if loader is None or not _as_in_the_set(kept) or not (speaks(true, TRUE) or speaks(kept, TRUE)):
                continue
            made = flow.value(loader) or loader
            says = (
                f"makes a loader that draws another order in each pass (`{ast.unparse(made)}`), and "
                f"{scope.place(node).words} holds what was predicted in that order beside labels in the order of the "
                f"set (`{ast.unparse(node)}`): {ast.unparse(predicted)} and {ast.unparse(true)} are of different "
                "samples."
            )
            remedy = f"Let {ast.unparse(loader)} keep the order: shuffle=False; or collect the labels in the same loop."
            yield scope.tell(made, "data", says, remedy, proof="the loader drew an order in the loop that predicts")


def _collected(scope: Scope) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables that hold what a pass through a shuffled loader gave, without its labels, each with that
    loader: collected here, or by a function that is given the loader."""
    trace = scope.trace
    for chain in [chain for chain, fetched in trace.fetched.items() if fetched.shuffled and not fetched.steps]:
        name, line = fetched_at(trace, chain)
        source = next((one for one in sources(trace) if one.name == name), None)
        loops = source.nodes if source is not None else ()
        loop = next((n for n in loops if isinstance(n, ast.For) and n.iter.lineno == line), None)
        into = _gathers(loop) if loop is not None else None
        if source is None or loop is None or into is None:
            continue
        function = next((n for n in source.around(loop) if isinstance(n, Function)), None)
        lines = {fetched_at(trace, chain[k : k + 1]) for k in range(1, len(chain))}
        for pair in scope.index.given:
            call = bare(pair.value)
            if function is None and into in names_in(pair.value) and pair.node.lineno > loop.lineno:
                yield pair.name, loader_of(loop)
            elif function is not None and called(call) == function.name and isinstance(call, ast.Call):
                loader = _given_loader(function, call, loader_of(loop))
                if ("", call.lineno) in lines and loader is not None and _returns(function, into):
                    yield pair.name, loader


def _gathers(loop: ast.For) -> str | None:
    """The list to which a loop appends what a model says of each batch, where it asks for no labels."""
    parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    inside = [n for statement in loop.body for n in ast.walk(statement)]
    reads = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if any(name_of(part) in reads for part in parts[1:]) or name_of(parts[0]) not in reads:
        return None
    if any(isinstance(n, ast.Subscript) and name_of(n.value) == name_of(parts[0]) for n in inside):
        return None  # of a batch that is a tuple
    calls = [n for n in inside if called(n) in ("append", "extend") and isinstance(n, ast.Call)]
    into = {ast.unparse(n.func.value) for n in calls if isinstance(n.func, ast.Attribute)}
    return into.pop() if len(into) == 1 else None


def _given_loader(function: Function, call: ast.Call, loader: ast.expr) -> ast.Name | None:
    """What a call gives a function as the loader that it goes over, where that is a variable."""
    places = [a.arg for a in function.args.args]
    name = name_of(loader)
    found = given(call, name, places.index(name)) if name in places else None
    return found if isinstance(found, ast.Name) else None


def _returns(function: Function, name: str) -> bool:
    """Whether all that a function returns is made of one of its variables."""
    ends = [n for n in own_nodes(function) if isinstance(n, ast.Return)]
    value = ends[0].value if len(ends) == 1 else None
    return value is not None and not isinstance(value, ast.Tuple) and name in names_in(value)


def _side_by_side(flow: Flow) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield what is held against each other element by element, and where."""
    for node in flow.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield bare(node.left), bare(node.right), node
        elif isinstance(node, ast.Call) and FIGURE.search(called(node)) and len(node.args) > 1:
            yield bare(node.args[0]), bare(node.args[1]), node
    for node, one, other in equalities(flow.nodes):
        yield bare(one), bare(other), node


def _as_in_the_set(node: ast.expr) -> bool:
    """Whether an expression is a part of data as they lie: names, attributes and slices."""
    node = bare(node)
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = bare(node.value)
    return isinstance(node, ast.Name)
