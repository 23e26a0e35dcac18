"""Parameters that are frozen while an optimizer still holds them, and that go on moving."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, sources
from ..training.training_steps import of_optim
from .unheld_parameters import sets_requires_grad

PUSHES = ("momentum", "weight_decay", "betas")


@rule(616)
def moved_by_the_rest(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``zero_grad(set_to_none=False)`` and ``p.requires_grad = False``: a gradient of 0 is one, by which momentum and
    weight decay move them."""
    if not trace.steps.count:
        return []
    found = [(source, node) for source in sources(trace)
             for node in (ast.walk(source.program) if not source.name else source.nodes)]  # fmt: skip
    kept = next((
        (source, n) for source, n in found if called(n) == "zero_grad" and isinstance(n, ast.Call)
        and any(k.arg == "set_to_none" and getattr(k.value, "value", None) is False for k in n.keywords)
    ), None)  # fmt: skip
    pushed = [
        n for _, n in found if isinstance(n, ast.Call) and of_optim(n)
        and ("Adam" in called(n) or any(k.arg in PUSHES and getattr(k.value, "value", None) != 0 for k in n.keywords))
    ]  # fmt: skip
    if (
        kept is None
        or not pushed
        or any("filter" in ast.unparse(n) or "requires_grad" in ast.unparse(n) for n in pushed)
    ):
        return []
    for source, node in found:
        if not sets_requires_grad(node):
            continue
        line, col, place = source.place(node)
        message = capital(
            f"{place} freezes parameters (`{ast.unparse(node)}`) that the optimizer still holds, and "
            f"{kept[0].place(kept[1]).words} keeps their gradients, as zeros (`{ast.unparse(kept[1])}`): a gradient "
            "of 0 is one, and momentum and weight decay go on moving them."
        )
        remedy = "Set p.grad = None where they are frozen, clear with zero_grad(), or make an optimizer of the others."
        moved = [leaf for leaf, by in trace.updates.items() if not leaf.requires_grad and by > 0]
        return [Found("optimizer", "warning", line, col, message, remedy, [], moved)]
    return []
