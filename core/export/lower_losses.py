"""Losses by class, and gradients that programs of training steps are made of."""

from __future__ import annotations

from typing import Any

from .lower_moves import fill_with, scaled, where
from .lower_nn import single
from .lower_views import reshape, transpose
from .lowering import COPY, Builder, lowers
from .plan import BYTES, Index, View, refused


def _at_targets(b: Builder, node: Any, x: View, target: View, ignore: int) -> tuple[View, View]:
    """Return what stands at the targets of rows, and which targets count."""
    valid = b.ew("ne", target, ignore)
    safe = where(b, valid, target if target.dtype == "int64" else b.copy(target, "int64"), 0)
    column = View(safe.buffer, (*safe.shape, 1), (*safe.strides, 0), safe.offset)
    out = b.new((*safe.shape, 1), x.dtype)
    b.call("gather", BYTES[x.dtype], 2, column.shape, 1, x.shape[1], x, x.strides, column, column.strides, out,
           writes=[out], title="what stands at the targets", fails=True)  # fmt: skip
    return View(out.buffer, safe.shape, (1,)), valid


def _class_weights(b: Builder, node: Any, target: View, weight: View, ignore: int) -> View:
    rows = View(weight.buffer, (target.shape[0], weight.shape[0]), (0, weight.strides[0]), weight.offset)
    return _at_targets(b, node, rows, target, ignore)[0]


@lowers("cross_entropy")
def _cross_entropy(b: Builder, node: Any, x: View, target: View, weight: View | None, ignore_index: int,
                   label_smoothing: float) -> list[Any]:  # fmt: skip
    single(node, x, weight)
    if len(x.shape) == 3:
        x = reshape(b, node, transpose(b, node, x, 1, 2), (x.shape[0] * x.shape[2], x.shape[1]))
    target = reshape(b, node, target, (target.size,))
    top = b.reduce("max", x, [1], True)
    off = b.ew("sub", x, top)
    log_sum = b.ew("log", b.reduce("sum", b.ew("exp", off), [1], True))
    logs = b.ew("sub", off, log_sum)
    at, valid = _at_targets(b, node, logs, target, ignore_index)
    loss = b.ew("neg", at)
    if weight is not None:
        loss = b.ew("mul", loss, _class_weights(b, node, target, weight, ignore_index))
    if label_smoothing:
        even = b.ew("neg", logs if weight is None else b.ew("mul", logs, weight))
        share = float(label_smoothing)
        total = scaled(b, b.reduce("sum", even, [1]), x.shape[1])
        loss = b.ew("add", b.ew("mul", loss, 1 - share), b.ew("mul", total, share))
    every = b.ew("add", top, log_sum)
    return [where(b, valid, loss, 0), View(every.buffer, (x.shape[0],), (1,))]


@lowers("nll_loss")
def _nll_loss(b: Builder, node: Any, x: View, target: View, weight: View | None, ignore_index: int) -> View:
    single(node, x, weight)
    at, valid = _at_targets(b, node, x, target, ignore_index)
    loss = b.ew("neg", at)
    if weight is not None:
        loss = b.ew("mul", loss, _class_weights(b, node, target, weight, ignore_index))
    return where(b, valid, loss, 0)


@lowers("class_weight")
def _class_weight(b: Builder, node: Any, target: View, weight: View, ignore_index: int) -> View:
    valid = b.ew("ne", target, ignore_index)
    return where(b, valid, _class_weights(b, node, target, weight, ignore_index), 0)


@lowers("counted_targets")
def _counted(b: Builder, node: Any, target: View, ignore_index: int, dtype: Any) -> View:
    return b.copy(b.ew("ne", target, ignore_index), node.outputs[0].dtype)


@lowers("target_mass")
def _target_mass(b: Builder, node: Any, target: View, classes: int, ignore_index: int, label_smoothing: float,
                 dtype: Any) -> View:  # fmt: skip
    rows = View(target.buffer, (target.shape[0], 1), (target.strides[0], 0), target.offset)
    shape = (target.shape[0], classes)
    name = node.outputs[0].dtype
    even = label_smoothing / classes
    here = b.ew("eq", rows, Index(1), dtype="bool", kind="int64", shape=shape)
    mass = where(b, here, fill_with(b, shape, even + 1 - label_smoothing, name), even)
    return where(b, b.ew("ne", rows, ignore_index), mass, 0)


@lowers("embedding_backward")
def _embedding_backward(b: Builder, node: Any, g: View, index: View, count: Any, padding_idx: int,
                        scale_grad_by_freq: bool) -> View:  # fmt: skip
    single(node, g)
    if scale_grad_by_freq:
        raise refused(node, "scaled by frequency", "scale_grad_by_freq=False")
    width = g.shape[-1]
    index = b.dense(reshape(b, node, index if index.dtype == "int64" else b.copy(index, "int64"), (index.size,)))
    rows = reshape(b, node, g, (index.size, width))
    if padding_idx >= 0:
        kept = b.ew("ne", index, padding_idx)
        rows = where(b, View(kept.buffer, (index.size, 1), (1, 0)), rows, 0)
    out = b.new((count, width))
    b.ew(COPY, fill_with(b, out.shape, 0, "float32"), out=out)
    places = b.new((index.size,), "int64", "places")
    b.call("add_places", index.size, index, count, width, 1, places, writes=[places], title="places of an index",
           fails=True)  # fmt: skip
    b.call("add_rows_f32", 1, 0, index.size, places, width, b.dense(rows), out, writes=[out])
    return out


@lowers("gather_backward")
def _gather_backward(b: Builder, node: Any, g: View, index: View, shape: Any, dim: int) -> View:
    single(node, g)
    out = b.new(shape)
    b.ew(COPY, fill_with(b, out.shape, 0, "float32"), out=out)
    index = index if index.dtype == "int64" else b.copy(index, "int64")
    dim %= len(out.shape)
    b.call("scatter_f32", "SCATTER_ADD", len(index.shape), index.shape, dim, out.shape[dim], out, out.strides, index,
           index.strides, g, g.strides, writes=[out], fails=True)  # fmt: skip
    return out
