"""A program's ONNX file becomes ONNX Runtime's own format for small devices, and runs from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import core

from .onnx_running import assert_close

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def test_a_program_runs_as_an_ort_file(tmp_path: Path) -> None:
    model = core.nn.Sequential(core.nn.Conv2d(1, 2, 3), core.nn.ReLU(), core.nn.Flatten(), core.nn.Linear(72, 5)).eval()
    program = core.export(model, (core.rand(2, 1, 8, 8),), dynamic={"input": {0: "batch"}})
    program.to_onnx(tmp_path / "m.onnx")
    command = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", "--optimization_style=Fixed"]
    subprocess.run([*command, str(tmp_path)], check=True, capture_output=True)
    x = core.rand(3, 1, 8, 8)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.ort"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with core.no_grad():
        assert_close(found, model(x).numpy())
