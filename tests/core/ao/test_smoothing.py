"""Scales moved from norms into weights: the model stays, and rounding its inputs costs less."""

from __future__ import annotations

import pytest

import core
from core import nn
from core.ao import quantization as q


class Block(nn.Module):
    def __init__(self, norm, after: bool = False) -> None:
        super().__init__()
        self.norm, self.a, self.b, self.out = norm, nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.after = after

    def forward(self, x):
        y = self.norm(x)
        z = self.out(self.a(y) * self.b(y).sigmoid())
        return (y if self.after else x) + z


def outlying(norm):
    with core.no_grad():
        norm.weight[3], norm.weight[7] = 40.0, 25.0
    return norm


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_the_model_stays_and_rounded_inputs_cost_less(norm):
    core.manual_seed(0)
    model, x = Block(outlying(norm(16))), core.randn(64, 16)
    real = model(x).detach()
    plain = Block(norm(16))
    plain.load_state_dict(model.state_dict())
    changed = q.smooth_(model, [x[:32], (x[32:], None)])
    assert [(n is model.norm, layers == [model.a, model.b]) for n, layers in changed] == [(True, True)]
    assert core.allclose(model(x), real, rtol=1e-3, atol=1e-3)
    for m in (model, plain):
        core.quantize_(m, q.Int8DynamicActivationInt8WeightConfig())
    errors = [(m(x) - real).square().mean().item() for m in (model, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_a_norm_that_is_used_elsewhere_too_is_left_as_it_was():
    model, x = Block(outlying(nn.LayerNorm(16)), after=True), core.randn(8, 16)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.warns(UserWarning, match="'norm' is left as it was"):
        assert q.smooth_(model, [x]) == []
    assert all(core.equal(v, before[k]) for k, v in model.state_dict().items())


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="no batch"):
        q.smooth_(nn.Sequential(nn.Linear(2, 2)), [])
    with pytest.raises(ValueError, match="alpha"):
        q.smooth_(nn.Sequential(nn.Linear(2, 2)), [core.ones(1, 2)], alpha=2)
