"""Metrics that are fed batch by batch: ``update(preds, target)``, ``compute()``, ``reset()``, ``merge(others)``.

One design for all. Classification metrics are told their task first: ``"binary"`` (scores or labels of the targets'
shape), ``"multiclass"`` with `num_classes` (labels, or scores ``(N, C, ...)``) or ``"multilabel"`` with `num_labels`
(``(N, L, ...)``). Values equal scikit-learn's with ``labels=range(num_classes)``. States are counts and sums on the
data's device, of a size that does not grow, apart from `AUROC` and `AveragePrecision`, which are exact and keep the
scores. No gradient is kept. ``metric(preds, target)`` adds a batch and gives that batch's own value; `functional` has
the metrics as functions of one batch.

>>> import core
>>> metric = core.metrics.F1("multiclass", num_classes=3, average="macro")
>>> for _ in range(3):
...     _ = metric.update(core.tensor([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1]]), core.tensor([1, 2]))
>>> metric.compute()
tensor(0.3333, dtype=core.float64)
"""

from __future__ import annotations

from . import functional
from .classification import F1, Accuracy, ConfusionMatrix, FBeta, Precision, Recall
from .metric import Metric
from .ranking import AUROC, AveragePrecision, precision_recall_curve, roc_curve
from .regression import Mean, MeanAbsoluteError, MeanSquaredError, Perplexity, R2Score

__all__ = [
    "AUROC", "F1", "Accuracy", "AveragePrecision", "ConfusionMatrix", "FBeta", "Mean", "MeanAbsoluteError",
    "MeanSquaredError", "Metric", "Perplexity", "Precision", "R2Score", "Recall", "functional",
    "precision_recall_curve", "roc_curve",
]  # fmt: skip
