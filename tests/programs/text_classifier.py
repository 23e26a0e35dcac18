"""Bags of hashed n-grams (fastText, Joulin 2016): which module of the standard library does a line come from?"""

import inspect
import re
import statistics
import textwrap
import zipfile
import zlib
from urllib import parse

import numpy as np

import core as torch
from core import nn
from core.utils.data import DataLoader, random_split

MODULES = [statistics, zipfile, parse, textwrap]
BUCKETS = 4096


def samples():
    """(label, line) for every line that says something."""
    for label, module in enumerate(MODULES):
        for line in inspect.getsource(module).splitlines():
            if len(re.findall(r"\w+", line)) >= 3:
                yield label, line.strip()


def features(line):
    tokens = re.findall(r"\w+|[^\w\s]", line)
    grams = tokens + [" ".join(pair) for pair in zip(tokens, tokens[1:])]
    return [zlib.crc32(gram.encode()) % BUCKETS for gram in grams]


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for label, text in batch:
        label_list.append(label)
        processed = torch.tensor(features(text), dtype=torch.int64)
        text_list.append(processed)
        offsets.append(processed.size(0))
    offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
    return torch.tensor(label_list, dtype=torch.int64), torch.cat(text_list), offsets


class TextClassificationModel(nn.Module):
    def __init__(self, buckets, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(buckets, embed_dim, mode="mean")
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


def split():
    data = list(samples())
    kept = len(data) * 4 // 5
    return random_split(data, [kept, len(data) - kept], generator=torch.Generator().manual_seed(1))


def train(model, training, steps, batch_size=64):
    dataloader = DataLoader(training, batch_size=batch_size, shuffle=True, collate_fn=collate_batch)
    counts = np.bincount([label for label, _ in samples()])
    criterion = nn.CrossEntropyLoss(weight=torch.tensor(len(MODULES) * counts.mean() / counts, dtype=torch.float32))
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    model.train()
    done = 0
    while True:
        for label, text, offsets in dataloader:
            if done == steps:
                return
            optimizer.zero_grad()
            loss = criterion(model(text, offsets), label)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            done += 1
            yield loss.item()
        scheduler.step()


def losses(steps):
    torch.manual_seed(0)
    training, _ = split()
    return list(train(TextClassificationModel(BUCKETS, 32, len(MODULES)), training, steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    training, test = split()
    model = TextClassificationModel(BUCKETS, 32, len(MODULES))
    for step, loss in enumerate(train(model, training, 800)):
        if step % 80 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    model.eval()
    with torch.no_grad():
        label, text, offsets = collate_batch([test[i] for i in range(len(test))])
        right = (model(text, offsets).argmax(1) == label).float().mean().item()
    likeliest = torch.bincount(label).max().item() / len(label)
    print(f"{right:.1%} of {len(test)} unseen lines are placed in their module; always the largest: {likeliest:.1%}.")
