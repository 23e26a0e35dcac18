"""A Wasserstein GAN with gradient penalty (Gulrajani 2017) on handwritten digits: a gradient of a gradient's norm."""

import math
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.autograd as autograd
import core.nn as nn
import core.optim as optim

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 8.0 - 1.0).astype(np.float32)).unsqueeze(1)
LATENT, LAMBDA, CRITIC_STEPS = 16, 10.0, 3


class Generator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(LATENT, 2 * width * 2 * 2),
            nn.Unflatten(1, (2 * width, 2, 2)),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.InstanceNorm2d(2 * width, affine=True),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(2 * width * 2 * 2, 1),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.05)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


def calc_gradient_penalty(netD, real_data, fake_data):
    alpha = torch.rand(real_data.size(0), 1, 1, 1).expand_as(real_data)
    interpolates = (alpha * real_data + (1 - alpha) * fake_data).detach().requires_grad_(True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(
        outputs=disc_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones_like(disc_interpolates),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.reshape(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


def train(netG, netD, steps, batch_size=32):
    """Yields the critic's loss with its penalty, the generator's, and the distance the critic sees."""
    optimizerG = optim.Adam(netG.parameters(), lr=4e-4, betas=(0.5, 0.9), eps=1e-6)
    optimizerD = optim.Adam(netD.parameters(), lr=4e-4, betas=(0.5, 0.9), eps=1e-6)
    for _ in range(steps):
        for p in netD.parameters():
            p.requires_grad_(True)
        loss = wasserstein = torch.tensor(math.nan)
        for _ in range(CRITIC_STEPS):
            real = images[torch.randint(len(images), (batch_size,))]
            with torch.no_grad():
                fake = netG(torch.randn(batch_size, LATENT))
            netD.zero_grad()
            wasserstein = netD(real).mean() - netD(fake).mean()
            loss = -wasserstein + calc_gradient_penalty(netD, real, fake)
            loss.backward()
            optimizerD.step()
        for p in netD.parameters():
            p.requires_grad_(False)
        netG.zero_grad()
        lossG = -netD(netG(torch.randn(batch_size, LATENT))).mean()
        lossG.backward()
        optimizerG.step()
        yield loss.item(), lossG.item(), wasserstein.item()


def networks():
    torch.manual_seed(0)
    return Generator().apply(weights_init), Critic().apply(weights_init)


def losses(steps):
    return [loss for loss, _, _ in train(*networks(), steps)]


if __name__ == "__main__":
    netG, netD = networks()
    distance = math.nan
    for step, (loss, lossG, distance) in enumerate(train(netG, netD, 300)):
        if step % 30 == 0:
            print(f"step {step:4d}  critic {loss:8.3f}  generator {lossG:8.3f}  distance {distance:.3f}")
    with torch.no_grad():
        for row in netG(torch.randn(1, LATENT))[0, 0].tolist():
            print("".join(" .:-=+*#@"[int((v + 1) * 4.49)] * 2 for v in row))
    print(f"The critic tells drawn from written digits by {distance:.2f}, and its slope stays near 1.")
