"""Numbers that stand for something, and for something else as well: the end of a text that is its padding too,
categories that each table numbers for itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule, text_rule
from ..reading.scope import Scope
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

PAD = re.compile(r"(^|[_.])pad(ding)?(_?(token|id|idx|index|token_id))*$", re.I)
END = re.compile(r"(^|[_.])(eos|end|eot|stop|sep)(_?(token|id|idx|index|token_id))*$", re.I)
NUMBERS = re.compile(r"known|map|vocab|categor|levels|classes|codes|index|table", re.I)
LEFT_OUT = ("-100", "ignore_index", "IGNORE_INDEX", "self.ignore_index")
HELD_OUT = re.compile(r"(^|_)(test|te|val|valid|validation|dev|holdout|new|eval)(_|\d|$)", re.I)


@rule(568)
def end_hidden(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``PAD = EOS`` and ``labels[labels == PAD] = -100``: the end of each text is left out of the loss too."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    same = next((pair for source in found for pair in _named_alike(source)), None)
    if same is None:
        return []
    made, pad, there = same
    last = pad.rpartition(".")[2]
    for source in found:
        for node in ast.walk(source.program) if not source.name else source.nodes:
            if not _leaves_out(node, last):
                continue
            line, col, place = source.place(node)
            message = capital(
                f"{place} leaves out of the loss where the token is {pad} (`{ast.unparse(node)}`), and {there} makes "
                f"that the token of the end (`{ast.unparse(made)}`): the end of each text is left out too, and the "
                "model never learns to stop."
            )
            remedy = "Take another number for padding, or leave out by the lengths of the texts."
            return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _named_alike(source: Source) -> list[tuple[ast.Assign, str, str]]:
    """The statements that give padding the number of the end: each, what padding is called, and where."""
    found = []
    for node in ast.walk(source.program) if not source.name else source.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name | ast.Attribute):
            continue
        pad = next((text for t in node.targets if PAD.search(text := ast.unparse(t))), ast.unparse(node.targets[0]))
        if END.search(ast.unparse(node.value)):  # which of the two is left out is seen elsewhere
            found.append((node, pad, source.place(node).words))
    return found


def _leaves_out(node: ast.AST, pad: str) -> bool:
    """Whether a statement takes the places of padding out of the labels."""
    sides = [n.comparators[0] for n in ast.walk(node) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)]
    sides += [n.args[-1] for n in ast.walk(node) if isinstance(n, ast.Call) and called(n) == "eq" and n.args]
    compared = any(pad in ast.unparse(side).replace("_id", "") + ast.unparse(side) for side in sides)
    if isinstance(node, ast.Assign):
        return compared and ast.unparse(node.value) in LEFT_OUT and isinstance(node.targets[0], ast.Subscript)
    if called(node) in ("masked_fill", "masked_fill_", "where") and isinstance(node, ast.Call):
        return compared and any(ast.unparse(a) in LEFT_OUT for a in node.args)
    return isinstance(node, ast.keyword) and node.arg == "ignore_index" and ast.unparse(node.value).endswith(pad)


@rule(569)
def numbered_anew(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A function that numbers the categories which a table happens to have, called for the test set as well."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    calls = [n for s in found for n in (ast.walk(s.program) if not s.name else s.nodes) if isinstance(n, ast.Call)]
    for source in found:
        for function in source.nodes:
            if not isinstance(function, Function):
                continue
            made = next((n for n in own_nodes(function) if _numbers(n)), None)
            given = {a.arg for a in function.args.args} - {"self"}
            if (
                made is None
                or not names_in(made) & given
                or (len(given) != 1 and not _by_itself(function, made, given))
            ):
                continue  # what else it is given may hold the numbers
            of = list(dict.fromkeys(ast.unparse(c.args[0]) for c in calls if called(c) == function.name and c.args))
            if len(of) < 2:
                continue
            into = [ast.unparse(t) for t in _targets(found, function.name)]
            if not any(
                any(map(HELD_OUT.search, names)) and not all(map(HELD_OUT.search, names)) for names in (of, into)
            ):
                continue
            line, col, place = source.place(made)
            message = capital(
                f"{place} numbers the categories that it finds in what it is given (`{ast.unparse(made)}`), for "
                f"{' and '.join(of[:3])} each by itself: where one of them has not all categories, or others, a number "
                "means another category there."
            )
            remedy = "Number them once, by the training set or a fixed list, and take those numbers for all."
            return [Found("data", "warning", line, col, message, remedy)]
    return []


@text_rule(782, trains=True, earlier=True)
def vocabulary_made_anew(scope: Scope) -> Iterator[Found]:
    """A function that begins a dictionary of numbers, fills it by what it is given, and is called for both parts."""
    source, function = scope.source, scope.flow.scope
    if not isinstance(function, Function):
        return
    begun = {p.name for p in scope.index.given if ast.unparse(p.value) in ("{}", "dict()")}
    for name in begun:
        fills = [n for n in scope.nodes if _numbers_next(n, name)]
        returned = any(
            name in names_in(part)
            for node in scope.index.kinds.get(ast.Return, ())
            for part in (node.value.elts if isinstance(node.value, ast.Tuple) else [node.value])
            if isinstance(part, ast.Name)
        )
        reads = [n for n in scope.nodes if isinstance(n, ast.Subscript) and ast.unparse(n.value) == name]
        of = list(dict.fromkeys(ast.unparse(c.args[0]) for c in source.calls.get(function.name, ()) if c.args))
        apart = any(map(HELD_OUT.search, of)) and not all(map(HELD_OUT.search, of))
        if not fills or returned or not reads or len(of) < 2 or not apart:
            continue
        message = (
            f"numbers what it finds in what {function.name} is given (`{ast.unparse(fills[0])}`), for "
            f"{' and '.join(of[:3])} each from the start: one number means another word in each of them."
        )
        yield scope.tell(
            fills[0], "data", message, "Number them once, by the training set, and take those numbers for all."
        )


def _numbers_next(node: ast.AST, name: str) -> bool:
    """Whether something new gets the next number: ``d.setdefault(w, len(d))``, ``d[w] = len(d)``."""
    if called(node) == "setdefault" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value) == name and f"len({name})" in ast.unparse(node)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return (
        isinstance(target, ast.Subscript) and ast.unparse(target.value) == name and f"len({name})" in ast.unparse(node)
    )


def _targets(found: list[Source], name: str) -> list[ast.expr]:
    """What the results of a function are given to; of several variables the first."""
    nodes = (n for s in found for n in s.nodes if isinstance(n, ast.Assign) and called(n.value) == name)
    targets = (n.targets[0] for n in nodes)
    return [t.elts[0] if isinstance(t, ast.Tuple) and t.elts else t for t in targets]


def _by_itself(function: Function, node: ast.AST, given: set[str]) -> bool:
    """Whether a function numbers one of its arguments by that alone, and the others are columns beside it."""
    read = {n.id for n in own_nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return called(node) in ("unique", "factorize") and given <= read and not any(map(NUMBERS.search, given))


def _numbers(node: ast.AST) -> bool:
    """Whether an expression gives each value that occurs a number."""
    if isinstance(node, ast.Call):
        inverse = any(k.arg == "return_inverse" and getattr(k.value, "value", False) is True for k in node.keywords)
        encoded = called(node) == "fit_transform" and re.search(
            r"Encoder|encoder|(^|\W)(le|enc)\b", ast.unparse(node.func)
        )
        return inverse or called(node) == "factorize" or bool(encoded)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).endswith(".cat.codes")
    if isinstance(node, ast.DictComp) and called(node.generators[0].iter) == "enumerate":
        return any(called(n) in ("set", "unique") for n in ast.walk(node.generators[0].iter))
    return False
