"""Layers of small numbers in every form of a program: ONNX, C, NumPy, and ONNX read back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core

from .onnx_running import assert_close, run_by_onnx
from .quantised_models import CASES
from .run_c import compiled, flat, ran

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

OPS = {"static": {"QuantizeLinear", "DequantizeLinear"}, "dynamic": {"MatMulInteger"},
       "convolution": {"ConvInteger"}, "weights of 4 bits": {"BitwiseAnd", "BitShift"},
       "fake": {"QuantizeLinear", "DequantizeLinear"}, "fake of 4 bits": {"QuantizeLinear", "Clip"}}  # fmt: skip
IN_FLOATS = ("weights", "gelu", "silu")
"""Cases whose last places the compiler may choose: sums of floats, and functions that are approximated."""


def _program(name: str) -> Any:
    function, args = CASES[name]
    dynamic = {} if name in ("sequences", "rows of zeros") else {0: "n"}
    parameter = core.export(function, args(3)).parameters[0]
    return core.export(function, args(3), dynamic={parameter: dynamic})


def _other(name: str) -> tuple[Any, ...]:
    return CASES[name][1](3 if name in ("sequences", "rows of zeros") else 7)


def _ops(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("name", list(CASES))
def test_by_onnx_and_read_back(name: str, tmp_path: Path) -> None:
    program, args = _program(name), _other(name)
    program.to_onnx(tmp_path / "m.onnx")
    wanted = CASES[name][0](*args).numpy()
    assert_close(run_by_onnx(program, tmp_path / "m.onnx", args)[0], wanted)
    assert_close(core.onnx.load(str(tmp_path / "m.onnx"))(*args).detach().numpy(), wanted)
    assert OPS.get(name, set()) <= _ops(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", [name for name in CASES if name != "shifts"])
def test_as_c(name: str, tmp_path: Path) -> None:
    """Whole sums have the bits of eager core; the weights take a byte each, or half of one."""
    program, args = _program(name), _other(name)
    wanted = CASES[name][0](*args).numpy()
    executable = compiled(program, tmp_path, "sanitized")
    status, (found,) = ran(executable, program, flat(args, lambda x: isinstance(x, core.Tensor)), [wanted], "sanitized")
    assert status == 0
    if any(word in name for word in IN_FLOATS):
        assert_close(found, wanted)
    else:
        np.testing.assert_array_equal(found, wanted)
    assert (tmp_path / "weights.bin").stat().st_size < 1000


@pytest.mark.parametrize("name", list(CASES))
def test_as_numpy(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, args = _program(name), _other(name)
    program.numpy(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop(program.name, None)
    run = __import__(program.name).run
    sys.modules.pop(program.name)
    assert_close(np.asarray(run(*(a.numpy() for a in args))), CASES[name][0](*args).numpy())


def test_an_index_that_is_no_row_is_an_error_in_c(tmp_path: Path) -> None:
    for name in ("table of 8 bits", "table of 4 bits"):
        program = _program(name)
        executable = compiled(program, tmp_path, "sanitized")
        wanted = [np.zeros((3, 3, 12), np.float32)]
        assert ran(executable, program, [np.full((3, 3), 9)], wanted, "sanitized")[0] == 2
