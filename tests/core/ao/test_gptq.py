"""Rounding with the inputs in view: better on correlated inputs, the same layers as the plain config's."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import nn
from core.ao import quantization as q
from core.ao.nn.quantized.forms import Ints
from core.ao.quantization.gptq import rounded_by_inputs


def correlated(n: int, features: int) -> core.Tensor:
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(features // 4, features)) + 0.1 * rng.normal(size=(features // 4, features))
    x = rng.normal(size=(n, features // 4)) @ mix + 0.2 * rng.normal(size=(n, features))
    return core.from_numpy(x.astype("f"))


@pytest.mark.parametrize(("features", "group"), [(64, 64), (96, 32), (160, 16), (128, 96)])
def test_results_change_less_than_with_plain_rounding(features, group):
    core.manual_seed(0)
    layer, x = nn.Linear(features, 24), correlated(400, features)
    real = layer(x).detach()
    models = [nn.Sequential(layer), nn.Sequential(nn.Linear(features, 24))]
    models[1].load_state_dict(models[0].state_dict())
    core.quantize_(models[1], q.Int4WeightOnlyConfig(group))
    q.gptq_(models[0], [x[:300], (x[300:], "labels")], group)
    errors = [(m(x) - real).square().mean().item() for m in models]
    assert errors[0] < 0.6 * errors[1]
    assert repr(models[0]) == repr(models[1])
    assert {k: (v.shape, v.dtype) for k, v in models[0].state_dict().items()} == {
        k: (v.shape, v.dtype) for k, v in models[1].state_dict().items()
    }


def test_without_correlation_it_is_plain_rounding():
    weight = core.randn(6, 32)
    form = Ints(4, 16, symmetric=False)
    by_inputs = rounded_by_inputs(weight, np.eye(32), form)
    plain = form.pack(weight)
    assert all(core.allclose(by_inputs[k].float(), plain[k].float(), atol=1e-5) for k in plain)


def test_an_input_that_is_always_0_is_no_fault():
    model, x = nn.Sequential(nn.Linear(32, 4)), core.randn(100, 32)
    x[:, 5] = 0
    real = model(x).detach()
    q.gptq_(model, [x], 16)
    assert (model(x) - real).abs().max() < 0.3


@pytest.mark.parametrize(("batches", "message"), [([], "no batch"), ([core.ones(1, 4)], "'unused' did not run")])
def test_what_was_not_seen_is_refused(batches, message):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match=message):
        q.gptq_(Net(), batches)


def test_rows_of_an_odd_length_are_left_with_a_warning():
    model = nn.Sequential(nn.Linear(7, 2))
    with pytest.warns(UserWarning, match="rows of 7"):
        q.gptq_(model, [core.randn(9, 7)])
    assert type(model[0]) is nn.Linear
