"""Inputs that are optimised: an attack that goes downhill, a bound around the point itself, an image whose name is
bound anew, a network that is trained in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import mentions, name_of, operands
from ..reading.expressions import losses
from ..reading.scope import Index, Scope, indices, spread, stripped, told
from ..reading.sources import Function, called, names_in

LOSSES = {"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits"}
AIMED = re.compile(r"target|tgt|goal|wanted|desired|aim", re.I)
BOUNDS = {"min", "max", "minimum", "maximum", "clamp", "clip"}
OPTIMIZER = re.compile(r"SGD|Adam\w*|LBFGS|RMSprop|Adagrad|NAdam|RAdam|Rprop|Adadelta|ASGD")
MADE = {"rand", "randn", "zeros", "ones", "full", "randn_like", "rand_like"}


@text_rule(355, "sign()")
def attack_downhill(scope: Scope) -> Iterator[Found]:
    """``x - eps * x.grad.sign()`` of the loss of the right class: the picture becomes easier."""
    index = scope.index
    function = index.flow.scope
    if isinstance(function, Function) and AIMED.search(function.name):
        return
    less = index.binary.get(ast.Sub, []) + [n for c in scope.calls("sub") if (n := index.flow.operator(c)) is not c]
    for node in (n for n in less if isinstance(n, ast.BinOp)):
        inner = index.flow.inner(node.right)
        signs = [n for n in spread(index.flow, inner, 40) if called(n) == "sign"]
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Mult) or not signs:
            continue
        if not any("grad" in w for n in signs for w in map(str, _names(index, n))):
            continue
        loss = _loss_of(index)
        if loss is None or any(AIMED.search(w) for a in loss.args[1:] for w in names_in(a)):
            continue
        message = (
            f"goes against the gradient (`{ast.unparse(node)}`) of the loss of the right class "
            f"(`{ast.unparse(loss)}`): each step makes that smaller, so the input becomes easier for the "
            "network, and "
            "no attack on it."
        )
        remedy = "Add it: x + eps * grad.sign(); a minus is for the loss of a class that is aimed at."
        yield scope.tell(node, "loss", message, remedy)


def _names(index: Index, node: ast.AST) -> set[str]:
    """The names in an expression with its variables put in."""
    return {name_of(n) for n in spread(index.flow, node, 60)} if isinstance(node, ast.expr) else set()


def _loss_of(index: Index) -> ast.Call | None:
    """The loss of labels whose gradient is taken in a function, where it enters with a plus."""
    roots = [of for of, _ in losses(index.flow)]
    roots += [operands(c)[0] for c in index.called("grad") if operands(c)]
    for of in roots:
        terms = list(index.flow.terms(of))
        if len(terms) != 1 or terms[0].sign < 0:
            return None
        call = stripped(index.flow, terms[0].node)
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        if called(call) in LOSSES or re.search(r"criterion|loss_fn|CrossEntropyLoss|loss_func", ast.unparse(call.func)):
            return call
    return None


@text_rule(356)
def bound_that_moves(scope: Scope) -> Iterator[Found]:
    """``x_adv = clamp(x_adv + step, x_adv - eps, x_adv + eps)`` in a loop: the bound goes along."""
    source, index = scope.source, scope.index
    for node in index.kinds.get(ast.Assign, ()):
        name = name_of(node.targets[0])
        if not name or not any(isinstance(a, ast.For | ast.While) for a in source.around(node)):
            continue
        if called(node.value) not in BOUNDS:
            continue
        sums = [n for n in ast.walk(node.value) if isinstance(n, ast.BinOp) and ast.unparse(n.left) == name]
        less = {ast.unparse(n.right) for n in sums if isinstance(n.op, ast.Sub)}
        more = {ast.unparse(n.right) for n in sums if isinstance(n.op, ast.Add)}
        eps = next(iter(sorted(less & more)), None)
        if eps is None or not re.fullmatch(r"[\w.\[\]'\"]+( / \d+)?", eps):
            continue
        message = (
            f"keeps {name} near where it is in this round (`{ast.unparse(node.value)}`): the bound is laid "
            f"around the "
            f"point that moves, so after n rounds it may be n times as far from the input as {eps} says."
        )
        yield scope.tell(node, "loss", message, f"Lay it around the input: x + ({name} - x).clamp(-{eps}, {eps}).")


@text_rule(101, "requires_grad", ".step()")
def leaf_bound_anew(scope: Scope) -> Iterator[Found]:
    """``img = img.clamp(0, 1)`` of a tensor that an optimizer holds: it goes on stepping the old one."""
    trace, source, index = scope.trace, scope.source, scope.index
    held: dict[str, ast.Call] = {}
    for calls in index.calls.values():
        for call in calls:
            if not OPTIMIZER.match(called(call)):
                continue
            for part in call.args[:1]:
                held.update({n.id: call for n in getattr(part, "elts", ()) if isinstance(n, ast.Name)})
    if mentions(r"param_groups|add_param_group", source.text):
        return
    for loop in [*index.kinds.get(ast.For, ()), *index.flow.of(ast.While)] if held else ():
        for node in (n for s in loop.body for n in ast.walk(s)):
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            name = node.targets[0].id
            if name not in held or name not in names_in(node.value) or _the_same(node.value, name):
                continue
            again = [c for calls in index.calls.values() for c in calls if OPTIMIZER.match(called(c))
                     and name in names_in(c) and c.lineno > loop.lineno]  # fmt: skip
            if again or any(called(n) == called(held[name]) for n in ast.walk(node.value)):
                continue
            leaf = any(called(n) in ("Parameter", "requires_grad_") for n in ast.walk(node.value))
            rest = "is another one, which nothing steps" if leaf else "is no leaf, and changes no more"
            message = (
                f"makes {name} a new tensor (`{ast.unparse(node)}`): the optimizer holds the old one "
                f"({source.place(held[name]).words}) and steps that, and what the loss is computed of from "
                f"here on {rest}."
            )
            remedy = f"Change it where it is: with torch.no_grad(): {name}.clamp_(0, 1)."
            yield scope.tell(node, "rebound", message, remedy, "error" if trace.error is not None else "warning")


def _the_same(node: ast.expr, name: str) -> bool:
    """Whether what a name is given is the tensor that it had: ``x = x.clamp_(0, 1)``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        node = node.func.value
    return isinstance(node, ast.Name) and node.id == name


