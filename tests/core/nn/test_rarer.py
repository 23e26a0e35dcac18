"""The rarer functions of nn.functional: bags, pairs, sequences without alignment, losses of several labels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import core
import core.nn.functional as F


def rand(*shape: int) -> Any:
    return core.rand(shape, dtype=core.float64, generator=core.Generator().manual_seed(3)).requires_grad_()


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (F.bilinear, [(3, 2), (3, 4), (5, 2, 4), (5,)]),
        (F.pdist, [(4, 3)]),
        (lambda x: F.local_response_norm(x, 3, 0.5), [(2, 5, 4)]),
        (lambda x: F.multi_margin_loss(x, core.tensor([1, 0, 2]), 2, 2.0), [(3, 4)]),
        (lambda x: F.multilabel_margin_loss(x, core.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])), [(2, 4)]),
        (lambda x: F.multilabel_soft_margin_loss(x, core.tensor([[1.0, 0.0], [0.0, 1.0]]).double()), [(2, 2)]),
        (lambda w: F.embedding_bag(core.tensor([0, 2, 2, 1]), w, core.tensor([0, 3]), mode="mean"), [(3, 2)]),
        (lambda w: F.embedding_bag(core.tensor([[0, 2], [2, 1]]), w, mode="max"), [(3, 2)]),
        (lambda x: F.ctc_loss(x.log_softmax(2), core.tensor([[1, 2], [2, 2]]), [5, 4], [2, 2]), [(5, 2, 3)]),
    ],
)
def test_gradients(f: Any, shapes: Any) -> None:
    assert core.autograd.gradcheck(f, [rand(*s) for s in shapes])


def test_ctc_counts_every_alignment() -> None:
    """Against all paths of four steps over three symbols, one by one."""
    chances = core.softmax(rand(4, 3).detach() * 3, 1)
    labels = [1, 1]
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        read = [s for s, _ in itertools.groupby(path) if s]
        if read == labels:
            total += math.prod(float(chances[t, s]) for t, s in enumerate(path))
    loss = F.ctc_loss(chances.log(), core.tensor(labels), core.tensor(4), core.tensor(2), reduction="sum")
    assert float(loss) == pytest.approx(-math.log(total))


def test_ctc_of_a_sequence_too_short_for_its_labels() -> None:
    x = rand(2, 1, 3).log_softmax(2)
    assert F.ctc_loss(x, core.tensor([[1, 1]]), [2], [2], reduction="none").tolist() == [math.inf]
    loss = F.ctc_loss(x, core.tensor([[1, 1]]), [2], [2], zero_infinity=True)
    loss.backward()
    assert float(loss) == 0
    with pytest.raises(RuntimeError, match="at most 2"):
        F.ctc_loss(x, core.tensor([[1]]), [3], [1])


def test_what_is_random() -> None:
    core.manual_seed(0)
    x = core.full((1000,), -1.0)
    y = F.rrelu(x, 0.25, 0.75, training=True)
    assert -0.75 <= float(y.min()) < -0.7
    assert -0.3 < float(y.max()) <= -0.25
    draws = F.gumbel_softmax(core.zeros(2000, 2), hard=True)
    assert abs(float(draws[:, 0].mean()) - 0.5) < 0.05
    dropped = F.feature_alpha_dropout(core.ones(4, 50, 3), 0.5, training=True)
    assert bool((dropped.amax(2) == dropped.amin(2)).all())
    assert len(set(dropped.flatten().tolist())) == 2


def test_activations_that_write_their_input() -> None:
    for name in ("relu", "elu", "celu", "selu", "hardtanh", "leaky_relu", "rrelu"):
        x = core.tensor([-1.0, 2.0])
        expected = getattr(F, name)(x)
        assert getattr(F, name + "_")(x) is x
        assert x.tolist() == expected.tolist()


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="2D tensors"):
        F.pdist(core.ones(3))
    with pytest.raises(ValueError, match="3D or higher"):
        F.local_response_norm(core.ones(3, 2), 2)
    with pytest.raises(ValueError, match="offsets"):
        F.embedding_bag(core.tensor([0]), core.ones(2, 2))
    with pytest.raises(ValueError, match="p == 1 and p == 2"):
        F.multi_margin_loss(core.ones(1, 2), core.tensor([0]), 3)
    with pytest.raises(RuntimeError, match="input1 size"):
        F.bilinear(core.ones(1, 2), core.ones(1, 3), core.ones(4, 3, 3))
