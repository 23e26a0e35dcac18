"""What is made from sizes alone (windows, identity matrices, even numbers), at other sizes, by every reader."""

from __future__ import annotations

import functools
import importlib.util
import math

import numpy as np
import pytest

import core
from core import nn
from core.nn import functional as F

from .run_c import compiled, ran

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


def test_a_size_is_no_key_of_a_table_where_it_may_vary():
    known = {4: 1.0, 7: 2.0}

    def function(x):
        return x * known.get(x.shape[1], 3.0)

    assert core.export(function, (core.ones(3, 4),))(core.ones(3, 4)).sum() == 12
    with pytest.raises(core.export.ExportError, match=r"test_sizes\.py line \d+ .*looks a size that may vary up"):
        core.export(function, (core.ones(3, 4),), dynamic={"x": {1: "n"}})


def test_what_is_made_once_and_kept_is_a_constant():
    mask = functools.lru_cache(lambda n: core.ones(n, n).tril())
    program = core.export(lambda x: x * mask(4), (core.rand(3, 4, 4),), dynamic={"x": {0: "n"}})
    x = core.rand(5, 4, 4)
    assert core.equal(program(x), x.tril())


HALVES = nn.Conv1d(1, 1, 3, stride=2, padding=1)


def halved_five_times(x):
    first = HALVES(HALVES(HALVES(x)))
    second = HALVES(first)
    F.interpolate(HALVES(second), scale_factor=2) + second  # runs at multiples of 32, and a little below them
    return F.interpolate(first, scale_factor=2)


def test_a_function_that_runs_at_multiples_alone():
    program = core.export(halved_five_times, (core.randn(2, 1, 32),), {"x": {2: "n"}})
    for n in (64, 160, 224):
        x = core.randn(2, 1, n)
        assert core.equal(program(x), halved_five_times(x))
    program = core.export(halved_five_times, (core.randn(2, 1, 30),), {"x": {2: "n"}})  # of which no multiple runs
    x = core.randn(2, 1, 96)
    assert core.equal(program(x), halved_five_times(x))
    program = core.export(lambda x: F.pixel_unshuffle(x, 4), (core.randn(1, 3, 8, 8),), {"x": {2: "h", 3: "w"}})
    x = core.randn(1, 3, 20, 4)
    assert core.equal(program(x), F.pixel_unshuffle(x, 4))


PARTS = {
    "ceil_mode": lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True),
    "chunk": lambda x: torch_sum(x.chunk(3, 2)),
    "split": lambda x: torch_sum(x.split(x.shape[2] // 2 + 1, 2)),
    "rounded up": lambda x: x[:, :, : -(-x.shape[2] // 2)],
    "math.ceil": lambda x: x[:, :, : math.ceil(x.shape[2] / 2)],
    "math.floor": lambda x: x[:, :, : math.floor(x.shape[2] * 0.75 - 1)],
    "int of a part": lambda x: x[:, :, int(x.shape[2] * 0.75) :],
    "half the size": lambda x: F.interpolate(x, scale_factor=0.5),
    "axes joined": lambda x: F.max_pool1d(x, 2).flatten(1),
    "the rest of a view": lambda x: F.max_pool1d(x, 2).view(x.shape[0], -1),
    "the mean of all": lambda x: F.avg_pool1d(F.max_pool1d(x, 2), F.max_pool1d(x, 2).shape[2]),
    "reflect": lambda x: F.pad(x, (3, 2), mode="reflect"),
    "replicate": lambda x: F.pad(x, (3, -2), mode="replicate"),
    "circular": lambda x: F.pad(x, (3, -2), mode="circular"),
    "a negative border": lambda x: F.pad(x, (-1, x.shape[2] - 4)),
}


def torch_sum(parts):
    return sum(part.sum(2, keepdim=True) * (k + 1) for k, part in enumerate(parts))


@pytest.mark.parametrize("name", PARTS)
def test_parts_whose_sizes_are_computed(name, tmp_path):
    function = PARTS[name]
    program = core.export(function, (core.randn(2, 3, 16),), dynamic={"x": {0: "b", 2: "n"}})
    for b, n in ((4, 16), (3, 21), (1, 38), (2, 11)):
        x = core.randn(b, 3, n)
        wanted = function(x)
        assert core.allclose(program(x), wanted)
        status, found = ran(compiled(program, tmp_path, "gcc"), program, [x.numpy()], [wanted.numpy()], "gcc")
        assert status == 0
        np.testing.assert_allclose(found[0], wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_numbers_put_where_a_mask_says():
    def function(x):
        y = x.clone()
        y[x > 0] = 1.5
        y[x.sum(1) < 0] = 2
        return y

    program = core.export(function, (core.randn(4, 3),), dynamic={"x": {0: "n"}})
    x = core.randn(9, 3)
    assert core.equal(program(x), function(x))


def test_distributions_check_their_arguments_and_the_program_does_not():
    def function(x):
        return core.distributions.Normal(x, x.exp()).log_prob(x * 2)

    x = core.randn(2, 3)
    assert core.allclose(core.export(function, (core.randn(2, 3),))(x), function(x))


def test_a_norm_goes_into_a_convolution_whose_size_others_ask_for(tmp_path):
    conv, norm = nn.Conv1d(3, 4, 1, stride=2), nn.BatchNorm1d(4).eval()

    def function(x):
        y = norm(conv(x))
        return core.zeros(x.shape[0], 4, y.shape[2]) + y.relu()

    program = core.export(function, (core.randn(2, 3, 16),), {"x": {2: "n"}})
    x = core.randn(2, 3, 27)
    wanted = function(x).detach().numpy()
    status, found = ran(compiled(program, tmp_path, "gcc"), program, [x.numpy()], [wanted], "gcc")
    assert status == 0
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


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
