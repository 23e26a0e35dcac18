"""Metrics of how scores rank the targets: ROC and precision-recall curves and the areas under them, exactly.

They keep all scores they were given (12 bytes an element of float32 scores and a class each): an exact area needs every
one. `reset` lets them go.
"""

from __future__ import annotations

import math
from typing import Any

from ..base.dtypes import float64
from ..ops.creation import tensor, zeros
from ..ops.joining import cat, flip, stack
from ..ops.ordering import sort
from ..tensors.tensor import Tensor
from . import formats
from .classification import averaged
from .metric import Metric, ratio


def _steps(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many true and false ones lie at or above each score, for the distinct scores from the highest down."""
    ordered, order = sort(scores, descending=True, stable=True)
    hits = (target[order] == 1).to(float64)  # type: ignore[attr-defined]
    tp = hits.cumsum(0)
    fp = (1 - hits).cumsum(0)
    last = cat([ordered[1:] != ordered[:-1], tensor([True], device=scores.device)])  # of those that are equal
    return tp[last], fp[last], ordered[last]


def _area(scores: Tensor, target: Tensor) -> Tensor:
    """Return the area under the ROC curve; NaN where a class is missing. Ties count half."""
    tp, fp, _ = _steps(scores, target)
    start = zeros(1, dtype=float64, device=scores.device)
    widths, heights = cat([start, fp]), cat([start, tp])
    area = ((widths[1:] - widths[:-1]) * (heights[1:] + heights[:-1])).sum() / 2  # type: ignore[attr-defined]
    return ratio(area, tp[-1] * fp[-1], math.nan)


def _average_precision(scores: Tensor, target: Tensor) -> Tensor:
    """Σ (recall step) · precision; NaN without a true one."""
    tp, fp, _ = _steps(scores, target)
    before = cat([zeros(1, dtype=float64, device=scores.device), tp[:-1]])
    return ratio(((tp - before) * tp / (tp + fp)).sum(), tp[-1], math.nan)


def _check_curve(name: str, preds: Any, target: Any) -> tuple[Tensor, Tensor]:
    formats.check_tensors(name, preds, target)
    if preds.shape != target.shape:
        raise ValueError(f"{name}: the shapes do not fit: preds {tuple(preds.shape)}, target {tuple(target.shape)}")
    formats.check_range(name, "target", target.long(), 2)
    if not preds.is_floating_point():
        preds = preds.to(float64)
    if bool(preds.isnan().any()):
        raise ValueError(f"{name}: preds holds NaN, which has no place in an order")
    return preds.detach().reshape(-1), target.reshape(-1)


def roc_curve(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """False and true positive rates at each threshold, from above the highest score down.

    *Raises*: ValueError where one of the two classes is missing.

    >>> import core
    >>> fpr, tpr, thresholds = core.metrics.roc_curve(core.tensor([0.1, 0.8, 0.4]), core.tensor([0, 1, 1]))
    >>> fpr, tpr
    (tensor([0., 0., 0., 1.], dtype=core.float64), tensor([0.0000, 0.5000, 1.0000, 1.0000], dtype=core.float64))
    """
    preds, target = _check_curve("roc_curve", preds, target)
    tp, fp, thresholds = _steps(preds, target)
    if not float(tp[-1].item()) or not float(fp[-1].item()):
        raise ValueError("roc_curve: target holds one class alone; a rate needs both 0 and 1")
    start = zeros(1, dtype=float64, device=preds.device)
    above = tensor([math.inf], dtype=thresholds.dtype, device=preds.device)
    return cat([start, fp / fp[-1]]), cat([start, tp / tp[-1]]), cat([above, thresholds])


def precision_recall_curve(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Precision and recall at each threshold from the lowest score up, and at the end 1 and 0.

    *Raises*: ValueError without a target of 1.

    >>> import core
    >>> precision, recall, thresholds = core.metrics.precision_recall_curve(
    ...     core.tensor([0.1, 0.8, 0.4]), core.tensor([1, 1, 0]))
    >>> recall
    tensor([1.0000, 0.5000, 0.5000, 0.0000], dtype=core.float64)
    """
    preds, target = _check_curve("precision_recall_curve", preds, target)
    tp, fp, thresholds = _steps(preds, target)
    if not float(tp[-1].item()):
        raise ValueError("precision_recall_curve: target holds no 1, so that recall is not defined")
    one = tensor([1.0], dtype=float64, device=preds.device)
    return cat([flip(tp / (tp + fp), 0), one]), cat([flip(tp / tp[-1], 0), one - one]), flip(thresholds, 0)


class _Ranking(Metric):
    """Keeps the scores and targets; a subclass says what a binary problem's number is."""

    kept = ("scores", "targets")

    def __init__(self, task: str, num_classes: int | None = None, num_labels: int | None = None,
                 average: str | None = "macro", ignore_index: int | None = None) -> None:  # fmt: skip
        name = type(self).__name__
        average = "none" if average is None else average
        known = ("micro", "macro", "weighted", "none") if task == "multilabel" else ("macro", "weighted", "none")
        if average not in known:
            raise ValueError(f"{name}: average must be one of {', '.join(map(repr, known))}, got {average!r}")
        formats.check_task(name, task, num_classes, num_labels)
        self.task, self.num_classes, self.num_labels = task, num_classes, num_labels
        self.average, self.ignore_index = average, ignore_index
        super().__init__()

    def _add(self, preds: Tensor, target: Tensor) -> None:
        name, n = type(self).__name__, self.num_classes or self.num_labels or 0
        formats.check_tensors(name, preds, target)
        if not preds.is_floating_point():
            raise ValueError(
                f"{name}: preds must be scores in a floating dtype, got {preds.dtype}; labels have no order"
            )
        if bool(preds.isnan().any()):  # type: ignore[attr-defined]
            raise ValueError(f"{name}: preds holds NaN, which has no place in an order")
        if self.task == "multiclass":
            preds, target = formats.rows_of_scores(name, preds, target, n)
        elif preds.shape != target.shape or (self.task == "multilabel" and (preds.ndim < 2 or preds.shape[1] != n)):
            raise ValueError(f"{name}: the shapes do not fit: preds {tuple(preds.shape)}, target {tuple(target.shape)}")
        elif self.task == "binary":
            preds, target = preds.reshape(-1), target.reshape(-1)
        else:
            preds, target = (t.movedim(1, -1).reshape(-1, n) for t in (preds, target))  # type: ignore[attr-defined]
        target = target.long()  # type: ignore[attr-defined]
        keep = formats.kept(target, self.ignore_index)
        if keep is not None and self.task != "multilabel":
            preds, target = preds[keep], target[keep]
        held = target if keep is None or self.task != "multilabel" else target[keep]
        if held.numel():
            formats.check_range(name, "target", held, n if self.task == "multiclass" else 2)
        self._state["scores"].append(preds.clone())  # type: ignore[attr-defined]
        self._state["targets"].append(target.clone())  # type: ignore[attr-defined]

    def _number(self, scores: Tensor, target: Tensor) -> Tensor:
        raise NotImplementedError

    def _columns(self, scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Each class's number (one against the rest), and how many it has."""
        n = scores.shape[1]
        numbers, support = [], []
        for k in range(n):
            s, t = scores[:, k], (target[:, k] if self.task == "multilabel" else (target == k).long())  # type: ignore[attr-defined]
            keep = formats.kept(t, self.ignore_index) if self.task == "multilabel" else None
            s, t = (s, t) if keep is None else (s[keep], t[keep])
            numbers.append(self._number(s, t) if t.numel() else tensor(math.nan, dtype=float64, device=s.device))
            support.append((t == 1).sum())  # type: ignore[attr-defined]
        return stack(numbers), stack(support)

    def _value(self) -> Tensor:
        name = type(self).__name__
        scores, target = self._whole("scores"), self._whole("targets")
        if not target.numel():
            raise RuntimeError(f"{name}.compute(): every target so far was ignore_index ({self.ignore_index})")
        if self.task == "binary" or self.average == "micro":
            scores, target = scores.reshape(-1), target.reshape(-1)
            keep = formats.kept(target, self.ignore_index)
            scores, target = (scores, target) if keep is None else (scores[keep], target[keep])
            value = self._number(scores, target)
            if math.isnan(float(value.item())):
                raise ValueError(f"{name}: {self._missing}, so that it is not defined")
            return value
        return self._of_columns(scores, target)

    _missing = "target holds no 1"

    def _of_columns(self, scores: Tensor, target: Tensor) -> Tensor:
        numbers, support = self._columns(scores, target)
        undefined = [k for k, v in enumerate(numbers.tolist()) if math.isnan(v)]
        if undefined and self.average != "none":
            raise ValueError(f"{type(self).__name__}: it is not defined for class {', '.join(map(str, undefined))}: "
                             f"{self._missing} there\n  remedy: average='none', which gives NaN for it")  # fmt: skip
        return averaged(numbers, support, self.average)


class AUROC(_Ranking):
    """The area under the ROC curve: the chance that a member of a class scores higher than another; ties count half.

    task : "binary", "multiclass" (with num_classes, scores ``(N, C, ...)``) or "multilabel" (with num_labels).
    average : "macro", "weighted" (by how often a class occurs), "none"; of labels also "micro".
    multi_class : "ovr" compares each class with the rest, "ovo" each pair of classes (probabilities that sum to 1).

    Exact, so all scores are kept. *Raises*: ValueError where a class that is needed is missing.
    Source of ovo: Hand and Till, Machine Learning 45 (2001).

    >>> import core
    >>> metric = core.metrics.AUROC("binary")
    >>> metric.update(core.tensor([0.1, 0.4, 0.35, 0.8]), core.tensor([0, 0, 1, 1])).compute()
    tensor(0.7500, dtype=core.float64)
    """

    _missing = "target holds one class alone"

    def __init__(self, task: str, num_classes: int | None = None, num_labels: int | None = None,
                 average: str | None = "macro", multi_class: str = "ovr",
                 ignore_index: int | None = None) -> None:  # fmt: skip
        if multi_class not in ("ovr", "ovo") or (
            multi_class == "ovo" and (task != "multiclass" or average in (None, "none"))
        ):
            raise ValueError(f"AUROC: multi_class must be 'ovr', or 'ovo' for multiclass with an average; got "
                             f"{multi_class!r} with task={task!r}, average={average!r}")  # fmt: skip
        self.multi_class = multi_class
        super().__init__(task, num_classes, num_labels, average, ignore_index)

    def _number(self, scores: Tensor, target: Tensor) -> Tensor:
        return _area(scores, target)

    def _of_columns(self, scores: Tensor, target: Tensor) -> Tensor:
        if self.multi_class == "ovr":
            return super()._of_columns(scores, target)
        n, numbers, support = scores.shape[1], [], []
        absent = [k for k in range(n) if not bool((target == k).any())]  # type: ignore[attr-defined]
        if absent:
            raise ValueError(
                f"AUROC: class {', '.join(map(str, absent))} does not occur in target; 'ovo' compares all pairs"
            )
        for a in range(n):
            for b in range(a + 1, n):
                either = (target == a) | (target == b)
                s, t = scores[either], target[either]
                one, other = _area(s[:, a], (t == a).long()), _area(s[:, b], (t == b).long())  # type: ignore[attr-defined]
                numbers.append((one + other) / 2)
                support.append(either.sum())
        return averaged(stack(numbers), stack(support), self.average)


class AveragePrecision(_Ranking):
    """The area under the precision-recall curve as a sum of steps, ``Σ (Rₙ - Rₙ₋₁) Pₙ``; settings as `AUROC`'s.

    Exact, so all scores are kept. *Raises*: ValueError where a class has no member.

    >>> import core
    >>> metric = core.metrics.AveragePrecision("binary")
    >>> metric.update(core.tensor([0.1, 0.4, 0.35, 0.8]), core.tensor([0, 0, 1, 1])).compute()
    tensor(0.8333, dtype=core.float64)
    """

    def _number(self, scores: Tensor, target: Tensor) -> Tensor:
        return _average_precision(scores, target)
