"""Convolution, pooling, resampling and their modules against PyTorch: values, gradients, second gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

# The input's shape, and an expression of x, the functions F and the library t; w(shape) makes a weight.
CASES = """
2,3,7,6 | F.conv2d(x, w(4,3,3,2), w(4), stride=(2,1), padding=(1,0))
2,3,7,6 | F.conv2d(x, w(4,3,3,2), padding="same")
2,3,7,6 | F.conv2d(x, w(4,3,4,3), dilation=(1,2), padding="same")
2,3,7,6 | F.conv2d(x, w(4,3,1,1), w(4))
2,4,7,6 | F.conv2d(x, w(6,2,3,3), w(6), groups=2, padding=1)
2,4,7,6 | F.conv2d(x, w(8,1,3,3), groups=4, padding=2, dilation=2)
3,7,6 | F.conv2d(x, w(4,3,3,2), w(4), padding="valid")
0,3,7,6 | F.conv2d(x, w(4,3,3,2), w(4))
2,3,9 | F.conv1d(x, w(4,3,3), w(4), stride=2, padding=1)
3,9 | F.conv1d(x, w(4,3,5), padding="same")
1,2,4,5,4 | F.conv3d(x, w(2,2,2,3,2), w(2), stride=(1,2,1), padding=1)
2,3,4,5 | F.conv_transpose2d(x, w(3,2,3,2), w(2), stride=2, padding=1, output_padding=1)
2,4,4,5 | F.conv_transpose2d(x, w(4,3,3,2), w(6), groups=2, dilation=2)
2,4,4,5 | F.conv_transpose2d(x, w(4,3,3,2), stride=1, dilation=3, output_padding=2)
2,3,5 | F.conv_transpose1d(x, w(3,2,4), w(2), stride=3, output_padding=2)
3,5 | F.conv_transpose1d(x, w(3,2,4))
1,2,3,3,2 | F.conv_transpose3d(x, w(2,3,2,3,2), stride=2, padding=(0,1,0))
5,2,3 | F.conv_tbc(x, w(2,3,4), w(4), 1)
2,3,7,6 | F.max_pool2d(x, 2)
2,3,7,6 | F.max_pool2d(x, (3, 2), stride=(2, 1), padding=1, ceil_mode=True)
2,3,9,8 | F.max_pool2d(x, 3, stride=2, dilation=2, padding=1)
3,7,6 | F.max_pool2d(x, 2, return_indices=True)
2,3,7,6 | F.max_pool2d(x, 3, 2, 1, 1, True, True)
2,3,9 | F.max_pool1d(x, 3, stride=2, padding=1, return_indices=True)
2,3,9 | F.max_pool1d(x, 2, ceil_mode=True)
1,2,5,4,6 | F.max_pool3d(x, 2, stride=1, return_indices=True)
2,3,8,6 | F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
2,3,9 | F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=(9,))
2,3,7,6 | F.avg_pool2d(x, 2)
2,3,7,6 | F.avg_pool2d(x, (3, 2), stride=2, padding=1, ceil_mode=True)
2,3,7,6 | F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
2,3,7,6 | F.avg_pool2d(x, 3, divisor_override=5)
2,3,9 | F.avg_pool1d(x, 3, stride=2, padding=1, ceil_mode=True)
3,9 | F.avg_pool1d(x, 2, count_include_pad=False)
1,2,5,4,6 | F.avg_pool3d(x, 2, padding=1, ceil_mode=True)
2,3,7,6 | F.adaptive_avg_pool2d(x, 1)
2,3,7,6 | F.adaptive_avg_pool2d(x, (3, None))
3,7,6 | F.adaptive_avg_pool2d(x, (9, 4))
2,3,9 | F.adaptive_avg_pool1d(x, 4)
1,2,5,4,6 | F.adaptive_avg_pool3d(x, (2, 3, 1))
2,3,7,6 | F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
2,3,8,6 | F.adaptive_max_pool2d(x, (4, 3), return_indices=True)
2,3,8,6 | F.adaptive_max_pool2d(x, 1, return_indices=True)
2,3,9 | F.adaptive_max_pool1d(x, 5)
1,2,5,4,6 | F.adaptive_max_pool3d(x, (2, 3, 2))
2,3,6,6 | F.lp_pool2d(x.abs() + 0.1, 3, 2)
2,3,6 | F.lp_pool1d(x.abs() + 0.1, 2, 3, stride=2)
2,3,7,6 | F.interpolate(x, scale_factor=2)
2,3,7,6 | F.interpolate(x, (3, 11))
2,3,7,6 | F.interpolate(x, scale_factor=(0.6, 1.7))
2,3,7,6 | F.interpolate(x, scale_factor=1.3, mode="nearest-exact")
2,3,7,6 | F.interpolate(x, scale_factor=1.7, mode="bilinear")
2,3,7,6 | F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
2,3,7,6 | F.interpolate(x, (3, 11), mode="bilinear", align_corners=True)
2,3,7,6 | F.interpolate(x, (3, 11), mode="bicubic")
2,3,7,6 | F.interpolate(x, (3, 1), mode="bicubic", align_corners=True)
2,3,7,6 | F.interpolate(x, (3, 4), mode="bilinear", antialias=True)
2,3,9,8 | F.interpolate(x, (4, 13), mode="bicubic", antialias=True, align_corners=True)
2,3,7,6 | F.interpolate(x, (3, 11), mode="area")
2,3,7 | F.interpolate(x, 4, mode="linear")
2,3,7 | F.interpolate(x, 15, mode="linear", align_corners=True)
1,2,3,4,3 | F.interpolate(x, scale_factor=(1.5, 2, 0.7), mode="trilinear")
2,8,3,2 | F.pixel_shuffle(x, 2)
2,2,4,6 | F.pixel_unshuffle(x, 2)
2,6,4 | F.channel_shuffle(x, 3)
2,3,5,6 | F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=2)
2,12,20 | F.fold(x, (5, 6), 2)
2,12,9 | F.fold(x, (5, 6), (2, 3), padding=1, stride=2, dilation=(1, 1))
""".strip().splitlines()
MORE = [f"2,3,5,6 | F.grid_sample(x, w(2,4,3,2) * 1.5, {m!r}, {p!r}, align_corners={a})"
        for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection")
        for a in (True, False)]  # fmt: skip
MORE += [f"2,3,4,5,6 | F.grid_sample(x, w(2,2,3,2,3) * 1.5, padding_mode={p!r}, align_corners=False)"
         for p in ("zeros", "reflection")]  # fmt: skip
MORE += [f"2,2,3 | F.affine_grid(x, (2, 1, 3, 4), align_corners={a})" for a in (True, False)]
MORE += ["2,3,4 | F.affine_grid(x, (2, 1, 2, 1, 4), align_corners=False)"]

ERRORS = (
    """
