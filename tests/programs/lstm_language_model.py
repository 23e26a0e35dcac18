"""An LSTM language model of words, truncated backpropagation through time, on Python's own reference text."""

import math
import re
from collections import Counter
from pydoc_data.topics import topics

import core as torch
import core.nn as nn

words = re.findall(r"[A-Za-z_]+|\d+|[^\sA-Za-z_\d]", "\n".join(topics[name] for name in sorted(topics)))


class Dictionary:
    def __init__(self, words, size):
        self.idx2word = ["<unk>"] + [word for word, _ in Counter(words).most_common(size - 1)]
        self.word2idx = {word: i for i, word in enumerate(self.idx2word)}

    def __len__(self):
        return len(self.idx2word)

    def encode(self, words):
        return torch.tensor([self.word2idx.get(word, 0) for word in words], dtype=torch.int64)


dictionary = Dictionary(words, 2000)
corpus = dictionary.encode(words)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


train_data = batchify(corpus[:-8000], 20)
valid_data = batchify(corpus[-8000:], 10)
BPTT = 20


class RNNModel(nn.Module):
    """An encoder, a recurrent module, and a decoder that shares the encoder's weight."""

    def __init__(self, ntoken, ninp=64, nhid=64, nlayers=2, dropout=0.2):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        self.nhid, self.nlayers = nhid, nlayers
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return decoded.view(-1, decoded.size(-1)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def repackage_hidden(h):
    """The same states, cut off from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def train(model, steps, lr=5e-3):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    hidden, i = model.init_hidden(train_data.size(1)), 0
    for _ in range(steps):
        if i >= train_data.size(0) - 1:
            hidden, i = model.init_hidden(train_data.size(1)), 0
        data, targets = get_batch(train_data, i)
        i += BPTT
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        yield loss.item()


def evaluate(model):
    model.eval()
    total, hidden = 0.0, model.init_hidden(valid_data.size(1))
    with torch.no_grad():
        for i in range(0, valid_data.size(0) - 1, BPTT):
            data, targets = get_batch(valid_data, i)
            output, hidden = model(data, hidden)
            total += len(data) * nn.functional.cross_entropy(output, targets).item()
    return total / (len(valid_data) - 1)


def generate(model, n=40):
    model.eval()
    input, hidden, out = torch.randint(len(dictionary), (1, 1)), model.init_hidden(1), []
    with torch.no_grad():
        for _ in range(n):
            output, hidden = model(input, hidden)
            weights = output.squeeze().div(0.8).exp()
            weights[0] = 0.0
            input.fill_(torch.multinomial(weights, 1)[0].item())
            out.append(dictionary.idx2word[input.item()])
    return " ".join(out)


def losses(steps):
    torch.manual_seed(0)
    return list(train(RNNModel(len(dictionary)), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RNNModel(len(dictionary))
    for step, loss in enumerate(train(model, 500)):
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss:.3f}  perplexity {math.exp(loss):.1f}")
    print(generate(model))
    print(f"Perplexity on {8000:,} words it has not read: {math.exp(evaluate(model)):.0f} of {len(dictionary):,}.")
