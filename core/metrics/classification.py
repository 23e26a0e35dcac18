"""Metrics that follow from counts of hits and misses: accuracy, precision, recall, F, the confusion matrix."""

from __future__ import annotations

import math
from typing import Any

from ..base.dtypes import float64, int64
from ..ops.counting import bincount
from ..ops.elementwise import isnan
from ..ops.joining import stack
from ..ops.where import where
from ..tensors.tensor import Tensor
from . import formats
from .metric import Metric, ratio

AVERAGES = ("micro", "macro", "weighted", "none")


def averaged(values: Tensor, support: Tensor, average: str) -> Tensor:
    """One number of the classes' numbers; those that are NaN do not count."""
    if average == "none":
        return values
    there = (~isnan(values)).to(float64)  # type: ignore[attr-defined]
    weights = there * support.to(float64) if average == "weighted" else there  # type: ignore[attr-defined]
    if not float(weights.sum().item()):  # type: ignore[attr-defined]
        weights = there
    return (where(isnan(values), 0.0, values) * weights).sum() / weights.sum()  # type: ignore[no-any-return]


class _Counts(Metric):
    """For each class how often it was said rightly, said wrongly, missed, and rightly not said."""

    sums = {"tp": int64, "fp": int64, "fn": int64, "tn": int64}  # noqa: RUF012

    def __init__(self, task: str, num_classes: int | None, num_labels: int | None, average: str | None,
                 threshold: float, ignore_index: int | None, averages: tuple[str, ...] = AVERAGES) -> None:  # fmt: skip
        name = type(self).__name__
        average = "none" if average is None else average
        if average not in averages:
            raise ValueError(f"{name}: average must be one of {', '.join(map(repr, averages))}, got {average!r}")
        self.task, self.num_classes, self.num_labels = task, num_classes, num_labels
        self.average, self.threshold, self.ignore_index = average, threshold, ignore_index
        formats.check_task(name, task, num_classes, num_labels)
        super().__init__()

    def _labels(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        name = type(self).__name__
        if self.task == "binary":
            return formats.binary(name, preds, target, self.threshold, self.ignore_index)
        assert self.num_classes is not None
        return formats.multiclass(name, preds, target, self.num_classes, self.ignore_index)

    def _add(self, preds: Tensor, target: Tensor) -> None:
        if self.task == "multilabel":
            assert self.num_labels is not None
            said, true, keep = formats.multilabel(type(self).__name__, preds, target, self.num_labels, self.threshold,
                                                  self.ignore_index)  # fmt: skip
            self._add_labels(said, true, keep)
            return
        said, true = self._labels(preds, target)
        n = 2 if self.task == "binary" else self.num_classes or 0
        self._add_counts(bincount(true[said == true], minlength=n), bincount(said, minlength=n),
                         bincount(true, minlength=n), true.numel())  # fmt: skip

    def _add_counts(self, tp: Tensor, said: Tensor, true: Tensor, total: Tensor | int) -> None:
        fp, fn = said - tp, true - tp
        for name, value in (("tp", tp), ("fp", fp), ("fn", fn), ("tn", total - tp - fp - fn)):
            self._sum(name, value)

    def _add_labels(self, said: Tensor, true: Tensor, keep: Tensor) -> None:
        said = where(keep, said, 0)
        tp = (said * true).sum(0)  # type: ignore[attr-defined]
        self._add_counts(tp, said.sum(0), true.sum(0), keep.sum(0))  # type: ignore[attr-defined]

    def _counts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tp, fp, fn, tn = (self._get(name) for name in self.sums)
        if not int((tp + fp + fn + tn).sum().item()):  # type: ignore[attr-defined]
            raise RuntimeError(f"{type(self).__name__}.compute(): every target so far was ignore_index "
                               f"({self.ignore_index}), nothing is left to count")  # fmt: skip
        return tp, fp, fn, tn


class Accuracy(_Counts):
    """The share of right answers.

    task : "binary", "multiclass" (with num_classes) or "multilabel" (with num_labels).
    average : "micro" counts every answer alike. "macro" is the mean over classes of the share of their members that
        were found (balanced accuracy; classes that did not occur are left out), "weighted" weighs them by how often
        they occur, "none" gives each (NaN where it did not occur). Of labels "macro" is the mean over labels, and
        "subset" the share of rows in which all labels are right.
    top_k : of multiclass scores, right is a target among the k highest.
    threshold : scores above it are 1 (binary, multilabel): probabilities with 0.5, logits with 0.
    ignore_index : targets of this value do not count.

    *Shapes*: preds labels as the target's, or floating scores: ``(N, ...)`` binary, ``(N, C, ...)`` multiclass with
    target ``(N, ...)``, ``(N, L, ...)`` multilabel. *Raises*: ValueError for shapes or labels that do not fit.

    >>> import core
    >>> accuracy = core.metrics.Accuracy("multiclass", num_classes=3)
    >>> for _ in range(2):
    ...     _ = accuracy.update(core.tensor([0, 2, 1, 1]), core.tensor([0, 1, 1, 1]))
    >>> accuracy.compute()
    tensor(0.7500, dtype=core.float64)
    """

    sums = {**_Counts.sums, "exact": int64, "rows": int64}  # noqa: RUF012

    def __init__(self, task: str, num_classes: int | None = None, num_labels: int | None = None,
                 average: str | None = "micro", top_k: int = 1, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:  # fmt: skip
        if top_k < 1 or (top_k > 1 and (task != "multiclass" or top_k > (num_classes or 0))):
            raise ValueError(f"Accuracy: top_k must be 1, or with multiclass at most num_classes; got {top_k} with "
                             f"task={task!r}, num_classes={num_classes}")  # fmt: skip
        self.top_k = top_k
        averages = (*AVERAGES, "subset") if task == "multilabel" else AVERAGES
        super().__init__(task, num_classes, num_labels, average, threshold, ignore_index, averages)

    def _labels(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if self.top_k == 1:
            return super()._labels(preds, target)
        n = self.num_classes or 0
        formats.check_tensors("Accuracy", preds, target)
        if not preds.is_floating_point():
            raise ValueError(f"Accuracy: top_k={self.top_k} needs scores (N, {n}, ...) in floats, got labels")
        scores, true = formats.rows_of_scores("Accuracy", preds, target, n)
        keep = formats.kept(true, self.ignore_index)
        scores, true = (scores, true) if keep is None else (scores[keep], true[keep])
        if not true.numel():
            return true.long(), true.long()  # type: ignore[attr-defined]
        formats.check_range("Accuracy", "target", true, n)
        best = scores.topk(self.top_k, 1)[1]  # type: ignore[attr-defined]
        found = (best == true.reshape(-1, 1)).any(1)  # type: ignore[attr-defined]
        return where(found, true, best[:, 0]).long(), true.long()  # type: ignore[attr-defined]

    def _add_labels(self, said: Tensor, true: Tensor, keep: Tensor) -> None:
        super()._add_labels(said, true, keep)
        rows = keep.any(1)  # type: ignore[attr-defined]
        self._sum("exact", (((said == true) | ~keep).all(1) & rows).sum())  # type: ignore[attr-defined]
        self._sum("rows", rows.sum())  # type: ignore[attr-defined]

    def _counts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tp, fp, fn, tn = (self._get(name) for name in _Counts.sums)
        if not int((tp + fp + fn + tn).sum().item()):  # type: ignore[attr-defined]
            raise RuntimeError(f"Accuracy.compute(): every target so far was ignore_index ({self.ignore_index}), "
                               "nothing is left to count")  # fmt: skip
        return tp, fp, fn, tn

    def _join(self, other: Metric) -> None:
        for name in self.sums:
            if other._state[name] is not None:
                self._sum(name, other._state[name])

    def _value(self) -> Tensor:
        tp, fp, fn, tn = self._counts()
        if self.average == "subset":
            return ratio(self._get("exact"), self._get("rows"), math.nan)
        if self.task == "multilabel":
            right, all_of = tp + tn, tp + tn + fp + fn
            if self.average == "micro":
                return ratio(right.sum(), all_of.sum(), math.nan)  # type: ignore[attr-defined]
            return averaged(ratio(right, all_of, math.nan), tp + fn, self.average)
        if self.average in ("micro", "weighted") or self.task == "binary":
            return ratio(tp.sum(), (tp + fn).sum(), math.nan)  # type: ignore[attr-defined]
        return averaged(ratio(tp, tp + fn, math.nan), tp + fn, self.average)


class FBeta(_Counts):
    """The weighted harmonic mean of precision and recall, ``(1 + β²) tp / ((1 + β²) tp + β² fn + fp)``.

    task : "binary" (of class 1), "multiclass" (with num_classes) or "multilabel" (with num_labels).
    beta : how many times recall weighs more than precision.
    average : "micro" counts over all classes together, "macro" is the mean of all classes (also of those that did not
        occur: they have `zero_division`), "weighted" weighs them by how often they occur, "none" gives each.
    zero_division : the value where there is nothing to divide, 0, 1 or NaN; NaN does not count in an average.
    threshold, ignore_index : as in `Accuracy`.

    >>> import core
    >>> metric = core.metrics.FBeta("binary", beta=2.0)
    >>> metric.update(core.tensor([0.9, 0.8, 0.2]), core.tensor([1, 0, 1])).compute()
    tensor(0.5000, dtype=core.float64)
    """

    def __init__(self, task: str, beta: float = 1.0, num_classes: int | None = None, num_labels: int | None = None,
                 average: str | None = "macro", zero_division: float = 0.0, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:  # fmt: skip
        if not (zero_division in (0, 1) or math.isnan(zero_division)):
            raise ValueError(f"{type(self).__name__}: zero_division must be 0, 1 or nan, got {zero_division!r}")
        if not beta > 0:
            raise ValueError(f"{type(self).__name__}: beta must be positive, got {beta!r}")
        self.beta, self.zero_division = float(beta), "nan" if math.isnan(zero_division) else float(zero_division)
        super().__init__(task, num_classes, num_labels, average, threshold, ignore_index)

    def _fraction(self, tp: Tensor, fp: Tensor, fn: Tensor) -> tuple[Any, Any]:
        square = self.beta**2
        return (1 + square) * tp.to(float64), square * (tp + fn).to(float64) + (tp + fp).to(float64)  # type: ignore[attr-defined]

    def _value(self) -> Tensor:
        tp, fp, fn, _ = self._counts()
        otherwise = float(self.zero_division)
        if self.task == "binary":
            return ratio(*self._fraction(tp[1], fp[1], fn[1]), otherwise)
        if self.average == "micro":
            return ratio(*self._fraction(tp.sum(), fp.sum(), fn.sum()), otherwise)  # type: ignore[attr-defined]
        return averaged(ratio(*self._fraction(tp, fp, fn), otherwise), tp + fn, self.average)


class F1(FBeta):
    """The harmonic mean of precision and recall, ``2 tp / (2 tp + fn + fp)``; settings as `FBeta`'s.

    >>> import core
    >>> metric = core.metrics.F1("multiclass", num_classes=2)
    >>> metric.update(core.tensor([0, 1, 1]), core.tensor([0, 1, 0])).compute()
    tensor(0.6667, dtype=core.float64)
    """

    def __init__(self, task: str, num_classes: int | None = None, num_labels: int | None = None,
                 average: str | None = "macro", zero_division: float = 0.0, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:  # fmt: skip
        super().__init__(task, 1.0, num_classes, num_labels, average, zero_division, threshold, ignore_index)


class Precision(F1):
    """The share of what was said to be of a class that is of it, ``tp / (tp + fp)``; settings as `FBeta`'s.

    >>> import core
    >>> metric = core.metrics.Precision("binary")
    >>> metric.update(core.tensor([1, 1, 0]), core.tensor([1, 0, 1])).compute()
    tensor(0.5000, dtype=core.float64)
    """

    def _fraction(self, tp: Tensor, fp: Tensor, fn: Tensor) -> tuple[Any, Any]:
        return tp, tp + fp


class Recall(F1):
    """The share of a class's members that were found, ``tp / (tp + fn)``; settings as `FBeta`'s.

    >>> import core
    >>> metric = core.metrics.Recall("binary")
    >>> metric.update(core.tensor([1, 1, 0, 0]), core.tensor([1, 0, 1, 1])).compute()
    tensor(0.3333, dtype=core.float64)
    """

    def _fraction(self, tp: Tensor, fp: Tensor, fn: Tensor) -> tuple[Any, Any]:
        return tp, tp + fn


class ConfusionMatrix(_Counts):
    """How often class i (row) was taken for class j (column); of labels a 2 × 2 matrix each.

    normalize : None for counts, "true" for shares of each row, "pred" of each column, "all" of everything.

    *Shapes*: ``(C, C)``; multilabel ``(L, 2, 2)``.

    >>> import core
    >>> matrix = core.metrics.ConfusionMatrix("multiclass", num_classes=2)
    >>> matrix.update(core.tensor([0, 1, 1]), core.tensor([0, 1, 0])).compute()
    tensor([[1, 1],
            [0, 1]])
    """

    sums = {"matrix": int64}  # noqa: RUF012

    def __init__(self, task: str, num_classes: int | None = None, num_labels: int | None = None,
                 normalize: str | None = None, threshold: float = 0.5,
                 ignore_index: int | None = None) -> None:  # fmt: skip
        if normalize not in (None, "true", "pred", "all"):
            raise ValueError(f"ConfusionMatrix: normalize must be None, 'true', 'pred' or 'all', got {normalize!r}")
        self.normalize = normalize
        super().__init__(task, num_classes, num_labels, "none", threshold, ignore_index)

    def _add_labels(self, said: Tensor, true: Tensor, keep: Tensor) -> None:
        cells = [(keep & (true == t) & (said == s)).sum(0) for t in (0, 1) for s in (0, 1)]  # type: ignore[attr-defined]
        self._sum("matrix", stack(cells, 1).reshape(-1, 2, 2))

    def _add(self, preds: Tensor, target: Tensor) -> None:
        if self.task == "multilabel":
            super()._add(preds, target)
            return
        said, true = self._labels(preds, target)
        n = 2 if self.task == "binary" else self.num_classes or 0
        self._sum("matrix", bincount(true * n + said, minlength=n * n).reshape(n, n))

    def _value(self) -> Tensor:
        matrix = self._get("matrix")
        if self.normalize is None:
            return matrix
        dims = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[self.normalize]
        return ratio(matrix, matrix.sum(dims, keepdim=True), 0.0)  # type: ignore[attr-defined]
