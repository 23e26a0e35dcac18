"""`ao.quantization` against PyTorch: what observers choose, fake quantisers give, and converted models answer."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import core
from tests.core.ao.tutorials import load

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's flow says at each call that it is deprecated

RNG = np.random.default_rng(0)
BATCHES = [(RNG.normal(size=(8, 6, 5)) * s + m).astype("f") for s, m in ((1, 0), (3, 1), (0.5, -2), (2, 4), (9, 0))]
LONG_TAIL = [np.concatenate([RNG.normal(size=4000), [30.0, -12.0]]).astype("f"), RNG.normal(size=3000).astype("f")]
POSITIVE = [np.abs(b) for b in BATCHES]
EVEN = [np.full((3, 4, 2), 2.0, "f")]

OBSERVERS = {
    "min max": lambda q, t: q.MinMaxObserver(),
    "signed": lambda q, t: q.MinMaxObserver(dtype=t.qint8),
    "symmetric": lambda q, t: q.MinMaxObserver(dtype=t.qint8, qscheme=t.per_tensor_symmetric),
    "symmetric unsigned": lambda q, t: q.MinMaxObserver(qscheme=t.per_tensor_symmetric),
    "reduced": lambda q, t: q.MinMaxObserver(reduce_range=True),
    "four bits": lambda q, t: q.MinMaxObserver(quant_min=0, quant_max=15),
    "four bits symmetric": lambda q, t: q.MinMaxObserver(dtype=t.qint8, qscheme=t.per_tensor_symmetric, quant_min=-8,
                                                         quant_max=7),
    "moving": lambda q, t: q.MovingAverageMinMaxObserver(averaging_constant=0.1),
    "channels": lambda q, t: q.PerChannelMinMaxObserver(ch_axis=1, dtype=t.qint8, qscheme=t.per_channel_symmetric),
    "channels affine": lambda q, t: q.PerChannelMinMaxObserver(ch_axis=0),
    "channels float": lambda q, t: q.PerChannelMinMaxObserver(qscheme=t.per_channel_affine_float_qparams),
    "moving channels": lambda q, t: q.MovingAveragePerChannelMinMaxObserver(ch_axis=2, averaging_constant=0.2),
    "histogram": lambda q, t: q.HistogramObserver(),
    "histogram reduced": lambda q, t: q.HistogramObserver(reduce_range=True),
    "histogram signed": lambda q, t: q.HistogramObserver(bins=256, dtype=t.qint8, qscheme=t.per_tensor_symmetric),
    "fixed": lambda q, t: q.FixedQParamsObserver(scale=1 / 256, zero_point=0),
}  # fmt: skip


@pytest.mark.parametrize("data", [BATCHES, POSITIVE, LONG_TAIL, EVEN], ids=["batches", "positive", "long tail", "even"])
@pytest.mark.parametrize("name", OBSERVERS)
def test_observers_choose_pytorchs_scale_and_zero_point(name, data):
    if "channels" in name and data[0].ndim == 1:
        data = [b[:1000].reshape(10, 10, 10) for b in data]
    ours, theirs = (OBSERVERS[name](lib.ao.quantization, lib) for lib in (core, torch))
    for batch in data:
        np.testing.assert_array_equal(ours(core.from_numpy(batch)).numpy(), batch)  # it watches, and changes nothing
        theirs(torch.from_numpy(batch))
    mine, other = ours.calculate_qparams(), theirs.calculate_qparams()
    close = 1e-3 if "histogram" in name else 1e-6  # PyTorch's sums of errors are of float32
    np.testing.assert_allclose(mine[0].numpy(), other[0].numpy(), rtol=close)
    np.testing.assert_allclose(mine[1].numpy(), other[1].numpy(), atol=1e-4)
    assert mine[0].shape == tuple(other[0].shape)
    assert {k for k in ours.state_dict() if k != "histogram"} == {k for k in theirs.state_dict() if k != "histogram"}
    assert repr(ours.quant_min) == repr(theirs.quant_min)
    assert ours.quant_max == theirs.quant_max


DEFAULTS = [n for n in core.ao.quantization.qconfig.__all__
            if n.endswith("qconfig") and not n.startswith("get_") and hasattr(torch.ao.quantization, n)]  # fmt: skip


@pytest.mark.parametrize("name", [*DEFAULTS, "x86", "fbgemm", "qnnpack", "onednn", "qat x86", "qat qnnpack"])
def test_qconfigs_make_the_same(name):
    said = []
    for lib in (core, torch):
        q = lib.ao.quantization
        kind, _, backend = name.rpartition(" ")
        if name in DEFAULTS:
            config = getattr(q, name)
        else:
            config = (q.get_default_qat_qconfig if kind else q.get_default_qconfig)(backend)
        made = [config.activation(), config.weight()]
        said.append([(type(m).__name__, *(str(getattr(m, a, None)).replace("torch.", "core.") for a in
                      ("dtype", "qscheme", "quant_min", "quant_max", "is_dynamic"))) for m in made])  # fmt: skip
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["default_fake_quant", "default_weight_fake_quant", "default_fused_act_fake_quant",
                                  "default_per_channel_weight_fake_quant", "default_fused_per_channel_wt_fake_quant",
                                  "default_fused_wt_fake_quant"])  # fmt: skip
def test_fake_quantisers_give_the_same_numbers_and_gradients(name):
    found = []
    for lib in (core, torch):
        fake = getattr(lib.ao.quantization, name)()
        fake.apply(lib.ao.quantization.enable_observer)
        for i, batch in enumerate([*BATCHES[:3], BATCHES[4]]):
            x = lib.from_numpy(batch.copy()).requires_grad_()
            if i == 3:
                fake.apply(lib.ao.quantization.disable_observer)
            y = fake(x)
            (y * y).sum().backward()
            found.append(
                (y.detach().numpy(), x.grad.numpy(), fake.scale.numpy().copy(), fake.zero_point.numpy().copy())
            )
    for mine, other in zip(found[:4], found[4:], strict=True):
        # PyTorch's fused kernel divides by 127 or 128, whichever side is longer, its other observers by 127.5
        np.testing.assert_allclose(mine[2], other[2], rtol=5e-3 if "wt" in name else 1e-6)
        np.testing.assert_array_equal(mine[3], other[3])
        scale = float(mine[2].max())
        off = np.abs(mine[0] - other[0])
        assert off.max() <= scale * 1.6  # where a value lies between two steps, the last bit decides
        assert (off > scale * 0.9).mean() < 0.03
        assert (np.abs(mine[1] - other[1]) > 2.2 * scale).mean() < 0.02


def net(lib: Any) -> Any:
    """A small network with the same weights in both libraries."""
    nn = lib.nn
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 8), nn.ReLU(),
                          nn.Linear(8, 3))  # fmt: skip
    rng = np.random.default_rng(1)
    with lib.no_grad():
        for p in [*model.parameters(), *(b for b in model.buffers() if b.ndim)]:
            p.copy_(lib.from_numpy(np.asarray(np.abs(rng.normal(size=tuple(p.shape))) if p.ndim == 1 else
                                              rng.normal(size=tuple(p.shape)) * 0.4, "f")))  # fmt: skip
    return model


IMAGES = [np.random.default_rng(i).normal(size=(16, 1, 8, 8)).astype("f") for i in range(3)]
FUSED = [["0", "1", "2"], ["4", "5"], ["7", "8"]]


def prepared(lib: Any, config: Any, fuse: bool = True) -> Any:
    q = lib.ao.quantization
    model = net(lib).eval()
    if fuse:
        model = q.fuse_modules(model, FUSED)
    model = q.QuantWrapper(model)
    model.qconfig = config(q)
    model = q.prepare(model.eval())
    for batch in IMAGES:
        model(lib.from_numpy(batch))
    return model


CONFIGS = {
    "default": lambda q: q.default_qconfig,
    "x86": lambda q: q.get_default_qconfig("x86"),
    "fbgemm": lambda q: q.get_default_qconfig("fbgemm"),
    "per channel": lambda q: q.default_per_channel_qconfig,
}


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_prepared_models_watch_the_same_and_converted_ones_answer_alike(name, fuse):
    ours, theirs = (prepared(lib, CONFIGS[name], fuse) for lib in (core, torch))
    for path, module in theirs.named_modules():
        if path.endswith("activation_post_process"):
            mine = ours.get_submodule(path).calculate_qparams()
            for a, b in zip(mine, module.calculate_qparams(), strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-3, atol=1)
    x = IMAGES[0]
    real = net(core).eval()(core.from_numpy(x)).detach().numpy()
    mine = core.ao.quantization.convert(ours)(core.from_numpy(x)).detach().numpy()
    other = torch.ao.quantization.convert(theirs)(torch.from_numpy(x)).numpy()
    step = theirs.module[9].activation_post_process.calculate_qparams()[0].item()
    assert np.abs(mine - real).max() <= np.abs(other - real).max() * 1.2 + step  # not further from the floating model
    assert np.abs(mine - other).max() <= 6 * step


def test_converted_weights_are_pytorchs_whole_numbers():
    ours, theirs = (lib.ao.quantization.convert(prepared(lib, CONFIGS["x86"])) for lib in (core, torch))
    for path in ("module.0", "module.4", "module.7", "module.9"):
        mine, other = ours.get_submodule(path), theirs.get_submodule(path).weight()
        np.testing.assert_array_equal(mine.weight_values.numpy(), other.int_repr().numpy())
        np.testing.assert_allclose(mine.weight_scale.numpy(), other.q_per_channel_scales().numpy(), rtol=1e-6)
        np.testing.assert_allclose(mine.weight.numpy(), other.dequantize().numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
def test_dynamic_linear_layers_answer_alike(dtype):
    x = np.random.default_rng(5).normal(size=(4, 24)).astype("f")
    models = [net(lib)[7:] for lib in (core, torch)]
    real = models[1](torch.from_numpy(x)).detach().numpy()
    answers = [lib.ao.quantization.quantize_dynamic(m, {lib.nn.Linear}, getattr(lib, dtype))(lib.from_numpy(x))
               .detach().numpy() for lib, m in zip((core, torch), models, strict=True)]  # fmt: skip
    assert np.abs(answers[0] - answers[1]).max() < 0.02 * np.abs(real).max()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dynamic_recurrent_layers_answer_alike(kind):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(7, 3, 10)).astype("f")
    layers = [getattr(lib.nn, kind)(10, 12, num_layers=2) for lib in (core, torch)]
    values = [rng.normal(size=tuple(p.shape)).astype("f") * 0.3 for p in layers[1].parameters()]
    answers = []
    for lib, layer in zip((core, torch), layers, strict=True):
        with lib.no_grad():
            for p, v in zip(layer.parameters(), values, strict=True):
                p.copy_(lib.from_numpy(v))
        model = lib.ao.quantization.quantize_dynamic(lib.nn.Sequential(layer), dtype=lib.qint8)
        answers.append(model(lib.from_numpy(x))[0].detach().numpy())
    assert np.abs(answers[0] - answers[1]).max() < 0.05


def test_training_with_rounding_has_pytorchs_losses():
    found = []
    for lib in (core, torch):
        q = lib.ao.quantization
        model = q.fuse_modules_qat(net(lib).train(), FUSED)
        model = q.QuantWrapper(model)
        model.qconfig = q.get_default_qat_qconfig("fbgemm")
        model = q.prepare_qat(model.train())
        optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for step in range(6):
            x = lib.from_numpy(IMAGES[step % 3])
            target = lib.from_numpy(np.arange(16) % 3)
            loss = lib.nn.functional.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == 3:
                model.apply(q.disable_observer)
                model.apply(lib.nn.intrinsic.qat.freeze_bn_stats)
        whole = q.convert(copy.deepcopy(model).eval())
        found.append((losses, whole(lib.from_numpy(IMAGES[0])).detach().numpy(), sorted(
            n for n, _ in model.named_parameters())))  # fmt: skip
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0.05)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=0.15 * np.abs(found[1][1]).max())
    assert found[0][2] == found[1][2]


@pytest.mark.parametrize("layers", [["Conv2d", "BatchNorm2d", "ReLU"], ["Conv1d", "BatchNorm1d"], ["Conv3d", "ReLU"],
                                    ["Linear", "ReLU"], ["Linear", "BatchNorm1d"], ["BatchNorm2d", "ReLU"],
                                    ["ConvTranspose2d", "BatchNorm2d"], ["Linear", "Tanh"],
                                    ["Conv2d", "ReLU", "BatchNorm2d"]])  # fmt: skip
@pytest.mark.parametrize("training", [False, True])
def test_layers_join_to_the_same_classes_or_are_refused(layers, training):
    said = []
    for lib in (core, torch):
        size = {"Conv": (2, 4, 3), "Line": (4, 4), "Batc": (4,)}
        made = [getattr(lib.nn, n)(*size.get(n[:4], ())) for n in layers]
        model = lib.nn.Sequential(*made).train(training)
        q = lib.ao.quantization
        try:
            fused = (q.fuse_modules_qat if training else q.fuse_modules)(model, [["0", "1", "2"][: len(layers)]])
            said.append([type(m).__name__ for m in fused])
        except Exception:  # of PyTorch's, whatever it is
            said.append("refused")
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["static_and_training", "dynamic"])
def test_the_tutorials_text_answers_alike_on_both(name):

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (load(name, package).results() for package in ("core", "torch"))
    assert ours.keys() == theirs.keys()
    for key in ours:
        assert abs(ours[key] - theirs[key]) <= load(name).TOLERANCE[key], (key, ours, theirs)
