"""Dynamic quantisation of an LSTM that reads characters, as PyTorch's tutorial goes."""

import os
import tempfile
from pydoc_data.topics import topics

import core as torch
import core.nn as nn
import core.nn.functional as F

TOLERANCE = {"float": 0.15, "dynamic": 0.15, "change": 0.02, "share of size": 0.1}

text = "\n".join(topics[name] for name in sorted(topics))[:40000]
alphabet = sorted(set(text))
number = {character: i for i, character in enumerate(alphabet)}
ids = torch.tensor([number[character] for character in text])


class LSTMModel(nn.Module):
    """An encoder, a recurrent module and a decoder."""

    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return self.decoder(output), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


def batch(start, length=32, size=16):
    places = start + torch.arange(length + 1).unsqueeze(1) + torch.arange(size) * 2000
    window = ids[places]
    return window[:-1], window[1:]


def evaluate(model):
    model.eval()
    hidden = (torch.zeros(1, 16, 96), torch.zeros(1, 16, 96))
    total = 0.0
    with torch.no_grad():
        for start in range(1700, 1860, 32):
            x, y = batch(start)
            output, hidden = model(x, hidden)
            total += F.cross_entropy(output.flatten(0, 1), y.flatten()).item()
    return total / 5


def size_of(model):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "temp.p")
        torch.save(model.state_dict(), path)
        return os.path.getsize(path)


def results():
    torch.manual_seed(0)
    model = LSTMModel(len(alphabet), 32, 96, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(60):
        x, y = batch(step * 28 % 1600)
        output, _ = model(x, model.init_hidden(16))
        loss = F.cross_entropy(output.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    quantized_model = torch.quantization.quantize_dynamic(model, {nn.LSTM, nn.Linear}, dtype=torch.qint8)
    print(quantized_model)
    before, after = evaluate(model), evaluate(quantized_model)
    return {"float": before, "dynamic": after, "change": after - before,
            "share of size": size_of(quantized_model) / size_of(model)}  # fmt: skip


if __name__ == "__main__":
    for name, value in results().items():
        print(f"{name:14} {value:.3f}")
