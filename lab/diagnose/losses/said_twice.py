"""One name where two were meant, or one thing that is done twice: a loss of something with itself, a residual without
its layer, the place of the largest of all, images that are scaled twice, a mask that comes too late."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..models.attention_scores import FILLS, one_number
from ..order import rule, text_rule
from ..reading.calls import operands
from ..reading.expressions import Flow, flow_of
from ..reading.passed import functional
from ..reading.scope import Scope
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

NEAR = 1e-6  # a loss of something with itself, as it is rounded
MASKED = -1000.0  # a number that is put in for what is masked
COMPARE = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"}
COMPARES = re.compile(
    r"^(self\.)?(criterion|loss_fn|loss_func|lossfn|loss_function|bce|mse|kl|kl_loss|ce|ce_loss)$", re.I
)
ALIKE = {"softmax", "log_softmax", "sigmoid", "logsigmoid", "detach", "float", "view", "reshape", "squeeze", "flatten",
         "contiguous", "log", "exp", "to", "clone"}  # fmt: skip


@text_rule(428)
def with_itself(scope: Scope) -> Iterator[Found]:
    """``F.kl_div(log_softmax(a / T), softmax(a / T))``: both sides are of one tensor, and the loss is 0."""
    flow = scope.flow
    for node in flow.nodes:
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        if called(node) not in COMPARE and not COMPARES.match(ast.unparse(node.func)):
            continue
        roots = [_root(flow, argument) for argument in node.args[:2]]
        same = ast.unparse(node.args[0]) == ast.unparse(node.args[1])
        if roots[0] is None or roots[0] != roots[1] or (called(node) not in COMPARE and not same):
            continue  # a cross-entropy of something with its own softmax is an entropy
        message = (
            f"compares {roots[0][0]} with itself (`{ast.unparse(node)}`): both arguments are made "
            "of it alone, so the loss knows nothing of what that should be like."
        )
        row = scope.row(node)
        nothing = (
            row is not None and row.stats is not None and row.stats.mean is not None and abs(row.stats.mean) < NEAR
        )
        rows = [row] if row is not None and nothing else []
        yield scope.tell(node, "loss", message, "Give it the output and the target.", rows=rows)


def _root(flow: Flow, node: ast.expr, depth: int = 8) -> tuple[str, int] | None:
    """The variable that an argument is made of by functions that keep what it is, and where it was given a value."""
    while depth:
        depth -= 1
        if isinstance(node, ast.Name):
            value = flow.value(node)
            if value is None or not (called(value) in ALIKE or _scaled(value)):
                return node.id, getattr(value, "lineno", 0)
            node = value
        elif isinstance(node, ast.Call) and called(node) in ALIKE and isinstance(node.func, ast.Attribute):
            outside = ast.unparse(node.func.value) in ("F", "torch", "core", "nn.functional", "torch.nn.functional")
            if outside and not node.args:
                return None
            node = node.args[0] if outside else node.func.value
        elif _scaled(node):
            node = node.left  # type: ignore[attr-defined]
        else:
            return None
    return None


def _scaled(node: ast.AST) -> bool:
    """Whether an expression is a variable, divided by a temperature."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.left, ast.Name | ast.Call)


