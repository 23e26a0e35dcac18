"""Layers of images: keys, running statistics, a small network that learns."""

from __future__ import annotations

import pytest

import core

nn = core.nn


def test_a_network_of_images_learns():
    core.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(4, 2))  # fmt: skip
    x = core.randn(64, 1, 8, 8)
    wide = (x[:, :, :, :4].mean((1, 2, 3)) > x[:, :, :, 4:].mean((1, 2, 3))).long()
    x = x + core.where(wide.bool(), 1.0, -1.0).reshape(-1, 1, 1, 1)
    optimizer = core.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), wide)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_running_statistics_follow_the_batches():
    layer = nn.BatchNorm1d(2)
    x = core.tensor([[1.0, 10.0], [3.0, 14.0]])
    layer(x)
    assert layer.running_mean.tolist() == pytest.approx([0.2, 1.2])
    assert layer.running_var.tolist() == pytest.approx([0.9 + 0.2, 0.9 + 0.8])
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    before = layer.running_mean.tolist()
    layer(x)
    assert layer.running_mean.tolist() == before


def test_state_is_taken_over():
    a, b = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    a(core.randn(4, 3, 2, 2))
    b.load_state_dict(a.state_dict())
    assert core.equal(a.running_var, b.running_var)
    assert list(a.state_dict()) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]


def test_modes_of_padding_agree_with_padding_by_hand():
    layer = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")
    x = core.rand(1, 2, 5, 5)
    by_hand = nn.functional.conv2d(nn.functional.pad(x, (1, 1, 1, 1), "circular"), layer.weight, layer.bias)
    assert core.equal(layer(x), by_hand)
