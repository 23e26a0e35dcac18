"""The metrics by hand-made numbers, their state, what they refuse; tests/parity holds them to scikit-learn."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import core
from core import metrics as m
from core.metrics import functional as F

T = core.tensor


def test_values_by_hand():
    preds, target = T([0, 1, 2, 2, 1]), T([0, 2, 2, 1, 1])
    assert float(F.accuracy(preds, target, "multiclass", num_classes=3)) == pytest.approx(0.6)
    assert F.precision(preds, target, "multiclass", num_classes=3, average=None).tolist() == [1.0, 0.5, 0.5]
    assert F.recall(preds, target, "multiclass", num_classes=3, average=None).tolist() == [1.0, 0.5, 0.5]
    assert float(F.f1(preds, target, "multiclass", num_classes=3)) == pytest.approx(2 / 3)
    assert float(F.fbeta(T([1, 0]), T([1, 1]), "binary", beta=2.0)) == pytest.approx(5 / 9)
    assert F.confusion_matrix(preds, target, "multiclass", num_classes=3).tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    assert float(F.auroc(T([0.5, 0.5, 0.5]), T([0, 1, 1]), "binary")) == 0.5
    assert float(F.average_precision(T([0.9, 0.1]), T([1, 0]), "binary")) == 1.0
    assert float(F.mean_squared_error(T([1.0, 2.0]), T([1.0, 4.0]), squared=False)) == pytest.approx(math.sqrt(2))
    assert float(F.mean_absolute_error(T([1, 2]), T([1, 4]))) == 1.0
    assert float(F.r2_score(T([1.0, 2.0]), T([1.0, 2.0]))) == 1.0
    assert float(F.perplexity(core.zeros(3, 4), T([0, 1, -1]), ignore_index=-1)) == pytest.approx(4.0)


def test_scores_of_images():
    rng = np.random.default_rng(0)
    scores, target = T(rng.normal(size=(2, 3, 4, 5))), T(rng.integers(0, 3, (2, 4, 5)))
    want = (scores.argmax(1) == target).double().mean()
    assert float(F.accuracy(scores, target, "multiclass", num_classes=3)) == pytest.approx(float(want))


def test_a_call_gives_the_batch_and_keeps_the_total():
    metric = m.Accuracy("binary")
    assert float(metric(T([1, 1]), T([1, 1]))) == 1.0
    assert float(metric(T([1, 1]), T([0, 1]))) == 0.5
    assert float(metric.compute()) == 0.75
    assert metric.reset().updates == 0
    loss = m.Mean()
    assert float(loss(T([1.0, 2.0]), T([3.0, 1.0]))) == 1.25
    assert float(loss.update(5.0).compute()) == 2.0


def test_a_large_offset_costs_no_digits():
    rng = np.random.default_rng(0)
    y = rng.normal(size=4000)
    p = y + rng.normal(size=4000) * 0.1
    plain, moved = m.R2Score(), m.R2Score()
    for k in range(0, 4000, 100):
        plain.update(T(p[k : k + 100]), T(y[k : k + 100]))
        moved.update(T(p[k : k + 100] + 1e7), T(y[k : k + 100] + 1e7))
    assert float(plain.compute()) == pytest.approx(float(moved.compute()), rel=1e-8)


def test_state_stays_small_and_holds_no_graph():
    w = core.ones(3, requires_grad=True)
    metric, loss = m.Accuracy("multiclass", num_classes=3), m.Mean()
    for _ in range(50):
        scores = core.rand(4, 3) * w
        metric.update(scores, T([0, 1, 2, 0]))
        loss.update(scores.sum())
    assert {k: tuple(v.shape) for k, v in metric._state.items() if v is not None} == dict.fromkeys(
        ["tp", "fp", "fn", "tn"], (3,)
    )
    assert not loss.compute().requires_grad
    assert not loss._state["total"].requires_grad
    area = m.AUROC("binary").update(core.rand(5), T([0, 1, 0, 1, 1])).update(core.rand(2), T([0, 1]))
    assert [len(t) for t in area._state["scores"]] == [5, 2]
    area.compute()
    assert [len(t) for t in area._state["scores"]] == [7]


def test_states_travel():
    metric = m.F1("multiclass", num_classes=3).update(T([0, 1, 2]), T([0, 2, 2]))
    again = m.F1("multiclass", num_classes=3)
    again.load_state_dict(metric.state_dict())
    for other in (again, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.to("cpu")):
        assert float(other.compute()) == float(metric.compute())
    assert repr(metric) == ("F1(beta=1.0, zero_division=0.0, task='multiclass', num_classes=3, average='macro', "
                            "threshold=0.5)")  # fmt: skip
    with pytest.raises(KeyError, match="lacks tp"):
        again.load_state_dict({"updates": 1})


def test_on_cuda():
    metric = m.Accuracy("binary").update(T([1, 0], device="cuda"), T([1, 1], device="cuda"))
    assert metric.compute().device.type == "cuda"
    assert float(metric.compute()) == 0.5


def test_a_class_that_is_missing():
    preds, target = T([0, 0]), T([0, 0])
    for zero, want in ((0.0, [1.0, 0.0]), (1.0, [1.0, 1.0])):
        assert (
            F.precision(preds, target, "multiclass", num_classes=2, average=None, zero_division=zero).tolist() == want
        )
    assert float(F.precision(preds, target, "multiclass", num_classes=2, zero_division=math.nan)) == 1.0
    assert math.isnan(F.accuracy(preds, target, "multiclass", num_classes=2, average=None)[1].item())
    scores = T([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    areas = F.auroc(scores, T([0, 1]), "multiclass", num_classes=3, average="none")
    assert math.isnan(areas[2].item())
    assert not math.isnan(areas[0].item())


@pytest.mark.parametrize(
    ("run", "error", "phrase"),
    [
        (lambda: m.Accuracy("binary").compute(), RuntimeError, "before update"),
        (lambda: m.Accuracy("two"), ValueError, "task must be one of 'binary', 'multiclass', 'multilabel'"),
        (lambda: m.Accuracy("multiclass"), ValueError, "needs num_classes, got None"),
        (lambda: m.Accuracy("multilabel", num_labels=0), ValueError, "needs num_labels, got 0"),
        (lambda: m.F1("binary", average="mean"), ValueError, "average must be one of"),
        (lambda: m.F1("binary", zero_division=0.5), ValueError, "zero_division must be 0, 1 or nan"),
        (lambda: m.FBeta("binary", beta=0), ValueError, "beta must be positive"),
        (lambda: m.ConfusionMatrix("binary", normalize="rows"), ValueError, "normalize must be"),
        (lambda: m.Accuracy("binary", top_k=2), ValueError, "top_k"),
        (lambda: F.accuracy(T([1, 0]), T([1]), "binary"), ValueError, "shapes do not fit"),
        (lambda: F.accuracy(T([]), T([], dtype=core.int64), "binary"), ValueError, "preds is empty"),
        (lambda: F.accuracy(T([1.0]), T([1.0]), "binary"), ValueError, "integer dtype"),
        (lambda: F.accuracy([1], T([1]), "binary"), TypeError, "preds must be a Tensor, not list"),
        (lambda: F.accuracy(T([3]), T([1]), "multiclass", num_classes=3), ValueError, "outside the classes 0 to 2"),
        (lambda: F.accuracy(T([1]), T([-100]), "multiclass", num_classes=3), ValueError, "ignore_index"),
        (lambda: F.accuracy(T([1]), T([0]), "binary", ignore_index=0), RuntimeError, "every target"),
        (lambda: F.accuracy(T([[0.1, 0.9]]), T([1]), "multiclass", num_classes=3), ValueError, "scores .N, 3"),
        (lambda: F.accuracy(T([1]), T([1]), "multiclass", num_classes=3, top_k=2), ValueError, "needs scores"),
        (lambda: F.auroc(T([0.1, 0.2]), T([1, 1]), "binary"), ValueError, "one class alone"),
        (lambda: F.auroc(T([0.1, math.nan]), T([1, 0]), "binary"), ValueError, "holds NaN"),
        (lambda: F.auroc(T([1, 0]), T([1, 0]), "binary"), ValueError, "labels have no order"),
        (lambda: F.auroc(T([[0.5, 0.5]]), T([0]), "multiclass", num_classes=2), ValueError, "for class 0, 1"),
        (lambda: F.auroc(T([[0.5, 0.5]]), T([0]), "multiclass", num_classes=2, multi_class="ovo"), ValueError, "s 1"),
        (lambda: m.AUROC("binary", multi_class="ovo"), ValueError, "multi_class"),
        (lambda: F.average_precision(T([0.1]), T([0]), "binary"), ValueError, "no 1"),
        (lambda: m.roc_curve(T([0.1]), T([0])), ValueError, "one class alone"),
        (lambda: m.precision_recall_curve(T([0.1]), T([0])), ValueError, "no 1"),
        (lambda: F.mean_squared_error(T([1.0]), T([[1.0]])), ValueError, "nothing broadcasts"),
        (lambda: F.r2_score(T([1.0]), T([1.0])), RuntimeError, "at least two"),
        (lambda: m.R2Score("mean"), ValueError, "multioutput"),
        (lambda: F.perplexity(T([[1.0]]), T([[1]])), ValueError, "logits"),
        (lambda: m.Mean().update(1.0, 0.0).compute(), RuntimeError, "sum to 0"),
        (lambda: m.F1("binary").merge(m.Recall("binary")), TypeError, "its own kind"),
        (lambda: m.F1("binary").merge(m.F1("binary", threshold=0.4)), ValueError, "settings differ"),
    ],
)  # fmt: skip
def test_refusals(run, error, phrase):
    with pytest.raises(error, match=phrase):
        run()
