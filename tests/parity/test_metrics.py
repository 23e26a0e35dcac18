"""The metrics against scikit-learn, over many random cases: in one batch, in several, and merged from two workers."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

sk = pytest.importorskip("sklearn.metrics")

import core  # noqa: E402
from core import metrics as m  # noqa: E402

T = core.tensor


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of every division by zero
        yield


def fed(make: Any, preds: Any, target: Any, rtol: float = 1e-12) -> np.ndarray:
    """The metric's value, which must not depend on how the data came."""
    whole = make().update(T(preds), T(target)).compute()
    cuts = sorted({0, len(target) // 3, len(target) // 2, len(target)})
    pieces, one, two = make(), make(), make()
    for k, (a, b) in enumerate(itertools.pairwise(cuts)):
        pieces.update(T(preds[a:b]), T(target[a:b]))
        (one if k % 2 else two).update(T(preds[a:b]), T(target[a:b]))
    joined = make().merge([one, two]).compute()
    for other in (pieces.compute(), joined):
        np.testing.assert_allclose(other.numpy(), whole.numpy(), rtol=rtol, atol=1e-14)
    assert not whole.requires_grad
    assert whole.dtype in (core.float64, core.int64)
    return whole.numpy()


def labels_of(seed: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Classes, predictions and targets; often a class is missing in one or both."""
    rng = np.random.default_rng(seed)
    c, n = int(rng.integers(2, 7)), int(rng.integers(1, 40))
    return c, rng.integers(0, rng.integers(1, c + 1), n), rng.integers(0, rng.integers(1, c + 1), n)


AVERAGES = ["micro", "macro", "weighted", None]


@pytest.mark.parametrize("seed", range(20))
def test_multiclass_counts(seed: int) -> None:
    c, preds, target = labels_of(seed)
    labels = list(range(c))
    assert fed(lambda: m.Accuracy("multiclass", c), preds, target) == pytest.approx(sk.accuracy_score(target, preds))
    balanced = sk.recall_score(target, preds, labels=sorted(set(target)), average="macro", zero_division=0)
    assert fed(lambda: m.Accuracy("multiclass", c, average="macro"), preds, target) == pytest.approx(balanced)
    for average in AVERAGES:
        for zero in (0.0, 1.0, math.nan):
            for kind, theirs in ((m.Precision, sk.precision_score), (m.Recall, sk.recall_score), (m.F1, sk.f1_score)):
                want = theirs(target, preds, labels=labels, average=average, zero_division=zero)
                got = fed(
                    lambda k=kind, a=average, z=zero: k("multiclass", c, average=a, zero_division=z), preds, target
                )
                np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"{kind.__name__} {average} {zero}")
        want = sk.fbeta_score(target, preds, beta=0.5, labels=labels, average=average, zero_division=0)
        np.testing.assert_allclose(fed(lambda a=average: m.FBeta("multiclass", 0.5, c, average=a), preds, target), want)
    for normalize in (None, "true", "pred", "all"):
        want = sk.confusion_matrix(target, preds, labels=labels, normalize=normalize)
        got = fed(lambda n=normalize: m.ConfusionMatrix("multiclass", c, normalize=n), preds, target)
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("seed", range(12))
def test_binary_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    scores, target = np.round(rng.uniform(0, 1, n), 1).astype(np.float32), rng.integers(0, rng.integers(1, 3), n)
    said = (scores > np.float32(0.5)).astype(int)
    assert fed(lambda: m.Accuracy("binary"), scores, target) == pytest.approx(sk.accuracy_score(target, said))
    for kind, theirs in ((m.Precision, sk.precision_score), (m.Recall, sk.recall_score), (m.F1, sk.f1_score)):
        for zero in (0.0, 1.0):
            want = theirs(target, said, zero_division=zero)
            assert fed(lambda k=kind, z=zero: k("binary", zero_division=z), scores, target) == pytest.approx(want)
    np.testing.assert_array_equal(fed(lambda: m.ConfusionMatrix("binary"), said, target),
                                  sk.confusion_matrix(target, said, labels=[0, 1]))  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_multilabel_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(1, 20)), int(rng.integers(2, 5))
    scores, target = rng.uniform(0, 1, (n, c)), rng.integers(0, 2, (n, c)) * (rng.uniform(0, 1, c) > 0.2)
    said = (scores > 0.5).astype(int)
    assert fed(lambda: m.Accuracy("multilabel", num_labels=c, average="subset"), scores, target) == pytest.approx(
        sk.accuracy_score(target, said)
    )
    micro = fed(lambda: m.Accuracy("multilabel", num_labels=c), scores, target)
    assert micro == pytest.approx(1 - sk.hamming_loss(target, said))
    for average in AVERAGES:
        for kind, theirs in ((m.Precision, sk.precision_score), (m.Recall, sk.recall_score), (m.F1, sk.f1_score)):
            want = theirs(target, said, average=average, zero_division=0)
            got = fed(lambda k=kind, a=average: k("multilabel", num_labels=c, average=a), scores, target)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_array_equal(fed(lambda: m.ConfusionMatrix("multilabel", num_labels=c), scores, target),
                                  sk.multilabel_confusion_matrix(target, said))  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_top_k_and_ignored(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, n = 5, int(rng.integers(5, 30))
    scores, target = rng.permuted(np.tile(np.linspace(0, 1, c), (n, 1)), axis=1), rng.integers(0, c, n)
    for k in (1, 2, 4):
        want = sk.top_k_accuracy_score(target, scores, k=k, labels=range(c))
        assert fed(lambda k=k: m.Accuracy("multiclass", c, top_k=k), scores, target) == pytest.approx(want)
    hidden = np.where(rng.uniform(0, 1, n) < 0.3, -100, target)
    hidden[0] = target[0]
    there = hidden != -100
    got = fed(lambda: m.F1("multiclass", c, ignore_index=-100), scores, hidden)
    want = sk.f1_score(target[there], scores.argmax(1)[there], labels=range(c), average="macro", zero_division=0)
    assert got == pytest.approx(want)


@pytest.mark.parametrize("seed", range(15))
def test_areas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    digits = int(rng.integers(0, 4))  # few digits: many ties
    scores, target = np.round(rng.normal(size=n), digits), rng.integers(0, 2, n)
    target[:2] = 0, 1
    assert fed(lambda: m.AUROC("binary"), scores, target) == pytest.approx(sk.roc_auc_score(target, scores), abs=1e-12)
    want = sk.average_precision_score(target, scores)
    assert fed(lambda: m.AveragePrecision("binary"), scores, target) == pytest.approx(want, abs=1e-12)
    for ours, theirs in zip(m.roc_curve(T(scores), T(target)), sk.roc_curve(target, scores, drop_intermediate=False),
                            strict=True):  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)
    for ours, theirs in zip(m.precision_recall_curve(T(scores), T(target)), sk.precision_recall_curve(target, scores),
                            strict=True):  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)

    c = int(rng.integers(3, 6))
    target = np.concatenate([np.arange(c), rng.integers(0, c, n)])
    shares = rng.dirichlet(np.ones(c), n + c)
    shares = np.round(shares, 2) if digits < 2 else shares
    shares[:, 0] += 1 - shares.sum(1)
    for average in ("macro", "weighted"):
        for way in ("ovr", "ovo"):
            want = sk.roc_auc_score(target, shares, average=average, multi_class=way)
            got = fed(lambda a=average, w=way: m.AUROC("multiclass", c, average=a, multi_class=w), shares, target)
            assert got == pytest.approx(want, abs=1e-12), (average, way)
    np.testing.assert_allclose(fed(lambda: m.AUROC("multiclass", c, average="none"), shares, target),
                               sk.roc_auc_score(target, shares, average=None, multi_class="ovr"),
                               atol=1e-12)  # fmt: skip
    hot = np.eye(c, dtype=int)[target]
    for average in ("micro", "macro", "weighted", None):
        want = sk.average_precision_score(hot, shares, average=average)
        got = fed(lambda a=average: m.AveragePrecision("multilabel", num_labels=c, average=a), shares, hot)
        np.testing.assert_allclose(got, want, atol=1e-12)
        want = sk.roc_auc_score(hot, shares, average=average)
        got = fed(lambda a=average: m.AUROC("multilabel", num_labels=c, average=a), shares, hot)
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(4, 30)), int(rng.integers(1, 4)))
    offset = 10.0 ** rng.integers(0, 9)
    target = rng.normal(size=shape) + offset
    preds = target + rng.normal(size=shape) * 0.3
    if seed % 3 == 0:
        target[:, 0] = 2.0  # constant
        preds[:, 0] = 2.0 if seed % 2 else 3.0
    for way in ("uniform_average", "variance_weighted", "raw_values"):
        want = sk.r2_score(target, preds, multioutput=way)
        got = fed(lambda w=way: m.R2Score(w), preds, target, rtol=1e-8)
        np.testing.assert_allclose(got if got.ndim else got[()], want, rtol=1e-6, atol=1e-9)
    want = sk.mean_squared_error(target, preds)
    assert fed(m.MeanSquaredError, preds, target) == pytest.approx(want, rel=1e-9)
    assert fed(lambda: m.MeanSquaredError(squared=False), preds, target) == pytest.approx(math.sqrt(want), rel=1e-9)
    assert fed(m.MeanAbsoluteError, preds, target) == pytest.approx(sk.mean_absolute_error(target, preds), rel=1e-9)
    labels = rng.integers(0, 5, shape[0])
    logits = rng.normal(size=(shape[0], 5))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = math.exp(sk.log_loss(labels, chances, labels=range(5)))
    assert fed(m.Perplexity, logits, labels) == pytest.approx(want, rel=1e-9)
