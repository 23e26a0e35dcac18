from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(7)
X, Y = RNG.uniform(-2, 2, (2, 3, 4))
P, Q = RNG.uniform(0.1, 0.9, (2, 3, 4))
D = np.abs(X - Y)

CASES: list[tuple[Any, Any, Any, Any]] = [
    (F.mse_loss, X, Y, D * D),
    (F.l1_loss, X, Y, D),
    (F.smooth_l1_loss, X, Y, np.where(D < 1, D * D / 2, D - 0.5)),
    (lambda a, b, **k: F.smooth_l1_loss(a, b, beta=0.5, **k), X, Y, np.where(D < 0.5, D * D, D - 0.25)),
    (lambda a, b, **k: F.smooth_l1_loss(a, b, beta=0, **k), X, Y, D),
    (lambda a, b, **k: F.huber_loss(a, b, delta=0.5, **k), X, Y, np.where(D <= 0.5, D * D / 2, 0.5 * (D - 0.25))),
    (F.binary_cross_entropy, P, Q, -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    (F.binary_cross_entropy_with_logits, X, Q, np.log1p(np.exp(X)) - X * Q),
    (lambda a, b, **k: F.binary_cross_entropy_with_logits(a, b, pos_weight=core.tensor(2.0), **k), X, Q,
     (1 - Q) * X + (1 + Q) * np.log1p(np.exp(-X))),
    (lambda a, b, **k: F.kl_div(a, b, **k), X, Q, Q * (np.log(Q) - X)),
    (lambda a, b, **k: F.kl_div(a, b, log_target=True, **k), X, Y, np.exp(Y) * (Y - X)),
    (lambda a, b, **k: F.gaussian_nll_loss(a, b, core.tensor(P), **k), X, Y, (np.log(P) + D * D / P) / 2),
    (lambda a, b, **k: F.poisson_nll_loss(a, b, **k), X, Q, np.exp(X) - Q * X),
    (lambda a, b, **k: F.soft_margin_loss(a, b, **k), X, np.sign(Y), np.log1p(np.exp(-np.sign(Y) * X))),
    (F.hinge_embedding_loss, X, np.sign(Y), np.where(Y > 0, X, np.maximum(0, 1 - X))),
]  # fmt: skip


@pytest.mark.parametrize(("f", "a", "b", "want"), CASES)
def test_values_and_reductions(f: Any, a: Any, b: Any, want: Any) -> None:
    x, y = core.tensor(a), core.tensor(b)
    np.testing.assert_allclose(f(x, y, reduction="none").numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(f(x, y, reduction="sum").item(), want.sum())
    if "kl_div" not in getattr(f, "__code__", f).co_names:  # whose mean warns
        np.testing.assert_allclose(f(x, y).item(), want.mean())


@pytest.mark.parametrize(("f", "a", "b", "want"), CASES)
def test_gradients_to_second_order(f: Any, a: Any, b: Any, want: Any) -> None:
    x = core.tensor(a, requires_grad=True)
    y = core.tensor(b, requires_grad=not np.isin(b, (-1, 1)).all())
    gradcheck(lambda *t: f(*t, reduction="sum"), (x, y))
    gradgradcheck(lambda *t: f(*t, reduction="sum"), (x, y))


def test_each_of_these_is_one_pass() -> None:
    """One kernel for the losses, one for their reduction: no chain of small ops."""
    x = core.tensor(X, requires_grad=True)
    y = F.mse_loss(x, core.tensor(Y))
    assert y.grad_fn.next_functions[0][0].next_functions[0][0].variable is x


def test_extreme_logits_and_probabilities() -> None:
    x = core.tensor([1000.0, -1000.0], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, core.tensor([0.0, 1.0]), reduction="sum")
    loss.backward()
    assert (loss.item(), x.grad.tolist()) == (2000, [1, -1])
    assert F.binary_cross_entropy(core.tensor([0.0]), core.tensor([1.0])).item() == 100
    assert F.kl_div(core.tensor([-1.0]), core.tensor([0.0]), reduction="sum").item() == 0


def test_weights() -> None:
    x, y, w = core.tensor(X), core.tensor(Y), core.tensor(P)
    np.testing.assert_allclose(F.mse_loss(x, y, weight=w).item(), (D * D * P).sum() / P.sum())
    np.testing.assert_allclose(
        F.binary_cross_entropy_with_logits(x, w, w).item(), ((np.log1p(np.exp(X)) - X * P) * P).mean()
    )


def test_batchmean_and_the_warning_of_mean() -> None:
    x, q = core.tensor(X), core.tensor(Q)
    np.testing.assert_allclose(F.kl_div(x, q, reduction="batchmean").item(), (Q * (np.log(Q) - X)).sum() / 3)
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(x, q)


def test_shapes_that_broadcast_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"target size \(torch.Size\(\[4\]\)\) that is different to the input size"):
        F.mse_loss(core.ones(4, 1), core.ones(4))


def test_pairs() -> None:
    a, b = core.tensor(X, requires_grad=True), core.tensor(Y, requires_grad=True)
    cos = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    np.testing.assert_allclose(F.cosine_similarity(a, b).detach().numpy(), cos)
    np.testing.assert_allclose(F.pairwise_distance(a, b).detach().numpy(), np.linalg.norm(X - Y + 1e-6, axis=1))
    far = np.linalg.norm(X + Y + 1e-6, axis=1)
    near = np.linalg.norm(X - Y + 1e-6, axis=1)
    np.testing.assert_allclose(F.triplet_margin_loss(a, b, -b).item(), np.maximum(near - far + 1, 0).mean())
    np.testing.assert_allclose(
        F.margin_ranking_loss(a, b, core.ones(3, 4), 0.5).item(), np.maximum(0.5 - (X - Y), 0).mean()
    )
    t = core.tensor([1, -1, 1])
    want = np.where([True, False, True], 1 - cos, np.maximum(cos - 0.1, 0)).mean()
    np.testing.assert_allclose(F.cosine_embedding_loss(a, b, t, 0.1).item(), want)
    for f in (F.cosine_similarity, F.pairwise_distance, lambda u, v: F.triplet_margin_loss(u, v, -v, swap=True)):
        gradcheck(f, (a, b))
        gradgradcheck(f, (a, b))
    zero = core.zeros(1, 3, requires_grad=True)
    F.cosine_similarity(zero, core.ones(1, 3)).sum().backward()
    assert np.isfinite(zero.grad.numpy()).all()


i = core.ones(2, dtype=core.int64)
x = core.tensor([0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: F.mse_loss(i, i), NotImplementedError, "\"mse_cpu\" not implemented for 'Long'"),
        (lambda: F.l1_loss(x, x, reduction="foo"), ValueError, "foo is not a valid value for reduction"),
        (lambda: F.smooth_l1_loss(x, x, beta=-1), RuntimeError, "does not support negative values for beta"),
        (lambda: F.huber_loss(x, x, delta=0), RuntimeError, "does not support non-positive values for delta"),
        (lambda: F.binary_cross_entropy(x * 3, x), RuntimeError, "all elements of input should be between 0 and 1"),
        (lambda: F.binary_cross_entropy(x, x[:1]), ValueError, "is deprecated. Please ensure they have the same size"),
        (lambda: F.binary_cross_entropy(x, i), RuntimeError, "Found dtype Long but expected Float"),
        (
            lambda: F.binary_cross_entropy_with_logits(x, x[:1]),
            ValueError,
            r"Target size \(torch.Size\(\[1\]\)\) must be the same",
        ),
        (
            lambda: F.binary_cross_entropy_with_logits(x, i),
            RuntimeError,
            "can't be cast to the desired output type Long",
        ),
        (lambda: F.gaussian_nll_loss(x, x, -x), ValueError, "var has negative entry"),
        (lambda: F.gaussian_nll_loss(x, x, core.ones(3)), ValueError, "var is of incorrect size"),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()


def test_a_mean_of_nothing_is_nan() -> None:
    assert math.isnan(F.mse_loss(core.zeros(0), core.zeros(0)).item())


# -- what is not a number stays so, and what PyTorch refuses -----------------------------------------------------------


@pytest.mark.parametrize(("x", "t"), [(0.5, math.nan), (math.nan, 0.0), (math.inf, 0.0), (0.5, -1.0), (math.nan, 1.0)])
def test_kl_div_hides_no_nan(x: float, t: float) -> None:
    found = F.kl_div(core.tensor([x, 0.5]), core.tensor([t, 1.0]), reduction="none")
    assert found.isnan().tolist() == [True, False]


def test_kl_div_of_a_target_of_zero() -> None:
    x, t = core.tensor([-1.0, -2.0], requires_grad=True), core.tensor([0.0, 1.0], requires_grad=True)
    loss = F.kl_div(x, t, reduction="sum")
    loss.backward()
    assert loss.item() == 2
    assert x.grad.tolist() == [0, -1]
    assert t.grad.isnan().tolist() == [True, False]
    assert t.grad[1].item() == 3


@pytest.mark.parametrize("margin", [-1.0, 0.0])
def test_margins_are_positive(margin: float) -> None:
    a = core.ones(2, 3)
    for loss in (F.triplet_margin_loss, F.triplet_margin_with_distance_loss):
        with pytest.raises(ValueError, match="margin must be greater than 0"):
            loss(a, a, a, margin=margin)


def test_targets_of_binary_entropy_are_probabilities() -> None:
    for target in (1.5, -0.5, math.nan):
        with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
            F.binary_cross_entropy(core.tensor([0.5]), core.tensor([target]))


def test_labels_out_of_range() -> None:
    for bad in (-2, 3):
        with pytest.raises(RuntimeError, match="argument #2 'target' is out of range"):
            F.multilabel_margin_loss(core.zeros(1, 3), core.tensor([[0, bad, -1]]))
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at least 0"):
        F.ctc_loss(core.zeros(4, 1, 3), core.tensor([[1, 2]]), core.tensor([-1]), core.tensor([2]))


@pytest.mark.parametrize(("a", "b", "dim", "expected"), [
    ([[3.0, 4.0], [4.0, 3.0]], [1.0, 0.0], 1, [0.6, 0.8]), ([1.0, 0.0], [[3.0, 4.0], [4.0, 3.0]], 1, [0.6, 0.8]),
    ([[3.0, 4.0]], [[2.0], [-2.0]], 1, [7 / 50**0.5, -7 / 50**0.5]), ([3.0, 4.0], 2.0, 0, 7 / 50**0.5),
])  # fmt: skip
def test_cosine_similarity_of_shapes_that_broadcast(a: Any, b: Any, dim: int, expected: Any) -> None:
    found = core.cosine_similarity(core.tensor(a), core.tensor(b), dim=dim)
    np.testing.assert_allclose(found.tolist(), expected, rtol=1e-6)


def test_one_variance_for_a_dimension() -> None:
    var = core.ones(2, 1, 3, 3)
    assert F.gaussian_nll_loss(core.ones(2, 4, 3, 3), core.zeros(2, 4, 3, 3), var).item() == 0.5
    with pytest.raises(ValueError, match="var is of incorrect size"):
        F.gaussian_nll_loss(core.ones(2, 4), core.ones(2, 4), core.ones(1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", [0.0, 1e-6, 0.3, 1.0 - 1e-6, 1.0])
def test_a_sure_logit_keeps_its_digits(target: float, weighted: bool) -> None:
    """Value and slope in float32 beside float64: no difference of near numbers loses what is left of a small loss."""
    found = []
    for dtype in (core.float32, core.float64):
        x = core.tensor([-80.0, -20.0, -15.0, -1e-3, 0.0, 1e-3, 15.0, 20.0, 80.0], dtype=dtype, requires_grad=True)
        t = core.full((9,), target, dtype=core.float32).to(dtype)
        weight = core.tensor(2.5, dtype=dtype) if weighted else None
        loss = F.binary_cross_entropy_with_logits(x, t, pos_weight=weight, reduction="none")
        loss.sum().backward()
        found.append((loss.detach().double().numpy(), x.grad.double().numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=2e-6, atol=1e-8 if 0 < target < 1 else 0)


def test_the_loss_of_a_sure_logit_is_its_exponential() -> None:
    x, t = core.tensor([20.0, -20.0]), core.tensor([1.0, 0.0])
    found = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    np.testing.assert_allclose(found, math.exp(-20.0), rtol=1e-6)
