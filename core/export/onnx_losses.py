"""ONNX's spelling of the losses of classes."""

from __future__ import annotations

from typing import Any

from .ir import Value
from .onnx_graph import Graph, element
from .onnx_ops import evaluated, reduced, row, wanted


def _targets(g: Graph, target: Value, ignore_index: int) -> tuple[str, str]:
    """Return the targets with 0 where they are ignored, and where they count."""
    valid = g("Not", g("Equal", target, g.like(ignore_index, target)))
    return g("Where", valid, target, g.like(0, target)), valid


@row("cross_entropy")
def _cross_entropy(g: Graph, x: Value, target: Value, weight: Value | None, ignore_index: int,
                   label_smoothing: float) -> list[Any]:  # fmt: skip
    scores = g.name(x)
    if len(x.shape) == 3:
        scores = g("Reshape", g.transpose(scores, [0, 2, 1]), g.ints(-1, x.shape[1]))
    safe, valid = _targets(g, target, ignore_index)
    logs = g("Neg", g("LogSoftmax", scores, axis=1))
    loss = _picked(g, logs, safe)
    if weight is not None:
        loss = g("Mul", loss, g("Gather", weight, safe, axis=0))
    if label_smoothing:
        even = logs if weight is None else g("Mul", logs, weight)
        share = g("Div", g.like(label_smoothing, x), g.scalar(evaluated(x.shape[1]), x.dtype))
        loss = g("Add", g("Mul", loss, g.like(1 - label_smoothing, x)),
                 g("Mul", reduced(g, "ReduceSum", even, 1, False), share))  # fmt: skip
    whole = _log_sum(g, scores, 1) if wanted(g, 1) else None
    return [g("Where", valid, loss, g.like(0, x)), whole]


def _log_sum(g: Graph, x: str, axis: int) -> str:
    """Return log(sum(exp(x))) along an axis, with the largest taken off."""
    top = g("ReduceMax", x, g.ints(axis), keepdims=1)
    total = g("Log", g("ReduceSum", g("Exp", g("Sub", x, top)), g.ints(axis), keepdims=1))
    return g("Squeeze", g("Add", total, top), g.ints(axis))


def _picked(g: Graph, rows: str, at: str) -> str:
    return g("Squeeze", g("GatherElements", rows, g("Unsqueeze", at, g.ints(1)), axis=1), g.ints(1))


@row("nll_loss")
def _nll_loss(g: Graph, x: Value, target: Value, weight: Value | None, ignore_index: int) -> str:
    safe, valid = _targets(g, target, ignore_index)
    loss = g("Neg", _picked(g, g.name(x), safe))
    if weight is not None:
        loss = g("Mul", loss, g("Gather", weight, safe, axis=0))
    return g("Where", valid, loss, g.like(0, x))


@row("class_weight")
def _class_weight(g: Graph, target: Value, weight: Value, ignore_index: int) -> str:
    safe, valid = _targets(g, target, ignore_index)
    return g("Where", valid, g("Gather", weight, safe, axis=0), g.like(0, weight))


@row("counted_targets")
def _counted_targets(g: Graph, target: Value, ignore_index: int, dtype: Any) -> str:
    return g("Cast", _targets(g, target, ignore_index)[1], to=element(dtype.name))


@row("target_mass")
def _target_mass(g: Graph, target: Value, classes: Any, ignore_index: int, label_smoothing: float, dtype: Any) -> str:
    safe, valid = _targets(g, target, ignore_index)
    kind = dtype.name
    hit = g("Equal", g("Unsqueeze", safe, g.ints(1)), g.cast(g.range(classes), target.dtype, "int64"))
    mass = g("Cast", hit, to=element(kind))
    if label_smoothing:
        even = g("Div", g.constant(label_smoothing, kind), g.scalar(classes, kind))
        mass = g("Add", g("Mul", mass, g.constant(1 - label_smoothing, kind)), even)
    return g("Mul", mass, g("Cast", g("Unsqueeze", valid, g.ints(1)), to=element(kind)))
