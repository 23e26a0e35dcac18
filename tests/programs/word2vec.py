"""Skip-gram with negative sampling (Mikolov 2013): words of the Python reference get vectors from their neighbours."""

import re
from collections import Counter
from pydoc_data.topics import topics

import numpy as np

import core as torch
import core.nn as nn
import core.nn.functional as F

words = re.findall(r"[a-z_]+", "\n".join(topics[name] for name in sorted(topics)).lower())
counts = Counter(words)
vocabulary = [word for word, count in counts.most_common() if count >= 20]
number = {word: i for i, word in enumerate(vocabulary)}
corpus = np.array([number[word] for word in words if word in number])
frequency = np.array([counts[word] for word in vocabulary], dtype=np.float64)


def skip_grams(window=3, threshold=1e-3, seed=0):
    """(centre, neighbour) pairs, after the frequent words have been thinned out."""
    rng = np.random.default_rng(seed)
    share = frequency / frequency.sum()
    keep = np.minimum(1, np.sqrt(threshold / share))[corpus] > rng.random(len(corpus))
    thin = corpus[keep]
    pairs = [(thin[:-d], thin[d:]) for d in range(1, window + 1)]
    pairs += [(b, a) for a, b in pairs]
    centre, neighbour = (torch.from_numpy(np.concatenate(part)) for part in zip(*pairs))
    return centre, neighbour


class SkipGram(nn.Module):
    def __init__(self, size, dim=48, negatives=5):
        super().__init__()
        self.in_embed = nn.Embedding(size, dim)
        self.out_embed = nn.Embedding(size, dim)
        self.negatives = negatives
        self.in_embed.weight.data.uniform_(-0.5 / dim, 0.5 / dim)
        self.out_embed.weight.data.zero_()
        noise = torch.from_numpy(frequency).float() ** 0.75
        self.register_buffer("noise", noise / noise.sum())

    def forward(self, centre, neighbour):
        drawn = torch.multinomial(self.noise, len(centre) * self.negatives, replacement=True)
        v = self.in_embed(centre)
        positive = (v * self.out_embed(neighbour)).sum(dim=1)
        other = self.out_embed(drawn.view(len(centre), self.negatives))
        negative = torch.bmm(other, v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(dim=1)).mean()


def train(model, pairs, steps, batch_size=512):
    centre, neighbour = pairs
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2, initial_accumulator_value=1e-5)
    for _ in range(steps):
        batch = torch.randint(0, len(centre), (batch_size,))
        loss = model(centre[batch], neighbour[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(SkipGram(len(vocabulary)), skip_grams(), steps))


def nearest(model, word, k=5):
    with torch.no_grad():
        vectors = F.normalize(model.in_embed.weight, dim=1)
        similar = vectors @ vectors[number[word]]
        return [vocabulary[i] for i in similar.topk(k + 1).indices[1:].tolist()]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SkipGram(len(vocabulary))
    for step, loss in enumerate(train(model, skip_grams(), 1500)):
        if step % 150 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    for word in ("class", "list", "exception", "import"):
        print(f"{word}: {', '.join(nearest(model, word))}")
    print(f"{len(vocabulary)} words have vectors of {model.in_embed.embedding_dim} numbers.")
