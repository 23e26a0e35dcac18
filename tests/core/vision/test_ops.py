"""Focal and Dice losses against their formulas in float64, at the ends of their range, and by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck
from core.nn import functional as F
from core.vision.ops import dice_loss, sigmoid_focal_loss


def logits(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape) * 3


def tensor(a: np.ndarray, **how) -> core.Tensor:
    return core.tensor(a, dtype=core.float64, **how)


def focal_formula(x, t, alpha, gamma):
    p = 1 / (1 + np.exp(-x))
    p_t = p * t + (1 - p) * (1 - t)
    entropy = -(t * np.log(p) + (1 - t) * np.log1p(-p))
    weight = alpha * t + (1 - alpha) * (1 - t) if alpha >= 0 else 1.0
    return weight * (1 - p_t) ** gamma * entropy


@pytest.mark.parametrize("alpha", [0.25, 0.0, 1.0, -1])
@pytest.mark.parametrize("gamma", [0, 0.5, 2, 5])
@pytest.mark.parametrize("soft", [False, True])
def test_focal_is_its_formula(alpha, gamma, soft):
    x, t = logits(5, 7), np.random.default_rng(1).random((5, 7))
    t = t if soft else (t > 0.5).astype(float)
    found = sigmoid_focal_loss(tensor(x), tensor(t), alpha, gamma)
    np.testing.assert_allclose(found.numpy(), focal_formula(x, t, alpha, gamma), rtol=1e-10, atol=1e-14)
    for reduction in ("mean", "sum"):
        whole = sigmoid_focal_loss(tensor(x), tensor(t), alpha, gamma, reduction)
        np.testing.assert_allclose(whole.item(), getattr(found.numpy(), reduction)(), rtol=1e-12)


def test_focal_without_focus_is_the_cross_entropy():
    x, t = tensor(logits(6)), core.tensor([1, 0, 1, 1, 0, 0])
    entropy = F.binary_cross_entropy_with_logits(x, t.double(), reduction="none")
    np.testing.assert_allclose(sigmoid_focal_loss(x, t, -1, 0).numpy(), entropy.numpy())


def test_focal_keeps_its_digits_where_all_is_right():
    """In float32 1 - p_t is 0 from a logit of 17 on; the loss is not, and neither is its gradient."""
    x = core.tensor([20.0, -20.0, 40.0, 200.0, -200.0], requires_grad=True)
    t = core.tensor([1.0, 0.0, 1.0, 0.0, 1.0])
    found = sigmoid_focal_loss(x, t, -1, 1)
    found.sum().backward()
    e = np.exp(-20.0)
    np.testing.assert_allclose(found.tolist()[:3], [e * e, e * e, np.exp(-80.0)], rtol=1e-5)
    np.testing.assert_allclose(found.tolist()[3:], [200.0, 200.0])
    assert all(np.isfinite(x.grad.numpy()))
    assert x.grad[0].item() < 0 < x.grad[1].item()


@pytest.mark.parametrize("gamma", [0, 1.5, 2])
def test_gradients_of_focal(gamma):
    x, t = tensor(logits(3, 4), requires_grad=True), tensor(np.random.default_rng(1).random((3, 4)))
    f = lambda x: sigmoid_focal_loss(x, t, 0.3, gamma)
    assert gradcheck(f, (x,))
    assert gradgradcheck(f, (x,))


def dice_formula(p, t, smooth):
    p, t = p.reshape(*p.shape[:2], -1), t.reshape(*t.shape[:2], -1)
    return 1 - (2 * (p * t).sum(2) + smooth) / (p.sum(2) + t.sum(2) + smooth)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 4, 5), (1, 1, 2, 2, 2)])
@pytest.mark.parametrize("smooth", [1.0, 1e-6])
def test_dice_is_its_formula(shape, smooth):
    x, draw = logits(*shape), np.random.default_rng(2)
    mask = (draw.random(shape) > 0.5).astype(float)
    wanted = dice_formula(1 / (1 + np.exp(-x)), mask, smooth)
    found = dice_loss(tensor(x), tensor(mask), smooth, reduction="none")
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dice_loss(tensor(x), tensor(mask), smooth).item(), wanted.mean(), rtol=1e-10)
    classes = draw.integers(0, shape[1], (shape[0], *shape[2:]))
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    wanted = dice_formula(p, np.moveaxis(np.eye(shape[1])[classes], -1, 1), smooth)
    found = dice_loss(tensor(x), core.tensor(classes), smooth, reduction="sum")
    np.testing.assert_allclose(found.item(), wanted.sum(), rtol=1e-10)


def test_dice_leaves_ignored_pixels_out():
    x, t = tensor(logits(2, 3, 4)), core.tensor([[0, 1, 2, -100], [1, -100, -100, 0]])
    for k, keep in enumerate(([0, 1, 2], [0, 3])):
        alone = dice_loss(x[k : k + 1, :, keep], t[k : k + 1, keep], reduction="none")
        np.testing.assert_allclose(dice_loss(x, t, reduction="none")[k].numpy(), alone[0].numpy())


def test_dice_of_what_overlaps_and_what_does_not():
    mask = core.tensor([[[1.0, 1.0, 0.0, 0.0]]])
    assert dice_loss(80 * (2 * mask - 1), mask, 0.0).item() < 1e-6
    assert dice_loss(80 * (1 - 2 * mask), mask, 0.0).item() > 1 - 1e-6
    assert dice_loss(core.full((1, 1, 4), -80.0), core.zeros(1, 1, 4)).item() < 1e-6


def test_gradients_of_dice():
    x = tensor(logits(2, 3, 4), requires_grad=True)
    classes, mask = core.tensor([[0, 1, 2, -100], [1, 1, 0, 2]]), tensor((logits(2, 3, 4, seed=3) > 0).astype(float))
    for t in (classes, mask):
        f = lambda x, t=t: dice_loss(x, t, reduction="none")
        assert gradcheck(f, (x,))
        assert gradgradcheck(f, (x,))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: sigmoid_focal_loss(x, x, 1.5), "Invalid alpha value: 1.5"),
        (lambda x: sigmoid_focal_loss(x, x[0]), r"Target size \(torch.Size\(\[3\]\)\) must be the same as input size"),
        (lambda x: sigmoid_focal_loss(x, x, reduction="max"), "max is not a valid value for reduction"),
        (lambda x: dice_loss(x, x[:1]), r"needed: inputs \(N, C, ...\) and targets \(N, ...\) or \(N, C, ...\)"),
        (lambda x: dice_loss(x[0], x[0]), "remedy: unsqueeze"),
    ],
)
def test_what_does_not_go_together(call, said):
    with pytest.raises(ValueError, match=said):
        call(core.zeros(2, 3))
    with pytest.raises(RuntimeError, match="Class values must be smaller"):
        dice_loss(core.zeros(1, 2, 3), core.tensor([[0, 1, 5]]))
