"""Denoising diffusion (Ho 2020) of handwritten digits: a small convolutional network, an averaged copy, sampling."""

import copy
import math
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 8.0 - 1.0).astype(np.float32))[:, None]
TIMESTEPS = 100


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1)
    alphas_cumprod = torch.cos(((x / timesteps) + s) / (1 + s) * torch.pi * 0.5) ** 2
    alphas_cumprod = alphas_cumprod / alphas_cumprod[0]
    betas = 1 - (alphas_cumprod[1:] / alphas_cumprod[:-1])
    return torch.clip(betas, 0.0001, 0.9999)


betas = cosine_beta_schedule(TIMESTEPS)
alphas = 1.0 - betas
alphas_cumprod = torch.cumprod(alphas, dim=0)
alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)


def extract(a, t, x_shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half = self.dim // 2
        frequencies = torch.exp(torch.arange(half, device=time.device) * -(math.log(10000) / (half - 1)))
        angles = time[:, None] * frequencies[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, channels, time_dim):
        super().__init__()
        self.time_mlp = nn.Linear(time_dim, 2 * channels)
        self.norm = nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, t):
        scale, shift = self.time_mlp(F.silu(t))[..., None, None].chunk(2, dim=1)
        h = self.norm(self.conv1(F.silu(x))) * (scale + 1) + shift
        return x + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, channels=24, time_dim=32, depth=3):
        super().__init__()
        self.time_mlp = nn.Sequential(
            SinusoidalPositionEmbeddings(time_dim),
            nn.Linear(time_dim, time_dim),
            nn.GELU(),
            nn.Linear(time_dim, time_dim),
        )
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.ModuleList(Block(channels, time_dim) for _ in range(depth))
        self.out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, time):
        t, x = self.time_mlp(time), self.stem(x)
        for block in self.blocks:
            x = block(x, t)
        return self.out(F.silu(x))


def q_sample(x_start, t, noise):
    root = extract(alphas_cumprod.sqrt(), t, x_start.shape)
    return root * x_start + extract((1.0 - alphas_cumprod).sqrt(), t, x_start.shape) * noise


@torch.no_grad()
def sample(model, shape):
    x = torch.randn(shape)
    for i in reversed(range(TIMESTEPS)):
        t = torch.full((shape[0],), i, dtype=torch.long)
        correction = extract(betas / (1.0 - alphas_cumprod).sqrt(), t, shape) * model(x, t)
        x = extract(alphas.rsqrt(), t, shape) * (x - correction)
        if i > 0:
            x = x + extract(posterior_variance, t, shape).sqrt() * torch.randn_like(x)
    return x.clamp(-1, 1)


def train(model, ema, steps, batch_size=64):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = images[torch.randperm(len(images))[:batch_size]]
        t = torch.randint(0, TIMESTEPS, (batch_size,)).long()
        noise = torch.randn_like(batch)
        loss = F.mse_loss(model(q_sample(batch, t, noise), t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for averaged, p in zip(ema.parameters(), model.parameters(), strict=True):
                averaged.lerp_(p, 0.02)
        yield loss.item()


def networks():
    torch.manual_seed(0)
    model = Denoiser()
    return model, copy.deepcopy(model).requires_grad_(False)


def losses(steps):
    return list(train(*networks(), steps))


if __name__ == "__main__":
    model, ema = networks()
    for step, loss in enumerate(train(model, ema, 1500)):
        if step % 150 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    drawn = sample(ema.eval(), (3, 1, 8, 8))
    for rows in zip(*drawn[:, 0].tolist(), strict=True):
        print("    ".join("".join(" .:-=+*#@"[int((v + 1) * 4.49)] * 2 for v in row) for row in rows))
    print(f"Three digits from pure noise; the mean pixel is {drawn.mean():.2f}, that of real ones {images.mean():.2f}.")