F.conv2d(o(1,4,3,3), o(2,3,3,3)) | F.conv2d(o(4,3), o(2,3,3,3)) | F.conv1d(o(4), o(2,3,3))
F.conv2d(o(1,3,2,2), o(2,3,3,3)) | F.conv2d(o(1,3,5,5), o(2,3,3,3), o(3)) | F.conv2d(o(1,3,5,5), o(2,3,3,3), stride=0)
F.conv2d(o(1,3,5,5), o(2,3,3,3), padding=-1) | F.conv2d(o(1,3,5,5), o(2,3,3,3), dilation=0)
F.conv2d(o(1,3,5,5), o(2,3,3,3), groups=0) | F.conv2d(o(1,4,5,5), o(3,2,3,3), groups=2)
F.conv2d(o(1,3,5,5), o(2,3,3,3), stride=(1,2,3)) | F.conv2d(o(1,3,5,5), o(2,3,3,3), padding="same", stride=2)
F.conv2d(o(1,3,5,5), o(2,3,3,3), padding="foo") | F.conv2d(o(1,3,5,5), o(2,3,3)) | F.conv2d(o(1,3,5,5), o(0,3,3,3))
F.conv2d(o(1,3,5,5), o(2,3,3,3).double()) | F.conv_transpose2d(o(1,3,5,5), o(2,3,3,3))
F.conv_transpose2d(o(1,3,5,5), o(3,2,3,3), output_padding=1) | F.conv_transpose2d(o(1,3,5,5), o(3,2,3,3), bias=o(3))
F.conv_transpose2d(o(3,5), o(3,2,3,3)) | F.max_pool2d(o(3,3), 2) | F.max_pool2d(o(1,3,3), 4)
F.max_pool2d(o(1,3,3), 2, padding=2) | F.max_pool2d(o(1,3,3), 2, stride=0) | F.max_pool2d(o(1,3,3), 2, dilation=0)
F.max_pool2d(o(1,4,4) > 0, 2) | F.max_pool2d(o(1,0,4,4), 2) | F.max_pool1d(o(3), 2) | F.max_pool1d(o(3,3), 4)
F.max_pool1d(o(3,3), 2, padding=2) | F.max_pool3d(o(3,3), 4) | F.max_pool2d(o(1,4,4), (2,2,2))
F.avg_pool2d(o(1,3,3), 4) | F.avg_pool2d(o(1,3,3), 2, padding=2) | F.avg_pool2d(o(1,3,3), 2, divisor_override=0)
F.avg_pool1d(o(3), 2) | F.avg_pool3d(o(3), 2) | F.adaptive_avg_pool2d(o(3), 2) | F.adaptive_max_pool2d(o(3), 2)
F.adaptive_avg_pool1d(o(3), 2)
F.adaptive_avg_pool2d(o(1,3,3), (-1,2)) | F.adaptive_avg_pool2d(o(1,1,3,3).long(), (1,2))
F.interpolate(o(1,1,3)) | F.interpolate(o(1,1,3), size=2, scale_factor=2) | F.interpolate(o(1,1,3), size=(2,2))
F.interpolate(o(1,1,3), scale_factor=(2,2)) | F.interpolate(o(1,1,3), 2, mode="nearest", align_corners=True)
F.interpolate(o(1,1,3), 2, mode="bilinear") | F.interpolate(o(1,3), 2) | F.interpolate(o(1,1,3), 2, mode="foo")
F.interpolate(o(1,1,3), 2, mode="linear", antialias=True) | F.interpolate(o(1,1,3), 0)
F.grid_sample(o(1,1,2,2), o(2,1,1,2))
F.grid_sample(o(1,1,2,2), o(1,1,1,3)) | F.grid_sample(o(1,1,2,2), o(1,1,1,2), "x")
F.grid_sample(o(1,1,2,2), o(1,1,1,2), padding_mode="x")
F.affine_grid(o(1,2,3), (1,1,2)) | F.affine_grid(o(1,2,2), (1,1,2,2))
F.pixel_shuffle(o(3,2,2), 2) | F.pixel_shuffle(o(3,2), 2)
F.pixel_unshuffle(o(1,3,2), 2) | F.pixel_unshuffle(o(1,2,3), 2)
F.channel_shuffle(o(1,3,2), 2) | F.unfold(o(1,1,2,2), 3) | F.fold(o(1,3,2), 4, 2) | F.fold(o(1,4,2), 4, 2)
F.max_unpool2d(o(1,2,2), o(1,2,2).long() * 99, 2) | F.conv2d(1, o(3,2,3,3))
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)


