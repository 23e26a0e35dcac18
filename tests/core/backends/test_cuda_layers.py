"""Convolutional and recurrent networks on the device cuda: their rows run, and they train to the CPU's losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import nn
from core.backends import explain
from core.base.device import device, kind
from core.events import observe
from triton_kernels import runtime


class Names(observe.Observer):
    """The kernels that ran, by op."""

    def __init__(self) -> None:
        self.ran: dict[str, str] = {}

    def op(self, event: observe.OpEvent) -> None:
        self.ran[event.op] = event.backend


class Image(nn.Module):
    """Each kind of layer that slides, once."""

    def __init__(self) -> None:
        super().__init__()
        wide, narrow = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 8, (1, 2), groups=2)
        depthwise, transposed = nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.ConvTranspose2d(8, 4, 3, stride=2)
        self.body = nn.Sequential(
            wide, nn.ReLU(), depthwise, nn.MaxPool2d(2), narrow, nn.Tanh(), transposed, nn.AvgPool2d(2),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveMaxPool2d((2, 3)), nn.Flatten(), nn.Linear(24, 5),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


class Sequence(nn.Module):
    """A recurrent layer over sequences of unlike lengths, two layers in both directions."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.last = layer(3, 5, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(10, 5)

    def forward(self, x: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, core.tensor([3, 2, 1]), batch_first=True)
        whole = self.layer(x)[0][:, -1]
        padded, _ = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        return self.last(whole + padded.sum(1))


NETWORKS = {
    "image": (Image, (3, 3, 13, 12)),
    "lstm": (lambda: Sequence(nn.LSTM), (3, 3, 3)),
    "gru": (lambda: Sequence(nn.GRU), (3, 3, 3)),
    "rnn": (lambda: Sequence(nn.RNN), (3, 3, 3)),
}


def trained(name: str, where: str) -> tuple[list[float], dict[str, str]]:
    """The losses of two steps, and what ran."""
    core.manual_seed(0)
    make, shape = NETWORKS[name]
    x, target = core.randn(*shape), core.tensor([0, 3, 2])
    net = make().to(where)
    optimizer = core.optim.SGD(net.parameters(), lr=0.1)
    losses, watch = [], Names()
    with observe.observing(watch):
        for _ in range(2):
            loss = nn.functional.cross_entropy(net(x.to(where)), target.to(where))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, watch.ran


@pytest.mark.parametrize("name", NETWORKS)
def test_trains_to_the_losses_of_the_cpu(name: str) -> None:
    want, _ = trained(name, "cpu")
    losses, ran = trained(name, "cuda")
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    assert losses[-1] < losses[0]
    ours = {"convolution", "max_pool", "avg_pool", "upsample", "adaptive_max_pool"} if name == "image" else {name}
    assert {op: ran[op] for op in ours} == dict.fromkeys(ours, "Triton")


def test_channels_last_stays_and_is_the_same() -> None:
    x, w = core.randn(2, 4, 5, 6).to("cuda"), core.randn(3, 4, 3, 3).to("cuda")
    y, y_last = (nn.functional.conv2d(a, w) for a in (x, x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)))
    assert y.is_contiguous()
    assert y_last.permute(0, 2, 3, 1).is_contiguous()
    assert core.equal(y, y_last)


@pytest.mark.parametrize("setting", ["highest", "high"])
def test_the_precision_of_products_is_that_of_matmul(setting: str) -> None:
    x, w = core.randn(1, 3, 5).to("cuda"), core.randn(4, 3, 2).to("cuda").requires_grad_()
    layer = nn.LSTM(3, 2).to("cuda")
    core.set_float32_matmul_precision(setting)
    try:
        nn.functional.conv1d(x, w)
        assert runtime.latest.constexprs["PRECISION"] == {"highest": "ieee", "high": "tf32"}[setting]
        layer(x.permute(2, 0, 1))
        assert runtime.latest.constexprs["PRECISION"] == {"highest": "ieee", "high": "tf32"}[setting]
    finally:
        core.set_float32_matmul_precision("highest")


def test_what_is_declined_is_told() -> None:
    cuda = kind(core.float64, device("cuda", 0))
    x, w = np.ones((1, 2, 5)), np.ones((2, 2, 3))
    params = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}
    assert explain("conv", None, cuda, (x, w, None), params)[0][2] == "takes float16, bfloat16, float32, got float64"
    half = w.astype("e")
    assert explain("conv", None, cuda, (x.astype("f"), half, None), params)[0][2] == (
        "takes one floating type, got float32 and float16"
    )
    y = nn.functional.conv1d(core.from_numpy(x).to("cuda"), core.from_numpy(w).to("cuda"))
    assert y.dtype is core.float64
    assert y.tolist() == [[[6.0] * 3] * 2]
