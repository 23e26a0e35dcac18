"""The benchmark's whole training steps: eight networks as people write them, one text for core and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases import Case, normal, whole
from .steps import Step, classified, gpt, prepared

GPT_SIZES = {"layers": 6, "wide": 384, "heads": 6, "tokens": 128, "batch": 4, "words": 256}


def _images(lib: Any, dtype: str, batch: int, side: int) -> tuple[Any, Any]:
    """Return images of three channels, and a class of ten for each."""
    return normal(lib, getattr(lib, dtype), (batch, 3, side, side), 1), whole(lib, (batch,), 10)


def _resnet_18(lib: Any, dtype: str) -> Step:
    """Return a ResNet-18 for images of 32x32: a first layer of 3x3, then four stages of two blocks."""
    nn, relu = lib.nn, lib.nn.functional.relu

    def conv(a: int, b: int, size: int, stride: int) -> Any:
        return nn.Conv2d(a, b, size, stride, size // 2, bias=False)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = conv(a, b, 3, stride), nn.BatchNorm2d(b)
            self.conv2, self.bn2 = conv(b, b, 3, 1), nn.BatchNorm2d(b)
            same = a == b and stride == 1
            self.shortcut = nn.Identity() if same else nn.Sequential(conv(a, b, 1, stride), nn.BatchNorm2d(b))

        def forward(self, x: Any) -> Any:
            y = relu(self.bn1(self.conv1(x)))
            return relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    layers, a = [conv(3, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU()], 64
    for b, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(a, b, stride), Block(b, b, 1)]
        a = b
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    model = prepared(lib, model, dtype)
    optimizer = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    return classified(lib, model, *_images(lib, dtype, 8, 32), optimizer)


def _u_net(lib: Any, dtype: str) -> Step:
    """Return a U-Net of three heights as in diffusion models: group norm and SiLU, which learns an image's noise."""
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, a: int, b: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
            self.skip = nn.Identity() if a == b else nn.Conv2d(a, b, 1)

        def forward(self, x: Any) -> Any:
            y = self.conv1(functional.silu(self.norm1(x)))
            return self.skip(x) + self.conv2(functional.silu(self.norm2(y)))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.down1, self.down2 = nn.Conv2d(3, 32, 3, padding=1), Block(32, 32), Block(32, 64)
            self.middle = Block(64, 128)
            self.up2, self.up1 = Block(128 + 64, 64), Block(64 + 32, 32)
            self.norm, self.last = nn.GroupNorm(8, 32), nn.Conv2d(32, 3, 3, padding=1)

        def forward(self, x: Any) -> Any:
            one = self.down1(self.first(x))
            two = self.down2(functional.avg_pool2d(one, 2))
            y = functional.interpolate(self.middle(functional.avg_pool2d(two, 2)), scale_factor=2)
            y = functional.interpolate(self.up2(lib.cat([y, two], 1)), scale_factor=2)
            return self.last(functional.silu(self.norm(self.up1(lib.cat([y, one], 1)))))

    model = prepared(lib, Model(), dtype)
    image, noise = (normal(lib, getattr(lib, dtype), (4, 3, 64, 64), seed) for seed in (1, 2))
    optimizer = lib.optim.Adam(model.parameters(), lr=2e-4)
    return Step([lambda: functional.mse_loss(model(0.8 * image + 0.6 * noise), noise)], [optimizer])


def _mobile_net(lib: Any, dtype: str) -> Step:
    """Return a network of inverted residuals: 1x1 to six times the channels, 3x3 of each alone, 1x1 back."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, a: int, b: int, stride: int, times: int) -> None:
            super().__init__()
            wide = a * times
            layers = [nn.Conv2d(a, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()] if times > 1 else []
            layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
            self.layers = nn.Sequential(*layers, nn.Conv2d(wide, b, 1, bias=False), nn.BatchNorm2d(b))
            self.adds = a == b and stride == 1

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.adds else self.layers(x)

    layers, a = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for b, stride, times, blocks in ((16, 1, 1, 1), (24, 2, 6, 2), (32, 2, 6, 3), (64, 2, 6, 3), (96, 1, 6, 2)):
        for k in range(blocks):
            layers.append(Block(a, b, 1 if k else stride, times))
            a = b
    head = [nn.Conv2d(a, 256, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = prepared(lib, nn.Sequential(*layers, *head, nn.Linear(256, 10)), dtype)
    optimizer = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=4e-5)
    return classified(lib, model, *_images(lib, dtype, 16, 64), optimizer)


def _vision_transformer(lib: Any, dtype: str) -> Step:
    """Return a vision transformer on images of 32x32 in squares of 4x4, from PyTorch's own encoder layers."""
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.squares, self.places = nn.Conv2d(3, 192, 4, 4), nn.Parameter(lib.zeros(1, 65, 192))
            self.first = nn.Parameter(lib.zeros(1, 1, 192))
            self.layers = nn.ModuleList([nn.TransformerEncoderLayer(
                192, 3, 768, dropout=0.0, activation="gelu", batch_first=True, norm_first=True) for _ in range(6)
            ])  # fmt: skip
            self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 10)

        def forward(self, x: Any) -> Any:
            x = self.squares(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x[:, 0]))

    model = prepared(lib, Model(), dtype)
    return classified(lib, model, *_images(lib, dtype, 16, 32), lib.optim.AdamW(model.parameters(), lr=1e-3))


