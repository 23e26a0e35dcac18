"""Running programs by ONNX Runtime, for the tests of the ONNX writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import core
from core.export.ir import tree_of

Tensor = core.Tensor


def session(path: Path) -> Any:
    """Return a session of ONNX Runtime for a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_by_onnx(program: Any, path: Path, args: tuple[Any, ...]) -> list[Any]:
    """Return what ONNX Runtime gives for a program that was written to `path`."""
    given = program.flat(args, lambda x: isinstance(x, Tensor))
    feeds = {v.name: x.detach().numpy() for v, x in zip(program.inputs, given, strict=True)}
    return list(session(path).run(None, feeds))


def tensors(result: Any) -> list[Any]:
    """Return the arrays of the tensors in a result."""
    found: list[Any] = []
    tree_of(result, lambda x: isinstance(x, Tensor), found)
    return [x.detach().numpy() for x in found]


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Assert that an array differs by at most `tolerance` of the largest number, and whole numbers not at all."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind != "f":
        assert np.array_equal(found, wanted)
        return
    finite = np.isfinite(wanted)
    assert np.array_equal(found[~finite], wanted[~finite], equal_nan=True)
    if finite.any():
        top = max(float(np.abs(wanted[finite]).max()), 1e-30)
        assert float(np.abs(found[finite].astype(float) - wanted[finite].astype(float)).max()) <= tolerance * top
