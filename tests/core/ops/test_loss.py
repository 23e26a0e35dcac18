from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck
from core.ops import loss

RNG = np.random.default_rng(6)
X = RNG.uniform(-2, 2, (4, 3))
T = np.array([0, 2, 1, 2])
W = np.array([0.5, 1.0, 2.0])


def leaf(a: Any = X) -> Any:
    return core.tensor(np.array(a), requires_grad=True)


def by_hand(x: Any, t: Any, w: Any, smoothing: float, ignore: int) -> tuple[Any, Any]:
    """The rows' losses and their weights."""
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    share = np.full(x.shape, smoothing / x.shape[1])
    share[np.arange(len(t)), np.where(t == ignore, 0, t)] += 1 - smoothing
    valid = t != ignore
    return -(share * w * log_p).sum(1) * valid, np.where(valid, w[np.where(valid, t, 0)], 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_indices(weighted: bool, ignore: int, smoothing: float) -> None:
    w = W if weighted else np.ones(3)
    rows, shares = by_hand(X, T, w, smoothing, ignore)
    options: Any = {
        "ignore_index": ignore,
        "label_smoothing": smoothing,
        "weight": core.tensor(W) if weighted else None,
    }
    x, t = leaf(), core.tensor(T)
    np.testing.assert_allclose(F.cross_entropy(x, t, reduction="none", **options).detach().numpy(), rows)
    np.testing.assert_allclose(F.cross_entropy(x, t, reduction="sum", **options).item(), rows.sum())
    np.testing.assert_allclose(F.cross_entropy(x, t, **options).item(), rows.sum() / shares.sum())
    gradcheck(lambda a: F.cross_entropy(a, t, **options), x)
    gradgradcheck(lambda a: F.cross_entropy(a, t, **options), x)


def test_the_class_weights_have_a_gradient_too() -> None:
    t = core.tensor(T)
    for f in (lambda x, w: F.cross_entropy(x, t, w, label_smoothing=0.2), lambda x, w: F.nll_loss(x, t, w)):
        gradcheck(f, (leaf(), leaf(W)))
        gradgradcheck(f, (leaf(), leaf(W)))


def test_more_dimensions() -> None:
    a = RNG.uniform(-1, 1, (2, 3, 4, 5))
    t = RNG.integers(0, 3, (2, 4, 5))
    got = F.cross_entropy(core.tensor(a), core.tensor(t), reduction="none")
    rows, _ = by_hand(a.transpose(0, 2, 3, 1).reshape(-1, 3), t.reshape(-1), np.ones(3), 0.0, -100)
    np.testing.assert_allclose(got.numpy(), rows.reshape(2, 4, 5))
    assert tuple(F.cross_entropy(core.tensor(X[0]), core.tensor(1), reduction="none").shape) == ()
    gradcheck(lambda x: F.cross_entropy(x, core.tensor(t[:1, :2, :2])), leaf(a[:1, :, :2, :2]))


def test_probabilities() -> None:
    q = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    x = leaf(RNG.uniform(-1, 1, (4, 3)))
    log_p = core.log_softmax(x, 1).detach().numpy()
    got = F.cross_entropy(x, core.tensor(q), core.tensor(W), label_smoothing=0.2)
    np.testing.assert_allclose(got.item(), -(log_p * (0.8 * q + 0.2 / 3) * W).sum() / 4)
    gradcheck(F.cross_entropy, (x, leaf(q)))
    gradgradcheck(F.cross_entropy, (x, leaf(q)))


def test_one_hot_probabilities_agree_with_indices() -> None:
    x, t = leaf(), core.tensor(T)
    as_matrix = F.one_hot(t, 3).double()
    assert F.cross_entropy(x, as_matrix).item() == pytest.approx(F.cross_entropy(x, t).item(), rel=1e-12)


def test_extreme_logits() -> None:
    x = core.tensor([[1e4, 0.0], [-math.inf, 0.0]], requires_grad=True)
    losses = F.cross_entropy(x, core.tensor([1, 1]), reduction="none")
    assert losses.tolist() == [1e4, 0]
    losses.sum().backward()
    assert x.grad.tolist() == [[1, -1], [0, 0]]


def test_ignored_rows_get_no_gradient_whatever_they_hold() -> None:
    x = core.tensor([[math.nan, 1.0], [0.0, 0.0]], requires_grad=True)
    F.cross_entropy(x, core.tensor([-100, 0])).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0], [-0.5, 0.5]])
    assert math.isnan(F.cross_entropy(x, core.tensor([-100, -100])).item())  # the mean of nothing


