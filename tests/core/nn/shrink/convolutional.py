"""Convolutional networks as people write them, small: what they are called with, and the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core as torch
from core import nn
from core.nn import functional as F

CASES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


def case(make: Any) -> Any:
    CASES[make.__name__] = make
    return make


def picture(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


@case
def vgg():
    layers, c = [], 3
    for out in (8, "M", 16, 16, "M"):
        layers += (
            [nn.MaxPool2d(2)] if out == "M" else [nn.Conv2d(c, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(True)]
        )
        c = c if out == "M" else out
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10)
    ), (picture(2, 3, 16, 16),)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 4 * 4, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


@case
def lenet():
    return LeNet(), (picture(2, 1, 28, 28),)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or inplanes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, widths=(8, 16, 32), classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(widths[0])
        blocks, before = [], widths[0]
        for k, w in enumerate(widths):
            blocks += [BasicBlock(before, w, 1 if k == 0 else 2), BasicBlock(w, w)]
            before = w
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn(self.stem(x))))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.fc(x.view(x.size(0), -1))


@case
def resnet_basic():
    return ResNet(), (picture(2, 3, 8, 8),)


class Bottleneck(nn.Module):
    def __init__(self, c, mid, groups=1):
        super().__init__()
        self.a, self.b, self.c = (
            nn.Conv2d(c, mid, 1),
            nn.Conv2d(mid, mid, 3, padding=1, groups=groups),
            nn.Conv2d(mid, c, 1),
        )
        self.n1, self.n2, self.n3 = nn.BatchNorm2d(mid), nn.BatchNorm2d(mid), nn.BatchNorm2d(c)

    def forward(self, x):
        y = torch.relu(self.n1(self.a(x)))
        y = torch.relu(self.n2(self.b(y)))
        return torch.relu(x + self.n3(self.c(y)))


@case
def resnet_bottleneck():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        Bottleneck(16, 8),
        Bottleneck(16, 8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    ), (picture(2, 3, 8, 8),)


@case
def resnext():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        Bottleneck(16, 16, 4),
        Bottleneck(16, 16, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    ), (picture(2, 3, 8, 8),)


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand):
        super().__init__()
        hidden = inp * expand
        self.use_res = stride == 1 and inp == oup
        self.conv = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, oup, 1, bias=False),
            nn.BatchNorm2d(oup),
        )

    def forward(self, x):
        return x + self.conv(x) if self.use_res else self.conv(x)


@case
def mobilenet_v2():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        InvertedResidual(8, 8, 1, 2),
        InvertedResidual(8, 12, 2, 3),
        InvertedResidual(12, 12, 1, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 4),
    ), (picture(2, 3, 16, 16),)


class DenseLayer(nn.Module):
    def __init__(self, c, growth):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(c), nn.Conv2d(c, growth, 3, padding=1)

    def forward(self, features):
        x = torch.cat(features, 1)
        return self.conv(F.relu(self.norm(x)))


class DenseNet(nn.Module):
    def __init__(self, growth=6, layers=3):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.ModuleList(DenseLayer(8 + k * growth, growth) for k in range(layers))
        self.head = nn.Linear(8 + layers * growth, 10)

    def forward(self, x):
        features = [self.stem(x)]
        for layer in self.layers:
            features.append(layer(features))
        return self.head(torch.cat(features, dim=1).mean(dim=(2, 3)))


@case
def densenet():
    return DenseNet(), (picture(2, 3, 8, 8),)


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU()
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = DoubleConv(1, 8), DoubleConv(8, 16), DoubleConv(16, 32)
        self.u2, self.u1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.c2, self.c1 = DoubleConv(32, 16), DoubleConv(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        y = self.mid(F.max_pool2d(b, 2))
        y = self.c2(torch.cat([self.u2(y), b], 1))
        y = self.c1(torch.cat([self.u1(y), a], 1))
        return self.out(y)


@case
def unet():
    return UNet(), (picture(1, 1, 8, 8),)


class Inception(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.b1 = nn.Conv2d(c, 4, 1)
        self.b3 = nn.Sequential(nn.Conv2d(c, 6, 1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1))
        self.b5 = nn.Sequential(nn.Conv2d(c, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, 4, 1))

    def forward(self, x):
        return torch.cat([F.relu(b(x)) for b in (self.b1, self.b3, self.b5, self.pool)], 1)


@case
def inception():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), Inception(8), Inception(20), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(20, 3)
    ), (picture(2, 3, 8, 8),)


class Fire(nn.Module):
    def __init__(self, c, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(c, squeeze, 1)
        self.expand1x1, self.expand3x3 = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat((self.expand1x1(x).relu(), self.expand3x3(x).relu()), 1)


@case
def squeezenet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        Fire(8, 4, 8),
        nn.MaxPool2d(2),
        Fire(16, 4, 8),
        nn.Conv2d(16, 5, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ), (picture(2, 3, 10, 10),)


class SqueezeExcite(nn.Module):
    def __init__(self, c, r):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(c, c // r), nn.Linear(c // r, c)

    def forward(self, x):
        b, c, _, _ = x.shape
        s = torch.sigmoid(self.fc2(F.silu(self.fc1(x.mean((2, 3))))))
        return x * s.view(b, c, 1, 1)


class MBConv(nn.Module):
    def __init__(self, c, expand):
        super().__init__()
        mid = c * expand
        self.body = nn.Sequential(
            nn.Conv2d(c, mid, 1),
            nn.BatchNorm2d(mid),
            nn.SiLU(),
            nn.Conv2d(mid, mid, 3, padding=1, groups=mid),
            nn.BatchNorm2d(mid),
            nn.SiLU(),
            SqueezeExcite(mid, 4),
            nn.Conv2d(mid, c, 1),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return x + self.body(x)


@case
def efficientnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), MBConv(8, 2), MBConv(8, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
    ), (picture(2, 3, 8, 8),)


def channel_shuffle(x, groups):
    b, c, h, w = x.size()
    x = x.view(b, groups, c // groups, h, w)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(b, -1, h, w)


class ShuffleUnit(nn.Module):
    def __init__(self, c):
        super().__init__()
        half = c // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1, groups=half),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1),
            nn.ReLU(),
        )

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((x1, self.branch(x2)), dim=1), 2)


@case
def shufflenet():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.ReLU(),
        ShuffleUnit(16),
        ShuffleUnit(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    ), (picture(2, 3, 8, 8),)


class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = (nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 8), (8, 16), (16, 32)))
        self.lateral = nn.ModuleList(nn.Conv2d(c, 12, 1) for c in (8, 16, 32))
        self.smooth = nn.ModuleList(nn.Conv2d(12, 12, 3, padding=1) for _ in range(3))
        self.head = nn.Conv2d(12, 4, 1)  # shared by the levels

    def forward(self, x):
        c1 = F.relu(self.c1(x))
        c2 = F.relu(self.c2(c1))
        c3 = F.relu(self.c3(c2))
        p3 = self.lateral[2](c3)
        p2 = self.lateral[1](c2) + F.interpolate(p3, size=c2.shape[-2:], mode="nearest")
        p1 = self.lateral[0](c1) + F.interpolate(p2, scale_factor=2.0, mode="bilinear", align_corners=False)
        return [self.head(s(p)) for s, p in zip(self.smooth, (p1, p2, p3), strict=True)]


@case
def fpn():
    return FPN(), (picture(1, 3, 16, 16),)


@case
def autoencoder():
    encoder = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 4, 12)
    )
    decoder = nn.Sequential(
        nn.Linear(12, 16 * 4),
        nn.Unflatten(1, (16, 2, 2)),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, 2),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 1, 2, 2),
        nn.Sigmoid(),
    )
    return nn.Sequential(encoder, decoder), (picture(2, 1, 8, 8),)


class Generator(nn.Module):
    def __init__(self, latent=16, channels=32):
        super().__init__()
        self.channels = channels
        self.project = nn.Linear(latent, channels * 4)
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.ConvTranspose2d(channels, 16, 4, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.body(self.project(z).view(-1, self.channels, 2, 2))


@case
def gan_generator():
    return Generator(), (torch.randn(2, 16),)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 8, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 16, 4, 2, 1)),
            nn.InstanceNorm2d(16),
            nn.LeakyReLU(0.2),
        )
        self.score = nn.Linear(16 * 4, 1)

    def forward(self, x):
        return self.score(self.body(x).flatten(1))


@case
def gan_critic():
    return Critic(), (picture(2, 3, 8, 8),)


class GatedBlock(nn.Module):
    def __init__(self, c, skip, dilation):
        super().__init__()
        self.dilated = nn.Conv1d(c, 2 * c, 2, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(c, c, 1), nn.Conv1d(c, skip, 1)
        self.dilation = dilation

    def forward(self, x):
        y = self.dilated(F.pad(x, (self.dilation, 0)))
        a, b = y.chunk(2, dim=1)
        y = torch.tanh(a) * torch.sigmoid(b)
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self, c=8, skip=12):
        super().__init__()
        self.start = nn.Conv1d(1, c, 1)
        self.blocks = nn.ModuleList(GatedBlock(c, skip, 2**k) for k in range(3))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 6, 1))

    def forward(self, x):
        x, total = self.start(x), 0
        for block in self.blocks:
            x, s = block(x)
            total = total + s
        return self.end(total)


@case
def wavenet():
    return WaveNet(), (torch.randn(2, 1, 12),)


class Chomp(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[:, :, : -self.n].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, a, b, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(a, b, 3, padding=2 * dilation, dilation=dilation),
            Chomp(2 * dilation),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv1d(b, b, 3, padding=2 * dilation, dilation=dilation),
            Chomp(2 * dilation),
            nn.ReLU(),
        )
        self.down = nn.Conv1d(a, b, 1) if a != b else None

    def forward(self, x):
        return F.relu(self.net(x) + (x if self.down is None else self.down(x)))


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(TemporalBlock(3, 8, 1), TemporalBlock(8, 8, 2), TemporalBlock(8, 12, 4))
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.body(x)[:, :, -1])


@case
def tcn():
    return TCN(), (torch.randn(2, 3, 16),)


class Capsules(nn.Module):
    def __init__(self, capsules=4, dim=4, classes=3, out_dim=6):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 5)
        self.primary = nn.Conv2d(8, capsules * dim, 3, 2)
        self.dim = dim
        self.weight = nn.Parameter(torch.randn(classes, capsules * 9, out_dim, dim) * 0.1)

    def forward(self, x):
        u = self.primary(F.relu(self.conv(x)))
        u = u.view(u.size(0), self.dim, -1).transpose(1, 2)
        u = u / (1 + u.norm(dim=-1, keepdim=True))
        votes = torch.einsum("cnod,bnd->bcno", self.weight, u)
        logits = torch.zeros(*votes.shape[:3])
        for _ in range(2):
            share = logits.softmax(1)
            v = (share.unsqueeze(-1) * votes).sum(2)
            logits = logits + (votes * v.unsqueeze(2)).sum(-1)
        return v.norm(dim=-1)


@case
def capsules():
    return Capsules(), (picture(2, 1, 12, 12),)


class Net3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(1, 6, 3),
            nn.BatchNorm3d(6),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(6, 8, 2),
            nn.GroupNorm(4, 8),
            nn.ReLU(),
        )
        self.fc = nn.Linear(8 * 8, 3)

    def forward(self, x):
        x = self.features(x)
        return self.fc(x.reshape(x.shape[0], -1))


@case
def conv3d():
    return Net3d(), (torch.randn(1, 1, 8, 8, 8),)
