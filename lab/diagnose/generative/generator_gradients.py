"""A generator that is given the gradients of its adversary's loss beside those of its own."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.expressions import Flow, flow_of, losses
from ..reading.sources import Source, called, sources
from .adversarial_steps import _detached, _made_by, _nodes, _optimizers


@rule(265)
def gradients_of_both(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``d_loss.backward(retain_graph=True)`` through ``D(fake)``, ``g_loss.backward()`` and ``opt_g.step()``: the
    gradients of the first pull the generator the other way, and nothing clears them between."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    makers = dict(_optimizers(found))
    for source in found if len(set(makers.values())) > 1 else ():
        for scope in source.scopes():
            flow = flow_of(source, scope)
            passes = list(losses(flow))
            if len(passes) < 2 or any("requires_grad" in ast.unparse(n) for n in flow.nodes if _sets(n)):
                continue
            for optimizer, generator in makers.items():
                told = _both(found, flow, source, passes, optimizer, generator, makers)
                if told is not None:
                    return [told]
    return []


def _sets(node: ast.AST) -> bool:
    """Whether a statement may say which parameters need a gradient, or a call of a backward pass for which."""
    return isinstance(node, ast.Assign) or (isinstance(node, ast.Call) and called(node) == "requires_grad_")


def _both(found: list[Source], flow: Flow, source: Source, passes: list[tuple[ast.expr, ast.AST]], optimizer: str,
          generator: str, makers: dict[str, str]) -> Found | None:  # fmt: skip
    """The finding about one generator: the first backward pass is its adversary's, as it sees real samples as well."""
    networks = set(makers.values())
    steps = [n for n in flow.nodes if _of(n, "step", optimizer)]
    for (of, first), (after, second) in ((a, b) for a in passes for b in passes if _line(a[1]) < _line(b[1])):
        step = next((n for n in steps if _line(n) > _line(second)), None)
        judges = _judges(flow, of, networks - {generator})
        fakes = [n for n in judges if _made_by(flow, n, generator, source)]
        whole = [n for n in fakes if not _detached(flow, n, generator, source) and _heard(flow, source, n, generator)]
        real = any(n not in fakes and ast.unparse(n.func) == ast.unparse(fake.func) for n in judges for fake in whole)
        if step is None or not real or any(k.arg == "inputs" for k in getattr(first, "keywords", ())):
            continue
        its = _judges(flow, after, {ast.unparse(whole[0].func)})
        if not its or any(not _made_by(flow, n, generator, source) for n in its):
            continue
        others = {ast.unparse(whole[0].func)} | {
            name for name, network in makers.items() if network == ast.unparse(whole[0].func)
        }
        between = [n for n in flow.nodes if _line(first) < _line(n) < _line(step)]
        if any(_clears(n, others) for n in between) or any(
            _clears(inner, others) for n in between for inner in _inside(found, n)
        ):
            continue
        loop = [n for n in source.around(second) if isinstance(n, ast.For | ast.While)][:1]
        if [n for n in source.around(first) if isinstance(n, ast.For | ast.While)][:1] != loop:
            continue
        line, col, place = source.place(whole[0])
        judge, own = ast.unparse(whole[0].func), ast.unparse(after)
        message = capital(
            f"{place} lets the loss of {judge} go back into {generator} (`{ast.unparse(whole[0])}`, without detach()), "
            f"and nothing clears what {source.place(first).words} leaves there before {source.place(step).words} "
            f"steps {optimizer}: {generator} goes by the sum of {ast.unparse(of)} and {own}, which pull it in opposite "
            "directions."
        )
        given = ", ".join(f"{ast.unparse(arg)}.detach()" for arg in whole[0].args[:1])
        remedy = f"Show {judge} detached samples there: {judge}({given}); it then needs no retain_graph."
        if whole[0] in its:
            remedy = f"Take {judge}({given}) for {ast.unparse(of)}, and ask {judge} once more for {own}."
        return Found("loss", "warning", line, col, message, remedy)
    return None


def _inside(found: list[Source], node: ast.AST) -> list[ast.AST]:
    """The nodes of the user's function that a call calls by its name: ``reset_grad()``."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    functions = (source.functions.get(name) for source in found if name)
    return [inner for function in functions if function is not None for inner in ast.walk(function)]


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _of(node: ast.AST, method: str, name: str) -> bool:
    """Whether a node calls a method of an object: ``opt.step()``, or ``scaler.step(opt)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != method:
        return False
    return name in (ast.unparse(node.func.value), *map(ast.unparse, node.args[:1]))


def _judges(flow: Flow, of: ast.expr, networks: set[str]) -> list[ast.Call]:
    """The calls of some networks that a loss was made of."""
    return [n for n in _nodes(flow, of) if isinstance(n, ast.Call) and n.args and ast.unparse(n.func) in networks]


def _heard(flow: Flow, source: Source, call: ast.Call, generator: str) -> bool:
    """Whether the samples that a network is shown were made with history."""
    made = [
        n for a in call.args for n in _nodes(flow, a) if isinstance(n, ast.Call) and ast.unparse(n.func) == generator
    ]
    return any(
        not any(isinstance(a, ast.With) and "no_grad" in ast.unparse(a.items[0]) for a in source.around(n))
        for n in made
    )


def _clears(node: ast.AST, others: set[str]) -> bool:
    """Whether a node may clear gradients, those of others aside."""
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Attribute) and t.attr == "grad" for t in node.targets)
    method = node.func if isinstance(node, ast.Call) and called(node) == "zero_grad" else None
    return isinstance(method, ast.Attribute) and ast.unparse(method.value) not in others
