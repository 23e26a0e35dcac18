"""What a variant's outputs are worth: a measure on the user's targets, and how far they are from those in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LOWER = ("loss", "error", "mse", "mae", "entropy", "nll", "perplexity", "distance")
"""Words in the name of a measure of which less is better."""
KNOWN = ("accuracy", "mse", "mae")


@dataclass
class Measure:
    """A function of outputs and targets as arrays, its name, and whether more of it is better."""

    name: str
    of: Callable[[Any, Any], float]
    higher: bool
    tensors: bool = False
    """Whether the function takes tensors: the user's own."""


def measure_of(metric: Any, output: Any, target: Any) -> Measure:
    """Return the measure that is asked for; without a name the one that the targets' kind tells.

    *Raises*: ValueError where there is no such measure, or none goes with these outputs.

    >>> measure_of(None, np.zeros((4, 10), np.float32), np.zeros(4, int)).name
    'accuracy'
    """
    if callable(metric):
        name = getattr(metric, "__name__", type(metric).__name__)
        return Measure(name if name != "<lambda>" else "metric", metric,
                       not any(word in name.lower() for word in LOWER), True)  # fmt: skip
    if metric is None:
        if target.dtype.kind in "iub" and output.ndim == target.ndim + 1:
            metric = "accuracy"
        elif output.shape == target.shape and target.dtype.kind == "f":
            metric = "mse"
        else:
            raise ValueError(f"shrink: no measure is known for outputs of {output.shape} and targets of "
                             f"{target.dtype.name} {target.shape}; needed: --metric FUNCTION of both")  # fmt: skip
    if metric not in KNOWN:
        raise ValueError(f"shrink: --metric {metric!r:.40} is not known; needed: one of {', '.join(KNOWN)}, or a "
                         "function of outputs and targets")  # fmt: skip
    return {"accuracy": Measure("accuracy", _accuracy, True), "mse": Measure("mse", _mse, False),
            "mae": Measure("mae", _mae, False)}[metric]  # fmt: skip


def _accuracy(output: Any, target: Any) -> float:
    """Classes stand along the last axis where all before it are the target's, else along the second."""
    last = output.shape[:-1] == target.shape
    return float((output.argmax(-1 if last else 1) == target).mean())


def _mse(output: Any, target: Any) -> float:
    return float(np.square(output.astype(np.float64) - target).mean())


def _mae(output: Any, target: Any) -> float:
    return float(np.abs(output.astype(np.float64) - target).mean())


def first_tensor(output: Any, library: Any) -> Any:
    """Return the first tensor of what a model gives."""
    if isinstance(output, library.Tensor):
        return output
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else ()
    found = next((t for t in (first_tensor(part, library) for part in parts) if t is not None), None)
    if found is None and not isinstance(output, dict | tuple | list):
        return getattr(output, "logits", None)
    return found


def array_of(t: Any) -> Any:
    """Return a tensor as an array, floats in float32 at least."""
    t = t.detach()
    return (t.float() if t.is_floating_point() else t).cpu().numpy()


def apart(found: list[Any], wanted: list[Any]) -> float:
    """Return the relative difference of outputs, all batches together. Another shape or NaN differs infinitely.

    >>> apart([np.array([3.0, 4.5])], [np.array([3.0, 4.0])])
    0.1
    """
    if any(a.shape != b.shape for a, b in zip(found, wanted, strict=True)):
        return math.inf
    off = sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in zip(found, wanted, strict=True))
    size = sum(float(np.square(b.astype(np.float64)).sum()) for b in wanted)
    return math.inf if math.isnan(off) else math.sqrt(off / size) if size else (0.0 if not off else math.inf)


def score(measure: Measure, outputs: list[Any], batches: list[Any], library: Any) -> float:
    """Return the measure over all batches, each by its number of items."""
    total = count = 0.0
    for output, (_, target) in zip(outputs, batches, strict=True):
        given = (library.as_tensor(output), target) if measure.tensors else (output, array_of(target))
        total += float(measure.of(*given)) * len(output)
        count += len(output)
    return total / count
