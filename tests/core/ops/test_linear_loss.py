"""The cross entropy of a linear map, whole and in pieces, against the two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional
RNG = np.random.default_rng(0)
N, FEATURES, CLASSES = 7, 3, 4
X, W, B = (RNG.normal(size=s) for s in ((N, FEATURES), (CLASSES, FEATURES), (CLASSES,)))
T = np.array([0, 3, 1, 2, 2, 0, 3])
SHARE = RNG.uniform(0.5, 2, CLASSES)


def both(options: Any, bias: bool, **how: Any) -> tuple[list[Any], list[Any]]:
    """The loss and its gradients, of the function and of the two steps."""
    found = []
    for whole in (True, False):
        x, w, b = (core.tensor(a, requires_grad=True) for a in (X, W, B))
        given, t = b if bias else None, core.tensor(T)
        loss = (F.linear_cross_entropy(x, w, t, linear_bias=given, options=options, **how) if whole
                else F.cross_entropy(F.linear(x, w, given), t, **how))  # fmt: skip
        loss.sum().backward()
        found.append([loss.detach().numpy(), *(p.grad.numpy() for p in (x, w, *([b] if bias else [])))])
    return found[0], found[1]


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("how", [{}, {"weight": core.tensor(SHARE)}, {"ignore_index": 2},
                                 {"weight": core.tensor(SHARE), "ignore_index": 0}])  # fmt: skip
def test_the_two_steps(pieces: bool, bias: bool, reduction: str, how: dict[str, Any]) -> None:
    options = core.nn.LinearCrossEntropyOptions() if pieces else None
    got, want = both(options, bias, reduction=reduction, **how)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, atol=1e-12)


def test_smoothing_is_not_for_pieces() -> None:
    got, want = both(None, True, label_smoothing=0.2)
    np.testing.assert_allclose(got[0], want[0])
    with pytest.warns(UserWarning, match="``options`` ignored; .*label_smoothing=0.2"):
        again = both(core.nn.LinearCrossEntropyOptions(), True, label_smoothing=0.2)[0]
    np.testing.assert_allclose(again[0], want[0])


def test_one_input_and_more_outputs_than_classes() -> None:
    one = F.linear_cross_entropy(core.tensor(X[0]), core.tensor(W), core.tensor(1))
    np.testing.assert_allclose(one.item(), F.cross_entropy(core.tensor(X[0] @ W.T), core.tensor(1)).item())
    wide, bias = RNG.normal(size=(CLASSES, 2, 5, FEATURES)), RNG.normal(size=(CLASSES, 2, 5))
    t = RNG.integers(0, CLASSES, (N, 2, 5))
    logits = np.einsum("nf,cabf->ncab", X, wide) + bias
    for reduction in ("mean", "none"):
        got = F.linear_cross_entropy(core.tensor(X), core.tensor(wide), core.tensor(t), linear_bias=core.tensor(bias),
                                     reduction=reduction)  # fmt: skip
        want = F.cross_entropy(core.tensor(logits), core.tensor(t), reduction=reduction)
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-12)
    shares = RNG.uniform(0, 1, (N, CLASSES))
    got = F.linear_cross_entropy(core.tensor(X), core.tensor(W), core.tensor(shares))
    np.testing.assert_allclose(got.item(), F.cross_entropy(core.tensor(X @ W.T), core.tensor(shares)).item())


x, w, t = core.tensor(X), core.tensor(W), core.tensor(T)
WRONG = [
    (lambda: F.linear_cross_entropy(x, w, t, label_smoothing=1.5), r"in range \[0, 1\], got 1.5"),
    (lambda: F.linear_cross_entropy(x, w, t, label_smoothing=-0.5), r"in range \[0, 1\], got -0.5"),
    (lambda: F.linear_cross_entropy(x[None], w, t), "dimensionality 1 or 2, got 3"),
    (lambda: F.linear_cross_entropy(x.sum(), w, t), "dimensionality 1 or 2, got 0"),
    (lambda: F.linear_cross_entropy(x[:, :2], w, t), r"\(in_features\), got 2 and 3"),
    (lambda: F.linear_cross_entropy(x[0], w.reshape(2, 2, 3), t), "requires batched input"),
    (lambda: F.linear_cross_entropy(x, w, core.ones(N, CLASSES).long()), "floating point type for target .*got Long"),
    (lambda: F.linear_cross_entropy(x, w, core.ones(N, CLASSES), ignore_index=1), "ignore_index cannot be specified"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_does_not_fit(call: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call()
    with pytest.raises(ValueError, match=r"input batch_size \(7\) to match target batch_size \(6\)"):
        F.linear_cross_entropy(x, w, t[:-1], options=core.nn.LinearCrossEntropyOptions())


def test_smoothing_of_all_and_of_nothing() -> None:
    for smoothing in (0, 1):
        got = F.linear_cross_entropy(x, w, t, label_smoothing=smoothing)
        np.testing.assert_allclose(got.item(), F.cross_entropy(x @ w.T, t, label_smoothing=smoothing).item())
