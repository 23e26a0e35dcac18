"""What is made from sizes alone (windows, identity matrices, even numbers), at other sizes, by every reader."""

from __future__ import annotations

import functools
import importlib.util
import math

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


def _two_pads(x):
    n = x.shape[0]
    return F.pad(F.pad(x, [0, n % 2]), [0, (n // 2) % 2])


def _halved_twice(x):
    y = x[None, None]
    a = F.max_pool1d(y, 2)
    x = F.interpolate(F.max_pool1d(a, 2), scale_factor=2)
    x = F.interpolate(F.pad(x, [0, a.shape[-1] - x.shape[-1]]), scale_factor=2)
    return F.pad(x, [0, y.shape[-1] - x.shape[-1]])


NUMBERS = {
    "to a multiple": lambda x: F.pad(x, (0, (7 - x.shape[0] % 7) % 7)),
    "two pads": _two_pads,
    "halved twice": _halved_twice,
    "whole part": lambda x: x * (x.shape[0] // 8),
    "rounded up": lambda x: x * -(-x.shape[0] // 8),
    "remainder": lambda x: x * (x.shape[0] % 4 // 2) + 10 * (x.shape[0] // 2 % 2),
    "logarithm": lambda x: x * int(math.log2(x.shape[0])),
    "root": lambda x: x * math.isqrt(x.shape[0]),
    "bits": lambda x: x * (1 << (x.shape[0] - 1).bit_length()),
    "rounded": lambda x: x * round(x.shape[0] / 10),
}


@pytest.mark.parametrize("at", [4, 5, 7, 8, 9, 16, 17, 24])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_computed_from_sizes_is_right_or_refused(name, at):
    """Sizes near one another may give one number where others do not: no formula is taken because it fits a few."""
    function = NUMBERS[name]
    try:
        program = core.export(function, (core.rand(at),), dynamic={"x": {0: "n"}})
    except core.export.ExportError as error:
        if "test_sizes.py line" not in str(error):
            raise
        return
    for n in range(8, 60):
        x = core.rand(n)
        np.testing.assert_allclose(program(x).numpy(), function(x).numpy(), rtol=1e-6)


def test_how_many_dimensions_squeeze_leaves_is_a_guard():
    program = core.export(lambda x: x.squeeze(), (core.rand(3, 4, 1),), dynamic={"x": {0: "b"}})
    assert program(core.rand(2, 4, 1)).shape == (2, 4)
    with pytest.raises(ValueError, match="not b == 1"):
        program(core.rand(1, 4, 1))
    last = core.export(lambda x: x.squeeze(-1), (core.rand(3, 4, 1),), dynamic={"x": {0: "b"}})
    assert last(core.rand(1, 4, 1)).shape == (1, 4)


def test_a_table_that_is_looked_up_by_sizes_answers_for_none():
    """As einops does: what cannot be looked up is computed."""

    @functools.lru_cache
    def halves(shape):
        return shape[0] * 2, shape[1] // 2

    def function(x):
        try:
            shape = halves(x.shape)
        except TypeError:
            shape = halves.__wrapped__(x.shape)
        return x.reshape(shape) + 1

    function(core.rand(3, 4))
    program = core.export(function, (core.rand(3, 4),), dynamic={"x": {0: "n"}})
    assert program(core.rand(5, 4)).shape == (10, 2)


def test_a_border_of_truths_is_read_back(tmp_path):
    program = core.export(lambda m: F.pad(m, (2, 0), value=False), (core.rand(3, 4) > 0.5,))
    program.save(tmp_path / "m.gl")
    m = core.rand(3, 4) > 0.5
    assert core.export.load(tmp_path / "m.gl")(m).tolist() == F.pad(m, (2, 0), value=False).tolist()


def test_a_border_that_depends_on_a_size_is_refused_in_c(tmp_path):
    program = core.export(lambda x: F.pad(x, [0, x.shape[-1] - 4]), (core.rand(1, 6),), dynamic={"x": {1: "a"}})
    with pytest.raises(core.export.ExportError, match="border that depends on a size"):
        program.to_c(tmp_path)


def test_sizes_at_which_the_function_goes_another_way_are_left_to_the_guard():
    """The run far away, which looks for what changes rarely, says nothing of this way."""

    def function(x):
        if x.shape[0] > 20:
            return x + 1, x
        return {"y": x * 2}

    program = core.export(function, (core.rand(3),), dynamic={"x": {0: "n"}})
    assert program(core.rand(20))["y"].shape == (20,)
    with pytest.raises(ValueError, match="n > 20"):
        program(core.rand(21))
