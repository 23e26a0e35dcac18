"""Losses of margins between classes and of several labels a row, against sums written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (4, 5))
LABELS = np.array([0, 3, 4, 1])
SEVERAL = np.array([[3, 0, -1, 1, 1], [-1, 2, 2, 2, 2], [4, 1, 0, 2, 3], [2, -1, -1, -1, -1]])
WEIGHT = RNG.uniform(0.5, 2, 5)


def reduced(losses: Any, reduction: str) -> Any:
    return {"none": losses, "mean": np.mean(losses), "sum": np.sum(losses)}[reduction]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "margin"), [(1, 1.0), (2, 1.0), (1, 0.3), (2, 0.3)])
def test_multi_margin(p: int, margin: float, weighted: bool, reduction: str) -> None:
    weight = WEIGHT if weighted else np.ones(5)
    losses = np.array([
        sum(weight[y] * max(0.0, margin - x[y] + x[i]) ** p for i in range(5) if i != y) / 5
        for x, y in zip(X, LABELS, strict=True)
    ])  # fmt: skip
    given: Any = {"p": p, "margin": margin, "weight": core.tensor(WEIGHT) if weighted else None}
    x, y = core.tensor(X, requires_grad=True), core.tensor(LABELS)
    found = F.multi_margin_loss(x, y, reduction=reduction, **given)
    np.testing.assert_allclose(found.detach().numpy(), reduced(losses, reduction), rtol=1e-12)
    assert gradcheck(lambda x: F.multi_margin_loss(x, y, reduction=reduction, **given), (x,))
    one = F.multi_margin_loss(core.tensor(X[1]), core.tensor(LABELS[1]), reduction=reduction, **given)
    assert one.shape == ()
    np.testing.assert_allclose(one.item(), losses[1], rtol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_multilabel_margin(reduction: str) -> None:
    losses = []
    for x, row in zip(X, SEVERAL, strict=True):
        labels = row[: list(row).index(-1)] if -1 in row else row
        losses.append(sum(max(0.0, 1 - x[y] + x[i]) for y in labels for i in range(5) if i not in labels) / 5)
    x, y = core.tensor(X, requires_grad=True), core.tensor(SEVERAL)
    found = F.multilabel_margin_loss(x, y, reduction=reduction)
    np.testing.assert_allclose(found.detach().numpy(), reduced(losses, reduction), rtol=1e-12)
    assert gradcheck(lambda x: F.multilabel_margin_loss(x, y, reduction=reduction), (x,))
    one = F.multilabel_margin_loss(core.tensor(X[0]), core.tensor(SEVERAL[0]), reduction=reduction)
    assert one.shape == ()
    np.testing.assert_allclose(one.item(), losses[0], rtol=1e-12)
    alone = F.multilabel_margin_loss(core.tensor(0.3), core.tensor(0), reduction=reduction)  # one class, which is right
    assert (alone.shape, alone.item()) == ((), 0.0)
    with pytest.raises(RuntimeError, match="classes from 0 to 0"):
        F.multilabel_margin_loss(core.tensor(0.3), core.tensor(1), reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_multilabel_soft_margin(weighted: bool, reduction: str) -> None:
    truth = np.where(X > 0.2, 1.0, 0.0)
    p = 1 / (1 + np.exp(-X))
    losses = -(truth * np.log(p) + (1 - truth) * np.log(1 - p)) * (WEIGHT if weighted else 1.0)
    found = F.multilabel_soft_margin_loss(core.tensor(X), core.tensor(truth), core.tensor(WEIGHT) if weighted else None,
                                          reduction=reduction)  # fmt: skip
    np.testing.assert_allclose(found.numpy(), reduced(losses.mean(1), reduction), rtol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("swap", [False, True])
def test_triplets_with_a_distance(swap: bool, reduction: str) -> None:
    a, p, n = RNG.uniform(-1, 1, (3, 6, 2))
    near, far, between = (np.abs(u - v).sum(1) for u, v in ((a, p), (a, n), (p, n)))
    losses = np.maximum(0.0, near - (np.minimum(far, between) if swap else far) + 0.7)
    given = [core.tensor(u) for u in (a, p, n)]
    found = F.triplet_margin_with_distance_loss(*given, margin=0.7, swap=swap, reduction=reduction,
                                                distance_function=lambda u, v: (u - v).abs().sum(1))  # fmt: skip
    np.testing.assert_allclose(found.numpy(), reduced(losses, reduction), rtol=1e-12)


def test_what_they_refuse() -> None:
    x = core.tensor(X)
    with pytest.raises(ValueError, match="only p == 1 and p == 2"):
        F.multi_margin_loss(x, core.tensor(LABELS), p=3)
    with pytest.raises(RuntimeError, match=r"inconsistent target size, expected \[4\] but got \[3\]"):
        F.multi_margin_loss(x, core.tensor(LABELS[:3]))
    with pytest.raises(RuntimeError, match=r"inconsistent target size: \[4, 4\] for input of size: \[4, 5\]"):
        F.multilabel_margin_loss(x, core.tensor(SEVERAL[:, :4]))
    with pytest.raises(RuntimeError, match="out of range"):
        F.multilabel_margin_loss(x, core.tensor(np.full((4, 5), 5)))
