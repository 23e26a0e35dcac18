"""What was loaded, kept, filled or set and then left out: the end of an episode, what a gradient needs, a group of
parameters, a setting of the training."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule, text_rule
from ..reading.calls import bare
from ..reading.expressions import Flow
from ..reading.scope import Scope
from ..reading.sources import Function, Source, assigned, called, names_in, own_nodes, sources

ENDS = re.compile(
    r"^(b_|batch_)?(is_)?(not_)?(done|dones|terminal|terminals|terminated|terminateds|ended|over|finished|game_over)"
    r"(_batch|_b|_t|_mask|s)?$"
)
DISCOUNT = re.compile(r"^(\w+\.)*(gamma|GAMMA|discount|DISCOUNT|discount_factor)$")
ENDED = "episodes have ended in the memory"
MOST = 10_000  # transitions of a memory that are looked at
LEAST = 0.8  # a number from which a factor may be a discount
REWARD = re.compile(r"rew|\br\b|^r_|ret", re.I)


@text_rule(590)
def end_ignored(scope: Scope) -> Iterator[Found]:
    """``done`` comes out of the memory, and the target takes the value of the next state all the same."""
    trace, source, nodes = scope.trace, scope.source, scope.nodes
    if not trace.steps.count or trace.error is not None:
        return
    bound = [n for n in nodes if isinstance(n, ast.Name) and ENDS.match(n.id) and isinstance(n.ctx, ast.Store)]
    for name in bound:
        target = next((n for n in nodes if bootstraps(scope.flow, n)), None)
        if target is None:
            continue
        reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == name.id and _loads(n)]
        if any(_within(source, name, n) and not _filled(source, n) and not recast(source, n) for n in reads):
            continue
        message = (
            f"adds the value of the next state where an episode has ended too "
            f"(`{ast.unparse(target)}`): "
            f"{name.id}, which {source.place(name).words} brings, is read nowhere."
        )
        remedy = f"Leave it out there: reward + gamma * next_value * (1 - {name.id}.float())."
        if any(_loads(n) and n.id == name.id for n in nodes):  # type: ignore[attr-defined]
            remedy = f"Begin with 0 again where {name.id} tells that an episode has ended: {_ended(target, name.id)}."
        place = next((n for n in source.around(name) if isinstance(n, ast.Tuple)), None)
        ended = place is not None and name in place.elts and ends_stored(trace, place.elts.index(name), len(place.elts))
        yield scope.tell(target, "unused", message, remedy, proof=ENDED if ended else "")


def ends_stored(trace: Trace, place: int, count: int) -> bool:
    """Return whether a memory that the user's variables hold has the end of an episode: at this place of its tuples of
    so many things."""
    held = [v for value in trace.space.values() for v in (value, *getattr(value, "__dict__", {}).values())]
    for memory in held:
        if not isinstance(memory, list | deque) or not memory or not isinstance(memory[0], tuple):
            continue
        ends = [item[place] for item in islice(memory, MOST) if isinstance(item, tuple) and len(item) == count]
        if any(isinstance(end, bool | int | float | np.generic) and end == 1 for end in ends):
            return True
    return False


def _loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _filled(source: Source, node: ast.AST) -> bool:
    """Whether a list is only appended to there."""
    method = source.parents.get(node)
    return isinstance(method, ast.Attribute) and method.attr in ("append", "extend", "clear")


def recast(source: Source, node: ast.AST) -> bool:
    """Return whether a variable is only read to be given to itself: ``done = torch.tensor(done)``, alone or with
    others in one statement."""
    statement = next((a for a in source.around(node) if isinstance(a, ast.stmt)), None)
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    return any(isinstance(bare(v), ast.Name) and ast.unparse(bare(v)) == ast.unparse(node) == ast.unparse(t)
               for t, v in pairs)  # fmt: skip


def _within(source: Source, bound: ast.Name, read: ast.AST) -> bool:
    """Whether a variable that is read may be the one that was bound: it stands after it, or in a loop around both."""
    loops = {a for a in source.around(bound) if isinstance(a, ast.For | ast.While)}
    after = (read.lineno, read.col_offset) > (bound.lineno, bound.col_offset)  # type: ignore[attr-defined]
    return after or bool(loops & set(source.around(read)))


def _ended(target: ast.AST, name: str) -> str:
    """Return a target of which the next value counts only where an episode goes on.

    >>> _ended(ast.parse("r + GAMMA * q_next", mode="eval").body, "done")
    'r + GAMMA * q_next * (1 - done)'
    """
    assert isinstance(target, ast.BinOp)
    sides = [target.left, target.right]
    at = next(k for k in (1, 0) if isinstance(sides[k], ast.BinOp) and isinstance(sides[k].op, ast.Mult))  # type: ignore[attr-defined]
    rest = ast.BinOp(ast.Constant(1), ast.Sub(), ast.Name(name, ast.Load()))
    sides[at] = ast.BinOp(sides[at], ast.Mult(), rest)
    return ast.unparse(ast.BinOp(sides[0], ast.Add(), sides[1]))


def bootstraps(flow: Flow, node: ast.AST) -> bool:
    """Return whether an expression is reward + gamma * (the value of the next state)."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    for reward, rest in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mult):
            continue
        for factor, value in ((rest.left, rest.right), (rest.right, rest.left)):
            best = any(called(n) in ("max", "amax") for n in ast.walk(flow.inner(value)))
            named = DISCOUNT.match(ast.unparse(factor)) is not None
            rewarded = REWARD.search(ast.unparse(reward)) is not None
            if named and (rewarded or (best and isinstance(reward, ast.Name))):
                return True
            number = flow.number(factor) if best and rewarded and not named else None
            if number is not None and LEAST <= number < 1:
                return True
    return False


