"""Steps of adversarial training that go past each other: a generator whose samples are detached, one that is asked to
be found out, and a penalty on gradients that is none of each sample."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.calls import functions, rows_of
from ..reading.expressions import Flow, flow_of, losses
from ..reading.sources import Function, Source, assigned, called, names_in, sources

CONSTANTS = {"ones": 1.0, "ones_like": 1.0, "zeros": 0.0, "zeros_like": 0.0}
GRADIENTS = re.compile(r"grad|slope", re.I)
FLAT = {"view", "reshape", "flatten"}


@rule(142)
def detached_for_the_generator(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``g_loss = bce(D(fake.detach()), ones) + l1(fake, real)``: the first term moves nothing of the generator."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    makers = dict(_optimizers(found))
    for source in found:
        for scope in source.scopes():
            flow = flow_of(source, scope)
            for of, call in losses(flow):
                generator = makers.get(_next_step(flow, call) or "")
                if generator is None:
                    continue
                calls = [n for n in _nodes(flow, of) if isinstance(n, ast.Call) and _network(n.func)]
                judges = [n for n in calls if ast.unparse(n.func) in set(makers.values()) - {generator}]
                cut = [n for n in judges if _detached(flow, n, generator, source)]
                if not cut or len(cut) < len([n for n in judges if _made_by(flow, n, generator, source)]):
                    continue
                if not _reaches(flow, of, generator, source, cut):
                    continue  # no gradient at all: that is told by what the parameters lack
                line, col, place = source.place(cut[0])
                judge = ast.unparse(cut[0].func)  # type: ignore[attr-defined]
                message = capital(
                    f"{place} shows {judge} samples that are detached (`{ast.unparse(cut[0])}`) in the step of "
                    f"{generator}: what {judge} says of them passes no gradient on to {generator}, which learns by "
                    "the other terms of the loss alone."
                )
                remedy = f"Leave detach() out here; it belongs in the step of {judge}."
                cuts = [row for row in rows_of(trace, source, cut[0]) if row.cut in ("detach", "data")]
                return [Found("cut", "warning", line, col, message, remedy, cuts)]
    return []


def _network(function: ast.expr) -> bool:
    return isinstance(function, ast.Name | ast.Attribute)


def _optimizers(found: list[Source]) -> Iterator[tuple[str, str]]:
    """Yield each optimizer's name and the network whose parameters it is made of."""
    for source in found:
        made = [(ast.unparse(n.targets[0]), n.value) for n in source.nodes if isinstance(n, ast.Assign)]
        for name, value in (*made, *((p.name, p.value) for p in assigned(source.nodes))):
            first = value.args[0] if isinstance(value, ast.Call) and value.args else None
            given = re.fullmatch(r"([\w.]+)\.parameters\(\)", ast.unparse(first)) if first is not None else None
            if given is not None:
                yield name, given[1]


def _next_step(flow: Flow, call: ast.AST) -> str | None:
    """The optimizer that is stepped first after a backward()."""
    after = [
        n
        for n in flow.nodes
        if called(n) == "step" and isinstance(n, ast.Call) and n.lineno >= call.lineno  # type: ignore[attr-defined]
    ]
    first = min(after, key=lambda n: (n.lineno, n.col_offset), default=None)
    if first is None:
        return None
    if first.args and isinstance(first.args[0], ast.Name | ast.Attribute):
        return ast.unparse(first.args[0])  # of a scaler
    return ast.unparse(getattr(first.func, "value", first.func))


