"""PyTorch's eager flow where no PyTorch is: what is watched, converted, refused, saved and loaded."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import core
from core import nn
from core.ao import quantization as q
from tests.core.ao.tutorials import load


def net() -> Any:
    core.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10),
                         nn.ReLU(), nn.Linear(10, 3))  # fmt: skip


X = core.randn(16, 1, 8, 8, generator=core.Generator().manual_seed(1))


def ready(config: Any = None) -> Any:
    model = q.QuantWrapper(q.fuse_modules(net().eval(), [["0", "1", "2"], ["4", "5"]]))
    model.qconfig = config or q.get_default_qconfig()
    model = q.prepare(model)
    model(X)
    return model


def test_what_is_watched_is_seen_in_the_text():
    text = str(ready())
    assert text.count("(activation_post_process): HistogramObserver") == 4
    assert text.count("(activation_pre_process): HistogramObserver") == 3
    assert "min_val" in text


def test_a_converted_model_is_whole_inside_and_floating_outside():
    model = q.convert(ready())
    assert [m._get_name() for m in model.module] == ["QuantizedConv2d", "Identity", "Identity", "Flatten",
                                                     "QuantizedLinear", "Identity", "QuantizedLinear"]  # fmt: skip
    assert "activation=relu" in repr(model.module[0])
    assert type(model.quant).__name__ == "Quantize"
    assert model(X).dtype is core.float32
    assert (model(X) - net().eval()(X)).abs().max() < 0.05
    assert not [m for m in model.modules() if hasattr(m, "qconfig") or isinstance(m, q.ObserverBase)]
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert core.equal(copy.deepcopy(model)(X), model(X))


def test_a_converted_model_is_loaded_into_a_fresh_one(tmp_path):
    model = q.convert(ready())
    core.save(model.state_dict(), tmp_path / "whole.pt")
    fresh = q.QuantWrapper(q.fuse_modules(net().eval(), [["0", "1", "2"], ["4", "5"]]))
    fresh.qconfig = q.get_default_qconfig()
    q.prepare(fresh, inplace=True)
    fresh(core.ones(1, 1, 8, 8))
    q.convert(fresh, inplace=True)
    fresh.load_state_dict(core.load(tmp_path / "whole.pt"))
    assert core.equal(fresh(X), model(X))


def test_a_prepared_model_is_saved_with_what_it_saw(tmp_path):
    model, fresh = ready(), q.QuantWrapper(q.fuse_modules(net().eval(), [["0", "1", "2"], ["4", "5"]]))
    fresh.qconfig = q.get_default_qconfig()
    q.prepare(fresh, inplace=True)
    fresh.load_state_dict(model.state_dict())
    assert core.equal(q.convert(fresh)(X), q.convert(model)(X))


def test_a_layers_inputs_have_the_steps_of_the_result_that_they_are():
    prepared = ready()
    first = prepared.module[0].activation_post_process.calculate_qparams()[0].item()
    stub = prepared.quant.activation_post_process.calculate_qparams()[0].item()
    whole = q.convert(prepared)
    assert whole.module[0].input_scale.item() == whole.quant.scale.item() == pytest.approx(stub)
    assert whole.module[4].input_scale.item() == pytest.approx(first, rel=0.2)  # behind a Flatten, watched by itself


def test_layers_without_a_qconfig_stay():
    model = q.QuantWrapper(net().eval())
    model.qconfig = q.default_qconfig
    model.module[6].qconfig = None
    whole = q.quantize(model, lambda m, x: m(x), (X,))
    assert [type(whole.module[i]).__module__.split(".")[1] for i in (0, 4, 6)] == ["ao", "ao", "nn"]


@pytest.mark.parametrize(("config", "error"), [(q.QConfig(q.MinMaxObserver(), q.MinMaxObserver), ValueError),
                                               ("x86", TypeError)])  # fmt: skip
def test_what_is_no_qconfig_is_named(config, error):
    model = net()
    model.qconfig = config
    with pytest.raises(error, match=r"with_args|get_default_qconfig"):
        q.prepare(model)


def test_pytorchs_other_paths_are_the_same():
    assert core.quantization.prepare is q.prepare
    assert core.quantization.qconfig is q.qconfig
    assert core.nn.intrinsic is core.ao.nn.intrinsic
    assert core.nn.qat.Linear is core.ao.nn.qat.Linear
    assert core.nn.quantized.Linear is core.ao.nn.quantized.Linear
    with core.as_torch():
        import torch.ao.quantization.qconfig
        import torch.nn.intrinsic.qat
        from torch.quantization.observer import MinMaxObserver

        assert MinMaxObserver is q.MinMaxObserver
        assert torch.ao.quantization.qconfig.QConfig is q.QConfig
        assert torch.nn.intrinsic.qat.freeze_bn_stats is core.ao.nn.intrinsic.qat.freeze_bn_stats
    with pytest.raises(NotImplementedError, match="quantize_, prepare"):
        core.quantization.prepare_fx(net())


def test_no_qconfig_at_all_is_warned_of():
    with pytest.warns(UserWarning, match="None of the submodule got qconfig"):
        q.prepare(net())


def test_training_converts_to_what_it_trained():
    model = q.QuantWrapper(q.fuse_modules_qat(net().train(), [["0", "1", "2"], ["4", "5"]]))
    model.qconfig = q.get_default_qat_qconfig()
    model.train()

    def run(m, x):
        optimizer = core.optim.Adam(m.parameters(), lr=1e-2)
        for _ in range(30):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(m(x), core.arange(16) % 3)
            loss.backward()
            optimizer.step()
        run.answer = copy.deepcopy(m).eval()(x)

    whole = q.quantize_qat(model, run, (X,)).eval()
    limit = model.module[6].activation_post_process if False else run.answer.abs().max()  # results are not cut off
    assert (whole(X).clamp(-limit, limit).argmax(1) == run.answer.argmax(1)).float().mean() > 0.9
    with pytest.raises(AssertionError, match="training mode"):
        q.prepare_qat(net().eval())


@pytest.mark.parametrize(("config", "message"), [
    (q.QConfig(q.MinMaxObserver, q.MinMaxObserver), "weights with a zero point"),
    (q.QConfig(q.default_observer, q.PerChannelMinMaxObserver.with_args(
        ch_axis=1, dtype=core.qint8, qscheme=core.per_channel_symmetric)), "a scale for each row"),
])  # fmt: skip
def test_qconfigs_that_no_layer_follows_are_refused(config, message):
    with pytest.raises(NotImplementedError, match=message):
        q.convert(ready(config))


@pytest.mark.parametrize("activation", [
    q.MinMaxObserver.with_args(quant_min=0, quant_max=15),
    q.FakeQuantize.with_args(observer=q.MovingAverageMinMaxObserver, quant_min=0, quant_max=63),
])  # fmt: skip
def test_inputs_of_fewer_bits_are_cut_off_where_they_were_watched(activation):
    model = q.QuantWrapper(nn.Sequential(nn.Linear(4, 4))).eval()
    model.qconfig = q.QConfig(activation, q.default_weight_observer)
    prepared = q.prepare(model)
    x = core.tensor([[0.0, 1.0, 0.5, 3.0]])
    prepared(x)
    whole = q.convert(prepared)
    layer = whole.module[0]
    assert core.allclose(layer(10 * x + 3), layer(core.full((1, 4), 3.0)), atol=1e-5)
    assert layer.input_limits[0].item() == -128


def test_sums_between_layers_are_watched_and_pass():
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.add, self.quant, self.dequant = (nn.Linear(4, 4), nn.quantized.FloatFunctional(),
                                                          q.QuantStub(), q.DeQuantStub())  # fmt: skip

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.add.add(x, self.a(x)))

    model = Residual().eval()
    model.qconfig = q.default_qconfig
    prepared, x = q.prepare(model), core.randn(8, 4)
    prepared(x)
    assert type(prepared.add.activation_post_process) is q.MinMaxObserver
    assert (q.convert(prepared)(x) - model(x)).abs().max() < 0.1


def test_sigmoids_have_their_range_from_the_beginning():
    model = q.QuantWrapper(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())).eval()
    model.qconfig = q.default_qconfig
    assert q.prepare(model).module[1].activation_post_process.scale.item() == 1 / 256


def test_tables_and_recurrent_layers_by_dtype():
    model = nn.ModuleDict({"table": nn.Embedding(8, 4), "lstm": nn.LSTM(4, 4), "head": nn.Linear(4, 2)})
    names = {dtype: [m._get_name() for m in q.quantize_dynamic(model, dtype=dtype).values()]
             for dtype in (core.qint8, core.quint8, core.float16)}  # fmt: skip
    assert names[core.qint8] == ["Embedding", "QuantizedLSTM", "QuantizedLinear"]
    assert names[core.quint8] == ["QuantizedEmbedding", "LSTM", "Linear"]
    assert q.quantize_dynamic(model, dtype=core.float16)["head"].weight_values.dtype is core.float16
    assert q.quantize_dynamic(model, {"head"})["lstm"]._get_name() == "LSTM"
    with pytest.raises(ValueError, match="Don't know how"):
        q.quantize_dynamic(model, dtype=core.int32)


def test_a_mapping_makes_a_users_own_layers():
    class Mine(nn.Module):
        @classmethod
        def from_float(cls, layer):
            return cls()

    model = nn.Sequential(nn.Linear(2, 2))
    assert isinstance(q.quantize_dynamic(model, {nn.Linear}, mapping={nn.Linear: Mine})[0], Mine)


def test_a_percentile_leaves_out_what_lies_far_away():
    x = core.cat([core.linspace(-1, 1, 10001), core.tensor([1000.0])])
    wide, narrow = q.HistogramObserver(bins=4096), q.PercentileObserver(99.5, bins=4096)
    for observer in (wide, narrow):
        observer(x)
    assert narrow.calculate_qparams()[0].item() < 0.02


def test_infinite_numbers_are_left_out_with_a_warning():
    observer = q.HistogramObserver()
    with pytest.warns(UserWarning, match="inf"):
        observer(core.tensor([1.0, float("inf")]))
    assert observer.max_val.item() == 1.0


def test_an_observer_that_saw_nothing_warns():
    with pytest.warns(UserWarning, match="must run observer"):
        assert q.MinMaxObserver().calculate_qparams()[0].item() == 1.0


@pytest.mark.parametrize("call", [lambda: q.MinMaxObserver(qscheme=core.per_channel_affine),
                                  lambda: q.HistogramObserver(is_dynamic=True),
                                  lambda: q.MovingAverageMinMaxObserver(is_dynamic=True)])  # fmt: skip
def test_what_observers_cannot_is_refused(call):
    with pytest.raises(NotImplementedError):
        call()


@pytest.mark.parametrize("name", ["dynamic", "static_and_training"])
def test_the_tutorials_run(name):
    found = load(name).results()
    assert found["share of size"] < 0.7
    if name == "dynamic":
        assert abs(found["change"]) < 0.02
    else:
        assert min(found[k] for k in ("static", "per channel", "trained")) > found["float"] - 0.03
