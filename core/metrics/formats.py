"""What classification metrics take: scores or labels of three tasks, checked and brought to one form."""

from __future__ import annotations

from typing import Any

from ..ops.creation import ones_like
from ..ops.where import where
from ..tensors.tensor import Tensor

TASKS = ("binary", "multiclass", "multilabel")


def check_task(name: str, task: str, num_classes: int | None, num_labels: int | None) -> int:
    """Return how many classes (labels) a metric of this task counts; ValueError where that was not said."""
    if task not in TASKS:
        raise ValueError(f"{name}: task must be one of {', '.join(map(repr, TASKS))}, got {task!r}")
    if task == "binary":
        return 2
    n, needed = (num_classes, "num_classes") if task == "multiclass" else (num_labels, "num_labels")
    if not isinstance(n, int) or isinstance(n, bool) or n < (2 if task == "multiclass" else 1):
        raise ValueError(f"{name}: task={task!r} needs {needed}, got {n!r}\n  remedy: {name}({task!r}, {needed}=10)")
    return n


def check_tensors(name: str, preds: Any, target: Any) -> None:
    """TypeError for what is no tensor, ValueError for an empty one or targets that are no whole numbers."""
    for what, t in (("preds", preds), ("target", target)):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}: {what} must be a Tensor, not {type(t).__name__}")
        if not t.numel():
            raise ValueError(f"{name}: {what} is empty (shape {tuple(t.shape)}); a batch has at least one element")
    if target.is_floating_point() or target.dtype.category == 3:
        raise ValueError(f"{name}: target holds classes, so it must be of an integer dtype or bool, got {target.dtype}")


def _refuse(name: str, preds: Tensor, target: Tensor, needed: str) -> ValueError:
    return ValueError(f"{name}: the shapes do not fit: preds {tuple(preds.shape)}, target {tuple(target.shape)}\n"
                      f"  needed: {needed}")  # fmt: skip


def check_range(name: str, what: str, labels: Tensor, n: int) -> None:
    """ValueError for a label outside 0..n-1."""
    low, high = int(labels.min().item()), int(labels.max().item())  # type: ignore[attr-defined]
    if low < 0 or high >= n:
        raise ValueError(f"{name}: {what} holds {low if low < 0 else high}, outside the classes 0 to {n - 1}\n"
                         "  remedy: num_classes, or ignore_index for a label that stands for nothing")  # fmt: skip


def kept(target: Tensor, ignore_index: int | None) -> Tensor | None:
    """Return which places count: those whose target is not `ignore_index`; None where all do."""
    return None if ignore_index is None else target != ignore_index  # type: ignore[return-value]


def rows_of_scores(name: str, preds: Tensor, target: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Scores ``(m, n)`` and targets ``(m,)`` of ``(N, n, ...)`` and ``(N, ...)``."""
    if preds.ndim != target.ndim + 1 or preds.shape[1] != n or preds.shape[:1] + preds.shape[2:] != target.shape:
        raise _refuse(name, preds, target, f"scores (N, {n}, ...) and target (N, ...)")
    return preds.movedim(1, -1).reshape(-1, n), target.reshape(-1)  # type: ignore[attr-defined]


def multiclass(name: str, preds: Tensor, target: Tensor, n: int, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Labels ``(m,)`` said and true, from labels or from scores ``(N, n, ...)``, what is ignored left out."""
    check_tensors(name, preds, target)
    if preds.is_floating_point():
        preds, target = rows_of_scores(name, preds, target, n)
        preds = preds.argmax(1)  # type: ignore[attr-defined]
    elif preds.shape != target.shape:
        raise _refuse(name, preds, target, f"labels of the target's shape, or scores (N, {n}, ...) in floats")
    preds, target = preds.reshape(-1).long(), target.reshape(-1).long()  # type: ignore[attr-defined]
    keep = kept(target, ignore_index)
    if keep is not None:
        preds, target = preds[keep], target[keep]
    if target.numel():
        check_range(name, "target", target, n)
        check_range(name, "preds", preds, n)
    return preds, target


def binary(name: str, preds: Tensor, target: Tensor, threshold: float,
           ignore_index: int | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """0 or 1 said and true, ``(m,)``; scores are 1 above the threshold."""
    check_tensors(name, preds, target)
    if preds.shape != target.shape:
        raise _refuse(name, preds, target, "one score or label for each target")
    preds = decided(name, preds, threshold).reshape(-1)  # type: ignore[attr-defined]
    target = target.reshape(-1).long()  # type: ignore[attr-defined]
    keep = kept(target, ignore_index)
    if keep is not None:
        preds, target = preds[keep], target[keep]
    if target.numel():
        check_range(name, "target", target, 2)
    return preds, target


def decided(name: str, preds: Tensor, threshold: float) -> Tensor:
    """0 or 1 of scores or of labels."""
    if preds.is_floating_point():
        return (preds > threshold).long()  # type: ignore[attr-defined, no-any-return]
    preds = preds.long()  # type: ignore[attr-defined]
    check_range(name, "preds", preds, 2)
    return preds


def multilabel(name: str, preds: Tensor, target: Tensor, n: int, threshold: float,
               ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """0 or 1 said and true, ``(m, n)``, and which places count."""
    check_tensors(name, preds, target)
    if preds.shape != target.shape or preds.ndim < 2 or preds.shape[1] != n:
        raise _refuse(name, preds, target, f"both (N, {n}, ...)")
    preds = decided(name, preds, threshold).movedim(1, -1).reshape(-1, n)  # type: ignore[attr-defined]
    target = target.long().movedim(1, -1).reshape(-1, n)  # type: ignore[attr-defined]
    keep = kept(target, ignore_index)
    keep = ones_like(target) == 1 if keep is None else keep
    held = target[keep]
    if held.numel():
        check_range(name, "target", held, 2)
    return preds, where(keep, target, 0), keep  # type: ignore[return-value]