@rule(357)
def network_for_the_picture(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``canvas = torch.rand(..., requires_grad=True)`` that gets gradients while an optimizer steps the network."""
    if not trace.steps.count:
        return []
    held = set(trace.optimized)
    for source, index in indices(trace, "requires_grad", "backward"):
        if source.name or mentions(r"\.grad\b|autograd|checkpoint|register_hook", source.text):
            continue
        for name, value, node in index.given:
            asks = called(value) in MADE and "requires_grad=True" in ast.unparse(value)
            if not asks and called(value) != "requires_grad_":
                continue
            mine = [leaf for leaf in trace.gradients if leaf.name == name and not leaf.module and leaf not in held]
            if not mine or any(leaf in held for leaf in trace.leaves if leaf.name == name):
                continue
            steps = next((c for calls in index.calls.values() for c in calls if "parameters()" in ast.unparse(c)
                          and re.search(r"optim\.|SGD|Adam", ast.unparse(c.func))), None)  # fmt: skip
            if steps is None:
                continue
            message = (
                f"gives the optimizer the network's parameters (`{ast.unparse(steps)}`), and {name}, which "
                f"{source.place(node).words} makes to be optimised, gets gradients and no step: {name} stays as "
                "it is, and "
                "the network is bent to it."
            )
            found = told(
                source, steps, "optimizer", message, f"Give it what is to change: {ast.unparse(steps.func)}([{name}])."
            )
            found[0].leaves = mine
            return found
    return []
