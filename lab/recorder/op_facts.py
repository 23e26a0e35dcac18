"""Facts of single ops that their figures do not tell: the mode in which a dropout ran, indices that repeat, how many
tensors with a history were put together."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from core.events import observe
from widgets.record import Stats

from . import tensor_stats
from .cell_trace import Row, Trace
from .op_to_row import Folder
from .tensor_stats import on_host
from .tensor_types import TENSORS

DROPPING = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d",
            "dropout3d"}  # fmt: skip
DROPPING |= {name + "_" for name in DROPPING}
MASKING = {"bernoulli", "bernoulli_"}  # with which dropout is written by hand
ATTENDING = {"scaled_dot_product_attention", "attention"}  # which drop weights if they are told to
INDEXING = {"index", "getitem"}
JOINING = {"cat", "stack", "concat", "concatenate", "hstack", "vstack"}
NOTED = DROPPING | MASKING | ATTENDING | INDEXING | JOINING
FEW, MANY = 4, 1 << 16  # runs of which the places are looked at, and places


def mode_of(fold: Folder) -> bool | None:
    """Return whether the module that runs is in training mode; None outside of modules."""
    module = fold.paths[fold.path][1]
    module = module() if module is not None else None
    return None if module is None else bool(module.training)


def note(fold: Folder, trace: Trace, row: Row, e: observe.OpEvent) -> None:
    """Look at one run of an op in `NOTED`."""
    if e.op in DROPPING or e.op in ATTENDING or e.op in MASKING:
        mode = mode_of(fold)
        stray = bool(mode) and _stray(fold)
        if stray or (_own_mode(e.place) if mode is None else mode) is False:
            trace.dropped[row] = trace.dropped.get(row, 0) + 1
        if stray:
            trace.strays.add(row)
    elif e.op in JOINING:
        if row.count > 1 and any(isinstance(t, TENSORS) and t._note is row for t in e.inputs):
            trace.extended.add(row)
        if row.requires_grad and len(e.inputs) > 2:
            makers = Counter(id(t._node.tag) for t in e.inputs if isinstance(t, TENSORS) and t._node is not None)
            if makers:
                trace.joined[row] = max(trace.joined.get(row, 0), makers.most_common(1)[0][1])
    elif row.count <= FEW:
        found = _places(e)
        if found is not None and found[1] < found[0]:
            trace.repeated[row] = found


def _stray(fold: Folder) -> bool:
    """Return whether the module that runs is unknown to the model in evaluation mode around it."""
    path = fold.path
    module = fold.paths[path][1]()
    while fold.paths[path][0]:
        path = fold.paths[path][0]
        around = fold.paths[path][1]()
        if around is not None and not around.training:
            return all(inner is not module for inner in around.modules())
    return False


def _own_mode(place: observe.Place) -> bool | None:
    """Return the mode of the module whose method, other than forward(), runs an op."""
    frame: Any = sys._getframe(2)
    while frame is not None and (place is None or frame.f_code is not place[0]):
        frame = frame.f_back
    mode = getattr(frame.f_locals.get("self"), "training", None) if frame is not None else None
    return mode if isinstance(mode, bool) else None


def _places(e: observe.OpEvent) -> tuple[int, int] | None:
    """Count the values taken and the different places they come from, where all indices are tensors of integers."""
    tensors = [t for t in e.inputs if isinstance(t, TENSORS)][1:]
    if not tensors or any(not t._kind.dtype.name.startswith("int") or t._a.size > MANY for t in tensors):
        return None
    try:
        flat = [a.reshape(-1) for a in np.broadcast_arrays(*(on_host(t._a) for t in tensors))]
    except ValueError:
        return None
    return flat[0].size, len(np.unique(flat[0])) if len(flat) == 1 else np.unique(np.stack(flat), axis=1).shape[1]


def given(inputs: tuple[Any, ...]) -> list[tuple[tuple[int, ...], str, Stats | None]]:
    """Return the shapes and dtypes of what an op that failed was given; of class numbers and indices the range."""
    found: list[tuple[tuple[int, ...], str, Stats | None]] = []
    for t in inputs[:8]:
        if isinstance(t, TENSORS):
            dtype = t._kind.dtype.name
            whole = dtype.startswith(("int", "uint"))
            found.append((tuple(t._a.shape), dtype, tensor_stats.stats(t._a) if whole else None))
    return found


def sums_of(row: Row, e: observe.OpEvent) -> tuple[float, float] | None:
    """Return the least and the largest sum over the classes: of the probabilities that a loss is given, as logarithms
    or as its target, and of those that a softmax gives; None of any other op."""
    if e.op == "nll_loss":
        return tensor_stats.sums(e.inputs[0]._a)
    if e.op in ("softmax", "log_softmax"):
        return tensor_stats.totals(e.outputs[0]._a, e.op == "log_softmax")
    before = row.refs[0] if row.refs else None
    made = e.op == "mul" and isinstance(before, Row) and before.op == "log_softmax" and before.chain == row.chain
    target = e.inputs[1] if (made or e.op == "cross_entropy") and len(e.inputs) > 1 else None
    if not isinstance(target, TENSORS) or not target._kind.dtype.name.startswith(("float", "bfloat")):
        return None
    return tensor_stats.totals(target._a, False) if target._a.ndim == 2 else None
