"""Plans of a training that come to nothing: a schedule of another optimizer or of another size, averages that hardly
move or are never given back, a best model that nobody loads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..agents.target_networks import averaged_models
from ..finding import Found, last_line
from ..order import rule, text_rule
from ..reading.calls import function_of, functions, given, name_of
from ..reading.expressions import defaults
from ..reading.scope import Scope, calls, flow_around, scope_around, tell
from ..reading.sources import Function, Source, called, sources

RATE = re.compile(r"(^|_)(lr|learning_?rate|lr0|eta)(_|\d|$)|^(base|max|init|peak|initial|start)_?lr$", re.I)
DECAY = re.compile(r"decay|^(beta|alpha|momentum|m|tau)$", re.I)
AVERAGE = re.compile(r"ema|shadow|avg|averag|teacher", re.I)
WEIGHTS = re.compile(r"param|state_dict|weight|model|net|\.data\b|copy_|lerp")
COPIES = {"deepcopy", "state_dict", "clone"}
HALF = 0.5  # the share of its start that an average still has, from which it is said
LEAST = 5  # steps


@rule(561, proof="the scheduler multiplies the optimizer's rate by what it is given")
def rate_for_factor(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``LambdaLR(opt, lambda e: lr * 0.9 ** e)``: the result is a factor of the rate that the optimizer has."""
    known, base = functions(trace), _base_rates(trace)
    for source, node in calls(trace, "LambdaLR", "MultiplicativeLR"):
        give = given(node, "lr_lambda", 1)
        inner = flow_around(source, node).inner(give) if give is not None else None
        where, gives = source, []
        if isinstance(inner, ast.Lambda):
            gives = [inner.body]
        elif isinstance(inner, ast.Call) and called(inner) in known:
            where, function = known[called(inner)]
            gives = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
        elif isinstance(give, ast.Name) and give.id in known:
            where, function = known[give.id]
            gives = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
        for value in gives:
            above = _rates(value, base)
            below = any(
                isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and _rates(n.right, base)
                for n in ast.walk(value)
            )
            if not above or below:
                continue
            says = (
                f"gives a learning rate (`{ast.unparse(value)}`) where {called(node)} takes a factor: the optimizer's "
                f"rate is multiplied by {above[0]} once more, and is {above[0]} squared at its highest."
            )
            return tell(where, value, "learning-rate", "warning", says, f"Give the factor alone, without {above[0]}.")
    return []


def _base_rates(trace: Trace) -> set[str]:
    """What optimizers are given as their learning rate, where that is no plain number."""
    found = {
        ast.unparse(lr)
        for source in sources(trace)
        for name, nodes in source.calls.items()
        for node in nodes
        if name[:1].isupper() and (lr := given(node, "lr")) is not None
    }
    return {text for text in found if not text[0].isdigit()}


def _rates(node: ast.AST, base: set[str]) -> list[str]:
    return [
        ast.unparse(n) if isinstance(n, ast.Subscript) else name_of(n)
        for n in ast.walk(node)
        if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)
        and (RATE.search(name_of(n)) or ast.unparse(n) in base)
    ]


