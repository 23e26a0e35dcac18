"""Pruned parameters: they train, they are saved and loaded, and a pruning that is refused changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.nn.utils import prune


def layer() -> Any:
    m = nn.Linear(4, 3)
    m.weight.data = core.tensor(np.array([[1, -8, 3, -4], [5, 6, -7, 2], [9, 10, -11, 12]], np.float32))
    return m


def test_the_least_are_cut_and_stay_cut_while_the_rest_trains() -> None:
    m = prune.l1_unstructured(layer(), "weight", 4)
    zeros = np.array([[1, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], bool)
    assert ((m.weight == 0).numpy() == zeros).all()
    optimizer = core.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        m(core.ones(2, 4)).sum().backward()
        optimizer.step()
    assert (m.weight_orig.grad.numpy() == np.where(zeros, 0, 2)).all()
    m(core.ones(2, 4))
    want = np.where(zeros, 0, layer().weight.detach().numpy() - 0.6)
    np.testing.assert_allclose(m.weight.detach().numpy(), want, rtol=1e-6)
    prune.remove(m, "weight")
    np.testing.assert_allclose(m.weight.detach().numpy(), want, rtol=1e-6)
    assert [n for n, _ in m.named_parameters()] == ["bias", "weight"]
    assert not prune.is_pruned(m)


def test_a_second_pruning_counts_what_is_left() -> None:
    m = prune.ln_structured(layer(), "weight", 1, 2, 0)  # row 0
    prune.l1_unstructured(m, "weight", 0.5)  # half of the eight that are left
    assert (m.weight_mask.numpy() == [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]).all()
    (hook,) = m._forward_pre_hooks.values()
    assert [type(h) for h in hook] == [prune.LnStructured, prune.L1Unstructured]
    assert (len(hook), hook[0].n) == (2, 2)


def test_states_come_back() -> None:
    model = nn.Sequential(prune.l1_unstructured(layer(), "weight", 4), nn.Tanh())
    again = nn.Sequential(prune.identity(nn.Linear(4, 3), "weight"), nn.Tanh())
    assert str(again.load_state_dict(model.state_dict())) == "<All keys matched successfully>"
    x = core.ones(1, 4)
    assert core.equal(again(x), model(x))
    assert prune.is_pruned(again)


@pytest.mark.parametrize("before", [False, True])
def test_a_refused_pruning_changes_nothing(before: bool) -> None:
    m = prune.l1_unstructured(layer(), "weight", 2) if before else layer()
    state, hooks, x = {k: v.tolist() for k, v in m.state_dict().items()}, dict(m._forward_pre_hooks), core.ones(1, 4)
    want = m(x)
    for wrong in (lambda: prune.l1_unstructured(m, "weight", 100), lambda: prune.ln_structured(m, "weight", 9, 2, 0),
                  lambda: prune.custom_from_mask(m, "weight", core.ones(5))):  # fmt: skip
        with pytest.raises((ValueError, AssertionError)):
            wrong()
    assert {k: v.tolist() for k, v in m.state_dict().items()} == state
    assert dict(m._forward_pre_hooks) == hooks
    assert core.equal(m(x), want)


def test_a_method_of_ones_own_and_pruning_without_a_module() -> None:
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    m = layer()
    EveryOther.apply(m, "weight")
    assert m.weight_mask.tolist() == [[0, 1, 0, 1]] * 3
    cut = prune.L1Unstructured(2).prune(core.tensor([4.0, -1.0, 3.0, 0.5]))
    assert cut.tolist() == [4.0, 0.0, 3.0, 0.0]
