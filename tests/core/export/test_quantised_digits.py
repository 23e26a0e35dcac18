"""Digits: a CNN and an MLP in whole numbers, written as ONNX and as C: the same classes on all test items, and values
within one step."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.ops.quantised import int8_conv2d, int8_linear, quantised_int4, quantised_int8, weight_int4_linear
from core.ops.quantised import weight_int8_linear as weight_linear

from .onnx_running import session
from .run_c import compiled, ran

datasets = pytest.importorskip("sklearn.datasets")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

KINDS = ("static", "dynamic", "weights of 8 bits", "weights of 4 bits", "aware")
MODELS = {
    "cnn": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
    ),
    "mlp": lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10)),
}  # fmt: skip


@cache
def digits() -> tuple[Any, Any, Any, Any]:
    """Return inputs and classes to train on, and those to test on."""
    found = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x, y = (found.data[order] / 16).astype(np.float32), found.target[order]
    return tuple(core.tensor(a) for a in (x[:1400], y[:1400], x[1400:], y[1400:]))  # type: ignore[return-value]


@cache
def trained(name: str) -> Any:
    x, y, _, _ = digits()
    core.manual_seed(1)
    model = MODELS[name]()
    optimizer = core.optim.Adam(model.parameters(), lr=0.01)
    for k in range(120):
        rows = slice(k * 100 % 1400, k * 100 % 1400 + 100)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model.eval()


def steps_of(x: Any) -> tuple[float, int]:
    """Return scale and zero point for the range of some values, 0 among them."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = max(high - low, 1e-6) / 255
    return scale, round(-128 - low / scale)


class Small(nn.Module):
    """A linear layer or a convolution in whole numbers, or with numbers that are rounded like them."""

    def __init__(self, layer: Any, kind: str, x: Any) -> None:
        super().__init__()
        self.kind, self.conv = kind, isinstance(layer, nn.Conv2d)
        self.scale, self.zero = steps_of(x) if kind in ("static", "aware") else (None, None)
        flat = layer.weight.detach().reshape(len(layer.weight), -1)
        self.group = 0
        if kind == "weights of 4 bits" and not self.conv:
            self.group = 16
            weight, *rest = quantised_int4(flat, group=16)
            self.register_buffer("zeros", rest[1])
        else:
            weight, *rest = quantised_int8(flat)
        self.register_buffer("weight", weight if self.group else weight.reshape(layer.weight.shape))
        self.register_buffer("scales", rest[0])
        self.bias, self.padding = layer.bias, getattr(layer, "padding", 0)
        self.exact = layer.weight

    def forward(self, x: Any) -> Any:
        if self.kind == "aware":
            x = core.fake_quantize_per_tensor_affine(x, self.scale, self.zero, -128, 127)
            zeros = core.zeros(len(self.scales), dtype=core.int32)
            weight = core.fake_quantize_per_channel_affine(self.exact, self.scales, zeros, 0, -127, 127)
            if self.conv:
                return nn.functional.conv2d(x, weight, self.bias, padding=self.padding)
            return nn.functional.linear(x, weight, self.bias)
        if self.conv:
            return int8_conv2d(x, self.weight, self.scales, self.bias, padding=self.padding, input_scale=self.scale,
                               input_zero=self.zero)  # fmt: skip
        if self.group:
            return weight_int4_linear(x, self.weight, self.scales, self.zeros, self.bias)
        if self.kind == "weights of 8 bits":
            return weight_linear(x, self.weight, self.scales, self.bias)
        return int8_linear(x, self.weight, self.scales, self.bias, self.scale, self.zero)


@cache
def small(name: str, kind: str) -> Any:
    model, x = trained(name), digits()[0][:200]
    layers = []
    with core.no_grad():
        for layer in model:
            layers.append(Small(layer, kind, x) if isinstance(layer, nn.Linear | nn.Conv2d) else layer)
            x = layer(x)
    return nn.Sequential(*layers).eval()


@cache
def program(name: str, kind: str) -> tuple[Any, Any]:
    """Return a small model as a program, and what it gives for all test items."""
    model, x = small(name, kind), digits()[2]
    with core.no_grad():
        return core.export(model, (x[:3],), dynamic={"input": {0: "n"}}), model(x).numpy()


def within_a_step(found: Any, wanted: Any) -> None:
    """The same classes, and no value further away than a step of 8 bits over the range of what is wanted."""
    np.testing.assert_array_equal(found.argmax(1), wanted.argmax(1))
    assert np.abs(found - wanted).max() <= (wanted.max() - wanted.min()) / 255


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(MODELS))
def test_onnx_runtime_gives_the_same_classes(name: str, kind: str, tmp_path: Path) -> None:
    written, wanted = program(name, kind)
    x, y = digits()[2:]
    assert (wanted.argmax(1) == y.numpy()).mean() > 0.93
    written.to_onnx(tmp_path / "m.onnx")
    run = session(tmp_path / "m.onnx")
    within_a_step(run.run(None, {run.get_inputs()[0].name: x.numpy()})[0], wanted)
    with core.no_grad():
        within_a_step(core.onnx.load(str(tmp_path / "m.onnx"))(x).numpy(), wanted)
    graph = onnx.load(tmp_path / "m.onnx").graph
    nodes, layers = [node.op_type for node in graph.node], 3
    assert nodes.count("QuantizeLinear") == {"static": layers, "aware": 2 * layers}.get(kind, 0)
    if kind != "aware":  # whose weights are still floats
        floats = 4 * sum(p.numel() for p in trained(name).parameters())
        assert sum(len(t.raw_data) for t in graph.initializer) < 0.45 * floats


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(MODELS))
def test_c_gives_the_same_classes(name: str, kind: str, tmp_path: Path) -> None:
    written, wanted = program(name, kind)
    executable = compiled(written, tmp_path, "gcc")
    status, (found,) = ran(executable, written, [digits()[2].numpy()], [wanted], "gcc")
    assert status == 0
    within_a_step(found, wanted)
    if name == "cnn" and kind in ("static", "dynamic"):  # nothing but whole sums, and products that stand alone
        np.testing.assert_array_equal(found, wanted)
