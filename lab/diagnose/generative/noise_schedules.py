"""Diffusion: a sampler that takes its noise levels from steps which it does not visit, and noise that is mixed without
its root."""

from __future__ import annotations

import ast
import re

from core.base import syntax

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import Flow, defaults, flow_of
from ..reading.scope import flow_around, told
from ..reading.sources import Function, Source, called, names_in, own_nodes, sources

LEVELS = re.compile(r"alpha|sigma|beta|abar|a_bar|cumprod|noise_level|(^|_)acp", re.I)
DRAWN = {"randn", "randn_like", "normal", "sample"}
MODEL = re.compile(r"model|net|unet|denois|eps|score|predict", re.I)
VARIANCE = re.compile(r"var|sigma|std|posterior", re.I)
MEAN = re.compile(r"mean|(^|_)mu(_|$)", re.I)
NOISE = re.compile(r"noise|eps|(^|_)z$|randn", re.I)


@rule(424)
def level_of_another_step(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``for t in range(T - 1, 0, -10)`` and ``alpha_bar[t - 1]``: the next step that is visited is t - 10."""
    for source in sources(trace):
        for scope in [source.tree, *(n for n in source.nodes if isinstance(n, Function))]:
            flow = flow_of(source, scope)
            given = defaults(scope)
            for loop in (n for n in own_nodes(scope) if isinstance(n, ast.For)):
                stride = _stride(loop.iter)
                if stride is None or not isinstance(loop.target, ast.Name):
                    continue
                number = flow.number(stride)
                if number is None and (default := given.get(ast.unparse(stride).lstrip("-"))) is not None:
                    number = flow.number(default)
                if number is not None and abs(number) == 1:
                    continue
                t = loop.target.id
                parts = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Subscript)]
                levels = {ast.unparse(n.value): n for n in parts if LEVELS.search(ast.unparse(n.value))}
                here = {ast.unparse(n.value) for n in parts if ast.unparse(n.slice) == t}
                before = next((n for n in parts if ast.unparse(n.value) in levels.keys() & here
                               and ast.unparse(n.slice) == f"{t} - 1"), None)  # fmt: skip
                if before is None:
                    continue
                line, col, place = source.place(before)
                step = ast.unparse(stride).lstrip("-")
                message = capital(
                    f"{place} takes the noise level of step {t} - 1 (`{ast.unparse(before)}`), and the loop goes on to "
                    f"{t} - {step} (`{ast.unparse(loop.iter)}`, {source.place(loop).words}): each turn removes the "
                    "noise of one step where it jumps over several, and most of it stays."
                )
                levels_of = ast.unparse(before.value)
                remedy = f"Take the level of the next step that is visited: {levels_of}[max({t} - {step}, 0)]."
                return [Found("loss", "warning", line, col, message, remedy)]
    return _index_for_the_step(trace)


def _stride(node: ast.expr) -> ast.expr | None:
    """The step of a range that does not go one by one."""
    while called(node) in ("reversed", "tqdm", "trange", "list") and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    if called(node) == "range" and isinstance(node, ast.Call) and len(node.args) == 3:
        return node.args[2]
    return None


def _index_for_the_step(trace: Trace) -> list[Found]:
    """``for i in range(len(steps))`` and ``model(x, i)``, where ``steps[i]`` is the step that the model has learned."""
    for source in sources(trace):
        tables = {ast.unparse(n.slice) for n in source.nodes if isinstance(n, ast.Subscript)}
        for loop in (n for n in source.nodes if isinstance(n, ast.For)):
            steps, i = _counted(loop.iter), loop.target
            if steps is None or steps not in tables or not isinstance(i, ast.Name):
                continue
            inside = [n for s in loop.body for n in ast.walk(s)]
            if any(isinstance(n, ast.Subscript) and ast.unparse(n.value) == steps for n in inside):
                continue  # the steps themselves are read
            drawn = (ast.unparse(n) for s in sources(trace) for n in s.calls.get("randint", ()))
            if any(f"len({steps})" in text for text in drawn):
                continue  # it has learned the places
            flow = flow_around(source, loop)
            for call in (n for n in inside if isinstance(n, ast.Call) and MODEL.search(called(n)) and len(n.args) > 1):
                time = flow.inner(call.args[1])
                if i.id not in names_in(time) or any(isinstance(n, ast.Subscript) for n in ast.walk(time)):
                    continue
                levels = next(ast.unparse(n) for n in source.nodes
                              if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == steps)  # fmt: skip
                message = (
                    f"gives the model the place {i.id} in a shortened schedule (`{ast.unparse(call)}`), and the noise "
                    f"levels are those of the steps there (`{levels}`): it is told of another step than the one whose "
                    "noise it sees."
                )
                return told(
                    source, call, "loss", message, f"Give it the step itself: {steps}[{i.id}] in place of {i.id}."
                )
    return []


def _counted(node: ast.expr) -> str | None:
    """What the places of are gone through: ``steps`` of ``reversed(range(len(steps)))``."""
    while called(node) in ("reversed", "tqdm", "list") and isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    parts = [n for n in ast.walk(node) if called(n) == "len"] if called(node) in ("range", "trange") else []
    return ast.unparse(parts[0].args[0]) if len(parts) == 1 and isinstance(parts[0], ast.Call) else None


@rule(423)
def noise_without_its_root(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``a.sqrt() * x + (1 - a) * noise``: the squares of the two shares do not sum to 1."""
    for source in sources(trace):
        for scope in [source.tree, *(n for n in source.nodes if isinstance(n, Function))]:
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                    continue
                for signal, noise in ((node.left, node.right), (node.right, node.left)):
                    kept = next((r for f in flow.factors(signal) if (r := _root(flow.inner(f.node))) is not None), None)
                    rest = next((f.node for f in flow.factors(noise) if _rest(flow, f.node, kept)), None)
                    if kept is None or rest is None or not isinstance(noise, ast.BinOp):
                        continue
                    if not any(
                        NOISE.search(name) for name in names_in(noise) - names_in(rest)
                    ) and "randn" not in ast.unparse(noise):
                        continue
                    line, col, place = source.place(rest)
                    message = capital(
                        f"{place} adds {ast.unparse(rest)} of the noise, and the signal has the root of its share "
                        f"(`{ast.unparse(node)}`): the two variances do not sum to 1, and there is less noise than the "
                        "schedule says."
                    )
                    remedy = "Take the root here too: (1 - a).sqrt() * noise."
                    return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _root(node: ast.expr) -> str | None:
    """What an expression is the root of."""
    if isinstance(node, ast.Subscript):  # a place of the roots
        root = _root(node.value)
        whole = None if root is None else syntax.expression(root)
        return None if whole is None else ast.unparse(ast.Subscript(whole, node.slice, ast.Load()))
    if called(node) == "sqrt" and isinstance(node, ast.Call):
        return ast.unparse(node.args[0] if node.args else getattr(node.func, "value", node.func))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and ast.unparse(node.right) == "0.5":
        return ast.unparse(node.left)
    return None


def _rest(flow: Flow, node: ast.expr, kept: str | None) -> bool:
    """Whether an expression is ``1 - a`` of an ``a.sqrt()``."""
    inner = flow.inner(node)
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub) or kept is None:
        return False
    return flow.number(inner.left) == 1 and ast.unparse(inner.right) == kept


