"""The layers of images against PyTorch: keys, first weights, repr, outputs, gradients and running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

CASES = """
2,3,8,8 | nn.Conv2d(3, 8, 3)
2,3,8,8 | nn.Conv2d(3, 8, (3, 2), stride=2, padding=1, dilation=2, bias=False, padding_mode="reflect")
2,4,8,8 | nn.Conv2d(4, 8, 3, padding="same", groups=2, padding_mode="circular")
2,4,8,8 | nn.Conv2d(4, 8, 2, padding="same", padding_mode="replicate")
3,8 | nn.Conv1d(3, 4, 3, padding=1)
1,2,3,4,3 | nn.Conv3d(2, 4, 2)
2,3,4,4 | nn.ConvTranspose2d(3, 8, 3, 2, 1, 1)
2,4,5 | nn.ConvTranspose1d(4, 6, 3, groups=2)
1,2,3,2,2 | nn.ConvTranspose3d(2, 2, 2, bias=False)
2,3,8,8 | nn.MaxPool2d(2)
2,3,8,8 | nn.MaxPool2d(3, 2, 1, ceil_mode=True)
2,3,8 | nn.MaxPool1d(3, 2, 1)
1,2,4,4,4 | nn.MaxPool3d(2)
2,3,8,8 | nn.AvgPool2d(3, padding=1, count_include_pad=False)
2,3,8 | nn.AvgPool1d(3)
1,2,4,4,4 | nn.AvgPool3d(2, divisor_override=3)
2,3,8,8 | nn.AdaptiveAvgPool2d((1, None))
2,3,8 | nn.AdaptiveMaxPool1d(3)
2,3,8,8 | nn.LPPool2d(2, 3)
5,4 | nn.BatchNorm1d(4)
5,4,3 | nn.BatchNorm1d(4, momentum=None)
2,4,3,3 | nn.BatchNorm2d(4, affine=False)
2,4,3,3 | nn.BatchNorm2d(4, track_running_stats=False)
2,4,3,3 | nn.BatchNorm2d(4, bias=False)
1,4,2,3,3 | nn.BatchNorm3d(4, momentum=0.5)
2,4,3,3 | nn.GroupNorm(2, 4)
2,4,3,3 | nn.InstanceNorm2d(4)
4,5 | nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
2,4,3,3 | nn.Upsample(scale_factor=2)
2,4,3,3 | nn.Upsample(size=(3, 4), mode="bilinear")
2,4,3,3 | nn.UpsamplingNearest2d(scale_factor=2)
2,4,3,3 | nn.UpsamplingBilinear2d(size=5)
2,4,3,3 | nn.PixelShuffle(2)
2,4,4,4 | nn.PixelUnshuffle(2)
2,4,3,3 | nn.Unfold(2)
2,12,6 | nn.Fold((3, 4), 2)
2,4,3,3 | nn.ZeroPad2d(1)
4,3 | nn.ConstantPad1d((1, 2), 3.5)
2,4,3,3 | nn.ReflectionPad2d(2)
1,2,3,3,3 | nn.ReplicationPad3d(1)
2,4,3,3 | nn.CircularPad2d((1, 0, 2, 1))
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES)
def test_layers(case: str) -> None:
    shape, _, text = case.partition(" | ")
    sizes = tuple(int(s) for s in shape.split(","))
    found: list[list[Any]] = []
    for lib in (torch, core):
        rng = np.random.default_rng(0)
        lib.manual_seed(3, **({"kind": "torch"} if lib is core else {}))
        layer = eval(text, {"nn": lib.nn})
        rows: list[Any] = [repr(layer), *layer.state_dict(), *(v.numpy().copy() for v in layer.state_dict().values())]
        for training in (True, True, False):
            layer.train(training)
            x = lib.tensor(rng.uniform(-1, 1, sizes).astype("float32")).requires_grad_()
            y = layer(x)
            seed = lib.tensor(rng.uniform(0.5, 1.5, tuple(y.shape)).astype("float32"))
            (y * y * seed).sum().backward()
            rows += [y.detach().numpy(), x.grad.numpy()]
        rows += [p.grad.numpy() for p in layer.parameters()]
        rows += [b.numpy() for b in layer.buffers()]
        found.append(rows)
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found, strict=True):
        if isinstance(a, str):
            assert b == a
        else:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("text", "shape"), [
    ("nn.BatchNorm2d(4)", (2, 4)), ("nn.BatchNorm1d(4)", (1, 4)), ("nn.BatchNorm1d(4)", (4,)),
    ("nn.BatchNorm1d(4)", (2, 3)), ("nn.InstanceNorm2d(4)", (4, 3)), ("nn.InstanceNorm1d(4, affine=True)", (1, 3, 2)),
    ("nn.GroupNorm(3, 4)", (1, 3)), ("nn.GroupNorm(2, 4)", (2, 3, 2)), ("nn.Conv2d(3, 4, 2, groups=2)", (1,)),
    ("nn.Conv2d(2, 3, 2, groups=2)", (1,)), ("nn.Conv2d(2, 2, 2, groups=0)", (1,)),
    ("nn.Conv2d(2, 2, 2, padding='x')", (1,)), ("nn.Conv2d(2, 2, 2, 2, padding='same')", (1,)),
    ("nn.Conv2d(2, 2, 2, padding_mode='x')", (1,)), ("nn.ConvTranspose2d(2, 2, 2, padding_mode='reflect')", (1,)),

])  # fmt: skip
def test_errors(text: str, shape: tuple[int, ...]) -> None:
    found = []
    for lib in (torch, core):
        try:
            eval(text, {"nn": lib.nn})(lib.ones(shape))
            found.append(("gives", ""))
        except Exception as e:
            found.append((type(e).__name__, str(e).splitlines()[0][:24]))
    assert found[0] == found[1]


def test_transposed_layers_take_an_output_size() -> None:
    for lib in (torch, core):
        layer = lib.nn.ConvTranspose2d(2, 3, 3, stride=2)
        assert tuple(layer(lib.ones(1, 2, 4, 4), output_size=(10, 9)).shape) == (1, 3, 10, 9)
        with pytest.raises(ValueError, match="requested an output size of"):
            layer(lib.ones(1, 2, 4, 4), output_size=(20, 9))
