"""A vision transformer (Dosovitskiy 2021) on handwritten digits: patches, class token, checkpointed blocks, mixup."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn.functional as F
from core import nn
from core.utils.checkpoint import checkpoint

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 16.0).astype(np.float32)).unsqueeze(1)
labels = torch.from_numpy(digits.target.astype(np.int64))
x_train, y_train, x_test, y_test = images[:1500], labels[:1500], images[1500:], labels[1500:]


class Attention(nn.Module):
    def __init__(self, dim, heads=4, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(self.norm(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden, dropout=0.0):
        super().__init__(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, dim),
            nn.Dropout(dropout),
        )


class StochasticDepth(nn.Module):
    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        if not self.training or self.probability == 0.0:
            return x
        keep = torch.empty(x.shape[0], 1, 1).bernoulli_(1 - self.probability)
        return x * keep / (1 - self.probability)


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_dim, dropout, drop_path):
        super().__init__()
        self.attn = Attention(dim, heads, dropout)
        self.ff = FeedForward(dim, mlp_dim, dropout)
        self.drop_path = StochasticDepth(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.attn(x))
        return x + self.drop_path(self.ff(x))


class ViT(nn.Module):
    def __init__(self, image_size=8, patch_size=2, dim=48, depth=3, heads=4, mlp_dim=96, classes=10, dropout=0.1):
        super().__init__()
        self.patch_size = patch_size
        self.patch_embed = nn.Linear(patch_size * patch_size, dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image_size // patch_size) ** 2 + 1, dim))
        self.blocks = nn.ModuleList(
            [Block(dim, heads, mlp_dim, dropout, rate) for rate in torch.linspace(0, 0.1, depth).tolist()]
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x):
        patches = F.unfold(x, kernel_size=self.patch_size, stride=self.patch_size).transpose(1, 2)
        x = self.patch_embed(patches)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(self.norm(x)[:, 0])


def mixup(x, y, lam):
    partner = torch.randperm(x.shape[0])
    targets = F.one_hot(y, num_classes=10).float()
    return lam * x + (1 - lam) * x[partner], lam * targets + (1 - lam) * targets[partner]


def train(model, steps, batch_size=64):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=400, eta_min=1e-5)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[10])
    strength = np.random.default_rng(0)
    model.train()
    for _ in range(steps):
        batch = torch.randperm(len(x_train))[:batch_size]
        x, target = mixup(x_train[batch], y_train[batch], float(strength.beta(0.2, 0.2)))
        loss = F.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(ViT(), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = ViT()
    for step, loss in enumerate(train(model, 400)):
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    model.eval()
    with torch.inference_mode():
        right = (model(x_test).argmax(dim=1) == y_test).float().mean().item()
    print(f"{right:.1%} of the unseen digits are right, from 16 patches of 2 x 2 pixels each.")