@rule(463)
def predicted_noise_added(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``mean + var.sqrt() * eps`` of a sampling step, where eps is what the model has predicted."""
    for source in sources(trace):
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for node in flow.nodes:
                found = _told_of_noise(source, flow, node)
                if found is not None:
                    return [found]
    return []


def noise_taken_off(flow: Flow, mean: ast.expr, noise: ast.expr) -> bool:
    """Whether a mean has had the predicted noise taken off."""
    return any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and ast.unparse(noise) in names_in(n.right)
        for n in ast.walk(flow.inner(mean))
    )


def _told_of_noise(source: Source, flow: Flow, node: ast.AST) -> Found | None:
    """Told of a mean to which predicted noise is added where it has to be drawn."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    for mean, product in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            continue
        for spread, noise in ((product.left, product.right), (product.right, product.left)):
            made = flow.value(noise)
            if not isinstance(made, ast.Call) or called(made) in DRAWN or not MODEL.search(ast.unparse(made.func)):
                continue
            root = called(spread) == "sqrt" or ast.unparse(spread).endswith("** 0.5")
            text = ast.unparse(spread)
            # of 1 - a level it is the part of the noise that stays in a step that draws none
            root = root and re.search(r"beta|var", text) is not None and "1 -" not in text
            root = root and noise_taken_off(flow, mean, noise)
            if not root and (not VARIANCE.search(ast.unparse(spread)) or not MEAN.search(ast.unparse(mean))):
                continue
            at_a_step = len(made.args) + len(made.keywords) > 1  # of one argument alone it is what was normalised
            if not root and not at_a_step and not noise_taken_off(flow, mean, noise):
                continue
            line, col, place = source.place(node)
            name = ast.unparse(noise)
            message = capital(
                f"{place} adds the noise that the model has predicted where fresh noise belongs "
                f"(`{ast.unparse(product)}`; {name} is `{ast.unparse(made)}`): the mean has taken it off already, and "
                "what is sampled spreads otherwise than the data."
            )
            remedy = f"Draw it: {ast.unparse(spread)} * torch.randn_like({name}), and none at the last step."
            return Found("loss", "warning", line, col, message, remedy)
    return None
