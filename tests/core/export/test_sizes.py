"""What is made from sizes alone (windows, identity matrices, even numbers), at other sizes, by every reader."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import core
from core.nn import functional as F

IMAGE = {0: "n", 2: "h", 3: "w"}
IMAGES = [(2, 3, 2, 2), (1, 3, 7, 9), (3, 3, 12, 5)]
ROWS = [(1, 5), (2, 5), (3, 5), (10, 5)]
CASES = {
    "identity": (lambda x: core.eye(x.shape[0]) @ x, {0: "n"}, ROWS),
    "wide_identity": (lambda x: core.eye(x.shape[0], 5, dtype=core.int64) * x, {0: "n"}, ROWS),
    "even": (lambda x: core.linspace(-1, 3, x.shape[0])[:, None] * x, {0: "n"}, ROWS),
    "scattered": (lambda x: x.scatter(1, x[:, :2].abs().long().clamp(max=4), 0.5), {0: "n"}, ROWS),
    "greatest": (lambda x: F.max_pool2d(x, 2), IMAGE, IMAGES),
    "overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE, IMAGES),
    "mean": (lambda x: F.avg_pool2d(x, (2, 1), 2, count_include_pad=False), IMAGE, IMAGES),
    "norm": (lambda x: F.lp_pool2d(x.abs(), 2, 2), IMAGE, IMAGES),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_become_formulas(name, tmp_path):
    function, axes, shapes = CASES[name]
    example = core.randn(*(6 if axis in axes else n for axis, n in enumerate(shapes[0])))
    program = core.export(function, (example,), dynamic={"x": axes}, name=name)
    program.numpy(tmp_path)
    spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program.to_c(tmp_path / "c")
    program.to_onnx(tmp_path / "model.onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    for shape in shapes:
        x = core.randn(*shape)
        wanted = function(x).numpy()
        (by_onnx,) = session.run(None, {"x": x.numpy()})
        for found in (program(x).numpy(), module.run(x.numpy()), by_onnx):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
