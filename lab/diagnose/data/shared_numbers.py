"""Numbers that stand for something, and for something else as well: the end of a text that is its padding too,
categories that each table numbers for itself."""

from __future__ import annotations

import ast
import re

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

PAD = re.compile(r"(^|[_.])pad(ding)?(_?(token|id|idx|index|token_id))*$", re.I)
END = re.compile(r"(^|[_.])(eos|end|eot|stop|sep)(_?(token|id|idx|index|token_id))*$", re.I)
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
        pad = next((text for t in node.targets if PAD.search(text := ast.unparse(t))), None)
        if pad is not None and END.search(ast.unparse(node.value)):
            found.append((node, pad, source.place(node).words))
    return found


def _leaves_out(node: ast.AST, pad: str) -> bool:
    """Whether a statement takes the places of padding out of the labels."""
    compared = any(
        isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq)
        and pad in ast.unparse(n.comparators[0]).replace("_id", "") + ast.unparse(n.comparators[0])
        for n in ast.walk(node)
    )  # fmt: skip
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
            if made is None or not names_in(made) & given or len(given) != 1:
                continue  # what else it is given may hold the numbers
            of = list(dict.fromkeys(ast.unparse(c.args[0]) for c in calls if called(c) == function.name and c.args))
            if len(of) < 2 or not any(map(HELD_OUT.search, of)) or all(map(HELD_OUT.search, of)):
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