SETTINGS = {
    re.compile(r"^(weight_decay|wd|l2|l2_reg)$", re.I): "weight_decay={} of the optimizer",
    re.compile(r"^(lr|learning_rate)$", re.I): "lr={} of the optimizer",
    re.compile(r"^momentum$", re.I): "momentum={} of the optimizer",
    re.compile(r"^betas$", re.I): "betas={} of the optimizer",
    re.compile(r"^label_smoothing$", re.I): "label_smoothing={} of the loss",
    re.compile(r"^(class_weights?|pos_weight)$", re.I): "weight={} of the loss",
    re.compile(r"^(clip|grad_clip|max_grad_norm|max_norm|clip_norm|clip_value|clip_grad)$", re.I):
        "clip_grad_norm_(model.parameters(), {}) after backward()",
    re.compile(r"^(eps|epsilon)_(decay|decay_rate|min|end|final)$", re.I): "the rule by which exploring becomes rarer",
    re.compile(r"^(accum|accumulation|accumulate|grad_accum|gradient_accumulation)_?(steps|batches)?$", re.I):
        "the loop: step every {} batches, of losses divided by it",
    re.compile(r"^(dropout|drop_rate|p_drop|dropout_p|dropout_rate)$", re.I): "nn.Dropout({}) in the model",
    re.compile(r"^(warmup|warmup_steps|warmup_epochs)$", re.I): "a scheduler of the learning rate",
}  # fmt: skip


