"""The metrics of one batch as functions: ``accuracy(preds, target, "multiclass", num_classes=10)``."""

from __future__ import annotations

from typing import Any

from ..tensors.tensor import Tensor
from . import classification as _c
from . import ranking as _r
from . import regression as _n
from .ranking import precision_recall_curve, roc_curve


def accuracy(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the share of right answers; settings as `Accuracy`'s.

    >>> import core
    >>> core.metrics.functional.accuracy(core.tensor([0, 2, 1]), core.tensor([0, 1, 1]), "multiclass", num_classes=3)
    tensor(0.6667, dtype=core.float64)
    """
    return _c.Accuracy(task, **settings).update(preds, target).compute()


def precision(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the share of what was said to be of a class that is of it; settings as `Precision`'s."""
    return _c.Precision(task, **settings).update(preds, target).compute()


def recall(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the share of a class's members that were found; settings as `Recall`'s."""
    return _c.Recall(task, **settings).update(preds, target).compute()


def fbeta(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the weighted harmonic mean of precision and recall; settings as `FBeta`'s."""
    return _c.FBeta(task, **settings).update(preds, target).compute()


def f1(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the harmonic mean of precision and recall; settings as `F1`'s."""
    return _c.F1(task, **settings).update(preds, target).compute()


def confusion_matrix(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """How often class i (row) was taken for class j (column); settings as `ConfusionMatrix`'s."""
    return _c.ConfusionMatrix(task, **settings).update(preds, target).compute()


def auroc(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the area under the ROC curve; settings as `AUROC`'s."""
    return _r.AUROC(task, **settings).update(preds, target).compute()


def average_precision(preds: Tensor, target: Tensor, task: str, **settings: Any) -> Tensor:
    """Return the area under the precision-recall curve; settings as `AveragePrecision`'s."""
    return _r.AveragePrecision(task, **settings).update(preds, target).compute()


def mean_squared_error(preds: Tensor, target: Tensor, squared: bool = True) -> Tensor:
    """Return the mean of ``(preds - target)²``, or its root."""
    return _n.MeanSquaredError(squared).update(preds, target).compute()


def mean_absolute_error(preds: Tensor, target: Tensor) -> Tensor:
    """Return the mean of ``|preds - target|``."""
    return _n.MeanAbsoluteError().update(preds, target).compute()


def r2_score(preds: Tensor, target: Tensor, multioutput: str = "uniform_average") -> Tensor:
    """Return the share of the target's variance that is explained."""
    return _n.R2Score(multioutput).update(preds, target).compute()


def perplexity(preds: Tensor, target: Tensor, ignore_index: int | None = None) -> Tensor:
    """``exp`` of the mean negative log-likelihood of the tokens."""
    return _n.Perplexity(ignore_index).update(preds, target).compute()


__all__ = [
    "accuracy", "auroc", "average_precision", "confusion_matrix", "f1", "fbeta", "mean_absolute_error",
    "mean_squared_error", "perplexity", "precision", "precision_recall_curve", "r2_score", "recall", "roc_curve",
]  # fmt: skip
