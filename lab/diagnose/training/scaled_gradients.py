"""Gradients of a scaled loss that are clipped as if they were not scaled."""

from __future__ import annotations

import ast

from ...recorder.cell_trace import Leaf, Trace
from ..finding import Found, capital
from ..order import rule
from ..reading.sources import called, own_nodes, sources

CLIPS = {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"}


@rule(271)
def clipped_scaled(trace: Trace, explained: set[Leaf]) -> list[Found]:
    """``scaler.scale(loss).backward()`` and ``clip_grad_norm_(...)`` with no ``scaler.unscale_(opt)`` between."""
    for source in sources(trace):
        for scope in source.scopes():
            nodes = list(own_nodes(scope))
            calls = [n for n in nodes if isinstance(n, ast.Call)]
            scaled = [n for n in calls if called(n) == "backward" and called(getattr(n.func, "value", n)) == "scale"]
            clips = [n for n in calls if called(n) in CLIPS]
            if not scaled or not clips or any(called(n) == "unscale_" for n in source.nodes):
                continue
            scaler = ast.unparse(scaled[0].func.value.func.value)  # type: ignore[attr-defined]
            if any(called(n) in ("GradScaler",) and "enabled=False" in ast.unparse(n) for n in source.nodes):
                continue
            step = next(
                (n for n in calls if called(n) == "step" and ast.unparse(getattr(n.func, "value", n)) == scaler), None
            )
            if step is None or not step.args:
                continue
            line, col, place = source.place(clips[0])
            message = capital(
                f"{place} clips gradients that are still multiplied by the scale of {scaler}, 65,536 at first "
                f"(`{ast.unparse(clips[0])}`): against a norm so much larger the bound cuts down every step to nearly "
                "nothing."
            )
            remedy = f"Take the scale off before: {scaler}.unscale_({ast.unparse(step.args[0])})."
            return [Found("optimizer", "warning", line, col, message, remedy)]
    return []