@rule(875)
def setting_ignored(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A setting of the training that is given a value and read by nobody."""
    if not trace.steps.count or trace.error is not None:
        return []
    for source in sources(trace):
        read = {n.id for n in ast.walk(source.program) if _loads(n)} | {  # type: ignore[attr-defined]
            n.value for n in source.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
        }
        if any(called(n) in ("locals", "globals", "vars") for n in source.nodes):
            continue
        for node, name in [*_settings(source), *_items(source)]:
            use = next((use for known, use in SETTINGS.items() if known.match(name)), None)
            if use is None or (isinstance(node, ast.arg) and _reads(source, node, name)):
                continue
            if isinstance(node, ast.Assign) and name in read:
                continue
            line, col, place = source.place(node)
            given = f"takes the argument {name}" if isinstance(node, ast.arg) else f"sets `{ast.unparse(node)}`"
            given = f"sets {name!r}" if isinstance(node, ast.Constant) else given
            message = capital(f"{place} {given}, and nothing reads it: the training knows nothing of it.")
            return [Found("unused", "note", line, col, message, f"Use it ({use.format(name)}), or take it out.")]
    return []


def _settings(source: Source) -> Iterator[tuple[ast.Assign | ast.arg, str]]:
    """Yield numbers that this cell's own statements give to variables, and arguments of functions that train."""
    for node in source.tree.body if not source.name else ():
        plain = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple | ast.BinOp)
        if plain and isinstance(node.targets[0], ast.Name):  # type: ignore[attr-defined]
            yield node, node.targets[0].id  # type: ignore[attr-defined, misc]
    for function in source.nodes:
        if isinstance(function, Function) and any(called(n) == "backward" for n in ast.walk(function)):
            for argument in function.args.args + function.args.kwonlyargs:
                yield argument, argument.arg


def _items(source: Source) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the keys of a dictionary of settings that stand nowhere else in the text, where it is read key by key."""
    for pair in assigned(source.tree.body if not source.name else ()):
        if not isinstance(pair.value, ast.Dict):
            continue
        reads = [n for n in source.nodes if isinstance(n, ast.Name) and n.id == pair.name and _loads(n)]
        functions = {n.name: n for n in source.nodes if isinstance(n, Function)}
        whole = [n for n in reads if not _by_key(source, n) and called(source.parents.get(n, n)) not in functions]
        passed = {called(source.parents.get(n, n)) for n in reads} & functions.keys()
        arguments = [n for name in passed for n in ast.walk(functions[name]) if isinstance(n, ast.Name) and _loads(n)
                     and n.id in {a.arg for a in functions[name].args.args} and n.id == pair.name]  # fmt: skip
        if whole or not reads or any(not _by_key(source, n) for n in arguments) or (passed and not arguments):
            continue
        words = [n.value for n in source.nodes if isinstance(n, ast.Constant)] + [
            n.attr for n in source.nodes if isinstance(n, ast.Attribute)
        ]
        for key in pair.value.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and words.count(key.value) == 1:
                yield key, key.value


def _by_key(source: Source, node: ast.AST) -> bool:
    """Whether of a dictionary one item is read: ``conf["lr"]``, ``conf.get("lr")``."""
    above = source.parents.get(node)
    if isinstance(above, ast.Subscript):
        return isinstance(above.slice, ast.Constant)
    return isinstance(above, ast.Attribute) and above.attr == "get"


def _reads(source: Source, argument: ast.AST, name: str) -> bool:
    """Whether a function reads one of its arguments."""
    function = next((n for n in source.around(argument) if isinstance(n, Function)), None)
    return function is None or name in names_in(function)


@rule(307)
def backward_ignores(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A function with a gradient of the user's own whose backward() reads nothing of what forward() kept for it."""
    ran = {row.op: row for row in trace.rows if row.reached}
    for source in sources(trace):
        for kind in source.nodes:
            if not isinstance(kind, ast.ClassDef) or not any("Function" in ast.unparse(b) for b in kind.bases):
                continue
            parts = {n.name: n for n in kind.body if isinstance(n, Function)}
            forward, backward = parts.get("forward"), parts.get("backward")
            if forward is None or backward is None or not forward.args.args or not backward.args.args:
                continue
            if kind.name in ran and (blind := _blind(source, kind.name, forward, backward)) is not None:
                blind.rows = [ran[kind.name]]
                return [blind]
            kept = _kept(parts.get("setup_context", forward))
            context = backward.args.args[0].arg
            read = any(
                isinstance(n, ast.Name) and n.id == context and isinstance(n.ctx, ast.Load) for n in ast.walk(backward)
            )
            returned = next((n for n in ast.walk(backward) if isinstance(n, ast.Return) and n.value is not None), None)
            scaled = _product(forward, kept)
            if not kept or read or returned is None or scaled is None or kind.name not in ran:
                continue
            line, col, place = source.place(returned)
            message = capital(
                f"{place} returns a gradient that knows nothing of {scaled}: forward() of {kind.name} multiplies "
                "with it "
                f"and keeps it in {context} ({source.place(kept[scaled]).words}), and backward() reads nothing of that."
            )
            given = backward.args.args[1].arg if len(backward.args.args) > 1 else "grad"
            remedy = (
                f"By the chain rule the gradient is {given} * {scaled}; %%autograd --check tells whether it is right."
            )
            return [Found("gradient", "warning", line, col, message, remedy, [ran[kind.name]])]
    return []


