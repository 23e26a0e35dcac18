"""Metrics of numbers: squared and absolute error, the share of variance explained, means, perplexity."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import float64, int64
from ..ops.creation import full, tensor
from ..ops.loss import cross_entropy
from ..ops.where import where
from ..tensors.tensor import Tensor
from .formats import check_range
from .metric import Metric


def _pair(name: str, preds: Any, target: Any) -> tuple[Tensor, Tensor]:
    for what, t in (("preds", preds), ("target", target)):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}: {what} must be a Tensor, not {type(t).__name__}")
    if preds.shape != target.shape:
        raise ValueError(f"{name}: the shapes do not fit: preds {tuple(preds.shape)}, target {tuple(target.shape)}; "
                         "nothing broadcasts")  # fmt: skip
    if not preds.numel():
        raise ValueError(f"{name}: preds is empty (shape {tuple(preds.shape)}); a batch has at least one element")
    return preds.to(float64), target.to(float64)  # type: ignore[attr-defined]


class MeanSquaredError(Metric):
    """The mean of ``(preds - target)²`` over all elements; its root with ``squared=False``.

    >>> import core
    >>> core.metrics.MeanSquaredError().update(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0])).compute()
    tensor(2., dtype=core.float64)
    """

    sums = {"total": float64, "count": int64}  # noqa: RUF012

    def __init__(self, squared: bool = True) -> None:
        self.squared = squared
        super().__init__()

    def _add(self, preds: Tensor, target: Tensor) -> None:
        p, t = _pair(type(self).__name__, preds, target)
        self._sum("total", ((p - t) * (p - t)).sum())
        self._sum("count", tensor(p.numel(), device=p.device))

    def _value(self) -> Tensor:
        mean = self._get("total") / self._get("count")
        return mean if self.squared else mean.sqrt()  # type: ignore[attr-defined, no-any-return]


class MeanAbsoluteError(Metric):
    """The mean of ``|preds - target|`` over all elements.

    >>> import core
    >>> core.metrics.MeanAbsoluteError().update(core.tensor([1.0, 2.0]), core.tensor([1.0, 4.0])).compute()
    tensor(1., dtype=core.float64)
    """

    sums = {"total": float64, "count": int64}  # noqa: RUF012

    def _add(self, preds: Tensor, target: Tensor) -> None:
        p, t = _pair("MeanAbsoluteError", preds, target)
        self._sum("total", (p - t).abs().sum())  # type: ignore[attr-defined]
        self._sum("count", tensor(p.numel(), device=p.device))

    def _value(self) -> Tensor:
        return self._get("total") / self._get("count")  # type: ignore[no-any-return]


class R2Score(Metric):
    """The share of the target's variance that is explained, ``1 - Σ (y - ŷ)² / Σ (y - ȳ)²``.

    A target that does not vary gives 1 where it is met exactly, else 0.

    multioutput : of ``(N, K)`` targets "uniform_average", "variance_weighted" or "raw_values".

    The mean and the variance are kept and joined as they come, so that a large offset costs no digits.
    Source: Chan, Golub and LeVeque (1979). *Raises*: RuntimeError for fewer than two rows.

    >>> import core
    >>> core.metrics.R2Score().update(core.tensor([2.5, 0.0, 2.0, 8.0]), core.tensor([3.0, -0.5, 2.0, 7.0])).compute()
    tensor(0.9486, dtype=core.float64)
    """

    sums = {"count": float64, "mean": float64, "squares": float64, "residual": float64}  # noqa: RUF012

    def __init__(self, multioutput: str = "uniform_average") -> None:
        known = ("uniform_average", "variance_weighted", "raw_values")
        if multioutput not in known:
            raise ValueError(f"R2Score: multioutput must be one of {', '.join(map(repr, known))}, got {multioutput!r}")
        self.multioutput = multioutput
        super().__init__()

    def _add(self, preds: Tensor, target: Tensor) -> None:
        p, t = _pair("R2Score", preds, target)
        if p.ndim > 2:
            raise ValueError(f"R2Score: preds and target are (N,) or (N, K), got {tuple(p.shape)}")
        p, t = p.reshape(p.shape[0], -1), t.reshape(t.shape[0], -1)
        mean = t.mean(0)  # type: ignore[attr-defined]
        count = full((), float(t.shape[0]), dtype=float64, device=t.device)
        self._take(count, mean, ((t - mean) * (t - mean)).sum(0), ((p - t) * (p - t)).sum(0))

    def _take(self, count: Tensor, mean: Tensor, squares: Tensor, residual: Tensor) -> None:
        if self._state["count"] is None:
            self._state |= {"count": count, "mean": mean, "squares": squares, "residual": residual}
            return
        n, m = self._get("count").to(count.device), self._get("mean").to(count.device)  # type: ignore[attr-defined]
        off, total = mean - m, n + count
        self._sum("squares", squares + off * off * (n * count / total))
        self._sum("residual", residual)
        self._state |= {"count": total, "mean": m + off * (count / total)}

    def _join(self, other: Metric) -> None:
        self._take(*[other._state[k] for k in self.sums])

    def _value(self) -> Tensor:
        if float(self._get("count").item()) < 2:
            raise RuntimeError("R2Score.compute(): one row has no variance; it needs at least two")
        squares, residual = self._get("squares"), self._get("residual")
        none = squares == 0
        score = where(none, where(residual == 0, 1.0, 0.0).to(float64), 1 - residual / where(none, 1.0, squares))
        if self.multioutput == "raw_values":
            return score  # type: ignore[no-any-return]
        if self.multioutput == "variance_weighted" and float(squares.sum().item()):  # type: ignore[attr-defined]
            return (score * squares).sum() / squares.sum()  # type: ignore[attr-defined, no-any-return]
        return score.mean()  # type: ignore[no-any-return]


class Mean(Metric):
    """The mean of what it is given, weighted if wanted: a running loss, say.

    >>> import core
    >>> loss = core.metrics.Mean()
    >>> for value, size in ((2.0, 3), (4.0, 1)):
    ...     _ = loss.update(value, weight=size)
    >>> loss.compute()
    tensor(2.5000, dtype=core.float64)
    """

    sums = {"total": float64, "weight": float64}  # noqa: RUF012

    def _add(self, value: Any, weight: Any = 1.0) -> None:
        v = value.to(float64) if isinstance(value, Tensor) else tensor(float(value), dtype=float64)  # type: ignore[attr-defined]
        if not v.numel():
            raise ValueError(f"Mean: the value is empty (shape {tuple(v.shape)})")
        w = weight.to(float64) if isinstance(weight, Tensor) else tensor(float(weight), dtype=float64, device=v.device)  # type: ignore[attr-defined]
        self._sum("total", (v * w).sum())
        self._sum("weight", w.expand(v.shape).sum())

    def _value(self) -> Tensor:
        if not float(self._get("weight").item()):
            raise RuntimeError("Mean.compute(): the weights sum to 0")
        return self._get("total") / self._get("weight")  # type: ignore[no-any-return]


class Perplexity(Metric):
    """``exp`` of the mean negative log-likelihood of the tokens.

    ignore_index : targets of this value do not count.

    *Shapes*: preds, logits ``(..., V)``; target ``(...)``.

    >>> import core
    >>> core.metrics.Perplexity().update(core.zeros(2, 3, 8), core.zeros(2, 3, dtype=core.int64)).compute()
    tensor(8.0000, dtype=core.float64)
    """

    sums = {"total": float64, "count": int64}  # noqa: RUF012

    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignore_index
        super().__init__()

    def _add(self, preds: Tensor, target: Tensor) -> None:
        for what, t in (("preds", preds), ("target", target)):
            if not isinstance(t, Tensor):
                raise TypeError(f"Perplexity: {what} must be a Tensor, not {type(t).__name__}")
        if preds.ndim != target.ndim + 1 or preds.shape[:-1] != target.shape or not preds.is_floating_point():
            raise ValueError(f"Perplexity: the shapes do not fit: preds {tuple(preds.shape)} of {preds.dtype}, target "
                             f"{tuple(target.shape)}\n  needed: logits (..., V) and target (...)")  # fmt: skip
        if not target.numel():
            raise ValueError(f"Perplexity: target is empty (shape {tuple(target.shape)})")
        rows, labels = preds.reshape(-1, preds.shape[-1]), target.reshape(-1).long()  # type: ignore[attr-defined]
        if self.ignore_index is not None:
            keep = labels != self.ignore_index
            rows, labels = rows[keep], labels[keep]
        if labels.numel():
            check_range("Perplexity", "target", labels, rows.shape[1])
            rows = rows if rows.dtype.itemsize > 2 else rows.float()  # type: ignore[attr-defined]
            self._sum("total", cross_entropy(rows, labels, reduction="none", ignore_index=-1).to(float64).sum())
        else:
            self._sum("total", tensor(0.0, device=rows.device))
        self._sum("count", tensor(labels.numel(), device=rows.device))

    def _value(self) -> Tensor:
        if not int(self._get("count").item()):
            raise RuntimeError(f"Perplexity.compute(): every target so far was ignore_index ({self.ignore_index})")
        return (self._get("total") / self._get("count")).exp()  # type: ignore[no-any-return]