def _lstm(lib: Any, dtype: str) -> Step:
    """Return a language model of two LSTM layers, whose gradients are clipped."""
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(256, 192), nn.Linear(256, 256)
            self.lstm = nn.LSTM(192, 256, num_layers=2, batch_first=True)

        def forward(self, text: Any) -> Any:
            return self.head(self.lstm(self.words(text))[0]).reshape(-1, 256)

    model = prepared(lib, Model(), dtype)
    text = whole(lib, (16, 65), 256)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    step = classified(lib, model, text[:, :-1], text[:, 1:].reshape(-1), optimizer)

    def clipped() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step.updates = [clipped]
    return step


def _physics_informed(lib: Any, dtype: str) -> Step:
    """Return a network that learns Burgers' equation, u_t + u u_x = nu u_xx, at points of a square, by derivatives."""
    nn = lib.nn
    layers, a = [], 2
    for _ in range(5):
        layers += [nn.Linear(a, 64), nn.Tanh()]
        a = 64
    model = prepared(lib, nn.Sequential(*layers, nn.Linear(64, 1)), dtype)
    kind = getattr(lib, dtype)
    t, x = (normal(lib, kind, (2000, 1), seed).abs().requires_grad_() for seed in (1, 2))
    edge = normal(lib, kind, (200, 2), 3)
    value = lib.sin(edge[:, 1:] * 3.14159265)

    def derivative(y: Any, of: Any) -> Any:
        return lib.autograd.grad(y, of, lib.ones_like(y), create_graph=True)

    def loss() -> Any:
        u = model(lib.cat([t, x], 1))
        u_t, u_x = derivative(u, [t, x])
        (u_xx,) = derivative(u_x, [x])
        return ((u_t + u * u_x - 0.0031831 * u_xx) ** 2).mean() + ((model(edge) - value) ** 2).mean()

    return Step([loss], [lib.optim.Adam(model.parameters(), lr=1e-3)])


def _small_mlp(lib: Any, dtype: str) -> Step:
    """Return a small fully connected net on tables, as first programs have it: what an op costs is what counts."""
    nn = lib.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    model = prepared(lib, model, dtype)
    x, y = normal(lib, getattr(lib, dtype), (32, 16), 1), whole(lib, (32,), 3)
    return classified(lib, model, x, y, lib.optim.Adam(model.parameters(), lr=1e-3))


def networks() -> list[Case]:
    """Return the eight training steps as cases."""
    rows: list[tuple[str, str, Callable[[Any, str], Any], float]] = [
        ("ResNet-18", "batch 8x3x32x32", _resnet_18, 0.50),
        ("U-Net", "32 to 128 channels, batch 4x3x64x64", _u_net, 0.45),
        ("MobileNet", "inverted residuals, batch 16x3x64x64", _mobile_net, 0.55),
        ("GPT", "6 layers, 384 wide, 128 tokens, batch 4", lambda lib, dtype: gpt(lib, dtype, GPT_SIZES), 0.78),
        ("ViT", "6 layers, 192 wide, 65 tokens, batch 16", _vision_transformer, 0.70),
        ("LSTM", "2 layers, 256 wide, 64 steps, batch 16", _lstm, 0.80),
        ("physics-informed net", "5 layers, 64 wide, 2000 points", _physics_informed, 0.45),
        ("small MLP", "16-32-32-3, batch 32", _small_mlp, 0.14),
    ]
    return [Case("steps", name, size, make, target) for name, size, make, target in rows]