def _nodes(flow: Flow, node: ast.expr) -> list[ast.AST]:
    """The nodes of an expression and of what its variables were given."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [node]
    seen: set[ast.AST] = set()
    while stack and len(found) < 2000:
        for inner in ast.walk(stack.pop()):
            if inner in seen:
                continue
            seen.add(inner)
            found.append(inner)
            value = flow.value(inner)
            if value is not None:
                stack.append(value)
    return found


def _made_by(flow: Flow, node: ast.expr, network: str, source: Source) -> bool:
    """Whether what an expression reads was made by a network, or by a function here that calls it."""
    functions = {
        n.name for n in source.nodes if isinstance(n, Function) and any(_runs(c, network) for c in ast.walk(n))
    }
    return any(_runs(n, network) or called(n) in functions for n in _nodes(flow, node))


def _runs(node: ast.AST, network: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == network


def _detached(flow: Flow, call: ast.Call, generator: str, source: Source) -> bool:
    """Whether a call is given what a network made, and all of that detached."""
    cuts = [n for a in call.args for n in _nodes(flow, a) if called(n) == "detach" and isinstance(n, ast.Call)]
    made = [n for n in cuts if isinstance(n.func, ast.Attribute) and _made_by(flow, n.func.value, generator, source)]
    if not made:
        return False
    within = {inner for n in made for inner in _nodes(flow, n)}
    return not any(_runs(n, generator) and n not in within for a in call.args for n in _nodes(flow, a))


def _reaches(flow: Flow, of: ast.expr, generator: str, source: Source, cut: list[ast.Call]) -> bool:
    """Whether a loss has a way to a network beside the calls that it is cut off in."""
    calls = set(cut)
    for _, term in flow.terms(of):
        nodes = _nodes(flow, term)
        if not calls & set(nodes) and _made_by(flow, term, generator, source):
            return True
    return False


@rule(411)
def asked_to_be_found_out(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``d_loss = bce(D(fake.detach()), zeros)`` and ``g_loss = bce(D(fake), zeros)``: both want the same of D."""
    if not trace.steps.count:
        return []
    found = sources(trace)
    makers, own = dict(_optimizers(found)), functions(trace)
    for source in found:
        for scope in source.scopes():
            flow = flow_of(source, scope)
            asked: dict[str, dict[str, tuple[float | str, ast.Call]]] = {}
            for of, call in losses(flow):
                trained = makers.get(_next_step(flow, call) or "")
                for node in _nodes(flow, of) if trained is not None else ():
                    if not isinstance(node, ast.Call) or len(node.args) != 2:
                        continue
                    wanted: float | str | None = _constant(flow, node.args[1])
                    if wanted is None and called(node) in own:
                        wanted = _flag(node.args[1])
                    judges = [n for n in _nodes(flow, node.args[0]) if isinstance(n, ast.Call) and _network(n.func)]
                    judges = [n for n in judges if ast.unparse(n.func) in makers.values()]
                    judge = next((n for n in judges if called(n) and n.args), None)
                    if wanted is None or judge is None:
                        continue
                    other = next((name for name in makers.values() if name != ast.unparse(judge.func)
                                  and _made_by(flow, judge, name, source)), None)  # fmt: skip
                    if other is not None and trained is not None:
                        asked.setdefault(f"{ast.unparse(judge.func)}|{other}", {})[trained] = wanted, node
            for names, by in asked.items():
                judge_name, generator = names.split("|")
                if {judge_name, generator} - by.keys() or by[judge_name][0] != by[generator][0]:
                    continue
                line, col, place = source.place(by[generator][1])
                message = capital(
                    f"{place} asks {generator} for samples that {judge_name} takes for {_said(by[generator][0])} "
                    f"(`{ast.unparse(by[generator][1])}`), which is what {judge_name} itself is trained to say of them "
                    f"({source.place(by[judge_name][1]).words}): the two work together, and {generator} learns to be "
                    "found out."
                )
                real = _said(by[generator][0], other=True)
                remedy = f"Give the step of {generator} the label of real samples: {real}."
                return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _flag(node: ast.expr) -> str | None:
    """What a function is told that makes the labels itself: ``adv_loss(pred, False)``."""
    value = node.value if isinstance(node, ast.Constant) else None
    return str(value) if isinstance(value, bool) else None


