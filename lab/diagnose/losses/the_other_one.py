"""One of two that belong together, taken twice: the first view of a pair, the input where the target is meant, the less
of one value and itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import bare, operands
from ..reading.scope import Pair, Scope, goals, spread
from ..reading.sources import called, names_in

RANDOM = re.compile(r"rand|sample|drop|normal|choice|self\.\w+$")
CHOICES = {"min", "max", "minimum", "maximum"}
TWINS = (("1", "2"), ("0", "1"), ("_a", "_b"), ("_i", "_j"), ("_q", "_k"), ("_l", "_r"), ("_left", "_right"),
         ("_x", "_y"))  # fmt: skip


@text_rule(533, proof="the less of a value and itself is that value")
def less_of_itself(scope: Scope) -> Iterator[Found]:
    """``torch.min(q1, q1)``: of one and the same value there is nothing to choose."""
    for call in scope.calls(*CHOICES):
        given = operands(call)
        if len(given) != 2 or call.keywords or isinstance(given[0], ast.Constant):
            continue
        text = ast.unparse(given[0])
        twin = _twin(scope, text)
        if not twin and isinstance(given[0], ast.Call):  # of what is called: ``min(q1(s), q1(s))``
            func = ast.unparse(given[0].func)
            twin = text.replace(func, _twin(scope, func), 1) if _twin(scope, func) else ""
        if text != ast.unparse(given[1]) or (not twin and _drawn_each_time(given[0])):
            continue
        message = (
            f"takes the {'less' if 'min' in called(call) else 'more'} of {text} and itself (`{ast.unparse(call)}`): "
            f"that is {text}" + (f", and {twin} counts for nothing." if twin else ".")
        )
        yield scope.tell(call, "unused", message, f"Give it both: {ast.unparse(call.func)}({text}, {twin or 'other'}).")


def _drawn_each_time(node: ast.expr) -> bool:
    """Whether what is called may give another value each time: a model with dropout, a draw."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return any(isinstance(n.func, ast.Name) or RANDOM.search(ast.unparse(n.func)) for n in calls)


@text_rule(581, trains=True)
def one_view_twice(scope: Scope) -> Iterator[Found]:
    """``z1 = net(batch["view1"])`` and ``z2 = net(batch["view1"])``: what is compared is one view with itself."""
    made: dict[str, ast.expr] = {}
    for pair in scope.index.given:
        if not any(isinstance(n, ast.Call) and n.args for n in ast.walk(pair.value)):
            continue
        text = ast.unparse(pair.value)
        first = made.setdefault(text, pair.value)
        if first is pair.value or first.lineno == pair.value.lineno:
            continue
        given = [n for n in ast.walk(pair.value) if isinstance(n, ast.Name | ast.Subscript | ast.Attribute)]
        twins = [(ast.unparse(n), twin) for n in given if (twin := _twin(scope, ast.unparse(n)))]
        for one, twin in twins:
            if any(ast.unparse(n) == twin for n in scope.nodes if isinstance(getattr(n, "ctx", None), ast.Load)):
                continue
            message = (
                f"makes {pair.name} of {one}, of which {scope.place(first).words} has made another already "
                f"(`{text}` both times): the two are one view, and {twin} is asked nowhere."
            )
            yield scope.tell(pair.value, "unused", message, f"Give it the other one: {text.replace(one, twin)}.")


def _twin(scope: Scope, text: str) -> str:
    """The name of the other one of two, where the program has it: ``q2`` of ``q1``, ``batch["b"]``... of its own."""
    for one, other in TWINS:
        for mine, twin in ((one, other), (other, one)):
            if mine.isdigit():
                found = re.sub(rf"(?<=[a-zA-Z_]){mine}(?!\d)(?=\W*$|_\w*$)", twin, text)
            else:
                found = re.sub(rf"{mine}(?=\W*$)", twin, text)
            word = re.findall(r"\w+", found)
            if found != text and word and re.search(rf"\b{word[-1]}\b", scope.source.text + _earlier(scope)):
                return found
    return ""


def _earlier(scope: Scope) -> str:
    """The words of the earlier cells."""
    return " ".join(scope.source.given) + " ".join(
        str(n.value) for n in ast.walk(scope.source.program) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )


@text_rule(585, "backward", trains=True)
def input_for_target(scope: Scope) -> Iterator[Found]:
    """``for lr, hr in loader: out = net(lr); loss = mse(out, lr)``, and the figure compares ``out`` with ``hr``."""
    reached = {n for goal in goals(scope.source, scope.flow) for n in spread(scope.flow, goal)}
    trained = [p for p in scope.index.pairs if p.node in reached]
    judged = [p for p in scope.index.pairs if p.node not in reached]
    for pair in trained:
        for out, target in ((pair.one, pair.other), (pair.other, pair.one)):
            made = scope.flow.inner(out)
            name = ast.unparse(bare(target))
            if not isinstance(made, ast.Call) or name not in map(ast.unparse, made.args) or not made.args:
                continue
            other = next((o for j in judged if (o := _beside(j, out)) and ast.unparse(o) != name), None)
            if other is None or names_in(other) & {name} or not _comes_with(scope, name, ast.unparse(other)):
                continue
            message = (
                f"compares what the model makes of {name} with {name} itself (`{ast.unparse(pair.node)}`), and "
                f"{scope.place(other).words} judges it by {ast.unparse(other)}, which no loss is given: it learns to "
                "hand on its input."
            )
            yield scope.tell(pair.node, "loss", message, f"Compare with {ast.unparse(other)}.")


def _beside(pair: Pair, out: ast.expr) -> ast.expr | None:
    """What a figure compares a prediction with."""
    sides = {ast.unparse(pair.one): pair.other, ast.unparse(pair.other): pair.one}
    other = sides.get(ast.unparse(out))
    return bare(other) if other is not None else None


def _comes_with(scope: Scope, name: str, other: str) -> bool:
    """Whether a loop takes two variables out of a loader together."""
    loops = scope.index.kinds.get(ast.For, ())
    return any({name, other} <= {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)} for loop in loops)
