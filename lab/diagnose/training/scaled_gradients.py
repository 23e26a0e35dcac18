"""Gradients of a scaled loss that are clipped as if they were not scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.scope import Scope
from ..reading.sources import called

CLIPS = {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"}


@text_rule(271, proof="what GradScaler has scaled is clipped as it is")
def clipped_scaled(scope: Scope) -> Iterator[Found]:
    """``scaler.scale(loss).backward()`` and ``clip_grad_norm_(...)`` with no ``scaler.unscale_(opt)`` between."""
    source, nodes = scope.source, scope.nodes
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    scaled = [n for n in calls if called(n) == "backward" and called(getattr(n.func, "value", n)) == "scale"]
    clips = [n for n in calls if called(n) in CLIPS and "scale" not in "".join(map(ast.unparse, n.args[1:]))]
    if not scaled or not clips or any(called(n) == "unscale_" for n in source.nodes):
        return
    scaler = ast.unparse(scaled[0].func.value.func.value)  # type: ignore[attr-defined]
    if any(called(n) in ("GradScaler",) and "enabled=False" in ast.unparse(n) for n in source.nodes):
        return
    step = next((n for n in calls if called(n) == "step" and ast.unparse(getattr(n.func, "value", n)) == scaler), None)
    if step is None or not step.args:
        return
    message = (
        f"clips gradients that are still multiplied by the scale of {scaler}, 65,536 at first "
        f"(`{ast.unparse(clips[0])}`): against a norm so much larger the bound cuts down every step to nearly "
        "nothing."
    )
    remedy = f"Take the scale off before: {scaler}.unscale_({ast.unparse(step.args[0])})."
    yield scope.tell(clips[0], "optimizer", message, remedy)
