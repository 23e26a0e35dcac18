"""`quantize_`: what layers become, that they stay modules, and that gradients pass."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.ao import quantization as q

WEIGHTS_ALONE = {
    "int8": q.Int8WeightOnlyConfig(),
    "int4": q.Int4WeightOnlyConfig(group_size=32),
    "int6": q.IntxWeightOnlyConfig(core.int6),
    "int3": q.IntxWeightOnlyConfig(core.int3, q.PerGroup(16)),
    "float8": q.Float8WeightOnlyConfig(),
    "float8 wide": q.Float8WeightOnlyConfig(core.float8_e5m2),
    "bfloat16": q.BFloat16WeightOnlyConfig(),
}
WITH_INPUTS = {
    "dynamic": q.Int8DynamicActivationInt8WeightConfig(),
    "dynamic int5": q.Int8DynamicActivationIntxWeightConfig(core.int5),
    "dynamic int4": q.Int8DynamicActivationInt4WeightConfig(group_size=16),
    "static": q.Int8StaticActivationInt8WeightConfig(act_quant_scale=4 / 127),
}
CLOSE = {"int8": 0.02, "int4": 0.2, "int6": 0.08, "int3": 0.5, "float8": 0.1, "float8 wide": 0.2, "bfloat16": 0.01,
         "dynamic": 0.03, "dynamic int5": 0.15, "dynamic int4": 0.25, "static": 0.05}  # fmt: skip
LAYERS: dict[str, tuple[Any, Any]] = {
    "Linear": (lambda: nn.Linear(64, 10), lambda: core.randn(5, 64)),
    "Conv1d": (lambda: nn.Conv1d(8, 6, 4, stride=2, padding=1), lambda: core.randn(2, 8, 12)),
    "Conv2d": (lambda: nn.Conv2d(16, 6, 2, padding="same", bias=False), lambda: core.randn(2, 16, 7, 6)),
    "Conv2d groups": (lambda: nn.Conv2d(8, 8, 4, groups=2, padding=1, padding_mode="circular"),
                      lambda: core.randn(8, 9, 9)),
    "Conv3d": (lambda: nn.Conv3d(4, 4, 2), lambda: core.randn(2, 4, 3, 4, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 4, 4, stride=2), lambda: core.randn(2, 4, 5, 5)),
    "Embedding": (lambda: nn.Embedding(20, 32, padding_idx=3), lambda: core.tensor([[1, 3, 19], [0, 0, 7]])),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(20, 32), lambda: core.tensor([[1, 3, 19], [0, 0, 7]])),
    "LSTM": (lambda: nn.LSTM(16, 32, num_layers=2, bidirectional=True), lambda: core.randn(6, 2, 16)),
    "LSTM projected": (lambda: nn.LSTM(16, 32, proj_size=16), lambda: core.randn(6, 2, 16)),
    "GRU": (lambda: nn.GRU(16, 32, batch_first=True), lambda: core.randn(2, 6, 16)),
    "RNN": (lambda: nn.RNN(16, 32, bias=False), lambda: core.randn(6, 2, 16)),
    "LSTMCell": (lambda: nn.LSTMCell(16, 32), lambda: core.randn(2, 16)),
    "GRUCell": (lambda: nn.GRUCell(16, 32), lambda: core.randn(2, 16)),
    "RNNCell": (lambda: nn.RNNCell(16, 32), lambda: core.randn(2, 16)),
}  # fmt: skip
STATIC = ("Linear", "Conv1d", "Conv2d", "Conv2d groups", "Conv3d")
DYNAMIC_NOT = ("ConvTranspose2d",)


def first(y: Any) -> Any:
    return y[0] if isinstance(y, tuple) else y


def cases() -> list[tuple[str, str]]:
    found = [(layer, config) for layer in LAYERS for config in WEIGHTS_ALONE]
    found += [(layer, "static") for layer in STATIC]
    return found + [
        (layer, c) for layer in LAYERS for c in ("dynamic", "dynamic int5", "dynamic int4") if layer not in DYNAMIC_NOT
    ]


@pytest.fixture(autouse=True)
def _seed():
    core.manual_seed(0)


@pytest.mark.parametrize(("layer", "config"), cases())
def test_a_layer_in_fewer_bits(layer, config, tmp_path):
    make, inputs = LAYERS[layer]
    model, x = nn.Sequential(make()), inputs()
    before = first(model(x)).detach()
    names = {n for n, p in model[0].named_parameters() if p.ndim > 1}
    core.quantize_(model, (WEIGHTS_ALONE | WITH_INPUTS)[config], q.every_layer)

    after = first(model(x))
    assert after.shape == before.shape
    assert after.dtype is core.float32
    assert (after - before).abs().max() <= CLOSE[config] * max(before.abs().max().item(), 1)
    assert isinstance(model[0], type(make()))
    assert repr(model[0]).startswith("Quantized" + type(make()).__name__)
    assert names.isdisjoint(n for n, _ in model[0].named_parameters())
    for name in names:  # still there as numbers, for whoever reads them
        assert getattr(model[0], name).shape == getattr(make(), name).shape

    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert core.equal(first(copied(x)), after)
    for suffix in ("pt", "safetensors"):
        path = tmp_path / f"model.{suffix}"
        core.save(model.state_dict(), path)
        fresh = nn.Sequential(make())
        core.quantize_(fresh, (WEIGHTS_ALONE | WITH_INPUTS)[config], q.every_layer)
        fresh.load_state_dict(core.load(path))
        assert core.equal(first(fresh(x)), after)
    assert core.equal(first(model.eval().train()(x)), after)
    with pytest.raises(TypeError, match="no weights that are kept"):  # what is quantised is not quantised again
        core.quantize_(model, q.Int8WeightOnlyConfig(), lambda m, name: name == "0")


@pytest.mark.parametrize("config", [*WEIGHTS_ALONE, *WITH_INPUTS])
@pytest.mark.parametrize("layer", ["Linear", "Conv2d", "LSTM"])
def test_gradients_reach_inputs_and_biases_as_those_of_the_widened_weights(layer, config):
    if config == "static" and layer not in STATIC:
        return
    make, inputs = LAYERS[layer]
    module, x = make(), inputs().requires_grad_()
    core.quantize_(module, (WEIGHTS_ALONE | WITH_INPUTS)[config], q.every_layer)
    plain = make()
    with core.no_grad():
        for name, p in plain.named_parameters():
            p.copy_(getattr(module, name))
    g = core.randn_like(first(module(x)))
    first(module(x)).backward(g)
    z = x.detach().clone().requires_grad_()
    first(plain(z)).backward(g)
    inside = x.detach().abs() < 3.9 if config == "static" else core.ones_like(x) > 0
    assert core.allclose(x.grad[inside], z.grad[inside], atol=2e-5, rtol=1e-4)
    for name, p in module.named_parameters():
        assert core.allclose(p.grad, getattr(plain, name).grad, atol=1e-4, rtol=1e-3), name


@pytest.mark.parametrize("dtype", [core.float16, core.bfloat16, core.float64])
@pytest.mark.parametrize("config", [*WEIGHTS_ALONE, *WITH_INPUTS])
def test_converting_changes_what_is_taken_and_given_and_not_what_is_kept(config, dtype):
    layer, x = nn.Linear(64, 10), core.randn(5, 64)
    core.quantize_(layer, (WEIGHTS_ALONE | WITH_INPUTS)[config])
    kept, before = layer.weight_values.dtype, layer(x).detach()
    layer.to(dtype)
    assert layer.weight_values.dtype is kept
    after = layer(x.to(dtype))
    assert after.dtype is dtype
    assert (after.float() - before).abs().max() < 0.06


def test_without_a_filter_the_linear_layers_are_changed_as_in_torchao():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(8, 4), nn.Embedding(3, 4),
                          nn.MultiheadAttention(8, 2))  # fmt: skip
    core.quantize_(model, q.int8_weight_only())
    assert [m._get_name() for m in model] == ["Conv2d", "QuantizedLinear", "Embedding", "MultiheadAttention"]
    assert type(model[3].out_proj).__name__ == "NonDynamicallyQuantizableLinear"


def test_a_filter_gets_modules_and_their_paths():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4))
    core.quantize_(model, q.Int4WeightOnlyConfig(), lambda m, name: isinstance(m, nn.Linear) and name != "2")
    assert [m._get_name() for m in model] == ["QuantizedLinear"] * 2 + ["Linear"]
    assert repr(model[0]).endswith("weight=4 bits in groups of 8)")  # the greatest group within its rows


def test_a_layer_is_changed_where_it_stands():
    layer = nn.Linear(8, 4)
    seen: list[str] = []
    layer.register_forward_hook(lambda m, args, y: seen.append("hook"))
    shared = nn.ModuleDict({"a": layer, "b": layer})
    core.quantize_(shared, q.Int8WeightOnlyConfig())
    assert shared["a"] is shared["b"] is layer
    layer(core.ones(1, 8))
    assert seen == ["hook"]


def test_rows_that_do_not_fit_are_left_with_a_warning():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 3))
    config = q.IntxWeightOnlyConfig(core.int4, q.PerGroup(12))
    for made, name in ((q.QATConfig(config), "Conv2d"), (config, "QuantizedConv2d")):
        some = copy.deepcopy(model)
        with pytest.warns(UserWarning, match="'0' keeps its floating weights: rows of 9"):
            core.quantize_(some, made, q.every_layer)
        assert [m._get_name() for m in some] == ["Conv2d", name]


@pytest.mark.parametrize("config", [q.Int4WeightOnlyConfig(4), q.IntxWeightOnlyConfig(core.int2)])
def test_rows_of_an_odd_length_end_in_half_a_byte(config):
    model = nn.ModuleList([nn.Conv2d(1, 4, 3), nn.Linear(7, 3), nn.Embedding(5, 3)])
    inputs = [core.randn(2, 1, 5, 5), core.randn(2, 7), core.tensor([0, 4])]
    real = [m(x).detach() for m, x in zip(model, inputs, strict=True)]
    core.quantize_(model, config, q.every_layer)
    assert [tuple(m.weight_values.shape) for m in model] == [(4, 5), (3, 4), (5, 2)]
    for m, x, y in zip(model, inputs, real, strict=True):
        assert m(x).shape == y.shape
        assert (m(x) - y).abs().max() < (0.6 if config.__class__ is q.Int4WeightOnlyConfig else 3)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: core.quantize_(nn.Linear(2, 2), "int8"), TypeError, "takes a config"),
    (lambda: core.quantize_(nn.Linear(2, 2), q.Int8WeightOnlyConfig(group_size=32)), NotImplementedError, "not built"),
    (lambda: core.quantize_(nn.ReLU(), q.Int8WeightOnlyConfig(), lambda m, n: True), TypeError, "every_layer"),
    (lambda: core.quantize_(nn.Linear(2, 2), q.IntxWeightOnlyConfig(core.int1)), NotImplementedError, "core.int2"),
    (lambda: core.quantize_(nn.Linear(2, 2), q.Float8WeightOnlyConfig(core.float16)), NotImplementedError, "float8"),
    (lambda: core.quantize_(nn.Linear(2, 2), q.Int8StaticActivationInt8WeightConfig(step="convert"), lambda m, n: 1),
     RuntimeError, "no scale of the inputs"),
    (lambda: core.quantize_(nn.LSTM(2, 2), q.Int8StaticActivationInt8WeightConfig(1.0), q.every_layer),
     NotImplementedError, "Linear, Conv1d"),
    (lambda: core.quantize_(nn.ConvTranspose1d(2, 2, 2), q.Int8DynamicActivationInt8WeightConfig(), q.every_layer),
     NotImplementedError, "weights alone"),
    (lambda: core.quantize_(nn.Linear(65538, 1), q.Int8DynamicActivationInt8WeightConfig()), NotImplementedError,
     "65536"),
    (lambda: q.QATConfig(), ValueError, "neither"),
    (lambda: q.QATConfig(q.Int8WeightOnlyConfig(), step="train"), ValueError, "prepare"),
    (lambda: core.quantize_(nn.Linear(2, 2), q.QATConfig(step="convert"), lambda m, n: True), TypeError,
     "not prepared"),
])  # fmt: skip
def test_what_cannot_be_done_says_why(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_model_without_memory_is_quantised_and_filled():
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    with core.device("meta"):
        fresh = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    for m in (model, fresh):
        core.quantize_(m, q.Int8WeightOnlyConfig())
    fresh.load_state_dict(model.state_dict(), assign=True)
    x = core.randn(3, 16)
    assert core.equal(fresh(x), model(x))


def test_static_scales_are_watched_and_converted():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    batches = [core.randn(32, 16) for _ in range(4)]
    before = model(batches[0]).detach()
    core.quantize_(model, q.Int8StaticActivationInt8WeightConfig(step="prepare"))
    assert core.equal(model(batches[0]), before)
    for x in batches:
        model(x)
    core.quantize_(model, q.Int8StaticActivationInt8WeightConfig(step="convert"))
    assert (model(batches[0]) - before).abs().max() < 0.03 * before.abs().max()
    assert not model[0]._forward_pre_hooks
    zero = model[2].input_zero.item()
    assert zero < -100  # what a ReLU gives begins at 0
    fresh = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    core.quantize_(fresh, q.Int8StaticActivationInt8WeightConfig(act_quant_scale=1.0))
    fresh.load_state_dict(model.state_dict())
    assert core.equal(fresh(batches[0]), model(batches[0]))


# -- a quantised base with adapters ------------------------------------------------------------------------------------


class LoRA(nn.Module):
    """A layer and beside it a product of two thin matrices, which alone are trained."""

    def __init__(self, base: Any, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.A = nn.Parameter(core.randn(rank, base.in_features) / base.in_features**0.5)
        self.B = nn.Parameter(core.zeros(base.out_features, rank))

    def forward(self, x: Any) -> Any:
        return self.base(x) + (x @ self.A.T) @ self.B.T * self.scale


@pytest.mark.parametrize("config", ["int8", "int4", "dynamic", "bfloat16"])
def test_adapters_train_beside_a_quantised_base_and_nothing_else_does(config):
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8))
    core.quantize_(model, (WEIGHTS_ALONE | WITH_INPUTS)[config])
    model.requires_grad_(False)
    for i in (0, 2):
        model[i] = LoRA(model[i])
    frozen = {k: v.clone() for k, v in model.state_dict().items() if ".base." in k}
    x, target = core.randn(128, 32), core.randint(8, (128,))
    optimizer = core.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert {n for n, p in model.named_parameters() if p.grad is not None} == {"0.A", "0.B", "2.A", "2.B"}
    assert all(core.equal(model.state_dict()[k], v) for k, v in frozen.items())


# -- training with rounding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [q.Int8WeightOnlyConfig(), q.Int4WeightOnlyConfig(16),
                                  q.IntxWeightOnlyConfig(core.int3), q.IntxWeightOnlyConfig(core.int2, q.PerGroup(8)),
                                  q.Int8DynamicActivationInt8WeightConfig(),
                                  q.Int8StaticActivationInt8WeightConfig()])  # fmt: skip
def test_what_was_trained_with_rounding_gives_the_same_after_conversion(base):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    core.quantize_(model, q.QATConfig(base, step="prepare"))
    optimizer, x = core.optim.Adam(model.parameters(), lr=1e-2), core.randn(64, 16)
    first_loss = loss = None
    for _ in range(30):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        first_loss = loss.item() if first_loss is None else first_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.8 * first_loss
    model.eval()
    model.apply(q.disable_observer)
    before = model(x).detach()
    core.quantize_(model, q.QATConfig(base, step="convert"))
    assert [m._get_name() for m in model] == ["QuantizedLinear", "ReLU", "QuantizedLinear"]
    off = (model(x) - before).abs()
    # where a hidden value lies between two steps of the inputs, the last bit decides
    assert off.max() < (1e-5 if not base.inputs else 0.05 * before.abs().max())
    assert (off > 1e-4 * before.abs().max()).float().mean() < (0.001 if not base.inputs else 0.2)


def test_the_older_spellings_train_and_give_floating_layers_back():
    model = nn.Sequential(nn.Linear(16, 4), nn.Embedding(5, 16))
    weight = q.FakeQuantizeConfig(core.int4, group_size=8)
    core.quantize_(model, q.IntXQuantizationAwareTrainingConfig(q.FakeQuantizeConfig(core.int8, "per_token"), weight),
                   q.every_layer)  # fmt: skip
    assert [type(m).__module__ for m in model] == ["core.ao.nn.qat"] * 2
    x = core.randn(3, 16)
    rounded = model[0](x)
    model.apply(q.disable_fake_quant)
    assert not core.equal(model[0](x), rounded)
    core.quantize_(model, q.FromIntXQuantizationAwareTrainingConfig(), q.every_layer)
    assert [type(m) for m in model] == [nn.Linear, nn.Embedding]
    assert not model[0]._modules


@pytest.mark.parametrize("layer", ["Conv1d", "Conv2d", "Conv3d", "Linear"])
@pytest.mark.parametrize("bits", [3, 8])
def test_inputs_are_rounded_in_training_as_they_are_afterwards(layer, bits):
    make, inputs = LAYERS[layer]
    module, x = make(), inputs()
    base = q.Int8DynamicActivationIntxWeightConfig(getattr(core, f"int{bits}"))
    core.quantize_(module, q.QATConfig(base), q.every_layer)
    before = module(x).detach()
    core.quantize_(module, q.QATConfig(base, step="convert"), q.every_layer)
    assert core.allclose(module(x), before, atol=1e-4 * before.abs().max().item())


@pytest.mark.parametrize("layer", ["Conv2d", "Embedding", "LSTM", "GRUCell"])
def test_other_layers_train_with_rounding_too(layer):
    make, inputs = LAYERS[layer]
    module = make()
    core.quantize_(module, q.QATConfig(q.IntxWeightOnlyConfig(core.int4)), q.every_layer)
    y = first(module(inputs()))
    y.square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    core.quantize_(module, q.QATConfig(q.IntxWeightOnlyConfig(core.int4), step="convert"), q.every_layer)
    assert module._get_name() == f"Quantized{layer}"


def test_a_learned_scale_learns():
    """It begins far too wide and narrows, so that more of the steps are used."""
    observer = q.MinMaxObserver.with_args(qscheme=core.per_tensor_symmetric, dtype=core.qint8)
    fake = q.LearnableFakeQuantize(observer, -2, 1, warmup=1)
    x = core.randn(256)
    fake(core.tensor([-20.0, 20.0]))
    before = (fake(x) - x).square().mean().item()
    optimizer = core.optim.Adam([fake.learned_scale], lr=0.3)
    for _ in range(80):
        optimizer.zero_grad()
        (fake(x) - x).square().mean().backward()
        optimizer.step()
    assert (fake(x) - x).square().mean().item() < 0.3 * before
    assert np.isfinite(fake.learned_scale.item())


@pytest.mark.parametrize("layer", [nn.Conv2d(24, 6, 3), nn.Conv1d(24, 6, 3)], ids=["Conv2d", "Conv1d"])
def test_convolutions_keep_the_channels_innermost_as_the_product_reads_them(layer):
    model, fresh = nn.Sequential(copy.deepcopy(layer)), nn.Sequential(copy.deepcopy(layer))
    for each in (model, fresh):
        core.quantize_(each, q.Int8DynamicActivationInt8WeightConfig(), q.every_layer)
    fresh.load_state_dict(model.state_dict())
    for kept in (model[0], copy.deepcopy(model)[0], fresh[0]):
        assert kept.weight_values.movedim(1, -1).is_contiguous()
        assert kept.weight_values.shape == layer.weight.shape
