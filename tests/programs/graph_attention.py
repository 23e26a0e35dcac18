"""Graph attention (Velickovic 2018): 800 handwritten digits linked to their likest, ten labels a digit."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F


def load_graph(n=800, neighbours=4, labelled=10):
    """Features, labels, edges (2, E) in both directions with self loops, and the mask of the nodes that may be seen."""
    digits: Any = load_digits()
    pixels = digits.data[:n].astype(np.float32) / 16.0
    squares = (pixels**2).sum(1)
    distance = squares[:, None] + squares[None, :] - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1, kind="stable")[:, :neighbours]
    source, target = np.repeat(np.arange(n), neighbours), near.reshape(-1)
    pairs = {(int(a), int(b)) for a, b in zip(source, target, strict=True)}
    pairs |= {(b, a) for a, b in pairs} | {(i, i) for i in range(n)}
    edges = torch.tensor(sorted(pairs), dtype=torch.long).t().contiguous()
    labels = torch.from_numpy(digits.target[:n].astype(np.int64))
    seen = torch.zeros(n, dtype=torch.bool)
    for digit in range(10):
        seen[(labels == digit).nonzero(as_tuple=True)[0][:labelled]] = True
    return torch.from_numpy(pixels), labels, edges, seen


class GATLayer(nn.Module):
    def __init__(self, in_features, out_features, heads, concat=True, dropout=0.4):
        super().__init__()
        self.heads, self.out_features, self.concat = heads, out_features, concat
        self.linear_proj = nn.Linear(in_features, heads * out_features, bias=False)
        self.score_target = nn.Parameter(torch.empty(1, heads, out_features))
        self.score_source = nn.Parameter(torch.empty(1, heads, out_features))
        self.bias = nn.Parameter(torch.zeros(heads * out_features if concat else out_features))
        self.skip_proj = nn.Linear(in_features, heads * out_features, bias=False)
        self.leaky_relu = nn.LeakyReLU(0.2)
        self.dropout = nn.Dropout(dropout)
        for parameter in (self.linear_proj.weight, self.score_target, self.score_source):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x, edges):
        n = x.shape[0]
        source, target = edges
        x = self.dropout(x)
        projected = self.dropout(self.linear_proj(x).view(-1, self.heads, self.out_features))
        scores_source = (projected * self.score_source).sum(dim=-1).index_select(0, source)
        scores_target = (projected * self.score_target).sum(dim=-1).index_select(0, target)
        attention = self.neighborhood_softmax(self.leaky_relu(scores_source + scores_target), target, n)
        attention = self.dropout(attention)
        weighted = projected.index_select(0, source) * attention.unsqueeze(-1)
        out = torch.zeros(n, self.heads, self.out_features, dtype=x.dtype).index_add(0, target, weighted)
        out = out + self.skip_proj(x).view(-1, self.heads, self.out_features)
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        return out + self.bias

    def neighborhood_softmax(self, scores, target, n):
        index = target.unsqueeze(-1).expand_as(scores)
        highest = torch.full((n, self.heads), -float("inf")).scatter_reduce(0, index, scores.detach(), reduce="amax")
        exp = (scores - highest.gather(0, index)).exp()
        total = torch.zeros(n, self.heads).scatter_add_(0, index, exp)
        return exp / (total.gather(0, index) + 1e-16)


class GAT(nn.Module):
    def __init__(self, features=64, hidden=8, heads=4, classes=10):
        super().__init__()
        self.layer1 = GATLayer(features, hidden, heads)
        self.layer2 = GATLayer(hidden * heads, classes, heads=2, concat=False)

    def forward(self, x, edges):
        return self.layer2(F.elu(self.layer1(x, edges)), edges)


def train(model, graph, steps):
    x, labels, edges, seen = graph
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    criterion = nn.CrossEntropyLoss(reduction="mean")
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(x, edges)[seen], labels[seen])
        loss.backward()
        optimizer.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(GAT(), load_graph(), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model, graph = GAT(), load_graph()
    for step, loss in enumerate(train(model, graph, 200)):
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    x, labels, edges, seen = graph
    model.eval()
    with torch.no_grad():
        right = (model(x, edges).argmax(dim=-1) == labels)[~seen].float().mean().item()
    print(f"With {int(seen.sum())} labels and {edges.shape[1]:,} links it names {right:.1%} of the other digits.")