def test_nll_loss() -> None:
    x, t = leaf(-np.abs(X)), core.tensor(T)
    np.testing.assert_allclose(
        F.nll_loss(x, t, core.tensor(W)).item(), (np.abs(X)[range(4), T] * W[T]).sum() / W[T].sum()
    )
    gradcheck(lambda a: F.nll_loss(a, t), x)
    log_p = core.log_softmax(x, 1)
    assert F.nll_loss(log_p, t).item() == pytest.approx(F.cross_entropy(x, t).item(), rel=1e-12)


def test_half_types() -> None:
    x = core.tensor(X, dtype=core.float16, requires_grad=True)
    loss = F.cross_entropy(x, core.tensor(T))
    loss.backward()
    assert loss.dtype is x.grad.dtype is core.float16
    assert loss.item() == pytest.approx(F.cross_entropy(core.tensor(X), core.tensor(T)).item(), rel=2e-3)


x, t = core.ones(2, 3), core.tensor([0, 2])


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: F.cross_entropy(x, core.tensor([0, 7])), IndexError, r"Target 7 is out of bounds\."),
        (lambda: F.cross_entropy(x, core.tensor([-1, 0])), IndexError, r"Target -1 is out of bounds\."),
        (lambda: F.nll_loss(x, core.tensor([0, 3])), IndexError, r"Target 3 is out of bounds\."),
        (
            lambda: F.cross_entropy(x, core.tensor([0])),
            ValueError,
            r"Expected input batch_size \(2\) to match target batch_size \(1\)",
        ),
        (lambda: F.cross_entropy(x, t.float()), RuntimeError, "expected scalar type Long but found Float"),
        (lambda: F.cross_entropy(x, t.int()), RuntimeError, "expected target dtype to be Long or Byte, but got Int"),
        (
            lambda: F.cross_entropy(x, t[:, None]),
            RuntimeError,
            "0D or 1D target tensor expected, multi-target not supported",
        ),
        (lambda: F.cross_entropy(x[None], t[None]), RuntimeError, r"Expected target size \[1, 3\], got \[1, 2\]"),
        (lambda: F.cross_entropy(x[None, :, :, None], core.zeros(1, 3, 2).long()), RuntimeError, "size mismatch"),
        (
            lambda: F.cross_entropy(x, x.long()),
            RuntimeError,
            "Expected floating point type for target with class probabilities",
        ),
        (lambda: F.cross_entropy(x, x, ignore_index=0), RuntimeError, "ignore_index is not supported"),
        (
            lambda: F.cross_entropy(x, t, core.ones(2)),
            RuntimeError,
            "weight tensor should be defined either for all 3 classes",
        ),
        (
            lambda: F.cross_entropy(x, t, core.ones(3).double()),
            RuntimeError,
            "expected scalar type Float but found Double",
        ),
        (lambda: F.cross_entropy(x, t, label_smoothing=2), RuntimeError, "label_smoothing must be between 0.0 and 1.0"),
        (lambda: F.cross_entropy(x, t, reduction="avg"), ValueError, "avg is not a valid value for reduction"),
        (lambda: F.cross_entropy(x.long(), t), NotImplementedError, "not implemented for 'Long'"),
        (lambda: F.cross_entropy(core.tensor(1.0), t), IndexError, "Dimension out of range"),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()


def test_the_old_way_to_say_the_reduction() -> None:
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.nll_loss(x, t, size_average=False).item() == -2


def test_ctc_takes_for_granted_that_probabilities_sum_to_1() -> None:
    """Its gradient is exp(x) less the chances of the labels, which sum to 1 at each time, whatever x sums to."""
    x = core.tensor(np.random.default_rng(5).standard_normal((6, 2, 4)), requires_grad=True)
    F.ctc_loss(x, core.tensor([[1, 2], [3, 1]]), [6, 5], [2, 2], reduction="sum").backward()
    wanted = x.detach().exp().sum(2) - 1
    wanted[5, 1] = 0.0  # beyond the second one's length
    np.testing.assert_allclose(x.grad.sum(2).numpy(), wanted.numpy(), atol=1e-9)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_targets_up_to_the_last_class_and_ignored_ones(classes: int) -> None:
    """By the reference too, which other devices run."""
    target = np.array([0, classes - 1, -100])
    safe, valid = loss._targets(np, target, classes, -100)
    assert (safe.tolist(), valid.tolist()) == ([0, classes - 1, 0], [True, True, False])
    x = RNG.uniform(-2, 2, (3, classes))
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    want = [-log_p[0, 0], -log_p[1, classes - 1], 0.0]
    np.testing.assert_allclose(F.cross_entropy(core.tensor(x), core.tensor(target), reduction="none").numpy(), want)
    for place, wrong in ((1, classes), (2, -1)):
        given = target.copy()
        given[place] = wrong
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds") as info:
            loss._targets(np, given, classes, -100)
        assert f"target {wrong} at position {place}" in str(info.value)
        assert f"a class from 0 to {classes - 1}" in str(info.value)
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(core.tensor(x), core.tensor(given))