def _run(lib: Any, text: str, shape: tuple[int, ...], dtype: str) -> list[Any]:
    """Outputs, gradients of a weighted sum, and gradients of those, as arrays."""
    rng = np.random.default_rng(0)
    leaves = []

    def w(*sizes: int) -> Any:
        leaves.append(lib.tensor(rng.uniform(-1, 1, sizes).astype(dtype)).requires_grad_())
        return leaves[-1]

    x = w(*shape)
    y = eval(text, {"F": lib.nn.functional, "t": lib, "x": x, "w": w})
    many = list(y) if isinstance(y, tuple) else [y]
    seed = lib.tensor(rng.uniform(0.5, 1.5, tuple(many[0].shape)).astype(dtype))
    first = lib.autograd.grad((many[0] * seed * many[0]).sum(), leaves, create_graph=dtype == "float64")
    found = [*many, *first]
    if dtype == "float64" and many[0].numel() and "grid_sample" not in text and "antialias" not in text:
        found += lib.autograd.grad(sum((g * g * g).sum() for g in first), leaves)
    return [t.detach().numpy() for t in found]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES + MORE)
def test_values_and_gradients(case: str, dtype: str) -> None:
    shape, _, text = case.partition(" | ")
    sizes = tuple(int(s) for s in shape.split(","))
    theirs, mine = (_run(lib, text, sizes, dtype) for lib in (torch, core))
    tolerance = 1e-9 if dtype == "float64" else 3e-5
    assert len(theirs) == len(mine)
    for a, b in zip(theirs, mine, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * max(1.0, np.abs(a).max(initial=0)))


@pytest.mark.filterwarnings("ignore:Default grid_sample")
@pytest.mark.parametrize("text", [e.strip() for e in ERRORS])
def test_errors(text: str) -> None:
    found = []
    for lib in (torch, core):
        try:
            y = eval(text, {"F": lib.nn.functional, "o": lib.ones})
            found.append(("gives", tuple(y.shape)))
        except Exception as e:
            found.append((type(e).__name__, str(e).splitlines()[0][:30]))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 3, 6, 6)), rng.uniform(-1, 1, (4, 3, 3, 3))
    for f in (lambda F, x, w: F.conv2d(x, w, padding=1), lambda F, x, w: F.avg_pool2d(x, 2),
              lambda F, x, w: F.max_pool2d(x, 2), lambda F, x, w: F.interpolate(x, 4, mode="bilinear")):  # fmt: skip
        theirs, mine = (f(lib.nn.functional, *(lib.tensor(v).to(getattr(lib, dtype)) for v in (a, b)))
                        for lib in (torch, core))  # fmt: skip
        np.testing.assert_allclose(mine.float().numpy(), theirs.float().numpy(), atol=2e-2, rtol=2e-2)