def _blind(source: Source, name: str, forward: Function, backward: Function) -> Found | None:
    """A backward() that reads none of the gradients it is given: what comes before gets a gradient of its own."""
    given = [a.arg for a in backward.args.args[1:]] + ([backward.args.vararg.arg] if backward.args.vararg else [])
    ends = [n for n in ast.walk(backward) if isinstance(n, ast.Return) and n.value is not None]
    tensors = [n for n in ends if not isinstance(n.value, ast.Constant)]
    if not given or not tensors or any(arg in names_in(backward) for arg in given):
        return None
    if re.search(r"loss|\.backward\(|autograd\.grad", ast.unparse(forward).lower()):
        return None  # it ends in a loss, whose gradient is 1
    line, col, place = source.place(tensors[0])
    message = capital(
        f"{place} returns a gradient that does not depend on {given[0]}: backward() of {name} gives its own derivative "
        "and drops what comes from the loss, so what lies before it is moved whatever the loss says."
    )
    value = tensors[0].value
    factors = [ast.unparse(part) for part in (value.elts if isinstance(value, ast.Tuple) else [value]) if part]
    products = ", ".join(part if part == "None" else f"{given[0]} * {part}" for part in factors)
    remedy = f"By the chain rule multiply the two: return {products}."
    return Found("gradient", "warning", line, col, message, remedy)


def _kept(function: Function) -> dict[str, ast.AST]:
    """What a forward() puts into its context: variable -> where."""
    context = function.args.args[0].arg
    found: dict[str, ast.AST] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called(node) == "save_for_backward":
            found |= {a.id: node for a in node.args if isinstance(a, ast.Name)}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == context:
                    found[node.value.id] = node
    return found


def _product(forward: Function, kept: dict[str, ast.AST]) -> str | None:
    """Which of the kept values the result of forward() is a product with."""
    for node in ast.walk(forward):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        for part in ast.walk(node.value):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div | ast.MatMult):
                sides = [s.id for s in (part.right, part.left) if isinstance(s, ast.Name)]
                own = [s for s in sides if s in kept]
                if own and len(set(sides)) == 2:
                    return own[0]
    return None


def group_left_out(found: list[Source]) -> tuple[Source, ast.Assign, ast.AST] | None:
    """Return a dictionary with "params" that is filled and then given to nobody: what makes it, what fills it last."""
    for source in found:
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            made = [
                n
                for n in nodes
                if isinstance(n, ast.Assign)
                and isinstance(n.targets[0], ast.Name)
                and isinstance(n.value, ast.Dict)
                and any(isinstance(k, ast.Constant) and k.value == "params" for k in n.value.keys)
            ]
            for k, node in enumerate(made):
                name = node.targets[0].id  # type: ignore[attr-defined]
                later = [m.lineno for m in made[k + 1 :] if m.targets[0].id == name]  # type: ignore[attr-defined]
                end = min(later, default=1 << 30)
                uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and node.lineno < n.lineno < end]
                filled = [n for n in uses if isinstance(source.parents.get(n), ast.Subscript)]
                if filled and len(filled) == len(uses):
                    return source, node, filled[-1]
    return None