@rule(563, proof="the optimizer that is scheduled is not the one that steps")
def schedules_another(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A scheduler made for an optimizer whose name is bound to another one before the training."""
    for source, node in calls(trace, *_schedulers(trace)):
        of = given(node, "optimizer", 0)
        if isinstance(of, ast.Attribute) and (later_one := _made_elsewhere(source, node, of)) is not None:
            says = (
                f"makes the scheduler of the optimizer that {ast.unparse(of)} was then: "
                f"{source.place(later_one).words} gives it another one (`{ast.unparse(later_one.value)}`), whose "
                "learning rate nothing changes."
            )
            remedy = "Make the scheduler after the optimizer that trains."
            return tell(source, node, "learning-rate", "warning", says, remedy)
        if not isinstance(of, ast.Name) or source.name:
            continue
        scope = scope_around(source, node)
        later = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.Assign)
            and of.id in map(ast.unparse, n.targets)
            and scope_around(source, n) is scope
            and n.lineno > last_line(node)
            and isinstance(n.value, ast.Call)
        ]
        if len(later) != 1 or any(isinstance(a, ast.For | ast.While | ast.If) for a in source.around(later[0])):
            continue
        above = source.parents.get(node)
        name = name_of(above.targets[0]) if isinstance(above, ast.Assign) else ""
        anew = [
            n for n in ast.walk(scope)
            if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets) and n.lineno > later[0].lineno
        ]  # fmt: skip
        steps = [n for n in source.calls.get("step", ()) if ast.unparse(getattr(n.func, "value", n)) == name]
        if not name or anew or not any(n.lineno > later[0].lineno for n in steps):
            continue
        says = (
            f"makes the scheduler of the optimizer that {of.id} was then: {source.place(later[0]).words} binds "
            "the name "
            f"to another one (`{ast.unparse(later[0].value)}`), whose learning rate nothing changes."
        )
        return tell(
            source, node, "learning-rate", "warning", says, "Make the scheduler after the optimizer that trains."
        )
    return []


def _made_elsewhere(source: Source, node: ast.Call, of: ast.Attribute) -> ast.Assign | None:
    """Where another method gives the attribute that a scheduler was made of another optimizer."""
    kind = next((a for a in source.around(node) if isinstance(a, ast.ClassDef)), None)
    above = source.parents.get(node)
    scope = scope_around(source, node)
    if kind is None or not isinstance(above, ast.Assign) or getattr(scope, "name", "") != "__init__":
        return None
    name = ast.unparse(above.targets[0])
    made = [n for n in ast.walk(kind) if isinstance(n, ast.Assign) and ast.unparse(of) in map(ast.unparse, n.targets)]
    again = [n for n in ast.walk(kind) if isinstance(n, ast.Assign) and name in map(ast.unparse, n.targets)]
    others = [n for n in made if scope_around(source, n) is not scope and isinstance(n.value, ast.Call)]
    steps = [n for n in source.calls.get("step", ()) if ast.unparse(getattr(n.func, "value", n)) == name]
    return others[0] if len(others) == 1 and len(made) == 2 and len(again) == 1 and steps else None


def _schedulers(trace: Trace) -> list[str]:
    names = {name for source in sources(trace) for name in source.calls}
    return sorted(n for n in names if re.search(r"(LR|WarmRestarts|LROnPlateau|Scheduler)$", n))


@text_rule(311, "load_state_dict", trains=True)
def begun_again(scope: Scope) -> Iterator[Found]:
    """``opt.load_state_dict(saved)`` and then a scheduler that is made from the start: it sets the first rate again."""
    for pair in scope.index.given:
        of = given(pair.value, "optimizer", 0) if isinstance(pair.value, ast.Call) else None
        if of is None or not re.search(r"LR$|WarmRestarts$", called(pair.value)) or given(pair.value, "last_epoch"):
            continue
        loads = [
            n for n in scope.calls("load_state_dict") if ast.unparse(getattr(n.func, "value", n)) == ast.unparse(of)
        ]
        resumed = [n for n in scope.calls("load_state_dict") if ast.unparse(getattr(n.func, "value", n)) == pair.name]
        resumed += [
            n
            for n in scope.calls("step")
            if ast.unparse(n) != f"{pair.name}.step()" and ast.unparse(n.func) == f"{pair.name}.step"
        ]
        before = [n for n in loads if n.lineno < pair.node.lineno]
        if not before or resumed or any(n.lineno > pair.node.lineno for n in loads):
            continue
        if not any(ast.unparse(n) == f"{pair.name}.last_epoch" and isinstance(n.ctx, ast.Store) for n in scope.nodes
                   if isinstance(n, ast.Attribute)):  # fmt: skip
            continue  # a schedule of its own for what follows
        says = (
            f"makes {pair.name} from the start (`{ast.unparse(pair.value)}`), which sets the learning rate of the "
            f"first epoch again after {scope.place(before[-1]).words} has loaded the optimizer: last_epoch comes too "
            "late."
        )
        remedy = (
            f"Save and load its state too: {pair.name}.load_state_dict(...), or load the optimizer after it is made."
        )
        yield scope.tell(pair.node, "learning-rate", says, remedy)


@text_rule(572, earlier=True)
def first_alone(scope: Scope) -> Iterator[Found]:
    """``if i % accum == 0: opt.step()`` of an i that begins with 0: the first step is of one batch alone."""
    source, flow = scope.source, scope.flow
    if "zero_grad" not in source.calls:
        return
    for node in flow.of(ast.If):
        if not isinstance(node, ast.If):
            continue
        test, rest = node.test, _rest(node.test)
        if rest is None or not isinstance(rest.left, ast.Name):
            continue
        counter, every = rest.left, rest.right
        inside = [called(n) for statement in node.body for n in ast.walk(statement)]
        loop = next((a for a in source.around(node) if isinstance(a, ast.For)), None)
        if "step" not in inside or "zero_grad" not in inside or loop is None:
            continue
        ones = (flow.number(every), flow.number(defaults(flow.scope).get(ast.unparse(every), every)))
        if not _from_zero(loop, counter.id) or 1 in ones:
            continue
        backward = [n for n in ast.walk(loop) if called(n) == "backward" and n.lineno < node.lineno]  # type: ignore[attr-defined]
        if not backward or "backward" in inside:
            continue  # or what steps there has a loss of its own: an actor that is trained in every other turn
        by = ast.unparse(every)
        says = (
            f"steps where {counter.id} is 0 already (`{ast.unparse(test)}`): the first step has the gradient "
            "of one "
            f"batch, divided by {by}, and the batches after the last multiple of {by} get none."
        )
        remedy = f"Count from 1: if ({counter.id} + 1) % {by} == 0, and step once more after the loop."
        yield scope.tell(test, "optimizer", says, remedy, "note")


def _rest(test: ast.expr) -> ast.BinOp | None:
    """The ``i % n`` of ``i % n == 0`` and of ``not i % n``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        of = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        of = test.left if ast.unparse(test.comparators[0]) == "0" else test
    else:
        return None
    return of if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Mod) else None


