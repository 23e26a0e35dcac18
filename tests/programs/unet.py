"""A U-Net that takes the noise out of a photograph (scikit-learn's): trained on its left, tried on its right."""

import numpy as np
from sklearn.datasets import load_sample_image

import core as torch
import core.nn as nn
import core.nn.functional as F


def photograph(name):
    array = load_sample_image(name).astype(np.float32) / 255.0
    return torch.from_numpy(array).permute(2, 0, 1)[:, ::2, ::2].contiguous()


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, padding_mode="reflect", bias=False),
            nn.GroupNorm(4, out_channels),
            nn.LeakyReLU(0.1, inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.LeakyReLU(0.1, inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=False):
        super().__init__()
        if bilinear:
            self.up = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                nn.Conv2d(in_channels, in_channels // 2, kernel_size=1),
            )
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x, skip):
        x = self.up(x)
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, channels=3, width=8):
        super().__init__()
        self.inc = DoubleConv(channels, width)
        self.down1 = Down(width, 2 * width)
        self.down2 = Down(2 * width, 4 * width)
        self.up1 = Up(4 * width, 2 * width)
        self.up2 = Up(2 * width, width, bilinear=True)
        self.outc = nn.Conv2d(width, channels, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return x - self.outc(self.up2(self.up1(x3, x2), x1))


def train(model, steps, size=30, batch_size=8):
    image = photograph("china.jpg")[:, :, :200]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(steps, 100))
    model.train()
    for _ in range(steps):
        crops = []
        for _ in range(batch_size):
            top = int(torch.randint(0, image.shape[1] - size, (1,)))
            left = int(torch.randint(0, image.shape[2] - size, (1,)))
            crop = image[:, top : top + size, left : left + size]
            crops.append(crop.flip(2) if torch.rand(1).item() < 0.5 else crop)
        clean = torch.stack(crops)
        noisy = clean + 0.15 * torch.randn_like(clean)
        loss = F.smooth_l1_loss(model(noisy), clean, beta=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(UNet(), steps))


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b)).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = UNet()
    for step, loss in enumerate(train(model, 400)):
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss:.5f}")
    model.eval()
    clean = photograph("china.jpg").unsqueeze(0)[..., 40:168, 224:]
    noisy = clean + 0.15 * torch.randn_like(clean)
    with torch.no_grad():
        restored = model(noisy).clamp(0, 1)
    before, after = psnr(noisy, clean), psnr(restored, clean)
    print(f"The right of the picture, which it has not seen: {before:.1f} dB with noise, {after:.1f} dB restored.")
