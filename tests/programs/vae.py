"""A variational autoencoder of handwritten digits (scikit-learn's): reparametrised sampling, Kullback-Leibler term."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F
from core import optim
from core.utils.data import DataLoader, TensorDataset

digits: Any = load_digits()
pixels = torch.from_numpy((digits.data / 16.0).astype(np.float32))


class VAE(nn.Module):
    def __init__(self, latent=8, hidden=128):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    """Reconstruction and divergence, summed over all elements and batch; Kingma and Welling 2014, appendix B."""
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train(model, steps, batch_size=100):
    loader = DataLoader(TensorDataset(pixels[:1500]), batch_size=batch_size, shuffle=True)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    done = 0
    while done < steps:
        for (batch,) in loader:
            optimizer.zero_grad()
            recon, mu, logvar = model(batch)
            loss = loss_function(recon, batch, mu, logvar) / len(batch)
            loss.backward()
            optimizer.step()
            yield loss.item()
            done += 1
            if done == steps:
                break


def losses(steps):
    torch.manual_seed(0)
    return list(train(VAE(), steps))


def draw(image):
    return "\n".join("".join(" .:-=+*#@"[int(v * 8.99)] * 2 for v in row) for row in image.view(8, 8).tolist())


if __name__ == "__main__":
    torch.manual_seed(0)
    model = VAE()
    for step, loss in enumerate(train(model, 450)):
        if step % 45 == 0:
            print(f"step {step:4d}  loss {loss:.3f}")
    model.eval()
    with torch.no_grad():
        test = pixels[1500:]
        recon, mu, logvar = model(test)
        bound = loss_function(recon, test, mu, logvar).item() / len(test)
        active = int((mu.var(dim=0) > 0.1).sum())
        for image in model.decode(torch.randn(2, 8)):
            print(draw(image), "\n")
    print(f"Bound on unseen digits: {bound:.1f} nats an image; {active} of 8 latent directions are in use.")
