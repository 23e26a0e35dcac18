"""Learning rates that go another way than was meant: a warm-up that begins again in each epoch, two schedulers of one
optimizer while another has none; and vectors that an optimizer is given and that stay frozen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found
from ..order import rule, text_rule
from ..reading.calls import given, name_of
from ..reading.scope import Scope, indices, told
from ..reading.sources import Function, Source, called

TIMES = 3  # falls back to the same beginning, from which they are no chance
NEAR = 0.02  # of the highest rate: how far two rates may lie apart that are one
SCHEDULERS = {"StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "ReduceLROnPlateau",
              "CosineAnnealingWarmRestarts", "PolynomialLR", "OneCycleLR"}  # fmt: skip


@rule(397)
def warms_up_again(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """A learning rate that rises in each epoch and falls back at its end, by the index within the epoch."""
    rates = max((o.rates for o in trace.steps.optimizers), key=len, default=[])
    period = _saw(rates)
    if not period:
        return []
    for source, index in indices(trace):
        for loop in index.kinds.get(ast.For, ()):
            counter = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
            outer = next((a for a in source.around(loop) if isinstance(a, ast.For)), None)
            if outer is None or not isinstance(counter, ast.Name):
                continue
            for node in ast.walk(loop):
                if not _sets_rate(source, node) or counter.id not in ast.unparse(node):
                    continue
                epoch = {n.id for n in ast.walk(outer.target) if isinstance(n, ast.Name)}
                if epoch & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
                    continue
                message = (
                    f"sets the learning rate by {counter.id}, which begins at 0 in each epoch "
                    f"(`{ast.unparse(node).splitlines()[0]}`): every {period:,} steps it falls back from "
                    f"{max(rates):.3g} to {rates[0]:.3g} and rises again."
                )
                remedy = f"Count the steps of the whole training: epoch * len(loader) + {counter.id}."
                return told(source, node, "learning-rate", message, remedy)
    return []


def _saw(rates: list[float]) -> int:
    """After how many steps rates begin anew that only rise in between; 0 where they do not."""
    if len(rates) < 8 or max(rates) <= 0:
        return 0
    falls = [k for k in range(1, len(rates)) if rates[k] < rates[k - 1] * (1 - NEAR)]
    if len(falls) < TIMES or len({b - a for a, b in zip([0, *falls], falls, strict=False)}) != 1:
        return 0
    begin, top = rates[0], max(rates)
    rises = all(rates[k] >= rates[k - 1] for k in range(1, len(rates)) if k not in falls)
    back = all(abs(rates[k] - begin) <= NEAR * top for k in falls)
    return falls[0] if rises and back and falls[0] > 2 and rates[falls[0] - 1] > 1.5 * begin else 0


def _sets_rate(source: Source, node: ast.AST) -> bool:
    """Whether a statement sets the learning rate, or calls a function of the user's that does."""
    if isinstance(node, ast.Assign):
        return any("'lr'" in ast.unparse(t) for t in node.targets)
    function = source.functions.get(called(node))
    return function is not None and any(
        isinstance(n, ast.Assign) and any("'lr'" in ast.unparse(t) for t in n.targets) for n in ast.walk(function)
    )


@text_rule(398, "lr_scheduler", trains=True, earlier=True)
def scheduler_of_the_other(scope: Scope) -> Iterator[Found]:
    """``d_scheduler = StepLR(g_optimizer, ...)`` beside ``g_scheduler = StepLR(g_optimizer, ...)``."""
    made: dict[tuple[str, str], list[ast.Assign]] = {}
    scheduled = set()
    for pair in scope.index.given:
        kind = called(pair.value)
        if kind in SCHEDULERS and isinstance(pair.value, ast.Call) and (of := given(pair.value, "optimizer", 0)):
            made.setdefault((kind, ast.unparse(of)), []).append(pair.node)
            scheduled.add(ast.unparse(of))
    optimizers = [p.name for p in scope.index.given if isinstance(p.value, ast.Call)
                  and "parameters()" in ast.unparse(p.value) and called(p.value)[:1].isupper()]  # fmt: skip
    alone = [name for name in optimizers if name not in scheduled]
    for (_, owner), nodes in made.items():
        if len(nodes) != 2 or len(alone) != 1 or owner not in optimizers:
            continue
        message = (
            f"makes a second scheduler of {owner} (`{ast.unparse(nodes[1])}`), which "
            f"{scope.place(nodes[0]).words} has made one of already: its rate is lowered twice, and that of "
            f"{alone[0]} never."
        )
        yield scope.tell(nodes[1], "learning-rate", message, f"Make it of {alone[0]}.")


@text_rule(399, "from_pretrained", trains=True)
def frozen_and_given(scope: Scope) -> Iterator[Found]:
    """``nn.Embedding.from_pretrained(vectors)``, frozen by default, whose weights are given to the optimizer."""
    source = scope.source
    for call in scope.calls("from_pretrained"):
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name_of(of) not in ("Embedding", "EmbeddingBag") or len(call.args) > 1:  # type: ignore[arg-type]
            continue
        above = source.parents.get(call)
        if any(k.arg == "freeze" for k in call.keywords) or not isinstance(above, ast.Assign):
            continue
        name = name_of(above.targets[0])
        thawed = f"{name}.weight.requires_grad" in source.text or f"{name}.requires_grad_" in source.text
        groups = [n for other in (source.program if not source.name else source.tree,) for n in ast.walk(other)
                  if called(n) == "parameters" and name_of(n.func.value) == name]  # type: ignore[attr-defined]  # fmt: skip
        groups = [n for n in groups if not any(isinstance(a, Function | ast.For) for a in source.around(n))]
        if thawed or not groups:
            continue
        message = (
            f"makes vectors that are frozen (`{ast.unparse(call)}`: freeze=True is its default), and "
            f"{source.place(groups[0]).words} gives them to the optimizer (`{ast.unparse(groups[0])}`): they get no "
            "gradient and stay as they are."
        )
        yield scope.tell(call, "no-gradient", message, "Let them be trained: from_pretrained(..., freeze=False).")