def _said(label: float | str, other: bool = False) -> str:
    """A label in a sentence, or the one of the other samples."""
    if isinstance(label, str):
        return label if not other else str(label == "False")
    return f"{1 - label if other else label:g}"


def _constant(flow: Flow, node: ast.expr) -> float | None:
    """The one value that a tensor of labels was made of."""
    inner = flow.inner(node)
    while called(inner) in ("to", "cuda", "float", "view", "reshape", "unsqueeze"):
        of = getattr(inner.func, "value", None)  # type: ignore[attr-defined]
        if of is None:
            return None
        inner = flow.inner(of)
    if isinstance(node, ast.Name) and any(
        isinstance(n, ast.Call) and called(n) in ("fill_", "uniform_", "copy_") and node.id in names_in(n.func)
        for n in flow.nodes
    ):
        return None
    if called(inner) in CONSTANTS:
        return CONSTANTS[called(inner)]
    if called(inner) in ("full", "full_like") and isinstance(inner, ast.Call) and len(inner.args) > 1:
        return flow.number(inner.args[1])
    return None


@rule(422)
def norm_of_a_part(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``((grad.norm(2, dim=1) - 1) ** 2).mean()`` of images: a norm at each pixel, and none of each sample."""
    for source in sources(trace):
        for scope in (n for n in source.nodes if isinstance(n, Function | ast.Module)):
            flow = flow_of(source, scope)
            for node in flow.nodes:
                if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or flow.number(node.right) != 1:
                    continue
                norm = flow.inner(node.left)
                taken = _norm(norm)
                if taken is None:
                    continue
                of, dim = taken
                given = flow.inner(of)
                if called(given) in FLAT or any(called(n) in FLAT for n in ast.walk(of)):
                    continue
                if not any(called(n) == "grad" for n in _nodes(flow, of)):
                    continue
                shape = _shape(trace, source, norm)
                if dim not in ("1", "") or (dim == "1" and len(shape) < 3):
                    continue
                if dim == "" and (len(shape) < 2 or shape[0] < 2):
                    continue
                line, col, place = source.place(norm)
                size = f"({', '.join(str(n) for n in shape)})"
                what = f"along dimension 1 of {size}, which leaves {shape[0]} × {math.prod(shape[2:])} of them"
                if dim == "":
                    what = f"of the whole batch, {size}, in one"
                message = capital(
                    f"{place} takes the norm of the gradients {what}, and not one for each sample "
                    f"(`{ast.unparse(norm)}`): pulled to 1 is another figure than the slope at a sample."
                )
                remedy = f"Make a row of each sample: {ast.unparse(of)}.flatten(1).norm(2, dim=1)."
                return [Found("loss", "warning", line, col, message, remedy)]
    return []


def _norm(node: ast.expr) -> tuple[ast.expr, str] | None:
    """Of what an expression is the norm, and along which dimension: "" for none."""
    if (
        not isinstance(node, ast.Call)
        or called(node) not in ("norm", "vector_norm")
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    function = ast.unparse(node.func.value) in ("torch", "core", "torch.linalg", "core.linalg", "linalg", "LA")
    args = node.args[1:] if function else node.args
    of = node.args[0] if function and node.args else node.func.value
    given = {k.arg: ast.unparse(k.value) for k in node.keywords}
    return of, given.get("dim", given.get("axis", ast.unparse(args[1]) if len(args) > 1 else ""))


def _shape(trace: Trace, source: Source, node: ast.AST) -> tuple[int, ...]:
    """The shape of what the norm at a line was taken of, as it ran."""
    shapes = [
        tuple(ref.shape)
        for row in trace.rows
        if row.place is not None and row.place.line + trace.files.get(row.place.file, 0) == getattr(node, "lineno", 0)
        and (row.place.file in trace.files) != bool(source.name) and "norm" in row.op
        for ref in row.refs[:1]
    ]  # fmt: skip
    return max(shapes, key=len, default=())