def _from_zero(loop: ast.For, name: str) -> bool:
    """Whether a loop counts from 0 by that name."""
    text = ast.unparse(loop.iter)
    if isinstance(loop.target, ast.Tuple) and name_of(loop.target.elts[0]) == name:
        return text.startswith("enumerate(") and "start" not in text and not re.search(r", 1\)$", text)
    return name_of(loop.target) == name and re.fullmatch(r"range\([^,]*\)", text) is not None


@rule(574)
def average_hardly_moves(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """An average of weights with a decay of 0.9999 over few steps: it is still what it began with."""
    steps = trace.steps.ran
    if steps < LEAST:
        return []
    for source in sources(trace):
        if not re.search(r"\b1(\.0*)? ?- ?\w", source.text):
            continue
        for node in source.nodes:
            found = _decay(source, node)
            if found is None:
                continue
            at, decay = found
            left = decay**steps
            if not 0.9 < decay < 1 or left < HALF:
                continue
            says = (
                f"keeps {decay:g} of the average in each step: after the {steps:,} steps of this training "
                f"{left:.0%} of it are still the weights that it began with."
            )
            remedy = "Take a smaller decay for few steps, or let it grow: min(decay, (1 + step) / (10 + step))."
            return tell(source, at, "evaluation", "note", says, remedy)
    return []


def _decay(source: Source, node: ast.AST) -> tuple[ast.AST, float] | None:
    """Where a decay of an average of weights is set, and to what."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and getattr(node.left, "value", None) == 1:
        name = name_of(node.right)
        if not name:
            return None
        averages = any(called(a) in ("add_", "lerp_", "add", "lerp") for a in source.around(node)) or any(
            isinstance(a, ast.BinOp) and isinstance(a.op, ast.Mult) for a in list(source.around(node))[:1]
        )
        if not averages:
            return None
        scope = scope_around(source, node)
        if not _of_two_models(source, node) and not (DECAY.search(name) and _named_an_average(source, node, scope)):
            return None
        for at, value in _settings(source, scope, name):
            if isinstance(value, ast.Constant) and isinstance(value.value, float):
                return at, value.value
    return None


def _named_an_average(source: Source, node: ast.AST, scope: ast.AST) -> bool:
    """Whether what stands around speaks of an average, and of weights: a meter of losses has no start that lasts."""
    around = list(source.around(node))
    within = [a for a in around if isinstance(a, ast.ClassDef | Function | ast.For)]
    if within and not WEIGHTS.search(ast.unparse(within[-1])):
        return False
    statement = next((a for a in around if isinstance(a, ast.stmt)), node)
    texts = [ast.unparse(statement), *(getattr(a, "name", "") for a in around), getattr(scope, "name", "")]
    texts += [ast.unparse(a.iter) for a in around if isinstance(a, ast.For)]
    return any(AVERAGE.search(text) for text in texts)


def _of_two_models(source: Source, node: ast.AST) -> bool:
    """Whether it stands in a loop that moves the parameters of one model towards those of another, and no loss asks
    the one that follows: it is no target network and no teacher, whose start may last."""
    loop = next((a for a in source.around(node) if isinstance(a, ast.For)), None)
    models = averaged_models(loop) if loop is not None else None
    if models is None:
        return False
    follows = models[0].rpartition(".")[2]
    kind = ast.Attribute if "." in models[0] else ast.Name
    asked = (n for n in source.calls.get(follows, ()) if isinstance(n.func, kind))
    return not any(
        isinstance(a, ast.For | ast.While | Function) and any(called(n) == "backward" for n in ast.walk(a))
        for n in asked
        for a in source.around(n)
    )


def _settings(source: Source, scope: ast.AST, name: str) -> list[tuple[ast.AST, ast.expr]]:
    """What a name is given: in assignments, as an argument by name, or by default."""
    found: list[tuple[ast.AST, ast.expr]] = []
    for node in source.nodes:
        if isinstance(node, ast.Call):
            found += [
                (k.value, k.value)
                for k in node.keywords
                if k.arg == name and re.search("ema|average", called(node), re.I)
            ]
        elif isinstance(node, ast.Assign) and any(name_of(t) == name for t in node.targets):
            found.append((node, node.value))
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            pairs = zip(node.targets[0].elts, node.value.elts, strict=False)
            found += [(node, value) for target, value in pairs if name_of(target) == name]
    for node in source.nodes:
        if isinstance(node, Function):
            found += [(value, value) for arg, value in defaults(node).items() if arg == name]
    return found


@rule(575)
def not_given_back(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``ema.apply()`` before a validation and no ``ema.restore()``: the training goes on with the averages."""
    for source in sources(trace):
        for kind in source.nodes:
            if not isinstance(kind, ast.ClassDef):
                continue
            back = _gives_back(kind)
            if len(back) != 1:
                continue
            saves = [
                n
                for n in kind.body
                if isinstance(n, ast.FunctionDef)
                and n not in back
                and n.name != "__init__"
                and (
                    re.search(r"backup|saved|collected|stored|original", ast.unparse(n))
                    or _kept_by(n) & _read_by(back[0])
                )
            ]
            used = [n for s in sources(trace) for n in s.calls.get(back[0].name, ())]
            put = [(s, n) for s in sources(trace) for m in saves for n in s.calls.get(m.name, ())]
            for where, node in put if not used else ():
                loops = [a for a in where.around(node) if isinstance(a, ast.For | ast.While)]
                if not loops:
                    continue
                says = (
                    f"puts the averages into the model (`{ast.unparse(node)}`), and nothing calls "
                    f"{back[0].name}(), which "
                    "gives the weights back: the training goes on from the averages each time."
                )
                remedy = f"After the evaluation: {ast.unparse(getattr(node.func, 'value', node))}.{back[0].name}()."
                return tell(where, node, "evaluation", "warning", says, remedy)
    return []


def _gives_back(kind: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods that put into a model what another one has kept of it, by name or by what they do."""
    methods = [n for n in kind.body if isinstance(n, ast.FunctionDef) and n.name != "__init__"]
    named = [n for n in methods if re.match(r"restore|unapply|swap_back", n.name)]
    kept = {name for n in methods if _writes(n) for name in _kept_by(n)}
    return named or [n for n in methods if _writes(n) and not _kept_by(n) and kept & _read_by(n)]


def _writes(method: ast.FunctionDef) -> bool:
    """Whether a method sets the parameters of a model that it is given."""
    return "parameters()" in ast.unparse(method) and any(
        called(n) == "copy_" or (isinstance(n, ast.Assign) and ast.unparse(n.targets[0]).endswith(".data"))
        for n in ast.walk(method)
    )


def _kept_by(method: ast.FunctionDef) -> set[str]:
    """The attributes to which a method gives copies of a model's parameters."""
    return {
        ast.unparse(target)
        for n in ast.walk(method)
        if isinstance(n, ast.Assign) and "parameters()" in (text := ast.unparse(n.value)) and "clone()" in text
        for target in n.targets
        if isinstance(target, ast.Attribute)
    }


def _read_by(method: ast.FunctionDef) -> set[str]:
    """The attributes that a method reads."""
    return {ast.unparse(n) for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}


@text_rule(576, earlier=True)
def best_left_behind(scope: Scope) -> Iterator[Found]:
    """``best_state = deepcopy(net.state_dict())`` that nothing loads: what is tested is the last epoch's model."""
    trace, source, flow = scope.trace, scope.source, scope.flow
    if source.name or not {"state_dict", "deepcopy"} & source.calls.keys():
        return
    for node in flow.of(ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        key, value = _copied(node.value)
        if value is None:
            continue
        name, text = node.targets[0].id, ast.unparse(value)
        loops = [a for a in source.around(node) if isinstance(a, ast.For)]
        guarded = any(isinstance(a, ast.If) for a in source.around(node))
        if ("state_dict()" not in text and not text.startswith("copy.deepcopy(")) or not loops or not guarded:
            continue
        reads = [n for s in sources(trace) for n in s.nodes
                 if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
                 and (not key or not _asks_for_another(s.parents.get(n), key))]  # fmt: skip
        model = re.sub(r"\.state_dict\(\)|copy\.|deepcopy|[()]", "", text)
        last = loops[-1]
        after = [
            n
            for n in flow.nodes
            if isinstance(n, ast.Call)
            and n.lineno > last_line(last)
            and (
                ast.unparse(n.func) == model or any(ast.unparse(a) == model for a in n.args) or _runs(source, n, model)
            )
            and called(n) not in ("save", "print")
        ]
        if reads or not after or not model.isidentifier():
            continue
        says = (
            f"keeps the best model (`{ast.unparse(node)}`), and nothing loads it: `{ast.unparse(after[0])}` "
            f"({source.place(after[0]).words}) is of the model of the last epoch."
        )
        of = f"{name}[{key!r}]" if key else name
        yield scope.tell(node, "evaluation", says, f"Load it first: {model}.load_state_dict({of}).", "note")


def _copied(node: ast.expr) -> tuple[str, ast.expr | None]:
    """The copy of a state that an expression is, with "" before it; or the one in a dictionary, with its key."""
    if isinstance(node, ast.Dict):
        items = ((getattr(k, "value", None), v) for k, v in zip(node.keys, node.values, strict=True))
        return next(((k, v) for k, v in items if isinstance(k, str) and called(v) in COPIES), ("", None))
    return "", node if isinstance(node, ast.DictComp) or called(node) in COPIES else None


def _asks_for_another(above: ast.AST | None, key: str) -> bool:
    """Whether of a dictionary an item with another key is read."""
    return isinstance(above, ast.Subscript) and isinstance(above.slice, ast.Constant) and above.slice.value != key


def _runs(source: Source, node: ast.Call, model: str) -> bool:
    """Whether a function that is called runs a model which it finds outside, and does not train it."""
    function = function_of(source, node)
    inside = [] if function is None else [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    return any(ast.unparse(n.func) == model for n in inside) and not any(called(n) == "backward" for n in inside)