@rule(597)
def residual_of_itself(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x = x + x`` in a model: twice the value, where a layer's output was to be added."""
    for source in sources(trace):
        for scope in (n for n in source.nodes if isinstance(n, Function) and n.name == "forward"):
            for node in own_nodes(scope):
                if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                    continue
                if not isinstance(node.left, ast.Name) or ast.unparse(node.left) != ast.unparse(node.right):
                    continue
                line, col, place = source.place(node)
                name = node.left.id
                message = capital(
                    f"{place} adds {name} to itself (`{ast.unparse(node)}`): that is twice its value, and no layer's "
                    "output beside its input."
                )
                remedy = f"Keep what went in by another name: {name} = {name} + layer({name})."
                return [Found("unused", "warning", line, col, message, remedy)]
    return []


@rule(741)
def largest_of_all(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``(out.argmax() == y).sum()``: one place in the whole batch, compared with each label."""
    for source in sources(trace):
        if "batch_size=1," in source.text or "batch_size=1)" in source.text:
            continue
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
                    continue
                above = source.parents.get(node)
                if isinstance(above, ast.Attribute) and above.attr == "float":
                    above = source.parents.get(source.parents.get(above, above))  # of what the call gives
                if not isinstance(above, ast.Attribute) or above.attr not in ("sum", "mean"):
                    continue
                side = next((s for s in (node.left, node.comparators[0]) if _of_all(flow.inner(s))), None)
                if side is None:
                    continue
                taken = flow.inner(side)
                line, col, place = source.place(taken)
                message = capital(
                    f"{place} takes one place of the largest value in the whole batch (`{ast.unparse(taken)}`): argmax "
                    f"without a dimension counts through all of it, and `{ast.unparse(node)}` compares that one number "
                    "with every label."
                )
                return [Found("evaluation", "warning", line, col, message, "Take it of each sample: argmax(dim=1).")]
    return []


def _of_all(node: ast.expr) -> bool:
    """Whether it is ``x.argmax()`` or ``torch.argmax(x)``, with no dimension."""
    if called(node) != "argmax" or not isinstance(node, ast.Call) or node.keywords:
        return False
    outside = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("torch", "np", "core", "numpy")
    return len(node.args) == (1 if outside else 0)


@rule(511)
def scaled_twice(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``x / 255`` where samples are made, and ``x / 255`` again in the model or the loop."""
    found = sources(trace)
    if not trace.steps.count:
        return []
    made: list[tuple[Source, ast.AST]] = []
    again: list[tuple[Source, ast.AST]] = []
    for source in found:
        for node in source.nodes:
            if called(node) == "ToTensor":
                made.append((source, node))
            if not _by_255(node) or any(isinstance(a, ast.If | ast.IfExp) for a in source.around(node)):
                continue
            function = next((a for a in source.around(node) if isinstance(a, Function)), None)
            loop = next((a for a in source.around(node) if isinstance(a, ast.For)), None)
            trains = loop is not None and any(called(n) == "backward" for n in ast.walk(loop))
            if trains or (function is not None and function.name == "forward"):
                again.append((source, node))
            elif function is not None and function.name in ("__getitem__", "__init__", "collate", "collate_fn"):
                kind = next((a for a in source.around(function) if isinstance(a, ast.ClassDef)), None)
                if kind is None or not any("Module" in ast.unparse(b) for b in kind.bases):
                    made.append((source, node))
            elif function is None or re.search(r"load|prepare|preprocess|make_data|read", function.name):
                made.append((source, node))
    if not made or not again:
        return []
    (first, one), (second, other) = made[0], again[0]
    line, col, place = second.place(other)
    message = capital(
        f"{place} divides images by 255 (`{ast.unparse(other)}`) that {first.place(one).words} has brought to 0 to 1 "
        f"(`{ast.unparse(one)}`): the model gets values up to 0.004, nearly nothing beside its biases."
    )
    return [Found("data", "warning", line, col, message, "Scale them once, where the samples are made.")]


def _by_255(node: ast.AST) -> bool:
    """Whether it is a division by 255, or a product with its inverse."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Div) and ast.unparse(node.value) in ("255", "255.0")
    if isinstance(node, ast.Call):
        return called(node) in ("div", "div_") and len(node.args) == 1 and ast.unparse(node.args[0]) in ("255", "255.0")
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and ast.unparse(node.right) in ("255", "255.0")
        and bool(names_in(node.left))
    )


@text_rule(457)
def masked_too_late(scope: Scope) -> Iterator[Found]:
    """``w = scores.softmax(-1)`` and ``w.masked_fill(mask == 0, -1e9)``: weights far below zero."""
    flow = scope.flow
    for node in flow.nodes:
        if called(node) not in FILLS or not isinstance(node, ast.Call) or len(args := operands(node)) != 3:
            continue
        weights, fills = (args[1:], args[1:]) if called(node) == "where" else (args[:1], args[2:])
        fill = next((ast.unparse(a) for a in fills if (one_number(flow, a) or 0.0) <= MASKED), None)
        if fill is None or not any(called(flow.inner(of)) == "softmax" for of in weights):
            continue
        message = (
            f"masks what a softmax has given (`{ast.unparse(node)}`): there {fill} is a weight and "
            "no score, and what is left does not sum to 1."
        )
        yield scope.tell(node, "layout", message, "Mask the scores, and take the softmax of those.")


@rule(427)
def easy_ones_first(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``pt = torch.exp(ce)`` or ``pt ** gamma * ce`` in a focal loss: the samples that are right weigh most."""
    for source in sources(trace):
        for scope in [source.tree, *(n for n in source.nodes if isinstance(n, Function))]:
            flow = flow_of(source, scope)
            for node in flow.nodes:
                power = _power(node)
                if power is None:
                    continue
                if "gamma" not in ast.unparse(power[1]).lower() and not _weighs_a_loss(source, flow, node):
                    continue
                base = flow.inner(power[0])
                left = base.right if isinstance(base, ast.BinOp) and isinstance(base.op, ast.Sub) else None
                rest = left is not None and isinstance(base, ast.BinOp) and flow.number(base.left) == 1
                sure = flow.inner(left) if rest and left is not None else base
                sign = _probability(flow, sure)
                if sign is None or (rest and sign < 0) or (not rest and sign > 0):
                    continue
                line, col, place = source.place(sure if rest else node)
                why = "the exponential of the loss and not of minus it, which is 1 and more"
                if not rest:
                    why = "the probability of the right class itself, which is large where a sample is easy"
                message = capital(
                    f"{place} takes for a focal loss {why} (`{ast.unparse(sure if rest else node)}`): what the model "
                    "has learnt weighs most, and hard samples least."
                )
                remedy = "Weigh by what is missing: pt = torch.exp(-ce), and (1 - pt) ** gamma * ce."
                return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _power(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """What is raised to a power, and to which."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left, node.right
    parts = operands(node) if called(node) == "pow" else []
    return (parts[0], parts[1]) if len(parts) == 2 else None


def _weighs_a_loss(source: Source, flow: Flow, node: ast.AST) -> bool:
    """Whether a power is multiplied with a cross-entropy of each sample."""
    above = source.parents.get(node)
    if not isinstance(above, ast.BinOp) or not isinstance(above.op, ast.Mult):
        return False
    other = flow.inner(above.right if above.left is node else above.left)
    return "cross_entropy" in functional(source, other)


def _right_class(flow: Flow, node: ast.expr) -> bool:
    """Whether it is ``p * y + (1 - p) * (1 - y)``, the probability of the right one of two classes."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else []
    if not all(isinstance(s, ast.BinOp) and isinstance(s.op, ast.Mult) for s in sides) or not sides:
        return False
    one, other = ({ast.unparse(s.left), ast.unparse(s.right)} for s in sides)  # type: ignore[attr-defined]
    return other == {f"1 - {name}" for name in one} or one == {f"1 - {name}" for name in other}


def _probability(flow: Flow, node: ast.expr) -> int | None:
    """-1 for ``exp(-ce)`` of a cross-entropy, or another probability of the right class, 1 for ``exp(ce)``; None for
    anything else."""
    if _right_class(flow, node):
        return -1
    if called(node) != "exp" or not isinstance(node, ast.Call):
        return None
    of = node.args[0] if node.args else getattr(node.func, "value", None)
    terms = list(flow.terms(of)) if isinstance(of, ast.expr) else []
    if len(terms) != 1:
        return None
    sign, one = terms[0]
    crossed = "cross_entropy" in called(one) or called(one) in ("nll_loss", "ce", "bce", "criterion")
    named = isinstance(one, ast.Name) and re.fullmatch(r"(ce|bce|ce_loss|bce_loss|logpt_loss|nll|BCE_loss)", one.id)
    return sign if crossed or named else None
