"""Interpolation of what it must reproduce exactly; the transposed tables; grid_sample as a look-up."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.ops.resample_ops import taps, transposed_taps

F = core.nn.functional


@pytest.mark.parametrize(
    "mode", ["linear", "cubic", "area", "nearest", "nearest-exact", "smooth-linear", "smooth-cubic"]
)
@pytest.mark.parametrize(("n", "out"), [(5, 9), (9, 4), (1, 3), (6, 6), (7, 1), (3, 40)])
def test_weights_sum_to_one_and_the_tables_are_transposes(mode, n, out):
    at, w = taps(n, out, mode, False, None)
    np.testing.assert_allclose(w.sum(1), 1, atol=1e-12)
    forth, back = np.zeros((out, n)), np.zeros((n, out))
    np.add.at(forth, (np.arange(out)[:, None], at), w)
    index, weight = transposed_taps(n, out, mode, False, None)
    np.add.at(back, (np.arange(n)[:, None], index), weight)
    np.testing.assert_allclose(forth.T, back, atol=1e-14)


def test_a_straight_line_stays_straight():
    line = core.linspace(0, 1, 5, dtype=core.float64).reshape(1, 1, 5)
    longer = F.interpolate(line, 17, mode="linear", align_corners=True)
    np.testing.assert_allclose(longer.flatten().numpy(), np.linspace(0, 1, 17), atol=1e-15)


def test_the_same_size_is_the_same_image():
    x = core.rand(1, 2, 5, 4, dtype=core.float64)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        assert (F.interpolate(x, (5, 4), mode=mode) - x).abs().max() < 1e-14


def test_shuffles_are_each_others_reverse():
    x = core.rand(2, 8, 3, 5)
    assert core.equal(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)
    assert core.equal(F.channel_shuffle(F.channel_shuffle(x, 2), 4), x)


def test_the_identity_grid_gives_the_image_back():
    x = core.rand(2, 3, 4, 5, dtype=core.float64)
    theta = core.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=core.float64).expand(2, 2, 3)
    for align in (True, False):
        grid = F.affine_grid(theta, (2, 3, 4, 5), align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic"):
            assert (F.grid_sample(x, grid, mode, align_corners=align) - x).abs().max() < 1e-12


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_image_and_places(mode, rng):
    x = core.tensor(rng.uniform(-1, 1, (1, 2, 3, 4)), requires_grad=True)
    grid = core.tensor(rng.uniform(-0.8, 0.8, (1, 2, 2, 2)), requires_grad=True)
    f = lambda a, b: F.grid_sample(a, b, mode, "border", align_corners=False)
    core.autograd.gradcheck(f, (x, grid))
    if mode == "bilinear":
        core.autograd.gradgradcheck(f, (x, grid))


def test_folding_what_was_unfolded_counts_the_windows():
    x = core.rand(1, 2, 5, 6, dtype=core.float64)
    ones = F.fold(F.unfold(core.ones_like(x), 3, padding=1), (5, 6), 3, padding=1)
    assert (F.fold(F.unfold(x, 3, padding=1), (5, 6), 3, padding=1) - x * ones).abs().max() < 1e-12


def test_default_corners_warn_as_pytorch_does():
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.grid_sample(core.ones(1, 1, 2, 2), core.zeros(1, 1, 1, 2))
