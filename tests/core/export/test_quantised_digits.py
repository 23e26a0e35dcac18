"""Digits: a CNN and an MLP in whole numbers, written as ONNX and as C: the same classes on all test items, and values
within one step."""

from __future__ import annotations

import copy
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from core import nn

from .onnx_running import session
from .run_c import compiled, ran

datasets = pytest.importorskip("sklearn.datasets")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

q, STATIC = core.ao.quantization, core.ao.quantization.Int8StaticActivationInt8WeightConfig
CONFIGS = {"dynamic": q.Int8DynamicActivationInt8WeightConfig(), "weights of 8 bits": q.Int8WeightOnlyConfig(),
           "weights of 4 bits": q.Int4WeightOnlyConfig(group_size=16)}  # fmt: skip
KINDS = ("static", *CONFIGS, "aware", "aware, converted")
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
    core.manual_seed(1)
    return train(MODELS[name](), 120, 0.01).eval()


def train(model: Any, steps: int, lr: float) -> Any:
    x, y, _, _ = digits()
    optimizer = core.optim.Adam(model.parameters(), lr=lr)
    for k in range(steps):
        rows = slice(k * 100 % 1400, k * 100 % 1400 + 100)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model


@cache
def small(name: str, kind: str) -> Any:
    """Return the model in whole numbers, or as it is after training with their rounding."""
    model, x = copy.deepcopy(trained(name)), digits()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a convolution with rows of 9 numbers, which keeps its floats
        if kind == "static":
            core.quantize_(model, STATIC(step="prepare"), filter_fn=q.every_layer)
            model(x[:200])
            core.quantize_(model, STATIC(step="convert"))
        elif kind.startswith("aware"):
            core.quantize_(model, q.QATConfig(STATIC(), step="prepare"), filter_fn=q.every_layer)
            train(model.train(), 20, 1e-3)
            model.eval().apply(q.disable_observer)
            if kind == "aware, converted":
                core.quantize_(model, q.QATConfig(STATIC(), step="convert"))
        else:
            core.quantize_(model, CONFIGS[kind], filter_fn=q.every_layer)
    return model.eval()


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
    rounded = [node.op_type for node in graph.node].count("QuantizeLinear")
    assert rounded == (3 if kind in ("static", "aware", "aware, converted") else 0)
    if kind not in ("aware", "weights of 4 bits"):
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
